// The layers of the picture: what is stacked on what, and in which colour.

const PALETTE = ["#3b7dd8", "#e08a1e", "#2f9e6e", "#d1495b", "#8a63d2", "#1aa6b7", "#c4a000", "#b0578d", "#6b8e23", "#a0603a", "#5470c6"];
const KINDS = {
  parameter: "#3b7dd8", gradient: "#e08a1e", "optimizer state": "#8a63d2", activation: "#2f9e6e",
  input: "#1aa6b7", constant: "#8a94a3", temporary: "#d1495b",
};
const REST = "#9aa4b2";
const SHOWN = PALETTE.length;

// What one may stack by in this trace.
const choices = (trace) => [
  "kind",
  "site",
  "use",
  ...(trace.layers.scope ? ["scope"] : []),
  ...(trace.devices.length > 1 ? ["device"] : []),
  ...(trace.layers.rank ? ["rank"] : []),
];

// [{name, site?, fill, size}], the lowest first.
const layersOf = (trace, picture, by, device) => {
  const here = picture.rows.filter((row) => row.device === device);
  if (by === "site") return bySite(trace, picture, here);
  if (by === "use") {
    const [all, late] = [picture.sum(here), picture.sum(here, "past")];
    return [
      { name: "after its last use", fill: colour("late"), size: late },
      { name: "before its last use", fill: "#2f9e6e", size: all.map((size, at) => size - late[at]) },
    ];
  }
  if (by === "device") {
    return trace.devices.map(({ number: one, name }, at) => ({
      name, fill: PALETTE[at % SHOWN], size: picture.sum(picture.rows.filter((row) => row.device === one)),
    }));
  }
  const found = picture.layers[by].filter((layer) => layer.device === device);
  return cropped(picture, found.map(({ name, size }) => ({ name, size, fill: by === "kind" ? KINDS[name] : null })));
};

const bySite = (trace, picture, here) => {
  const found = here.map((row) => ({ name: row.site === UNKNOWN ? "place unknown" : row.site < 0 ? "others" : place(trace.site(row.site)), site: row.site, size: row.size }));
  const named = found.filter((layer) => layer.site !== -1);
  const rest = found.filter((layer) => layer.site === -1);
  return cropped(picture, named, rest);
};

// What lasts lies at the bottom: a staircase on flat ground can be seen.
const cropped = (picture, layers, rest = []) => {
  const most = (layer) => layer.size.reduce((high, size) => Math.max(high, size), 0);
  const mean = (layer) => layer.size.reduce((sum, size) => sum + size, 0) / Math.max(1, layer.size.length);
  const ordered = [...layers].sort((one, other) => most(other) - most(one));
  const shown = ordered.slice(0, SHOWN);
  shown.forEach((layer, at) => (layer.fill = layer.fill || PALETTE[at % SHOWN]));
  shown.sort((one, other) => mean(other) / (most(other) || 1) - mean(one) / (most(one) || 1));
  const left = [...ordered.slice(SHOWN), ...rest];
  return left.length ? [...shown, { name: "others", site: -1, fill: REST, size: picture.sum(left) }] : shown;
};
