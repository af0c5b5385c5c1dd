// The picture: bytes alive over time, in layers, with steps and the moments chosen marked.

const GRID = { left: 84, right: 24, top: 58, bottom: 66 };

const chart = {
  drawn: null, // the library's
  marks: null, // a second one above it, so that to mark a moment does not draw a million of them anew
  layers: [],
  range: null, // [from, to] in µs, null for all

  start() {
    this.drawn = echarts.init(get("chart"), null, { renderer: "canvas" });
    this.marks = echarts.init(get("marks"));
    let sized = false; // it is told of its first size too
    new ResizeObserver(() => { if (sized) this.drawn.resize(), this.marks.resize(), this.mark(); sized = true; }).observe(get("chart"));
    this.drawn.getZr().on("click", (event) => {
      const at = [event.offsetX, event.offsetY];
      if (this.drawn.containPixel("grid", at)) state.look(this.time(this.drawn.convertFromPixel({ xAxisIndex: 0 }, at[0])));
    });
    this.drawn.on("datazoom", () => {
      const { startValue, endValue } = this.drawn.getOption().dataZoom[0];
      const [from, to] = [this.time(startValue), this.time(endValue)];
      this.range = from <= 0 && to >= trace.span ? null : [from, to];
      get("zoom-out").classList.toggle("hidden", !this.range);
      this.mark();
      remote.zoomed(this.range);
    });
  },

  // Across the picture goes time, or each moment alike, so that what is quick has room too.
  x(time) {
    return state.axis === "time" ? time : trace.view.index(time);
  },
  time(x) {
    if (state.axis === "time") return x;
    const { moments } = trace.view;
    return moments[Math.max(0, Math.min(moments.length - 1, Math.round(x)))];
  },
  end() {
    return state.axis === "time" ? trace.span : Math.max(1, trace.view.moments.length - 1);
  },

  draw() {
    const picture = trace.view;
    this.layers = layersOf(trace, picture, state.by, state.device);
    const xs = state.axis === "time" ? picture.moments : picture.moments.map((_, at) => at);
    const series = this.layers.map((layer) => ({
      name: layer.name, type: "line", stack: "alive", step: "end", symbol: "none", silent: true, animation: false,
      lineStyle: { width: 0.6, color: layer.fill }, itemStyle: { color: layer.fill },
      areaStyle: { color: layer.fill, opacity: this.opacity(layer) },
      data: this.points(xs, layer.size),
    }));
    if (rival) series.push(this.other());
    this.drawn.setOption(this.option(series), { notMerge: true });
    // By default steps of less than two pixels are smoothed away, which leaves wedges between layers.
    for (const shape of this.drawn.getZr().storage.getDisplayList(true)) {
      if (shape.segmentIgnoreThreshold) shape.attr("segmentIgnoreThreshold", 0.1);
    }
    this.mark();
    this.fresh = true;
  },

  // A trace of one moment, as profiles are, is drawn as a stretch of time.
  points(xs, sizes) {
    const found = Array.from(sizes, (size, at) => [xs[at], size]);
    return found.length === 1 ? [...found, [this.end(), sizes[0]]] : found;
  },

  opacity(layer) {
    return state.lit === null || state.by !== "site" ? 0.82 : layer.site === state.lit ? 1 : 0.18;
  },

  // The trace that this one is compared with, as a line above the layers.
  other() {
    const size = rival.whole.sum(rival.whole.rows.filter((row) => row.device === rivalDevice()));
    return {
      name: `${file(rival.about.path)} (other)`, type: "line", step: "end", symbol: "none", silent: true, animation: false,
      lineStyle: { width: 2, type: "dashed", color: colour("text") }, itemStyle: { color: colour("text") },
      data: this.points(rival.whole.moments.map((time) => this.x(time)), size),
    };
  },

  option(series) {
    const text = { color: colour("soft"), fontSize: 14 };
    const [from, to] = this.range ? this.range.map((time) => this.x(time)) : [0, this.end()];
    return {
      animation: false,
      textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
      grid: GRID,
      legend: {
        top: 2, left: 78, width: "auto", right: 20, height: 24, align: "left", type: "scroll", icon: "roundRect", itemWidth: 14, itemHeight: 12, itemGap: 14, textStyle: { color: colour("text"), fontSize: 14 },
        pageTextStyle: text, pageIconColor: colour("strong"), selectedMode: false, data: series.map((one) => one.name).filter(Boolean),
      },
      tooltip: {
        trigger: "axis", confine: true, transitionDuration: 0, backgroundColor: colour("card"), borderColor: colour("edge"),
        textStyle: { color: colour("text"), fontSize: 14 }, axisPointer: { type: "line", lineStyle: { color: colour("soft") } },
        formatter: (found) => this.tip(found),
      },
      xAxis: {
        type: "value", min: 0, max: this.end(), axisLine: { lineStyle: { color: colour("edge") } }, splitLine: { show: false },
        axisLabel: { ...text, show: trace.span > 1, hideOverlap: true, showMaxLabel: false, formatter: (x) => clock(this.time(x), this.seen()) }, axisTick: { lineStyle: { color: colour("edge") } },
      },
      yAxis: {
        type: "value", min: 0, ...this.heights(series), axisLabel: { ...text, formatter: round }, splitLine: { lineStyle: { color: colour("grid") } },
      },
      dataZoom: [
        { type: "inside", startValue: from, endValue: to, filterMode: "none", throttle: 80, minValueSpan: state.axis === "time" ? 20 : 4 },
        {
          type: "slider", startValue: from, endValue: to, filterMode: "none", height: 22, bottom: 10, showDetail: false, brushSelect: false,
          borderColor: colour("edge"), fillerColor: "rgba(90,140,220,.18)", dataBackground: { lineStyle: { opacity: 0.4 }, areaStyle: { opacity: 0.15 } },
        },
      ],
      series,
    };
  },

  // Ticks at round numbers of KiB, MiB, GiB.
  heights(series) {
    const top = Math.max(1, ...series.filter((one) => one.stack !== "alive").flatMap((one) => one.data.map((point) => point[1])));
    const stacked = trace.view.moments.reduce((high, _, at) => Math.max(high, this.layers.reduce((sum, layer) => sum + layer.size[at], 0)), top);
    const interval = tick(stacked / 6);
    return { interval, max: interval * Math.ceil((stacked * 1.02) / interval) };
  },

  seen() {
    return this.range ? this.range[1] - this.range[0] : trace.span;
  },

  // The moment under the pointer in words.
  tip(found) {
    if (!found.length) return "";
    const at = trace.view.index(this.time(found[0].axisValue));
    const rows = this.layers.map((layer) => [layer, layer.size[at]]).filter(([, size]) => size).sort((one, other) => other[1] - one[1]);
    const total = rows.reduce((sum, [, size]) => sum + size, 0);
    const time = trace.view.moments[at];
    const step = trace.step(time);
    return el("div", { class: "tip" },
      el("b", {}, `${bytes(total)} at ${clock(time, this.seen())}${step === null ? "" : `, step ${number(step)}`}`),
      el("table", {}, rows.slice(0, 8).map(([layer, size]) => el("tr", {}, el("td", {}, swatch(layer.fill), layer.name), el("td", { class: "n" }, bytes(size))))));
  },

  // Steps (as many as can be told apart), the moment chosen, and the one it is compared with.
  mark() {
    const [from, to] = this.range || [0, trace.span];
    const { times, every } = trace.steps;
    const inside = times.map((time, at) => [time, (at + 1) * every - 1]).filter(([time]) => time >= from && time <= to);
    const stride = Math.ceil(inside.length / 24);
    const [left, right] = [this.x(from), this.x(to)];
    const scale = (get("marks").clientWidth - GRID.left - GRID.right) / Math.max(right - left, 1e-9);
    let told = -Infinity;
    const steps = inside.filter((_, at) => (at + 1) % stride === 0).map(([time, step]) => {
      const pixel = (this.x(time) - left) * scale;
      const room = pixel - told > 34;
      if (room) told = pixel;
      return {
        xAxis: this.x(time), lineStyle: { color: colour("soft"), width: 1, opacity: 0.4, type: "dotted" },
        label: { show: room, formatter: `${step}`, color: colour("soft"), opacity: 1, fontSize: 13, position: "end" },
      };
    });
    const moments = [[state.at, state.from === null ? "" : "B", "solid"], [state.from, "A", "dashed"]].filter(([time]) => time !== null && time >= from && time <= to).map(([time, name, type]) => ({
      xAxis: this.x(time), lineStyle: { color: colour("text"), width: 2, type }, label: { formatter: name, color: colour("text"), fontSize: 15, fontWeight: "bold", position: "end" },
    }));
    const axis = { type: "value", show: false };
    this.marks.setOption({
      animation: false, grid: GRID, xAxis: { ...axis, min: left, max: right }, yAxis: { ...axis, min: 0, max: 1 },
      series: [{ type: "line", silent: true, data: [], markLine: { symbol: "none", silent: true, animation: false, data: [...steps, ...moments] } }],
    }, { notMerge: true });
    get("hint").textContent = `Click: what was alive then.  Wheel: zoom.  ${inside.length ? "Dotted: ends of steps.  " : ""}? for keys.`;
  },

  zoom(from, to) {
    const whole = from <= 0 && to >= trace.span;
    this.drawn.dispatchAction({ type: "dataZoom", dataZoomIndex: 0, startValue: whole ? 0 : this.x(Math.max(0, from)), endValue: whole ? this.end() : this.x(Math.min(trace.span, to)) });
  },
};
