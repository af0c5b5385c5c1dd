"""What programs do, and the plain model of what must come of it, whatever the framework.

A world runs one program. It is run twice: with tenure, and as a plain twin in which tenure is never called and to end a
handle is to drop its last name. Both keep the same model (who owns which handle, which handles have ended) and write a
log after every step: the values of all that is alive, and which buffers are gone. The two logs must be equal to the bit.
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import gc
import hashlib
import threading
import traceback
import weakref
from collections import Counter
from typing import Any

import numpy

import tenure


class Wrong(Exception):
    """tenure did not do what the model says."""


class Level:
    """A scope in the model: `scope` is tenure's own, None in the twin."""

    def __init__(self, name: str, outer: Level | None, scope: Any) -> None:
        self.name, self.outer, self.scope, self.open = name, outer, scope, True

    def around(self) -> Level | None:
        outer = self.outer
        while outer is not None and not outer.open:
            outer = outer.outer
        return outer

    def inside(self, other: Level) -> bool:
        level = self.outer
        while level is not None and level is not other:
            level = level.outer
        return level is not None


@dataclasses.dataclass
class Birth:
    """Who owns a handle. It outlives the program's name for the handle, as the framework may keep the handle."""

    owner: Level | None


@dataclasses.dataclass(eq=False)
class Slot:
    """A name in the program. `thing` is a handle, or an export (an array of another library, a storage)."""

    number: int
    thing: Any
    birth: Birth
    export: bool = False
    endable: bool = True
    ended: bool = False
    gone: bool = False  # the name was deleted
    spared: bool = False  # belongs to a module or an optimizer, which scopes leave alone
    buffers: tuple[int, ...] = ()
    meta: tuple[Any, ...] = ()
    owned: Slot | None = None  # for an owning handle: the name of the tensor in it
    note: str = ""


@dataclasses.dataclass
class Box:
    """Something with attributes, to put tensors into."""

    first: Any
    rest: Any


class World:
    """One run of one program. Subclasses say how the framework's tensors are made, used and read."""

    CLAIMS = True  # scopes claim this framework's tensors

    def __init__(self, *, real: bool) -> None:
        self.real = real
        self.slots: list[Slot] = []
        self.stack: list[Level] = []
        self.generators: list[Any] = []
        self.log: list[str] = []
        self.births: dict[int, tuple[Any, Birth]] = {}
        self.done: Counter[str] = Counter()
        self.levels = 0

    # ------------------------------------------------------------ what a framework says

    def make(self, i: int, j: int, k: int) -> Any: ...
    def unary(self, x: Any, k: int) -> Any: ...
    def binary(self, x: Any, y: Any, k: int) -> Any: ...
    def digest(self, slot: Slot) -> bytes: ...
    def meta(self, thing: Any) -> tuple[Any, ...]: ...
    def track(self, slot: Slot) -> tuple[int, ...]: ...
    def freed(self) -> list[bool]: ...
    def nbytes(self, buffer: int) -> int: ...
    def accesses(self) -> list[Any]: ...

    def memories(self, buffers: list[int]) -> list[tuple[int, list[int]]]:
        """Which of these buffers lie on the same bytes, and how many those are."""
        return [(self.nbytes(buffer), [buffer]) for buffer in buffers]

    def owned_accesses(self) -> list[Any]:
        """Ways to an ended owning handle's data."""
        return [
            ("+ 1", lambda x: x + 1), ("2 *", lambda x: 2 * x), ("[0]", lambda x: x[0]), (".value", lambda x: x.value),
            ("-x", lambda x: -x), ("float", float), ("len", len), ("list", list), ("==", lambda x: x == 1),
            ("bool", bool), ("asarray", numpy.asarray), (".T", lambda x: x.T), ("reversed op", lambda x: 1 - x),
        ]  # fmt: skip

    def expired(self) -> list[Any]:
        """As `freed`, for the log: without what may differ between the two runs."""
        return [int(gone) for gone in self.freed()]

    def sticky(self, slot: Slot) -> bool:
        """Whether bytes may stay with the ended handle, as tenure says it cannot take them away."""
        return False

    def unforeseen(self, slot: Slot) -> bool:
        """Whether remains() need not foretell what dispose() will do."""
        return self.sticky(slot)

    # ------------------------------------------------------------ names

    def current(self) -> Level | None:
        return self.stack[-1] if self.stack else None

    def live(self, *, exports: bool = False) -> list[Slot]:
        return [slot for slot in self.slots if not slot.ended and not slot.gone and slot.export == exports]

    def pick(self, i: int, pool: list[Slot] | None = None) -> Slot | None:
        pool = self.live() if pool is None else pool
        return pool[-1 - i % len(pool)] if pool else None

    def name(self, thing: Any, level: Level | None | str = "current", **about: Any) -> Slot:
        """Give a name to what a step made; what has a name already keeps it."""
        for slot in self.slots:
            if slot.thing is thing and not slot.ended and not slot.gone:
                return slot
        for slot in self.slots:  # an owning handle may give the tensor in it, whose own name was deleted
            if (
                slot.owned is not None
                and not slot.ended
                and not slot.gone
                and slot.owned.gone
                and slot.thing.value is thing
            ):
                slot.owned.gone, slot.owned.thing = False, thing
                return slot.owned
        owner = self.current() if level == "current" else level
        known = self.births.get(id(thing))
        birth = known[1] if known is not None and known[0]() is thing else Birth(owner if self.CLAIMS else None)
        slot = Slot(len(self.slots), thing, birth, **about)
        if slot.export:
            slot.birth = Birth(None)
        else:
            self.births[id(thing)] = (weakref.ref(thing), birth)
            slot.meta = self.meta(thing)
        slot.buffers = slot.buffers or contextvars.Context().run(self.track, slot)
        self.slots.append(slot)
        return slot

    @staticmethod
    def use(slot: Slot) -> Any:
        """What operations take: the handle, also an owning one; in the twin the tensor in it."""
        return slot.thing.value if isinstance(slot.thing, Stand) else slot.thing

    def attempt(self, function: Any, *args: Any) -> Any:
        """The framework's own errors are results like others: the twin must get the same."""
        try:
            return function(*args)
        except tenure.TenureError as error:
            raise Wrong(f"tenure's error in an operation on live tensors: {error!r}") from error
        except (RuntimeError, ValueError, TypeError, IndexError, BufferError) as error:
            self.log.append(f"error {type(error).__name__}")
            return None

    # ------------------------------------------------------------ ends

    def end(self, doomed: list[Slot]) -> None:
        """The model's end of these names; in the twin the names go."""
        for slot in doomed:
            slot.ended = True
            if not self.real:
                slot.thing = None
        for slot in self.slots:  # an owning handle of what has ended is of no more use
            if slot.owned is not None and slot.owned.ended and not slot.ended:
                slot.gone, slot.thing = True, None

    def with_inner(self, doomed: list[Slot]) -> list[Slot]:
        """Ending an owning handle also ends the tensor in it, where that can be."""
        inner = [slot.owned for slot in doomed if slot.owned is not None]
        more = [slot for slot in inner if slot.endable and not slot.ended and not slot.gone]
        return doomed + [slot for slot in more if slot not in doomed]

    def judge(
        self,
        doomed: list[Slot],
        remains: Any,
        *,
        already: int = 0,
        cannot: tuple[Slot, ...] = (),
        maybe: tuple[Slot, ...] = (),
    ) -> None:
        """tenure's report on these must say what really became of every buffer.

        `maybe`: names that were deleted; if the framework keeps the handle nevertheless, its bytes are told as held.
        """
        gone = contextvars.Context().run(self.freed)
        fate: dict[int, str] = {}
        for slot in doomed:
            for buffer in slot.buffers:
                fate[buffer] = "freed" if gone[buffer] else "held"
        for slot in cannot:
            for buffer in slot.buffers:
                fate[buffer] = "cannot"
        want: Counter[Any] = Counter()
        for nbytes, members in self.memories(list(fate)):
            fates = {fate[member] for member in members}
            want[next(kind for kind in ("cannot", "held", "freed") if kind in fates), nbytes] += 1
        have = Counter((remnant.fate, remnant.nbytes) for remnant in remains if remnant.fate != "already")
        for buffer in {buffer for slot in maybe if not slot.endable for buffer in slot.buffers} & set(fate):
            if have[("cannot", self.nbytes(buffer))] > want[("cannot", self.nbytes(buffer))]:
                want[(fate[buffer], self.nbytes(buffer))] -= 1
                want[("cannot", self.nbytes(buffer))] += 1
        kept: Counter[Any] = Counter()
        for buffer in {buffer for slot in maybe for buffer in slot.buffers} - set(fate):
            kept.update([("held", self.nbytes(buffer)), ("cannot", self.nbytes(buffer))])
        if want - have or have - want - kept:
            raise Wrong(
                f"of slots {[s.number for s in doomed]}: the model says {dict(want)}, tenure {dict(have)}\n{remains}"
            )
        if len(remains.already) != already:
            raise Wrong(f"{already} had ended before, tenure says {len(remains.already)}")

    def must_be_ended(self, slot: Slot, k: int) -> None:
        """An ended handle tells what it was, and refuses its data."""
        thing = slot.thing
        text = repr(thing)
        if "released" not in text or str(thing) != text:
            raise Wrong(f"slot {slot.number} has ended, yet its repr is {text!r}")
        if slot.owned is None and self.meta(thing) != slot.meta:
            raise Wrong(f"ended slot {slot.number} says {self.meta(thing)}, was {slot.meta}")
        if tenure.info(thing).state != "disposed":
            raise Wrong(f"ended slot {slot.number}: {tenure.info(thing)}")
        accesses = self.accesses() if slot.owned is None else self.owned_accesses()
        name, access = accesses[k % len(accesses)]
        try:
            result = access(thing)
        except tenure.TensorReleased:
            return
        except Exception as error:
            raise Wrong(f"ended slot {slot.number}: {name} raised {error!r}") from error
        raise Wrong(f"ended slot {slot.number}: {name} gave {result!r}")

    # ------------------------------------------------------------ steps that every framework has

    def do_make(self, i, j, k):
        self.name(self.make(i, j, k))

    def do_unary(self, i, j, k):
        x = self.pick(i)
        if x is None:
            return False
        result = self.attempt(self.unary, self.use(x), k)
        if result is not None:
            self.name(result)

    def do_binary(self, i, j, k):
        x, y = self.pick(i), self.pick(j)
        if x is None:
            return False
        result = self.attempt(self.binary, self.use(x), self.use(y), k)
        if result is not None:
            self.name(result)

    def do_drop(self, i, j, k):
        x = self.pick(i, [slot for slot in self.live() + self.live(exports=True) if slot.note != "local"])
        if x is None:
            return False
        x.gone, x.thing = True, None

    def do_gc(self, i, j, k):
        gc.collect()

    def do_poke(self, i, j, k):
        x = self.pick(i, [slot for slot in self.slots if slot.ended])
        if x is None:
            return False
        if self.real:
            self.must_be_ended(x, k)

    # scopes

    def open(self, outer: Level | None, cap: Any = None) -> Level:
        self.levels += 1
        name = f"level {self.levels}"
        return Level(name, outer, tenure.scope(name, cap=cap) if self.real else None)

    def do_enter(self, i, j, k):
        if len(self.stack) > 5:
            return False
        level = self.open(self.current())
        if self.real:
            level.scope.__enter__()
        self.stack.append(level)

    def leave(self, level: Level, error: BaseException | None, k: int) -> None:
        misnested = any(other.inside(level) for other in self.stack if other is not level)
        if self.real:
            try:
                level.scope.__exit__(type(error) if error else None, error, None)
                if misnested and error is None:
                    raise Wrong("a scope was left while one inside it was open, and nothing was said")
            except tenure.ScopeError:
                if not misnested or error is not None:
                    raise
        self.stack.remove(level)
        self.closed(level, k)

    def closed(self, level: Level, k: int) -> None:
        """What the end of this scope means to the model, and whether tenure agrees."""
        level.open = False
        mine = [
            slot
            for slot in self.slots
            if slot.birth.owner is level and not slot.gone and not slot.ended and not slot.spared
        ]
        doomed = [slot for slot in mine if slot.endable]
        cannot = tuple(slot for slot in mine if not slot.endable and not slot.export)
        doomed = self.with_inner(doomed)
        already = sum(slot.birth.owner is level and slot.ended and not slot.gone for slot in self.slots)
        maybe = tuple(slot for slot in self.slots if slot.birth.owner is level and slot.gone)
        more, before = self.end_others(level)
        doomed = [slot for slot in doomed if not slot.export]
        # An export that has a hidden handle of its own: that one ends, the bytes stay.
        more += [slot for slot in mine if slot.export]
        already += before
        self.end(doomed)
        for key, (_, birth) in list(self.births.items()):
            if birth.owner is level:
                birth.owner = None
                del self.births[key]
        if self.real:
            if level.scope._region is not None:  # a decorator's scope is its own
                self.judge(doomed + more, level.scope.remains, cannot=cannot, already=already, maybe=maybe)
            for slot in doomed:
                self.must_be_ended(slot, k + slot.number)

    def end_others(self, level: Level) -> tuple[list[Slot], int]:
        """End what this scope owns besides names: stand-ins for it, and how many handles had ended before."""
        return [], 0

    def do_exit(self, i, j, k):
        if not self.stack:
            return False
        self.leave(self.stack[-1], None, k)

    def do_raise(self, i, j, k):
        if not self.stack:
            return False
        self.leave(self.stack[-1], ValueError("the program's own"), k)

    def do_misnest(self, i, j, k):
        if len(self.stack) < 2:
            return False
        self.leave(self.stack[-2 - i % (len(self.stack) - 1)], None, k)

    def do_end(self, i, j, k):
        if not self.stack:
            return False
        level = self.stack.pop()
        if self.real:
            level.scope.end()
            level.scope.__exit__(None, None, None)
        self.closed(level, k)

    def do_keep(self, i, j, k):
        x = self.pick(i)
        if x is None:
            return False
        if self.real:
            inside = {"x": [x.thing], "none": None}
            assert tenure.keep(inside, forever=k % 3 == 0) is inside
        if k % 3 == 0:
            x.birth.owner = None
        elif x.birth.owner is not None and x.birth.owner is self.current():
            x.birth.owner = self.current().around()

    def do_scope_keep(self, i, j, k):
        x = self.pick(i)
        if x is None or not self.stack:
            return False
        level = self.stack[j % len(self.stack)]
        if self.real:
            assert level.scope.keep(x.thing) is x.thing
        owner = x.birth.owner
        if owner is not None and (owner is level or owner.inside(level)):
            x.birth.owner = level.around()

    def do_adopt(self, i, j, k):
        x = self.pick(i)
        # The model does not follow a handle that lives on in its Owned when its name is dropped.
        if x is None or any(slot.owned is x for slot in self.slots):
            return False
        if not self.stack:
            if self.real:
                try:
                    tenure.adopt(x.thing)
                except tenure.ScopeError:
                    return None
                raise Wrong("adopt() outside every scope said nothing")
            return None
        if self.real:
            assert tenure.adopt((x.thing,))[0] is x.thing
        x.birth.owner = self.current()
        x.spared = False

    def do_dispose(self, i, j, k):
        pool = [slot for slot in self.slots if not slot.gone and not slot.export]
        chosen = [slot for slot in dict.fromkeys([self.pick(i, pool), self.pick(j, pool)]) if slot is not None][
            : 1 + k % 2
        ]
        if not chosen:
            return False
        chosen.sort(key=lambda slot: slot.number)
        self.dispose(chosen, k)

    def dispose(self, chosen: list[Slot], k: int) -> None:
        already = sum(slot.ended for slot in chosen)
        fresh = [slot for slot in chosen if not slot.ended]
        doomed = self.with_inner([slot for slot in fresh if slot.endable])
        cannot = tuple(slot for slot in fresh if not slot.endable)
        if not self.real:
            self.end(doomed)
            return
        given = self.wrap(chosen, k)
        told = tenure.remains(given)
        unsure = any("tenure cannot determine whether" in remnant.reason for remnant in told) or any(
            map(self.unforeseen, doomed)
        )
        remains = tenure.dispose(given)
        if isinstance(given, list):
            given.clear()  # it may contain itself
        del given
        self.end(doomed)
        self.judge(doomed, remains, already=already, cannot=cannot)
        # To foretell more than is freed is always wrong; less only where nothing says that it cannot be known.
        if told.freed_bytes > remains.freed_bytes or (not unsure and told.freed_bytes != remains.freed_bytes):
            raise Wrong(f"remains() foretold {told.freed_bytes} bytes, dispose() freed {remains.freed_bytes}")
        for slot in doomed:
            self.must_be_ended(slot, k + slot.number)

    @staticmethod
    def wrap(chosen: list[Slot], k: int) -> Any:
        things = [slot.thing for slot in chosen]
        if k % 5 == 4:
            things.append(things)
            return things
        return [things, tuple(things), {"a": things}, Box(things[0], {"rest": things[1:]})][k % 5]

    def do_dispose_again(self, i, j, k):
        x = self.pick(i, [slot for slot in self.slots if slot.ended])
        if x is None:
            return False
        self.dispose([x], k)

    # code that runs elsewhere

    def do_call(self, i, j, k):
        """A decorated function: what it returns escapes, what it leaves behind elsewhere does not."""
        x = self.pick(i)
        if x is None or len(self.stack) > 5:
            return False
        level = self.open(self.current())

        def body(given: Any) -> Any:
            first = self.name(self.unary(given, j % 3), level)
            self.name(self.unary(given, 1 + j % 3), level)
            return {"out": (first.thing, [first.thing])}

        result = self.attempt(tenure.scope(body) if self.real else body, self.use(x))
        if result is None:
            raise Wrong("a decorated function failed")
        out = self.name(result["out"][0])
        if out.birth.owner is level:
            out.birth.owner = self.current()
        del result
        self.closed(level, k)

    def do_thread(self, i, j, k):
        """A thread is in no scope, unless its function was carried there."""
        x = self.pick(i)
        if x is None:
            return False
        made: list[Any] = []

        def body() -> None:
            made.append(self.attempt(self.unary, self.use(x), j))

        carried = bool(k % 2) and self.real
        thread = threading.Thread(target=tenure.carry(body) if carried else body)
        thread.start()
        thread.join()
        result = made.pop()
        if result is not None:
            self.name(result, self.current() if k % 2 else None)

    def do_tasks(self, i, j, k):
        """Interleaved tasks, each with a scope of its own; each keeps one tensor and leaves another behind."""
        x = self.pick(i)
        if x is None:
            return False
        levels = [self.open(self.current()) for _ in range(2)]

        async def task(at: int) -> None:
            if self.real:
                async with levels[at].scope:
                    await inside(at)
            else:
                await inside(at)

        async def inside(at: int) -> None:
            self.name(self.make(i, j, at), levels[at])
            await asyncio.sleep(0)
            kept = self.name(self.make(i, j + 1, at), levels[at])
            if self.real:
                tenure.keep(kept.thing)
            if kept.birth.owner is levels[at]:
                kept.birth.owner = levels[at].around()
            await asyncio.sleep(0)

        async def both() -> None:
            await asyncio.gather(task(0), task(1))

        asyncio.run(both())
        for at in (0, 1):
            self.closed(levels[at], k)

    def do_gen_start(self, i, j, k):
        """A generator with a scope inside; at every turn one more tensor is born in it."""
        if len(self.generators) > 2:
            return False
        level = self.open(self.current())

        def body() -> Any:
            if not self.real:
                while True:
                    yield self.make(i, j, k)
            with level.scope:
                while True:
                    local = self.make(i, j, k)
                    yield local

        running = body()
        self.generators.append((running, level))
        self.name(next(running), level).note = "local"

    def do_gen_next(self, i, j, k):
        if not self.generators:
            return False
        running, level = self.generators[i % len(self.generators)]
        self.name(next(running), level).note = "local"

    def do_gen_close(self, i, j, k):
        if not self.generators:
            return False
        running, level = self.generators.pop(i % len(self.generators))
        if k % 2:
            running.close()
        del running  # or abandoned: its last name goes
        self.closed(level, k)

    def do_own(self, i, j, k):
        taken = [slot.owned for slot in self.live() if slot.owned is not None]
        x = self.pick(i, [slot for slot in self.live() if slot.owned is None and slot not in taken])
        if x is None:
            return False
        handle = tenure.own(x.thing) if self.real else Stand(x.thing)
        x.birth.owner = None
        slot = Slot(
            len(self.slots), handle, Birth(self.current()), buffers=x.buffers, meta=x.meta, note="owned", owned=x
        )
        self.births[id(handle)] = (weakref.ref(handle), slot.birth)
        self.slots.append(slot)
        if (k % 2 or not x.endable) and x.note != "local":
            x.gone, x.thing = True, None

    def do_look(self, i, j, k):
        """Questions change nothing."""
        x = self.pick(i, [slot for slot in self.slots if not slot.gone and not slot.export])
        if not self.real or x is None:
            return None if self.slots else False
        tenure.info(x.thing)
        if k % 3 == 0:
            str(tenure.memory())
        if k % 7 == 0:
            str(tenure.remains(x.thing))
        if k % 11 == 0:
            for holder in tenure.holders(x.thing):
                str(holder)
        for level in self.stack:
            listed = {id(handle) for handle in level.scope.tensors()}
            for slot in self.slots:
                if slot.ended or slot.gone or slot.export or slot.thing is None:
                    continue
                mine = slot.birth.owner is level
                if mine != (id(slot.thing) in listed) and not slot.spared and not slot.owned:
                    raise Wrong(f"slot {slot.number}: {level.name} {'does not list' if mine else 'lists'} it")
            repr(level.scope)

    # ------------------------------------------------------------ a run

    def observe(self) -> str:
        """All that is alive, value by value, and which buffers are gone."""
        alive = [slot for slot in self.slots if not slot.ended and not slot.gone]
        values = [f"{slot.number}={hashlib.md5(self.digest(slot)).hexdigest()[:12]}" for slot in alive]
        return f"{' '.join(values)} gone={self.expired()}"

    def step(self, kind: str, i: int, j: int, k: int) -> None:
        done = getattr(self, f"do_{kind}")(i, j, k)
        if done is False and not self.live():
            kind, done = "make", self.do_make(i, j, k)  # nothing to do it to: so that there will be
        if done is not False:
            self.done[kind] += 1
        self.log.append(contextvars.Context().run(self.observe))

    def finish(self) -> None:
        while self.generators:
            self.step("gen_close", 0, 0, 1)
        while self.stack:
            self.step("exit", 0, 0, 0)

    def play(self, program: list[Any]) -> str:
        try:
            for at, step in enumerate(program):
                try:
                    self.step(*step)
                except Wrong as wrong:
                    return f"step {at} {step}: {wrong}"
            self.finish()
        except Wrong as wrong:
            return f"at the end: {wrong}"
        except BaseException:
            return f"{'with tenure' if self.real else 'twin'}, unexpected: {traceback.format_exc(limit=-10)}"
        finally:
            self.generators.clear()
        return ""


class Stand:
    """In the twin, what stands where tenure.own(...) does."""

    def __init__(self, value: Any) -> None:
        self.value = value


def run(kind: type[World], program: list[Any]) -> dict[str, Any]:
    """Run the program with tenure and without; what differs is the failure."""
    real = kind(real=True)
    failure = real.play(program)
    log, done = real.log, real.done
    settle(real)
    del real
    gc.collect()
    if not failure:
        twin = kind(real=False)
        failure = twin.play(program)
        if not failure and twin.log != log:
            at = next((n for n, (a, b) in enumerate(zip(log, twin.log)) if a != b), min(len(log), len(twin.log)))
            failure = (
                f"log line {at} differs\n  with tenure: {log[at : at + 1]}\n  without:     {twin.log[at : at + 1]}"
            )
        settle(twin)
        del twin
        gc.collect()
    return {"failure": failure, "steps": sum(done.values()), "kinds": dict(done)}


def settle(world: World) -> None:
    """Leave every scope that a failure left open, so that the next program begins outside all."""
    for running, _ in world.generators:
        running.close()
    for level in reversed(world.stack):
        if level.scope is not None:
            level.scope.end()
    world.__dict__.clear()
