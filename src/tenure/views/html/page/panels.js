// What is told below the picture: a moment, a line, a finding.

const fact = (value, name, kind) => el("div", { class: kind }, el("b", {}, value), el("span", {}, name));

const heading = (...text) => el("h2", { id: "detail-title", tabindex: "-1" }, ...text);

const momentPanel = (time) => {
  const picture = trace.view;
  const at = picture.index(time);
  const moment = picture.moments[at];
  const alive = picture.alive(state.device, at);
  const sum = (what) => alive.reduce((total, one) => total + one[what], 0);
  const [size, past, step] = [sum("size"), sum("past"), trace.step(moment)];
  const kinds = picture.layers.kind.filter((one) => one.device === state.device && one.size[at]).sort((one, other) => other.size[at] - one.size[at]);
  return [
    el("div", { class: "bar" }, heading(`Alive at ${clock(moment, chart.seen())}${step === null ? "" : `, in step ${number(step)}`}`),
      el("button", { id: "pin", onclick: () => compareFrom(moment) }, "compare with another point in time"),
      el("button", { onclick: () => state.look(trace.peak(state.device)) }, "show the peak")),
    el("div", { class: "facts" }, fact(bytes(size), "alive"), fact(number(sum("count")), "buffers"),
      fact(bytes(past), `after their last use${size ? ` (${Math.round((100 * past) / size)} %)` : ""}`, "late"),
      kinds.map((one) => fact(bytes(one.size[at]), one.name))),
    el("table", { id: "alive" },
      el("thead", {}, el("tr", {}, ["alive", "", "buffers", "after last use"].map((name) => el("th", { class: "n" }, name)), el("th", {}, "allocated at"))),
      el("tbody", {}, alive.slice(0, 40).map((one) => {
        const site = trace.site(one.site);
        return el("tr", {}, el("td", { class: "n" }, bytes(one.size)), el("td", { class: "n" }, size ? `${((100 * one.size) / size).toFixed(1)} %` : ""), el("td", { class: "n" }, number(one.count)),
          el("td", { class: "n late" }, one.past ? bytes(one.past) : ""), el("td", {}, link(site, one.site), el("span", { class: "code" }, sourceLine(site))));
      }))),
    alive.length > 40 ? el("p", { class: "soft" }, `and ${alive.length - 40} lines more`) : null,
    el("div", { id: "buffers" }),
  ];
};

const sitePanel = (at, level = heading) => {
  const site = trace.site(at);
  const plot = el("div", { class: "plot", id: "lives" });
  const more = site.births > site.lives.length ? `${site.lives.length} of ${number(site.births)} lifetimes, a sample` : plural(site.lives.length, "lifetime");
  const told = [
    level(`${place(site)}${site.function ? ` in ${site.function}` : ""}`),
    el("div", { class: "facts" },
      fact(bytes(trace.most(at, state.device)), "largest amount alive"), fact(number(site.births), "buffers allocated"), fact(bytes(site.bytes), "in total"),
      fact(number(site.count), "alive at the end"), fact(`${bytes(Math.round(site.drag))} × s`, "drag: bytes × time after the last use", "late"),
      site.op ? fact(site.op, `allocates the largest${site.shape ? `: ${site.dtype || ""}${site.shape}` : ""}`) : null),
    el("div", { class: "columns" },
      el("div", {},
        el("h3", {}, "Lifetimes ", el("span", { class: "soft", id: "lives-count" }, more)), lives.legend(), plot,
        site.last_site ? el("p", { class: "where" }, `The largest was last used by ${site.last_op || "an operation"} at ${site.last_site}${site.cause ? `, and freed (${site.cause})${site.end_site ? ` at ${site.end_site}` : ""}` : ""}.`) : null,
        el("h3", {}, "Retained by"), holdersOf(site)),
      el("div", {}, el("h3", {}, "Allocated here"), stackOf(site.stack || []))),
  ];
  return [told, () => { lives.draw(plot, site.lives); remote.lives(at); }];
};

const findingPanel = (at) => {
  const finding = trace.findings[at];
  const [site] = finding.about;
  const [below, drawn] = site === undefined ? [[], () => {}] : sitePanel(site, (text) => el("h2", { class: "below" }, text));
  return [[
    el("div", { class: "bar" }, heading(el("span", { class: finding.severity }, el("span", { class: "tag" }, `${finding.code} `)), finding.message)),
    el("div", { class: "columns" },
      el("div", {},
        finding.reason ? [el("h3", {}, "Why"), el("p", {}, finding.reason)] : null,
        finding.fix ? [el("h3", {}, "What to write instead"), el("p", {}, finding.fix.message), finding.change.length ? el("pre", {}, finding.change.map((line) => el("div", { class: line.startsWith("-") ? "minus" : line.startsWith("+") ? "plus" : null }, line))) : null] : null,
        finding.evidence.path ? [el("h3", {}, "Retained by"), el("div", { class: "holder" }, pathOf(finding.evidence.path.map((text) => ({ text })), finding.evidence.suspect))] : null),
      el("div", {}, el("h3", {}, "Where"), finding.sites.map((one) =>
        el("details", { open: "" }, el("summary", {}, el("b", {}, `${file(one.file)}:${one.line}`), ` ${one.label}`), excerpt(one))))),
    el("p", { class: "where" }, `\`tenure explain ${finding.code}\` shows the page of this rule.`),
    below.length ? el("hr") : null,
    below,
  ], drawn];
};
