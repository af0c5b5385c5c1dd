// Two moments, or two traces, beside each other: what is new, gone, grown or shrunk, by line.

const rivalDevice = () => {
  const name = trace.devices.find((one) => one.number === state.device)?.name;
  return (rival.devices.find((one) => one.name === name) || rival.devices[0])?.number;
};

const compareFrom = (moment) => {
  state.from = moment;
  state.go({ at: state.at ?? moment, from: moment });
  get("hint").textContent = "A is chosen. Click the point in time to compare it with, or press Esc to stop.";
};

// By name, for two traces number their lines apart: Map(name → {size, count, site})
const aliveByName = (whose, picture, device, at) => {
  const found = new Map();
  for (const one of picture.alive(device, at)) found.set(whose.site(one.site).name, { ...one, whose });
  return found;
};

const changesOf = (before, after) => {
  const none = { size: 0, count: 0 };
  const names = [...new Set([...before.keys(), ...after.keys()])];
  return names
    .map((name) => {
      const [old, now] = [before.get(name) || none, after.get(name) || none];
      const what = !old.size ? "new" : !now.size ? "gone" : now.size > old.size ? "grown" : "shrunk";
      return { name, what, old, now, change: now.size - old.size, site: after.has(name) ? now : old };
    })
    .filter((one) => one.change)
    .sort((one, other) => Math.abs(other.change) - Math.abs(one.change));
};

const comparison = (before, after, names) => {
  const changes = changesOf(before, after);
  const sum = (side) => [...side.values()].reduce((total, one) => total + one.size, 0);
  const [old, now] = [sum(before), sum(after)];
  const plot = el("div", { class: "plot", id: "changes" });
  const told = [
    el("div", { class: "facts" }, fact(bytes(old), names[0]), fact(bytes(now), names[1]), fact(`${now >= old ? "+" : ""}${bytes(now - old)}`, "from A to B")),
    changes.length ? plot : el("p", { class: "soft" }, "There are no differences."),
    el("table", { id: "differences" },
      el("thead", {}, el("tr", {}, ["change", "A", "B", "buffers"].map((name) => el("th", { class: "n" }, name)), el("th", {}, ""), el("th", {}, "allocated at"))),
      el("tbody", {}, changes.slice(0, 40).map((one) => {
        const site = one.site.whose.site(one.site.site);
        return el("tr", { class: one.change > 0 ? "more" : "less" },
          el("td", { class: "n" }, `${one.change > 0 ? "+" : ""}${bytes(one.change)}`), el("td", { class: "n" }, bytes(one.old.size)), el("td", { class: "n" }, bytes(one.now.size)),
          el("td", { class: "n" }, `${number(one.old.count)} → ${number(one.now.count)}`), el("td", {}, one.what),
          el("td", {}, one.site.whose === trace ? link(site, one.site.site) : place(site), el("span", { class: "code" }, sourceLine(site))));
      }))),
  ];
  return [told, () => changes.length && drawChanges(plot, changes.slice(0, 12))];
};

const drawChanges = (where, changes) => {
  where.style.height = `${50 + 26 * changes.length}px`;
  const drawn = echarts.init(where);
  const text = { color: colour("soft"), fontSize: 14 };
  const sizes = changes.map((one) => one.change);
  const interval = tick(Math.max(...sizes.map(Math.abs)) / 4);
  const [min, max] = [Math.floor(Math.min(0, ...sizes) / interval) * interval, Math.ceil(Math.max(0, ...sizes) / interval) * interval];
  drawn.setOption({
    animation: false,
    grid: { left: 8, right: 40, top: 8, bottom: 28, containLabel: true },
    xAxis: { type: "value", min, max, interval, axisLabel: { ...text, formatter: round, hideOverlap: true }, splitLine: { lineStyle: { color: colour("grid") } } },
    yAxis: { type: "category", inverse: true, data: changes.map((one) => place(one.site.whose.site(one.site.site)).slice(-48)), axisLabel: { ...text, color: colour("text") }, axisTick: { show: false }, axisLine: { show: false } },
    series: [{ type: "bar", barWidth: "64%", silent: true, data: changes.map((one) => ({ value: one.change, itemStyle: { color: colour(one.change > 0 ? "more" : "less") } })) }],
  });
  new ResizeObserver(() => drawn.isDisposed() || drawn.resize()).observe(where);
};

const momentsPanel = (from, at) => {
  const picture = trace.view;
  const [first, second] = [picture.index(from), picture.index(at)];
  const side = (index) => aliveByName(trace, picture, state.device, index);
  const name = (letter, index) => {
    const step = trace.step(picture.moments[index]);
    return `${letter}: at ${clock(picture.moments[index], chart.seen())}${step === null ? "" : `, step ${number(step)}`}`;
  };
  const [told, drawn] = comparison(side(first), side(second), [name("A", first), name("B", second)]);
  const end = () => { state.from = null; state.go({ at }); };
  return [[el("div", { class: "bar" }, heading("Two points in time"), el("button", { onclick: () => state.go({ at: from, from: at }) }, "swap"), el("button", { id: "unpin", onclick: end }, "close comparison (Esc)")), told], drawn];
};

const tracesPanel = () => {
  const own = state.at ?? trace.peak(state.device);
  const modes = { peak: "each at its peak", time: "at the same time", end: "each at the end of its run" };
  const mode = tracesPanel.mode || "peak";
  const at = { peak: [trace.peak(state.device), rival.peak(rivalDevice())], time: [own, own], end: [trace.span, rival.span] }[mode];
  const side = (whose, device, time) => aliveByName(whose, whose.whole, device, whose.whole.index(time));
  const name = (letter, whose, time) => `${letter}: ${whose.about.path} at ${clock(time, whose.span)}`;
  const [told, drawn] = comparison(side(rival, rivalDevice(), at[1]), side(trace, state.device, at[0]), [name("A", rival, at[1]), name("B", trace, at[0])]);
  const choose = el("select", { id: "when", "aria-label": "Compared", onchange: (event) => { tracesPanel.mode = event.target.value; show(); } },
    Object.entries(modes).map(([value, text]) => el("option", { value, selected: value === mode ? "" : null }, text)));
  return [[el("div", { class: "bar" }, heading("Two traces"), choose), told], drawn];
};
