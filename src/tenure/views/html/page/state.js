// What is looked at. It stands in the address, so that a link, and the way back, lead to it.

const state = {
  by: "kind",
  axis: "time",
  device: 0,
  lit: null, // the site whose layer is lit
  at: null, // the moment chosen
  from: null, // the one it is compared with
  query: "",

  // The address is one of: #finding=2  #site=5  #at=12345  #at=12345&from=678  #compare
  go(parts) {
    this.open(`#${new URLSearchParams(parts)}`);
  },
  // At once: the event of a new address comes later, and the next key may be earlier.
  open(address) {
    if (address !== location.hash) history.pushState(null, "", address);
    show();
  },
  look(time) {
    const at = trace.view.moments[trace.view.index(time)];
    this.go(this.from === null ? { at } : { at, from: this.from });
  },
  read() {
    const told = new URLSearchParams(location.hash.slice(1));
    const whole = (name, below = Infinity) => {
      const value = Number.parseInt(told.get(name), 10);
      return Number.isFinite(value) && value >= 0 && value < below ? value : null;
    };
    return {
      finding: whole("finding", trace.findings.length),
      site: whole("site", trace.sites.length),
      at: whole("at"),
      from: whole("from"),
      compare: told.has("compare"),
    };
  },
  stack(by) {
    this.by = by;
    controls();
    chart.draw();
  },
};
