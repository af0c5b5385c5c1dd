// The lists beside the picture: findings first, then the lines; search narrows both.

const findingItem = (finding, at) =>
  el("li", {}, el("a", { href: `#finding=${at}`, class: `finding ${finding.severity}`, "data-finding": at },
    el("div", { class: "line" }, el("span", { class: "tag" }, `${finding.code} ${finding.severity}${finding.certain ? "" : " (likely)"}`),
      finding.file ? el("span", { class: "where" }, `${file(finding.file)}:${finding.line}`) : null),
    el("div", {}, finding.message)));

const siteItem = (site, at, most, peak) =>
  el("li", {}, el("a", { href: `#site=${at}`, "data-site": at },
    el("div", { class: "line" }, el("b", {}, place(site)), el("span", {}, bytes(most))),
    el("span", { class: "code" }, sourceLine(site) || site.function || site.op || ""),
    meter(peak ? most / peak : 0)));

const sourceLine = (site) => {
  const frame = (site.stack || [])[0];
  const found = frame?.source.find(([line]) => line === frame.line);
  return found ? found[1].trim() : "";
};

// All that one may search for in a site or a finding.
const siteText = (site) => [site.name, site.op, site.shape, site.dtype, sourceLine(site), ...site.holders.flatMap((one) => one.links.map((link) => link.text))].join(" ").toLowerCase();
const findingText = (one) => [one.code, one.name, one.message, one.reason, one.file, ...one.sites.flatMap((site) => [site.file, site.text]), ...(one.evidence.path || [])].join(" ").toLowerCase();

// What no finding means, by how much of the run was checked for leaks.
const NOTHING = {
  all: "No leak or other problem was found in this run.",
  part: "No problem was found in the part of this run that was checked for leaks.",
  none: "No problem was found, but this run was not checked for leaks.",
};

const lists = () => {
  const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (text) => words.every((word) => text.includes(word));
  const peak = trace.devices.find((one) => one.number === state.device)?.peak || 0;
  const findings = trace.findings.map((one, at) => [one, at]).filter(([one]) => fits(findingText(one)));
  const sites = trace.sites.map((one, at) => [one, at, trace.most(at, state.device)]).filter(([one, , most]) => fits(siteText(one)) && (most || words.length));
  sites.sort((one, other) => other[2] - one[2]);
  get("findings").replaceChildren(...(findings.length ? findings.map(([one, at]) => findingItem(one, at)) : [el("li", { class: "soft" }, words.length ? "no match" : NOTHING[trace.about.leaks_judged])]));
  get("sites").replaceChildren(...sites.map(([one, at, most]) => siteItem(one, at, most, peak)));
  get("finding-count").textContent = words.length ? `${findings.length} of ${trace.findings.length}` : `${trace.findings.length || ""}`;
  get("site-count").textContent = words.length ? `${sites.length} of ${trace.sites.length}` : `${sites.length}`;
  current();
};

// Mark what is looked at.
const current = () => {
  const { finding, site } = state.read();
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.dataset.finding === String(finding) || link.dataset.site === String(site);
    link.setAttribute("aria-current", here);
    if (here) link.scrollIntoView({ block: "nearest" });
  }
};
