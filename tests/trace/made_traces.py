"""Traces made by the real recorder in processes of their own, and what they should hold, told by other means."""

import json
import os
import subprocess
import sys
from pathlib import Path

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("TENURE")}

# A random program against the recorder's sink, with times of its own; it tells what it did.
PROGRAM = """
import json, random, sys, time
from pathlib import Path
from tenure.trace.recorder import Recorder

folder, seed, count, fresh = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "fresh"
rng = random.Random(seed)
recorder = Recorder(folder)
recorder.start(fresh=fresh)
sink = recorder._rows
clock = time.monotonic_ns()
alive, told, step = {}, [], 0
for number in range(count):
    clock += rng.randrange(1, 50) * 1000
    stack = f"/somewhere/train.py:{rng.randrange(1, 30)} in step\\n/somewhere/main.py:7 in <module>"
    at = (clock + recorder._offset) // 1000
    choice = rng.random()
    if choice < 0.4 or not alive:
        size, device = rng.choice([0, 4, 1024, 65536]), rng.choice(["cpu", "cuda:0"])
        op = rng.choice(["aten::mm", "aten::add"])
        buffer = sink.born("torch", size, device, op, (size // 4,), "float32", stack, rng.choice(["", "input"]), clock)
        alive[buffer] = row = {
            "buffer": buffer, "bytes": size, "device": device, "op": op, "site": stack.splitlines()[0], "born": at,
            "step": step, "uses": 0, "last_use": None, "last_op": None, "ended": None, "end_site": None, "cause": None,
            "end_step": None,
        }
        told.append(row)
    elif choice < 0.7:
        row = alive[rng.choice(list(alive))]
        sink.used(row["buffer"], "aten::relu", stack, clock)
        row.update(uses=row["uses"] + 1, last_use=at, last_op="aten::relu")
    elif choice < 0.95:
        row = alive.pop(rng.choice(list(alive)))
        sink.ended(row["buffer"], "dispose", stack, clock)
        row.update(ended=at, end_site=stack.splitlines()[0], cause="dispose", end_step=step)
    else:
        recorder.advance()
        step += 1
    if number % 100 == 50:
        time.sleep(0.11)  # so that there are several batches
recorder.mark("the end")
recorder.stop()
print(json.dumps({"buffers": told, "steps": step}))
"""


def make(folder: Path, *, seed: int = 1, count: int = 400, fresh: bool = True, **environment: str) -> dict:
    """Record into the folder; gives what happened."""
    words = [sys.executable, "-c", PROGRAM, str(folder), str(seed), str(count), "fresh" if fresh else "join"]
    done = subprocess.run(words, capture_output=True, text=True, env={**ENVIRONMENT, **environment}, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def make_two(folder: Path) -> list[dict]:
    """A trace of two processes, of which the second says its rank."""
    return [make(folder), make(folder, seed=2, fresh=False, RANK="3", LOCAL_RANK="1", WORLD_SIZE="8")]
