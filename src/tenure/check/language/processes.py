"""Other processes: pools, queues and what is sent through them."""

from __future__ import annotations

import ast

from tenure.check import facts
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import NONE, Func, Num, Obj, Seq, Spot, Value
from tenure.check.lifetimes import copies, escapes
from tenure.check.value_queries import best, tensors
from tenure.check.world import Thread

_KINDS = {
    "Pool": "process pool",
    "pool.Pool": "process pool",
    "ProcessPoolExecutor": "process pool",
    "Process": "process",
    "Queue": "process queue",
    "SimpleQueue": "process queue",
    "JoinableQueue": "process queue",
    "get_context": "process context",
}
_SENDING = frozenset(
    ["apply", "apply_async", "imap", "imap_unordered", "map", "map_async", "starmap", "starmap_async", "submit"]
)


def made(m: Interpreter, name: str, kwargs: dict[str, Value], node: ast.AST) -> Value | None:
    """What a function of `multiprocessing` makes; None if nothing is known of it."""
    kind = _KINDS.get(name)
    if kind is None:
        return None
    owner = m.obj(kind, node)
    if kind == "process":
        owner.state.target = best(kwargs.get("target", NONE))
        given = best(kwargs.get("args", NONE))
        owner.state.args = list(given.items) if isinstance(given, Seq) else []
    return owner


def method(
    m: Interpreter, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value | None:
    """A method of a pool, a queue, a process or a context; None if it is none of them."""
    if owner.kind == "process context":
        return made(m, name, kwargs, node)
    if owner.kind == "process pool":
        if name in _SENDING:
            for one in [*args[1:], *kwargs.values()]:
                copies.sent(m, one, node)
            escapes.escape(m, [*args, *kwargs.values()], node)
        return m.unknown(node)
    if owner.kind == "process queue":
        return _queue_method(m, owner, name, args, node)
    if owner.kind == "process":
        if name == "start":
            _start(m, owner, node)
        if name == "join" and not args and not kwargs:
            m.set_state(owner.state, "closed", m.spot(node))
        return NONE
    return None


def _queue_method(m: Interpreter, owner: Obj, name: str, args: list[Value], node: ast.Call) -> Value:
    if name in ("put", "put_nowait") and args:
        process = m.world.process
        if process is None:
            copies.sent(m, args[0], node)
        shared = [one for one in tensors(args[0]) if one.fw == "torch" and "element" not in one.flags]
        if process is not None and shared and not m.conditions:
            owner.state.created = [*owner.state.created, process]
            owner.state.inputs = [*owner.state.inputs, *shared]
        escapes.escape(m, args, node)
        return NONE
    if name in ("get", "get_nowait"):
        _received(m, owner, node)
        return m.unknown(node)
    return Num()


def _received(m: Interpreter, queue: Obj, node: ast.Call) -> None:
    """A tensor is opened by its receiver: its sender must still run."""
    senders = [one.state.closed for one in queue.state.created if isinstance(one, Obj)]
    ended = next((one for one in senders if isinstance(one, Spot)), None)
    other = b"set_sharing_strategy" in m.frame.module.text.encode() or bool(queue.state.used)
    if ended is not None and all(isinstance(one, Spot) for one in senders) and not other:
        m.add_fact(facts.SenderEnded(use=m.spot(node), end=ended, birth=queue.state.inputs[0].born))
    m.set_state(queue.state, "used", m.spot(node))


def _start(m: Interpreter, process: Obj, node: ast.AST) -> None:
    """Follow what a process puts into queues; nothing else of it is seen by this one."""
    target = process.state.target
    if not isinstance(target, Func) or m.world.process is not None:
        escapes.escape(m, list(process.state.args), node)
        return
    world = m.world
    before, mode = (world.thread, world.graphs, world.sessions), m.grad
    world.process, world.thread, world.graphs, world.sessions = process, Thread(), [], []
    m.grad = ["grad"]
    m.muted += 1
    conditions, m.conditions = m.conditions, 0
    try:
        m.call(target, list(process.state.args), {}, node)
    finally:
        m.muted -= 1
        m.conditions, m.grad = conditions, mode
        world.process = None
        world.thread, world.graphs, world.sessions = before
