"""Check mutated programs: every file gets findings or one line that says why not, and never an internal error.

python benchmarks/check_fuzz.py [COUNT] [SEED] [FOLDER…]     default: 10000 0, the standard library and this repository
"""

from __future__ import annotations

import random
import sys
import sysconfig
import time
from collections import Counter
from pathlib import Path

from tenure.lint.one_file import INTERNAL_ERROR, check_bytes

TOUCH = b"import torch, jax, tensorflow as tf\nloss.backward()\n"


def mutated(raw: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    """The source with a few things moved, lost, doubled or garbled."""
    lines = raw.split(b"\n")
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(lines))
        how = chance.randrange(8)
        if how == 0:
            del lines[at : at + chance.randint(1, 3)]
        elif how == 1:
            lines.insert(at, lines[chance.randrange(len(lines))])
        elif how == 2:
            other = chance.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif how == 3 and lines[at]:
            cut = chance.randrange(len(lines[at]))
            lines[at] = lines[at][:cut]
        elif how == 4:
            lines[at] = b"    " + lines[at]
        elif how == 5:
            words = lines[at].split(b" ")
            chance.shuffle(words)
            lines[at] = b" ".join(words)
        elif how == 6:
            source = chance.choice(others).split(b"\n")
            begin = chance.randrange(len(source))
            lines[at:at] = source[begin : begin + chance.randint(1, 30)]
        else:
            text = bytearray(lines[at])
            if text:
                text[chance.randrange(len(text))] = chance.randrange(256)
            lines[at] = bytes(text)
        if not lines:
            lines = [b""]
    return b"\n".join(lines)


def sources(folders: list[Path]) -> list[bytes]:
    """Programs to begin with: Python files, and the examples of the checks."""
    found = [
        path.read_bytes()
        for folder in folders
        for path in sorted(folder.rglob("*.py"))[:1500]
        if path.stat().st_size < 60_000
    ]
    for page in sorted(Path("tests/check/cases").glob("*.md")):
        blocks = page.read_bytes().split(b"```python ")[1:]
        found += [block.split(b"\n", 1)[1].split(b"```")[0] for block in blocks] * 6
    return found


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    chance = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    folders = [Path(word) for word in sys.argv[3:]] or [Path(sysconfig.get_paths()["stdlib"]), Path("src")]
    begin = sources(folders)
    results: Counter[str] = Counter()
    slowest = 0.0
    for number in range(count):
        raw = mutated(chance.choice(begin), chance, begin)
        raw = raw if chance.random() < 0.5 else TOUCH + raw
        start = time.process_time()
        checked = check_bytes(raw, f"mutant{number}.py")
        slowest = max(slowest, time.process_time() - start)
        results["problem" if checked.problem else "findings" if checked.findings else "clean"] += 1
        if INTERNAL_ERROR in checked.problem or "nested" in checked.problem:
            Path(f"mutant{number}.py").write_bytes(raw)
            print(f"mutant{number}.py: {checked.problem}")
            results["errors in tenure"] += 1
    print(dict(results), f"slowest {slowest:.2f} s")
    return 1 if results["errors in tenure"] else 0


if __name__ == "__main__":
    sys.exit(main())
