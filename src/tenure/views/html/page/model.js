// A trace as numbers at moments. Rows come as changes: [place, values…, place, values…].

const UNKNOWN = -2; // the row of what has no site; -1 is of the sites that are not shown

const spread = (changes, width, count) => {
  const columns = Array.from({ length: width }, () => new Float64Array(count));
  for (let at = 0; at < changes.length; at += width + 1) {
    const until = at + width + 1 < changes.length ? changes[at + width + 1] : count;
    columns.forEach((column, which) => column.fill(changes[at + 1 + which], changes[at], until));
  }
  return columns;
};

// What was alive at each moment: rows by site, and layers by kind, scope and rank.
class Picture {
  constructor({ moments, rows, layers }) {
    this.moments = moments;
    this.rows = rows.map(({ device, site, changes }) => {
      const [size, count, past] = spread(changes, 3, moments.length);
      return { device, site, size, count, past };
    });
    this.layers = {};
    for (const [by, all] of Object.entries(layers)) {
      this.layers[by] = all.map(({ device, name, changes }) => ({ device, name, size: spread(changes, 1, moments.length)[0] }));
    }
  }

  // The last moment that is not after this time.
  index(time) {
    let low = 0;
    let high = this.moments.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.moments[middle] <= time) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  sum(rows, what = "size") {
    const total = new Float64Array(this.moments.length);
    for (const row of rows) for (let at = 0; at < total.length; at++) total[at] += row[what][at];
    return total;
  }

  // The sites alive on a device at a moment, the largest first.
  alive(device, at) {
    return this.rows
      .filter((row) => row.device === device && row.count[at])
      .map((row) => ({ site: row.site, size: row.size[at], count: row.count[at], past: row.past[at] }))
      .sort((one, other) => other.size - one.size);
  }

  // This one, with what is known of a stretch of it in more detail.
  with(detail) {
    const [from, to] = [detail.moments[0], detail.moments[detail.moments.length - 1]];
    const before = this.moments.findIndex((time) => time >= from);
    const after = this.moments.findIndex((time) => time > to);
    const head = before < 0 ? this.moments.length : before;
    const tail = after < 0 ? this.moments.length : after;
    const join = (own, other) => {
      const made = new Float64Array(head + detail.moments.length + this.moments.length - tail);
      if (own) made.set(own.subarray(0, head), 0), made.set(own.subarray(tail), head + detail.moments.length);
      if (other) made.set(other, head);
      return made;
    };
    const merged = Object.create(Picture.prototype);
    merged.moments = [...this.moments.slice(0, head), ...detail.moments, ...this.moments.slice(tail)];
    const pairs = (own, other, key) => {
      const all = new Map(own.map((row) => [key(row), [row, null]]));
      for (const row of other) all.set(key(row), [(all.get(key(row)) || [null])[0], row]);
      return [...all.values()];
    };
    merged.rows = pairs(this.rows, detail.rows, (row) => `${row.device} ${row.site}`).map(([own, other]) => ({
      device: (own || other).device, site: (own || other).site,
      size: join(own?.size, other?.size), count: join(own?.count, other?.count), past: join(own?.past, other?.past),
    }));
    merged.layers = {};
    for (const by of Object.keys(this.layers)) {
      merged.layers[by] = pairs(this.layers[by], detail.layers[by] || [], (row) => `${row.device} ${row.name}`).map(([own, other]) => ({
        device: (own || other).device, name: (own || other).name, size: join(own?.size, other?.size),
      }));
    }
    return merged;
  }
}

class Trace {
  constructor(told) {
    Object.assign(this, told);
    this.whole = new Picture(told);
    this.view = this.whole;
    this.span = Math.max(1, this.whole.moments[this.whole.moments.length - 1] || 0);
  }

  site(at) {
    return at < 0 ? { name: at === UNKNOWN ? "place unknown" : "lines that are not shown", lives: [], holders: [], births: 0, bytes: 0 } : this.sites[at];
  }

  // The step that a moment is in; null in a run without steps.
  step(time) {
    const { times, every } = this.steps;
    if (!times.length) return null;
    const done = times.findIndex((end) => end > time);
    return (done < 0 ? times.length : done) * every;
  }

  peak(device) {
    return this.devices.find((one) => one.number === device)?.at ?? 0;
  }

  // The most that a site ever had alive on a device.
  most(site, device) {
    const row = this.whole.rows.find((one) => one.site === site && one.device === device);
    return row ? row.size.reduce((high, size) => Math.max(high, size), 0) : 0;
  }
}
