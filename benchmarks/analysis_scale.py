"""What the analyses cost, from a million events to a hundred million, on two cores.

    analysis_scale.py [MILLIONS…]      (default: 1 10 100)

The events are a real trace's, again and again; each analysis runs in a process of its own, from `tenure` to its answer.
Writes benchmarks/analysis_scale.md.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from replicate import replicate

HERE = Path(__file__).parent
PROGRAM = """
import sys
sys.path.insert(0, {here!r})
import torch
from models import train, transformer

torch.set_num_threads(1)


def main():
    model, batch = transformer(32, "cpu")
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    kept = []
    for _ in range(200):
        train(model, optimizer, batch)
        kept.append(torch.ones(256))


main()
"""
ANALYSES = {
    "report": "import sys; from tenure.cli import main; sys.exit(main(['report', sys.argv[1]]))",
    "peak()": "import sys, tenure; print(tenure.load(sys.argv[1]).peak())",
    "leaks()": "import sys, tenure; print(tenure.load(sys.argv[1]).leaks())",
    "drag()": "import sys, tenure; print(tenure.load(sys.argv[1]).drag())",
    "peak() without digest": "import sys, tenure; print(tenure.load(sys.argv[1]).peak())",
}


def measure(code: str, trace: Path) -> tuple[float, float, float]:
    """Seconds by the clock, seconds of the processor, and the most MiB of memory."""
    begun = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-c", code, str(trace)], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 1):
        raise SystemExit(f"it failed: {code}")
    return time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    sizes = [int(word) for word in sys.argv[1:]] or [1, 10, 100]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    rows = []
    load = os.getloadavg()[1]
    with tempfile.TemporaryDirectory(prefix="tenure-scale-") as name:
        place = Path(name)
        (place / "train.py").write_text(PROGRAM.format(here=str(HERE)))
        words = [sys.executable, "-m", "tenure", "run", "--quiet", "-o", str(place / "base"), str(place / "train.py")]
        subprocess.run(words, check=True)
        for millions in sizes:
            trace = place / f"{millions}"
            events = replicate(place / "base", trace, millions * 1_000_000)
            disk = sum(file.stat().st_size for file in trace.iterdir()) / events
            digests = {file: file.read_bytes() for file in trace.glob("*.digest")}
            for analysis, code in ANALYSES.items():
                for file, data in digests.items():
                    file.unlink(missing_ok=True) if "without" in analysis else file.write_bytes(data)
                clock, processor, memory = min(measure(code, trace) for _ in range(2 if millions < 100 else 1))
                rows.append((analysis, events, clock, processor, memory, processor / events * 1e6, disk))
                print(rows[-1], flush=True)
    write(rows, load)


def write(rows: list[tuple[str, int, float, float, float, float, float]], load: float) -> None:
    rows.sort(key=lambda row: list(ANALYSES).index(row[0]))
    lines = [
        "# What the analyses cost",
        "",
        "The trace repeats the events of a real one (a transformer in training), with new buffers, times and steps. Each",
        "analysis runs in a new process. The time includes the start of Python, the check of the trace's sums, and the result.",
        'A process that exits normally writes a digest next to its stream. "Without digest" is the cost for a killed process,',
        "whose events are all read. The figures are the best of two runs; at 100 M there was one run.",
        "Made by `python benchmarks/analysis_scale.py`.",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, {platform.machine()}, two cores. Other programs kept",
        f"{load:.1f} processors busy at the start. If that is not near zero, rely on the processor's seconds.",
        "",
        "| analysis | events | seconds | processor's seconds | µs per event | memory, MiB |",
        "|---|---|---|---|---|---|",
    ]
    for analysis, events, clock, processor, memory, each, _ in rows:
        lines.append(f"| {analysis} | {events:,} | {clock:.2f} | {processor:.2f} | {each:.2f} | {memory:.0f} |")
    lines += ["", f"On disk: {rows[0][6]:.1f} bytes per event."]
    (HERE / "analysis_scale.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
