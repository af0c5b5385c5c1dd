"""TensorFlow graphs and sessions: which tensor is meant, where it was built, and what was done to its graph or session."""

from __future__ import annotations

import ast
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tenure import sites
from tenure.explain import values
from tenure.explain.flow import is_computed
from tenure.explain.source import Source, dotted, ends, first_line, last_line, targets_of
from tenure.findings import Place

if TYPE_CHECKING:
    from tenure.explain.raised import Raised

_NAMED = re.compile(r"Tensor\(\"(?P<old>[^\"]+)\"|<tf\.(?:Tensor|Operation|Variable) '(?P<new>[^']+)'")
_SWITCHES = ("disable_eager_execution", "disable_v2_behavior")
_SESSIONS = ("Session", "InteractiveSession", "MonitoredSession", "MonitoredTrainingSession")


class Graphs:
    """What is known of the graphs behind one exception."""

    def __init__(self, raised: Raised) -> None:
        self.raised = raised

    @cached_property
    def names(self) -> list[str]:
        """The names of tensors in the message, without their output number."""
        found = [m["old"] or m["new"] for m in _NAMED.finditer(self.raised.message)]
        return list(dict.fromkeys(name.partition(":")[0] for name in found))

    @property
    def tensor(self) -> str:
        """The tensor that the message is about: of two, the one that was there first."""
        name = self.names[-1] if self.names else ""
        return f"tensor `{name}`" if name else "a tensor"

    @cached_property
    def is_graph_mode(self) -> bool:
        """Whether the program builds graphs by itself, instead of running eagerly."""
        fetched = self._fetched() - {"NoneType"}  # what an initializer is where all runs eagerly
        if fetched:
            return not any(kind.startswith(("Eager", "ResourceVariable")) for kind in fetched)
        calls = (
            source.calls(*_SWITCHES, "as_default", "placeholder", "import_graph_def") for source in self.raised.sources
        )
        old_import = any("tensorflow.compat.v1" in line for s in self.raised.sources for line in s.lines[:80])
        return any(calls) or old_import or self._live_graph()

    def _fetched(self) -> set[str]:
        """The kinds of what the failing session was to run, where its frame is at hand."""
        for frame in self.raised.frames:
            if frame.file.endswith("session.py") and "fetches" in frame.values:
                return {type(item).__name__ for _, item in values.items("fetches", frame.values["fetches"])}
        return set()

    def _live_graph(self) -> bool:
        for frame in self.raised.user[-2:]:
            for _, tensor in values.tensors(frame):
                if type(tensor).__module__.startswith("tensorflow") and _is_symbolic(tensor):
                    return True
        return False

    @cached_property
    def births(self) -> list[Place]:
        """Where the tensor was built: from the tensor itself if it is at hand, else from its name in the source."""
        for name in reversed(self.names):
            found = self._live_birth(name) or self._birth_by_name(name)
            if found is not None:
                return [found]
        return self._births_of_used()

    def _live_birth(self, name: str) -> Place | None:
        for frame in reversed(self.raised.user):
            for _, tensor in values.tensors(frame):
                found = _op(tensor) if type(tensor).__module__.startswith("tensorflow") else None
                site = _built_at(found) if found is not None and str(found.name) == name else None
                if site is not None:
                    return Place.at("birth", site)
        return None

    def _birth_by_name(self, name: str) -> Place | None:
        wanted = name.split("/")
        for source in self.raised.sources:
            for node in source.nodes:
                if isinstance(node, ast.Call) and _given_name(node) in wanted:
                    return source.place("birth", node)
        kind = re.sub(r"_\d+$", "", wanted[-1]).lower()
        for source in self.raised.sources:
            for call in source.calls("placeholder", "constant", "Variable", "get_variable"):
                if dotted(call.func).rpartition(".")[2].lower() in (kind, kind.replace("const", "constant")):
                    return source.place("birth", call)
        return None

    def _births_of_used(self) -> list[Place]:
        """Where the names in the failing call were bound, if the message names no tensor."""
        frame = self.raised.here
        source = self.raised.source(frame)
        statement = source.statement(frame.line) if source and frame else None
        if source is None or frame is None or statement is None:
            return []
        call = next(
            (n for n in ast.walk(statement) if isinstance(n, ast.Call) and ends(dotted(n.func), ("run", "eval"))), None
        )
        wanted = _meant(call) if call is not None else set()
        for near in self.raised.sources:
            for node in near.nodes:
                if not isinstance(node, ast.Assign) or node.lineno == frame.line or not is_computed(node.value):
                    continue
                bound = {dotted(target) for target in targets_of(node)} & (wanted - {""})
                # A name without a dot is another variable in another function.
                if bound and (any("." in name for name in bound) or _is_visible(near, node, source, frame.line)):
                    return [near.place("birth", node)]
        return []

    @cached_property
    def resets(self) -> list[Place]:
        """The calls that put a new default graph in the place of the old one."""
        return [
            source.place("end", call)
            for source in self.raised.sources
            for call in source.calls("reset_default_graph", "clear_session")
        ][:1]

    @cached_property
    def graph_places(self) -> list[Place]:
        """Where the session that fails was opened, if it is opened in the failing function."""
        opened = self.session()
        return [opened[0].place("use", opened[1])] if opened else []

    def session(self) -> tuple[Source, ast.Call, str] | None:
        """The call that opened the session used in the failing line, and the name it has there."""
        frame = self.raised.here
        source = self.raised.source(frame)
        if frame is None or source is None:
            return None
        used = {name.rpartition(".")[2] for name in _receivers(source.statement(frame.line))}
        for near in (source, *self.raised.sources):
            for call in reversed(near.calls(*_SESSIONS)):
                name = _bound_to(near, call)
                if name.rpartition(".")[2] in used or (not used and near is source):
                    return near, call, name
        return None

    def only_session(self) -> tuple[str, bool]:
        """The name of the one session that the failing file opens, and whether the failing line can still use it."""
        source = self.raised.source(self.raised.here)
        calls = source.calls(*_SESSIONS) if source else []
        names = {_bound_to(source, call) for call in calls} if source else set()
        if source is None or len(names) != 1:
            return "", False
        name = names.pop()
        return name, all(self._is_usable(source, call, name) for call in calls)

    def initialised_session(self) -> str:
        """The name of another session, which is still open and in which the program ran an initializer; else ""."""
        source = self.raised.source(self.raised.here)
        failing = self.session()
        for call in source.calls("run") if source else ():
            name = dotted(call.func).rpartition(".")[0]
            opened = [one for one in source.calls(*_SESSIONS) if _bound_to(source, one) == name] if source else []
            ran = any("initializer" in ast.unparse(argument) for argument in call.args)
            is_other = bool(opened) and (failing is None or failing[1] is not opened[0])
            if ran and source and is_other and self._is_usable(source, opened[0], name):
                return name
        return ""

    def _is_usable(self, source: Source, call: ast.Call, name: str) -> bool:
        """Whether a session is open at the failing line, and its name known there."""
        here = self.raised.here
        if here is None or not name:
            return False
        owner = source.owner(call)
        known = "." in name or isinstance(owner, ast.Module) or owner is source.function(here.line)
        inside = [frame.line for frame in self.raised.user if frame.file == source.file]
        for above in source.above(call):
            if isinstance(above, ast.With | ast.AsyncWith) and any(call in ast.walk(item) for item in above.items):
                known = known and any(first_line(above) <= line <= last_line(above) for line in inside)
        closed = any(
            dotted(one.func).rpartition(".")[0] == name and one.lineno < here.line for one in source.calls("close")
        )
        return known and not closed

    def closings(self) -> list[Place]:
        """What closed the session: its `with`, or a call of close()."""
        frame = self.raised.here
        opened = self.session()
        if frame is None:
            return []
        found = []
        if opened is not None:
            source, call, _ = opened
            for above in source.above(call):
                if isinstance(above, ast.With | ast.AsyncWith):
                    outside = source.file != frame.file or not first_line(above) <= frame.line <= last_line(above)
                    found += [source.place("end", above)] if outside else []
                    break
        last = opened[2].rpartition(".")[2] if opened else ""
        for source in self.raised.sources:
            for call in source.calls("close"):
                closed = dotted(call.func).rpartition(".")[0].rpartition(".")[2]
                if closed == last or (not last and "sess" in closed.lower()):
                    found.append(source.place("end", call))
            found += [source.place("end", call) for call in source.calls("clear_session")]
        return found[:2]


def _is_visible(near: Source, node: ast.AST, source: Source, line: int) -> bool:
    """Whether a variable that is bound here can be the one that the failing line reads."""
    owner, here = near.owner(node), source.function(line)
    return isinstance(owner, ast.Module) or (near is source and (owner is here or here in set(ast.walk(owner))))


def _meant(call: ast.Call) -> set[str]:
    """What a call of run() fetches, or what eval() is called on."""
    name = dotted(call.func)
    if name.endswith("eval") or not call.args:
        return {name.rpartition(".")[0]}
    fetched = call.args[0].elts if isinstance(call.args[0], ast.List | ast.Tuple) else [call.args[0]]
    return {dotted(one) for one in fetched}


def _receivers(statement: ast.stmt | None) -> list[str]:
    """What methods are called on in a statement."""
    if statement is None:
        return []
    calls = [
        node for node in ast.walk(statement) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    return [dotted(call.func).rpartition(".")[0] for call in calls]


def _bound_to(source: Source, call: ast.Call) -> str:
    """The name that the result of a call is given: by an assignment or by `with … as`."""
    for above in source.above(call):
        if isinstance(above, ast.stmt):
            targets = targets_of(above)
            return dotted(targets[0]) if targets else ""
    return ""


def _given_name(call: ast.Call) -> str:
    for keyword in call.keywords:
        if keyword.arg == "name" and isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value)
    first = call.args[0] if call.args else None
    if isinstance(first, ast.Constant) and ends(dotted(call.func), ("get_variable",)):
        return str(first.value)
    return ""


def _is_symbolic(tensor: Any) -> bool:
    """Of a graph that the program built itself, not of one that a tf.function did."""
    op = None if type(tensor).__name__.startswith("Eager") else _op(tensor)
    return op is not None and type(op.graph).__name__ == "Graph"


def _op(tensor: Any) -> Any:
    """The operation of a symbolic tensor; eager ones raise when asked."""
    try:
        return tensor.op
    except Exception:  # noqa: BLE001 - TensorFlow has had several kinds for this
        return None


def _built_at(op: Any) -> Any:
    """The innermost user frame at the building of an operation."""
    from tenure.model import Site

    for frame in reversed(list(getattr(op, "traceback", None) or ())):
        file, line, function = frame[0], frame[1], frame[2]
        if sites.is_user(file) and "site-packages" not in file:
            return Site(file, line, function)
    return None
