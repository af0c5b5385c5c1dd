// Where the page is served, detail is asked for; in a file it stays with what it has.

const remote = {
  waiting: 0,

  async ask(what, parts) {
    if (!told.server) return null;
    const answer = await fetch(`/api/${what}?${new URLSearchParams(parts)}`, { headers: { "X-Tenure-Token": told.server.token } });
    if (!answer.ok) throw new Error(`${what}: ${await answer.text()}`);
    return answer.json();
  },

  // The stretch of time that is seen, in its own moments.
  zoomed(range) {
    clearTimeout(this.waiting);
    if (!told.server) return;
    const mine = this.waiting = setTimeout(async () => {
      if (range && range[1] - range[0] > 0.7 * trace.span) return;
      const view = range ? trace.whole.with(new Picture(await this.ask("timeline", { from: Math.floor(range[0]), to: Math.ceil(range[1]) }))) : trace.whole;
      if (view === trace.view || mine !== this.waiting) return; // an answer that came after a later zoom is of the past
      trace.view = view;
      chart.draw();
      document.documentElement.dataset.detail = range ? range.map(Math.round).join("-") : "";
    }, 200);
  },

  // The largest buffers alive at a moment, one by one.
  async buffers(moment) {
    const found = await this.ask("alive", { at: moment, device: state.device });
    const where = get("buffers");
    if (!found || !where) return;
    where.replaceChildren(
      el("h3", {}, `The largest of ${plural(found.count, "buffer")}`),
      el("table", {},
        el("thead", {}, el("tr", {}, ["bytes", "allocated", "last use", "freed"].map((name) => el("th", { class: "n" }, name)), ["kind", "what", "allocated at"].map((name) => el("th", {}, name)))),
        el("tbody", {}, found.buffers.map((one) => el("tr", {}, el("td", { class: "n" }, bytes(one.bytes)), [one.born, one.used, one.ended].map((time) => el("td", { class: "n" }, time === null ? "alive" : clock(time, 1e6))),
          el("td", {}, one.kind), el("td", { class: "code" }, `${one.op || ""} ${one.dtype || ""}${one.shape || ""}`), el("td", {}, one.site))))));
  },

  // The lives of a line in the stretch of time that is seen.
  async lives(at) {
    const site = trace.site(at);
    if (!told.server || site.births <= site.lives.length) return;
    const [from, to] = chart.range || [0, trace.span];
    const found = await this.ask("lives", { site: site.number, from: Math.floor(from), to: Math.ceil(to) });
    const where = get("lives");
    if (!found || !where || state.shown !== at) return;
    lives.draw(where, found.lives);
    get("lives-count").textContent = `${found.lives.length} of ${plural(found.count, "lifetime")} ${chart.range ? "in the visible interval" : "in total"}`;
  },
};
