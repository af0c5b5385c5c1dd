"""TensorFlow's graphs: the values of their variables in one session, and what belongs to which."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable
from typing import Any, Literal

import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

from tenure import sites
from tenure.model import Site

_v1 = tf.compat.v1
_KINDS = (_v1.GraphKeys.GLOBAL_VARIABLES, _v1.GraphKeys.LOCAL_VARIABLES)


class GraphSession:
    """A session of TensorFlow's own on a graph, in which every variable has a value before it is read."""

    def __init__(self, graph: tf.Graph) -> None:
        self.graph = graph
        self._session = _v1.Session(graph=graph)
        self._lock = threading.Lock()
        self._ready: set[int] = set()
        self.close = self._session.close

    def run(self, fetches: Any, feed: dict[Any, Any] | None) -> Any:
        """Run the graph."""
        self._initialise()
        return self._session.run(fetches, feed)

    def within(self, function: Callable[[], Any]) -> Any:
        """Call a function with this graph and session as the default ones."""
        self._initialise()
        with self.graph.as_default(), self._session.as_default():
            return function()

    def look(self, thing: Any) -> Literal["", "eager", "foreign", "unknown name"]:
        """What is wrong with something that is to be run or fed here, if anything."""
        if is_eager(thing):
            return "eager"
        if isinstance(thing, str):
            try:
                self.graph.as_graph_element(thing)
            except (KeyError, ValueError):
                return "unknown name"
            return ""
        owner = _graph_of(thing)
        return "foreign" if owner is not None and owner is not self.graph else ""

    def nearest(self, name: str) -> list[str]:
        """The names in the graph that are most like this one."""
        names = [out.name if ":" in name else op.name for op in self.graph.get_operations() for out in op.outputs[:1]]
        return difflib.get_close_matches(name, names, 3, 0.5)

    def _initialise(self) -> None:
        """Give their first values to the variables that came to the graph since the last run."""
        with self._lock:
            every = [variable for kind in _KINDS for variable in self.graph.get_collection(kind)]
            fresh = [variable for variable in every if id(variable) not in self._ready]
            if not fresh:
                return
            try:
                self._session.run([variable.initializer for variable in fresh])
            except tf.errors.FailedPreconditionError:
                # One's first value is made of another's, so they go in the order in which they were made.
                for variable in fresh:
                    self._session.run(variable.initializer)
            self._ready.update(map(id, fresh))  # the graph's collection keeps them alive


def is_graph(thing: Any) -> bool:
    """Whether this is a graph that a session can run."""
    return isinstance(thing, tf.Graph)


def is_eager(thing: Any) -> bool:
    """Whether this is a tensor or variable that has its value, without a graph."""
    return isinstance(thing.handle if isinstance(thing, BaseResourceVariable) else thing, ops.EagerTensor)


def is_symbolic(thing: Any) -> bool:
    """Whether this belongs to a graph."""
    return not is_eager(thing) and isinstance(_graph_of(thing), tf.Graph)


def leaves(fetches: Any) -> list[Any]:
    """The single things in a nesting of fetches."""
    return [leaf for one in tf.nest.flatten(fetches) for leaf in tf.nest.flatten(one, expand_composites=True)]


def built_at(thing: Any) -> Site | None:
    """Where in the user's code a tensor of a graph was built."""
    op = thing if isinstance(thing, tf.Operation) else getattr(thing, "op", None)
    for frame in reversed(list(getattr(op, "traceback", None) or ())):
        if sites.is_user(frame.filename) and "site-packages" not in frame.filename:
            return Site(frame.filename, frame.lineno, frame.name)
    return None


def _graph_of(thing: Any) -> Any:
    return getattr(thing, "graph", None) if isinstance(thing, tf.Tensor | tf.Operation | tf.Variable) else None
