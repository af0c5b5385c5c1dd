"""Plain-text heat maps."""

SHADES = " .:-=+*#"


def heatmap(tokens, weights):
    rows = []
    for words, row in zip(tokens, weights):
        cells = [SHADES[min(len(SHADES) - 1, int(w / row.max() * (len(SHADES) - 1)))] for w in row]
        rows.append(" ".join(f"{t:>2}{c}" for t, c in zip(words, cells)))
    return "\n".join(rows)
