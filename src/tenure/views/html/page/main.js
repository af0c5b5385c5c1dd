// The page: reads its data, draws, and shows what the address asks for.

const told = JSON.parse(get("data").textContent);
const trace = new Trace(told.trace);
const rival = told.other ? new Trace(told.other) : null;

const theme = {
  start() {
    let kept = null;
    try { kept = localStorage.getItem("tenure-theme"); } catch { /* a page from a file may have no storage */ }
    const system = matchMedia("(prefers-color-scheme: dark)");
    this.set(kept || (system.matches ? "dark" : "light"));
    system.addEventListener("change", (event) => { this.set(event.matches ? "dark" : "light"); show(); });
  },
  set(name) {
    document.documentElement.dataset.theme = name;
    if (chart.fresh) chart.draw();
  },
  turn() {
    const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("tenure-theme", name); } catch { /* as above */ }
    this.set(name);
    show();
  },
};

const head = () => {
  const { about } = trace;
  document.title = `tenure: ${about.path}`;
  const parts = [about.frameworks.join(", "), about.processes > 1 ? plural(about.processes, "process", "processes") : "", `${about.seconds.toFixed(2)} s`, plural(about.steps, "step"), plural(about.buffers, "buffer"),
    about.left.count ? `${bytes(about.left.bytes)} alive at exit` : ""].filter(Boolean);
  get("run").replaceChildren(el("b", {}, file(about.command || about.path)), `  ${parts.join(" · ")}`);
  const notes = [...about.limits, ...about.notes];
  get("notes").replaceChildren(...notes.map((note) => el("li", {}, note)));
  get("notes").classList.toggle("hidden", !notes.length);
  get("run").title = [about.path, about.command, ...parts].join("\n");
};

const controls = () => {
  const pressed = (label, all, chosen, act) => [el("span", { class: "soft" }, label), ...all.map((name) => el("button", { "aria-pressed": name === chosen, "data-name": name, onclick: () => act(name) }, name))];
  get("stack").replaceChildren(...pressed("stacked by", choices(trace), state.by, (name) => state.stack(name)));
  get("axis").replaceChildren(...pressed("axis", ["time", "events"], state.axis, (name) => { state.axis = name; controls(); chart.draw(); }));
  get("device").replaceChildren(...trace.devices.map((one) => el("option", { value: one.number, selected: one.number === state.device ? "" : null }, one.name)));
  get("device").classList.toggle("hidden", trace.devices.length < 2);
  get("zoom-out").classList.toggle("hidden", !chart.range);
  const device = trace.devices.find((one) => one.number === state.device);
  get("picture-title").textContent = device ? `Alive${state.by === "device" ? "" : ` on ${device.name}`}; peak ${bytes(device.peak)}` : "Nothing was alive while this was recorded";
};

// Light a site's layer, which only the stack by site has.
const light = (site) => {
  const same = chart.fresh && state.lit === site && (site === null || state.by === "site");
  state.lit = site;
  if (site !== null) state.by = "site";
  if (!same) { controls(); chart.draw(); }
};

const show = () => {
  const { finding, site, at, from, compare } = state.read();
  let [panel, drawn] = [null, () => {}];
  state.shown = finding !== null ? trace.findings[finding].about[0] : site;
  if (finding !== null) {
    [panel, drawn] = findingPanel(finding);
    // Advice is about the peak, a leak about the whole run.
    if (trace.findings[finding].code.startsWith("TN5")) state.at = trace.peak(state.device);
    light(state.shown ?? null);
  } else if (site !== null) {
    [panel, drawn] = sitePanel(site);
    light(site);
  } else if (compare && rival) {
    [panel, drawn] = tracesPanel();
    light(null);
  } else {
    state.at = trace.view.moments[trace.view.index(at ?? state.at ?? trace.peak(state.device))];
    state.from = from;
    light(null);
    if (from !== null) [panel, drawn] = momentsPanel(from, state.at);
    else [panel, drawn] = [momentPanel(state.at), () => remote.buffers(state.at)];
  }
  lives.drawn?.dispose();
  lives.drawn = null;
  get("detail").replaceChildren(...[panel].flat(Infinity).filter((one) => one instanceof Node));
  drawn();
  chart.mark();
  current();
};

theme.start();
head();
state.device = trace.devices[0]?.number ?? 0;
controls();
chart.start();
lists();
listen();
get("theme").addEventListener("click", () => theme.turn());
get("help").addEventListener("click", () => get("keys").showModal());
get("zoom-out").addEventListener("click", () => chart.zoom(0, trace.span));
get("device").addEventListener("change", (event) => { state.device = Number(event.target.value); state.at = null; controls(); lists(); chart.draw(); show(); });
if (rival) {
  get("picture").classList.add("two");
  get("zoom-out").before(el("button", { id: "compare", title: "Compare the two traces (t)", onclick: () => state.go({ compare: "" }) }, "compare traces"));
}
addEventListener("hashchange", show);
if (!location.hash && trace.findings.length && !rival) history.replaceState(null, "", "#finding=0");
if (!location.hash && rival) history.replaceState(null, "", "#compare=");
show();
document.documentElement.dataset.ready = Math.round(performance.now());
