"""Random programs of another kind: written as programs, each run twice, plain and with scopes, dispose and keep.

    python other_worlds.py FRAMEWORK FIRST COUNT STEPS

A program has values that later steps use. With tenure each step may run in a scope, which keeps what the program goes on
using, and what the program forgets may be disposed of. What a step leaves lying about unused, its scope releases. Both runs
must log the same numbers, to the bit, and the same errors. The last line of the output counts what happened.
"""

import contextlib
import gc
import hashlib
import importlib
import json
import random
import sys
import threading
import traceback
from collections import Counter

import numpy as np

import tenure
from tenure.frameworks import ended

COUNTS = Counter()


class Interrupted(BaseException):
    """What comes in the midst of a step."""


class World:
    """One run of one program: `rng` decides what the program does, `control` what tenure does."""

    kinds = ()

    def __init__(self, seed, scoped):
        self.rng, self.control, self.scoped = random.Random(seed), random.Random(seed + 1), scoped
        self.values, self.calls, self.log, self.unused = [], [], [], []
        self.fuse, self.in_scope = -1, False

    def run(self, steps):
        for number in range(steps):
            kind = self.rng.choice(self.kinds)
            self.fuse = self.rng.randrange(1, 5) if self.rng.random() < 0.1 else -1
            in_thread = self.rng.random() < 0.1
            self.count("steps")
            self.count("in threads", in_thread)
            try:
                self.step(kind, in_thread)
            except Interrupted:
                self.note("interrupted")
                self.count("interrupted")
            except tenure.TensorReleased:
                raise
            except Exception as error:  # noqa: BLE001 - the plain program's errors are part of what is compared
                self.note(type(error).__name__, str(error)[:60])
                self.count("errors")
            del self.unused[:-8]
            while len(self.values) > 12:
                self.forget(self.rng.randrange(len(self.values)))
            if len(self.calls) > 4:
                self.calls.pop(0)
            self.note(number)
        for value in self.values:
            self.number(value)
        self.values.clear()
        self.calls.clear()
        self.unused.clear()

    def step(self, kind, in_thread):
        before = COUNTS["released"]
        try:
            self.act(kind, in_thread)
        finally:
            self.count("scopes that released", COUNTS["released"] > before)

    def act(self, kind, in_thread):
        how = self.control.random() if self.scoped else 1.0
        self.in_scope = how < 0.7
        scope = tenure.scope(kind, cap="1 GiB" if how < 0.1 else None) if how < 0.7 else contextlib.nullcontext()
        inner = tenure.scope() if how < 0.2 else contextlib.nullcontext()
        self.count("scopes", (how < 0.7) + (how < 0.2))
        with scope, inner:
            act = getattr(self, kind)
            made, failed = [], []

            def work():
                try:
                    made.extend(act() or ())
                except BaseException as error:  # noqa: BLE001 - it goes on in the other thread
                    failed.append(error)

            if in_thread:
                thread = threading.Thread(target=tenure.carry(work) if self.scoped else work)
                thread.start()
                thread.join()
            else:
                work()
            if failed:
                raise failed.pop()
            if self.fuse > 0:
                raise Interrupted
            if self.scoped and how < 0.7:
                tenure.keep(made)
                if how < 0.2:
                    tenure.keep(made, forever=True)
            for one in made:
                (self.calls if callable(one) else self.values).append(one)
            made.clear()

    def forget(self, index):
        value = self.values.pop(index)
        if self.scoped and self.control.random() < 0.5 and not any(value is other for other in self.values):
            tenure.dispose(value)
            self.count("disposed")

    def count(self, what, number=1):
        COUNTS[what] += number if self.scoped else 0

    def tick(self):
        """Where an interrupt may come: in the midst of a step, also below a framework's own code."""
        self.fuse -= self.fuse > 0
        if self.fuse == 0:
            self.fuse = -1
            raise Interrupted

    def leave(self, value):
        """Give it back, and keep it sometimes, for nobody: a scope ends it, and what was made from it goes on."""
        if self.rng.random() < 0.4:
            self.unused.append(value)
        return value

    def hold(self, value):
        """The value by an owning handle, which a scope ends in every framework; the plain program uses the value itself."""
        return tenure.own(value) if self.scoped else value

    def pick(self):
        self.tick()
        return self.rng.choice(self.values) if self.values else self.fresh()

    def drop(self):
        if self.values:
            self.forget(self.rng.randrange(len(self.values)))

    def look(self):
        self.number(self.pick())

    def call(self):
        return self.rng.choice(self.calls)() if self.calls else ()

    def note(self, *what):
        self.log.append(" ".join(map(str, what)))

    def number(self, value):
        array = np.ascontiguousarray(self.array(value))
        self.note(array.shape, hashlib.sha256(array.tobytes()).hexdigest()[:12])


def play(world, seed, steps, scoped):
    made = world(seed, scoped)
    try:
        made.run(steps)
    except tenure.TensorReleased:
        made.note("RELEASED", traceback.format_exc()[-1500:])
    return made.log


def main(framework, first, count, steps):
    world = importlib.import_module(f"other_{framework}").WORLD
    bury = ended.bury

    def counted(handle, info):
        COUNTS["released"] += 1
        bury(handle, info)

    ended.bury = counted
    play(world, 0, 30, True)
    COUNTS.clear()
    gc.collect()
    gc.freeze()  # searches go over what the programs make, not over the framework
    wrong = 0
    COUNTS["TensorReleased"] = 0
    for seed in range(first, first + count):
        print("seed", seed, file=sys.stderr, flush=True)
        plain, scoped = (play(world, seed, steps, scoped) for scoped in (False, True))
        COUNTS["TensorReleased"] += "TensorReleased" in str(scoped)
        if plain != scoped:
            wrong += 1
            at = next((at for at, (a, b) in enumerate(zip(plain, scoped, strict=False)) if a != b), -1)
            print(f"{framework} {seed}: differs at {at}:\n  {plain[at - 1 : at + 1]}\n  {scoped[at - 1 : at + 1]}")
            print(scoped[-1] if "RELEASED" in scoped[-1] else "", flush=True)
    print(f"{count} programs, {wrong} differ")
    print(json.dumps(COUNTS))
    return wrong > 0


if __name__ == "__main__":
    from other_worlds import main  # the module of which the frameworks' worlds are made, not this copy of it

    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
