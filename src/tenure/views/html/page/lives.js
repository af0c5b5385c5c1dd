// Lifetimes as bars: from birth to last use, and from there to the end.

const lives = {
  drawn: null,

  legend() {
    return el("p", { class: "key soft" }, swatch("#2f9e6e"), "allocation to last use", swatch(colour("late")), "still allocated after its last use", " · one bar per buffer");
  },

  draw(where, found) {
    this.drawn?.dispose();
    where.style.height = `${Math.max(120, Math.min(440, 64 + 9 * found.length))}px`;
    this.drawn = echarts.init(where);
    const rows = [...found].sort((one, other) => one[0] - other[0]);
    const end = (life) => (life[2] === null ? trace.span : life[2]);
    const bar = (name, fill, data, decal) => ({
      name, type: "bar", stack: "life", animation: false, barWidth: "72%", itemStyle: { color: fill, decal }, data,
    });
    const text = { color: colour("soft"), fontSize: 13 };
    const first = rows.length ? rows[0][0] : 0;
    const last = rows.reduce((high, life) => Math.max(high, end(life)), first + 1);
    const room = (last - first) * 0.02;
    this.drawn.setOption({
      animation: false,
      grid: { left: 16, right: 24, top: 8, bottom: 34 },
      tooltip: {
        trigger: "axis", axisPointer: { type: "shadow" }, confine: true, transitionDuration: 0, backgroundColor: colour("card"), borderColor: colour("edge"),
        textStyle: { color: colour("text"), fontSize: 14 }, formatter: (at) => this.tip(rows[at[0].dataIndex]),
      },
      xAxis: { type: "value", min: Math.max(0, first - room), max: Math.min(trace.span, last + room), splitNumber: 6, axisLabel: { ...text, hideOverlap: true, showMinLabel: false, showMaxLabel: false, formatter: (time) => clock(time, last - first) }, splitLine: { lineStyle: { color: colour("grid") } } },
      yAxis: { type: "category", inverse: true, data: rows.map((_, at) => at), axisLabel: { show: false }, axisTick: { show: false }, axisLine: { lineStyle: { color: colour("edge") } } },
      dataZoom: [{ type: "inside", filterMode: "none", zoomOnMouseWheel: "ctrl" }],
      series: [
        bar("before", "transparent", rows.map((life) => life[0])),
        bar("used", "#2f9e6e", rows.map((life) => Math.max(life[1] - life[0], (last - first) / 600))),
        bar("late", colour("late"), rows.map((life) => Math.max(0, end(life) - life[1])), { symbol: "rect", color: "rgba(255,255,255,.45)", dashArrayX: [1, 0], dashArrayY: [2, 4], rotation: -Math.PI / 4 }),
      ],
    });
    this.shown = rows;
    const made = this.drawn;
    new ResizeObserver(() => made.isDisposed() || made.resize()).observe(where);
  },

  tip([born, used, ended, size, kind, step]) {
    const late = (ended === null ? trace.span : ended) - used;
    return el("div", { class: "tip" },
      el("b", {}, `${bytes(size)}${kind ? `, ${kind}` : ""}`),
      el("div", {}, `allocated at ${clock(born, 1e6)}${step >= 0 ? `, in step ${number(step)}` : ""}`),
      el("div", {}, used > born ? `last used ${duration(used - born)} later` : "never used"),
      el("div", { class: "late" }, `${ended === null ? "alive at the end" : "freed"}: ${duration(late)} after that`));
  },
};
