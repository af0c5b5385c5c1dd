// How things are said, and elements made of text alone: what a trace says is never read as HTML.

const bytes = (count) => {
  const sign = count < 0 ? "-" : "";
  let size = Math.abs(count);
  if (size < 1024) return `${sign}${size} B`;
  for (const unit of ["KiB", "MiB", "GiB", "TiB"]) {
    size /= 1024;
    if (size < 1024 || unit === "TiB") return `${sign}${size.toFixed(size < 10 ? 2 : 1)} ${unit}`;
  }
};
// The same for marks on an axis: without digits that say nothing.
const round = (count) => bytes(count).replace(/\.0+(?= )|(?<=\.\d)0(?= )/, "");
// A round number of bytes that is not less.
const tick = (count) => 2 ** Math.ceil(Math.log2(Math.max(count, 1)));
const number = (count) => count.toLocaleString("en-US");
const duration = (micro) => {
  const size = Math.abs(micro);
  if (size < 1e3) return `${micro} µs`;
  if (size < 1e6) return `${(micro / 1e3).toFixed(1)} ms`;
  return size < 120e6 ? `${(micro / 1e6).toFixed(2)} s` : `${(micro / 60e6).toFixed(1)} min`;
};
// A moment, as fine as the stretch of time that is seen asks for.
const clock = (micro, span) => {
  const digits = span > 60e6 ? 1 : span > 5e6 ? 2 : span > 5e4 ? 3 : 6;
  return `${(micro / 1e6).toFixed(digits)} s`;
};
const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
const file = (path) => path.split(/[\\/]/).pop();
const place = (site) => (site.file ? `${file(site.file)}:${site.line}` : site.name);

// el("a", {href: "#x", class: "b"}, "text", child, …)
const el = (tag, attributes, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false).map((child) => (child instanceof Node ? child : String(child))));
  return made;
};
const get = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const swatch = (fill) => {
  const made = el("i");
  made.style.background = fill;
  return made;
};
const meter = (share) => {
  const fill = el("i");
  fill.style.width = `${Math.min(100, 100 * share).toFixed(1)}%`;
  return el("div", { class: "meter" }, fill);
};
