// Everything can be done by keys; `?` tells them.

const KEYS = [
  ["/", "search", () => get("search").focus()],
  ["j", "next finding", () => nextFinding(1)],
  ["k", "previous finding", () => nextFinding(-1)],
  ["ArrowRight", "next point in time", () => nextMoment(1)],
  ["ArrowLeft", "previous point in time", () => nextMoment(-1)],
  ["p", "go to the peak", () => state.look(trace.peak(state.device))],
  ["c", "compare: this point in time is A, then choose B", () => compareFrom(state.at ?? trace.peak(state.device))],
  ["t", "compare with the other trace", () => rival && state.go({ compare: "" })],
  ["s", "stack by the next property: kind, line, use, scope, device or rank", () => { const all = choices(trace); state.stack(all[(all.indexOf(state.by) + 1) % all.length]); }],
  ["x", "horizontal axis: time, or events", () => { state.axis = state.axis === "time" ? "events" : "time"; controls(); chart.draw(); }],
  ["+", "zoom in", () => zoomBy(0.5)],
  ["-", "zoom out", () => zoomBy(2)],
  ["0", "show the whole run", () => chart.zoom(0, trace.span)],
  ["d", "light or dark", () => theme.turn()],
  ["Escape", "leave the search or the comparison", () => escape()],
  ["?", "show these keys", () => get("keys").showModal()],
];

const nextFinding = (way) => {
  const count = trace.findings.length;
  if (!count) return;
  const { finding } = state.read();
  state.go({ finding: finding === null ? (way > 0 ? 0 : count - 1) : (finding + way + count) % count });
};
const nextMoment = (way) => {
  const { moments } = trace.view;
  const at = state.at === null ? trace.view.index(trace.peak(state.device)) : trace.view.index(state.at) + way;
  state.look(moments[Math.max(0, Math.min(moments.length - 1, at))]);
};
const zoomBy = (factor) => {
  const [from, to] = chart.range || [0, trace.span];
  const middle = state.at !== null && state.at >= from && state.at <= to ? state.at : (from + to) / 2;
  chart.zoom(middle - (middle - from) * factor, middle + (to - middle) * factor);
};
const escape = () => {
  if (state.query) {
    get("search").value = state.query = "";
    lists();
  }
  get("search").blur();
  if (state.from !== null) {
    state.from = null;
    if (state.at !== null) state.go({ at: state.at });
  }
};

const listen = () => {
  const name = (key) => ({ ArrowRight: "→", ArrowLeft: "←", Escape: "Esc" })[key] || key;
  get("keys").append(el("h2", {}, "Keys"), el("table", {}, KEYS.map(([key, what]) => el("tr", {}, el("td", {}, el("kbd", {}, name(key))), el("td", {}, what)))),
    el("p", { class: "hint" }, "With the mouse: click the chart to choose a point in time, or a line to see its lifetimes. Scroll to zoom, drag to move."),
    el("form", { method: "dialog" }, el("button", {}, "close")));
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, select, textarea");
    if (event.ctrlKey || event.metaKey || event.altKey || get("keys").open || (typing && event.key !== "Escape")) return;
    const found = KEYS.find(([key]) => key === event.key);
    if (found) {
      event.preventDefault();
      found[2]();
    }
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='#']");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return; // a new tab or window
    event.preventDefault();
    state.open(link.hash);
  });
  get("search").addEventListener("input", (event) => { state.query = event.target.value; lists(); });
  get("search").addEventListener("keydown", (event) => {
    const links = [...document.querySelectorAll("nav a")];
    if (event.key === "Enter" && links.length) state.open(links[0].hash);
    if (event.key === "ArrowDown" && links.length) links[0].focus();
  });
};
