// Source, stacks, and holders' paths.

const excerpt = (frame) =>
  frame.source.length
    ? el("pre", {}, frame.source.map(([line, text]) => el("div", { class: line === frame.line ? "at" : null }, el("span", { class: "no" }, line), text || " ")))
    : el("p", { class: "soft" }, "its source is not available");

const stackOf = (frames) =>
  el("div", { class: "stack" }, frames.map((frame, at) =>
    el("details", { open: at === 0 ? "" : null },
      el("summary", {}, at ? "called from " : "", el("b", {}, `${file(frame.file)}:${frame.line}`), frame.function ? ` in ${frame.function}` : "", el("span", { class: "where" }, `  ${frame.file}`)),
      excerpt(frame))));

// links: [{text, site, line, source}]; the suspect is the one that should not be there. A click shows where a link is.
const pathOf = (links, suspect, kind = "") =>
  el("ol", { class: "path" }, links.map((link, at) => {
    const told = [
      el("span", { class: "code" }, `${at === 0 && kind ? `${kind} ` : ""}${link.text}`),
      link.site ? el("span", { class: "where" }, `  ${link.site}`) : null,
      at === suspect ? el("span", { class: "why" }, "← keeps it alive") : null,
    ];
    const item = el("li", { class: at === suspect ? "suspect" : null }, link.source?.length ? el("details", {}, el("summary", {}, told), excerpt(link)) : told);
    item.style.paddingLeft = `${1.1 * at}rem`;
    return item;
  }));

const holderOf = (one) => el("div", { class: "holder" }, el("p", { class: "where" }, one.label), pathOf(one.links, one.suspect, ["local", "global", "class", "cycle"].includes(one.kind) ? one.kind : ""));

const holdersOf = (site) =>
  site.holders.length
    ? site.holders.map(holderOf)
    : el("p", { class: "soft" }, "None recorded: tenure searches for holders only while something grows.");

const link = (site, at) => (at < 0 ? el("span", {}, site.name) : el("a", { href: `#site=${at}` }, `${place(site)}${site.function ? ` in ${site.function}` : ""}`));
