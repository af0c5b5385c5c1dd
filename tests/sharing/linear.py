"""Is a history of concurrent calls one that a single thread could have seen? The search of Wing and Gong, and Lowe.

A call is an `Op`: what was asked, what came of it, when it began and when it returned. A history is linearisable if its
calls can be put in an order in which each took effect at one moment between its beginning and its return, and each
answer is right. Names do not touch each other, so each is searched alone. The model of a name is what a store promises:

    put(value)          -> version, higher than any before
    cas(value, expect)  -> version, or None if the name was not at `expect` (0: not there)
    get()               -> (value, version), or None
    delete()            -> True, or None if there was nothing

A call that never returned (its process was killed) may have taken effect or not: `returned` is infinity.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Op:
    """One call: `result` is what came back; `who` only helps to read what a failed search tells."""

    name: str
    kind: str  # put, cas, get, delete
    began: float
    returned: float
    value: Any = None
    expect: int = 0
    result: Any = None
    who: str = ""

    def __str__(self) -> str:
        asked = {"put": f"({self.value})", "cas": f"({self.value}, expect={self.expect})"}.get(self.kind, "()")
        return f"[{self.began:.6f}..{self.returned:.6f}] {self.who} {self.kind}{asked} -> {self.result}"


# What a name is: the value, its version (0: not there), and the highest version that there ever was.
State = tuple[Any, int, int]
EMPTY: State = (None, 0, 0)


def after(state: State, op: Op) -> State | None:
    """What the name is after this call, or None if the call's answer would be wrong."""
    value, version, last = state
    unknown = op.returned == math.inf
    if op.kind == "get":
        return state if unknown or op.result == ((value, version) if version else None) else None
    if op.kind == "delete":
        if unknown or op.result == (True if version else None):
            return (None, 0, last)
        return None
    if op.kind == "cas" and op.expect != version:
        return state if unknown or op.result is None else None
    if unknown:
        return (op.value, last + 1, last + 1)
    return (op.value, op.result, op.result) if op.result is not None and op.result > last else None


def check(history: list[Op]) -> list[str]:
    """What is wrong with a history: of each name that cannot be put in order, the calls around the place."""
    by_name = defaultdict(list)
    for op in history:
        by_name[op.name].append(op)
    return [trouble for ops in by_name.values() if (trouble := _search(ops))]


def _search(ops: list[Op]) -> str:
    """Depth first over the orders that the times allow. What was tried once from one state is not tried again."""
    # Those that never returned and asked nothing of the name tell nothing.
    ops = sorted((op for op in ops if op.returned < math.inf or op.kind != "get"), key=lambda op: op.began)
    must = sum(op.returned < math.inf for op in ops)
    seen: set[tuple[int, State]] = set()
    best = 0
    # Each step: what is left as bits, the state, how many that returned are done, and what can be tried next.
    stack = [((1 << len(ops)) - 1, EMPTY, 0)]
    furthest: tuple[int, State] = (stack[0][0], EMPTY)
    while stack:
        left, state, done = stack.pop()
        if done == must:
            return ""
        if done > best:
            best, furthest = done, (left, state)
        for index in _first(ops, left):
            following = after(state, ops[index])
            if following is None:
                continue
            rest = left & ~(1 << index)
            if (rest, following) not in seen:
                seen.add((rest, following))
                stack.append((rest, following, done + (ops[index].returned < math.inf)))
    left, state = furthest
    stuck = "\n".join(f"  {ops[index]}" for index in _first(ops, left))
    return f"{ops[0].name!r}: after {best} of {must} calls it is {state}, and none of these can be next:\n{stuck}"


def _first(ops: list[Op], left: int) -> list[int]:
    """Which calls can be the next one: those that began before any of the rest had returned."""
    found: list[int] = []
    earliest = math.inf
    remaining = left
    while remaining:
        index = (remaining & -remaining).bit_length() - 1
        remaining &= remaining - 1
        if ops[index].began > earliest:
            break  # they are sorted by their beginnings
        found.append(index)
        earliest = min(earliest, ops[index].returned)
    return [index for index in found if ops[index].began <= earliest]


class Recorder:
    """Calls a store and notes what came back and when; one for each thread, process or actor.

    The values are numbers, put as tensors by `make` and read back by `read`. `clock` must be the same for all.
    """

    def __init__(self, store: Any, make: Any, read: Any, clock: Any, who: str = "") -> None:
        self.store, self.make, self.read, self.clock, self.who = store, make, read, clock, who
        self.history: list[Op] = []

    def do(self, kind: str, name: str, value: int = 0, expect: int = 0) -> Any:
        """One call."""
        from tenure.errors import NameMissing, StoreError

        tensor = self.make(value) if kind in ("put", "cas") else None
        began = self.clock()
        try:
            if kind == "put":
                result = self.store.put(name, tensor)
            elif kind == "cas":
                result = self.store.put(name, tensor, expect=expect)
            elif kind == "get":
                reading = self.store.read(name)
                result = (None, reading.version)
            else:
                self.store.delete(name, wait=30)
                result = True
        except NameMissing:
            result = None
        except StoreError:
            if kind != "cas":
                raise
            result = None
        returned = self.clock()
        if kind == "get" and result is not None:
            result = (self.read(reading.value), reading.version)
        self.history.append(Op(name, kind, began, returned, value, expect, result, self.who))
        return result

    def mixed(self, random: Any, names: list[str], count: int, first: int) -> list[Op]:
        """So many calls of all kinds; the values are `first` and up, so that each is put once."""
        known: dict[str, int] = {}
        for number in range(count):
            name = random.choice(names)
            kind = random.choices(["put", "cas", "get", "delete"], [3, 4, 6, 1])[0]
            result = self.do(kind, name, first + number, known.get(name, 0))
            if kind == "get":
                known[name] = result[1] if result else 0
            elif kind != "delete" and result is not None:
                known[name] = result
        return self.history
