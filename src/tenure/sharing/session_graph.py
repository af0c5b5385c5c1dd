"""Runs of a TensorFlow graph in a session: what belongs to it runs, what does not is refused with the fault it is."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

from tenure import frameworks, sites
from tenure.errors import NameMissing, Unsupported
from tenure.faults import tn103_belongs_to_another_graph as tn103
from tenure.faults import tn202_eager_tensor_in_session as tn202
from tenure.findings import Finding, Fix, Place
from tenure.model import Site
from tenure.sharing import session_told


class Graph:
    """A `tf.Graph` and the values that its variables have in this session."""

    def __init__(self, graph: Any) -> None:
        module = _tensorflow()
        if module is None or not module.is_graph(graph):
            raise Unsupported(f"Session(graph=…) takes a tf.Graph, not {type(graph).__name__}: {graph!r:.60}")
        self._module = module
        self._session = module.GraphSession(graph)
        self.close = self._session.close

    def call(self, what: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any]:
        """Return a run as a function: one that is called with the graph and session as defaults, or fetches."""
        if callable(what) and frameworks.owner(what) is None:
            return functools.partial(self._session.within, functools.partial(what, *args, **kwargs))
        if len(args) > 1 or kwargs.keys() - {"feed_dict"} or (args and kwargs):
            raise Unsupported("a run of a graph takes fetches and one feed_dict: session.run(fetches, feed_dict)")
        feed = args[0] if args else kwargs.get("feed_dict")
        if feed is not None and not isinstance(feed, dict):
            raise Unsupported(f"feed_dict is a dict from placeholders to values, not {type(feed).__name__}")
        self._check(what, feed or {})
        return functools.partial(self._session.run, what, feed)

    def _check(self, fetches: Any, feed: dict[Any, Any]) -> None:
        for thing in (*self._module.leaves(fetches), *feed):
            found = self._session.look(thing)
            if found == "eager":
                raise session_told.refused(_eager(thing, fed=False))
            if found == "foreign":
                raise session_told.refused(_foreign(thing, self._module.built_at(thing)))
            if found == "unknown name":
                raise self._unknown(thing)
        for value in feed.values():
            if self._session.look(value) == "eager":
                raise session_told.refused(_eager(value, fed=True))

    def _unknown(self, name: str) -> NameMissing:
        near = self._session.nearest(name)
        told = f"; nearest: {', '.join(map(repr, near))}" if near else ""
        error = NameMissing(
            f"the session's graph has nothing named {name!r}{told}. A tensor's name ends in :0, an op's does not"
        )
        error.asked = sites.here()
        return error


def refusal(what: Any) -> Unsupported:
    """Return the error for a value that a session without a graph cannot run."""
    module = _tensorflow()
    if module is not None and module.is_eager(what):
        return session_told.refused(_eager(what, fed=False))
    graph = " It is a TensorFlow graph that fetches belong to: tenure.Session(graph=graph)"
    told = graph if module is not None and module.is_symbolic(what) else ""
    return Unsupported(f"run() takes a function and its arguments, not {what!r:.60} ({type(what).__name__}).{told}")


def _tensorflow() -> Any:
    """TensorFlow's part, if the user has imported it: without it there is no graph."""
    return importlib.import_module("tenure.frameworks.sessions.tensorflow") if "tensorflow" in sys.modules else None


def _eager(thing: Any, *, fed: bool) -> Finding:
    info = frameworks.owner(thing)
    label = f"this {info.info(thing).label}" if info is not None else "this value"
    if fed:
        return tn202.FAULT.finding(
            f"{label} is eager and cannot be fed to a graph, which accepts values",
            _places(None),
            reason="An eager tensor is not part of the session's graph. A feed accepts numbers, lists and NumPy arrays.",
            fix=Fix("feed its value: `x.numpy()`"),
        )
    return tn202.FAULT.finding(
        f"{label} is eager: it already has a value and is not in the session's graph",
        _places(None),
        reason="TensorFlow 2 runs operations immediately. A session runs only operations of its graph. The tensor is neither out "
        "of scope nor freed: it was never in that graph.",
        fix=Fix(
            "read its value, `x.numpy()`; or create it inside `with graph.as_default():` and run it in this session"
        ),
    )


def _foreign(thing: Any, born: Site | None) -> Finding:
    return tn103.FAULT.finding(
        f"`{getattr(thing, 'name', thing)}` does not belong to this session's graph",
        _places(born),
        reason="Only sessions of the graph in which a tensor was created can run it.",
        fix=Fix("open the session on its graph, `tenure.Session(graph=x.graph)`, or create it in this session's graph"),
    )


def _places(born: Site | None) -> list[Place]:
    used = sites.here()
    return [*([Place.at("birth", born)] if born else []), *([Place.at("use", used)] if used else [])]
