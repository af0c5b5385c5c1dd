"""What the tests of exports share: a real snapshot, and words that want to be more than text."""

from pathlib import Path

SNAPSHOT = Path(__file__).parents[2] / "trace" / "data" / "cuda.pickle.gz"
HOSTILE = (
    "<script>alert(1)</script>",
    "\x1b[31mred\x1b[0m",
    "two\tparts\rof",
    "nul\0inside",
    "quotes ' \" ` \\ ${x} %s {}",
    "‮ right to left  \U0001f98b",
    "x" * 1_000_000,
)
