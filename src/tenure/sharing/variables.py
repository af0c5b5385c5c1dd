"""`variable`: shared variables. All callers that use one name get one object, the framework's own variable."""

from __future__ import annotations

import difflib
import functools
import sys
from types import CodeType, FrameType
from typing import Any

from tenure import frameworks, sites
from tenure.errors import NameMissing, NameTaken, Unsupported
from tenure.frameworks import variables as made
from tenure.frameworks.variables.base import Maker, Wanted
from tenure.lifetime.scope import keep
from tenure.model import Site
from tenure.sharing import variables_scope
from tenure.sharing.store import Store
from tenure.sharing.store.names import checked
from tenure.sharing.variables_book import alone
from tenure.sharing.variables_scope import State
from tenure.sharing.variables_shelf import Found, InGraph, InStore, Shelf

Mark = tuple[CodeType | None, int]


def variable(
    name: str,
    shape: Any = None,
    init: Any = None,
    *,
    framework: str | None = None,
    dtype: Any = None,
    trainable: bool = True,
) -> Any:
    """Return the variable of a name; the surrounding `variable_scope` decides whether it is created or reused.

    It is a `torch.nn.Parameter` (a tensor without gradient if not trainable), a `tf.Variable` or a `jax.Array`. In one
    process, all callers get the same object, in any thread or task, and its first value is computed once. Another process
    gets an equal value from a store in files or on a cluster. A JAX array cannot change: put the new array into the store
    under the same name.

    Example:
        with tenure.variable_scope("encoder", reuse="auto"):
            w = tenure.variable("w", (4, 4), torch.nn.init.xavier_uniform_)

    Arguments:
        name: The name below the prefix of the surrounding scopes.
        shape: The shape of a new variable. For an existing variable it is checked.
        init: The first value: "zeros", "ones", "normal" (standard), "glorot" (uniform), a number, a tensor or lists
            (copied), or a function. The function is one of `torch.nn.init`, `jax.nn.initializers`, TensorFlow or Keras, or
            any that takes the shape or nothing. Default: "glorot", and "zeros" for integers, as in TensorFlow. JAX uses
            a key that is derived from the name.
        framework: "torch", "tensorflow" or "jax". Default: the framework of the existing variable, of `init`, of the
            TensorFlow graph that is being built, or the only one that is imported.
        dtype: The dtype of a new variable. For an existing variable it is checked.
        trainable: Whether the variable needs gradients.

    Raises:
        NameTaken: It would be created but exists, or it exists with another shape, dtype or framework.
        NameMissing: It would be reused but does not exist.
        StoreError: The name is not valid, or the store cannot do it.
        Unsupported: The framework, shape, dtype or init is not supported.
    """
    return made.uncompiled(_variable)(name, shape, init, framework, dtype, trainable)


def _variable(name: str, shape: Any, init: Any, framework: str | None, dtype: Any, trainable: bool) -> Any:
    scope = variables_scope.current()
    whole = checked(scope.prefix + name if isinstance(name, str) else name)
    here = sites.mark()  # a line only for a new one, or an error
    shelf = _shelf(scope, framework)
    with alone(shelf.book, whole):
        there = shelf.framework(whole)
        if there is None and scope.reuse is True:
            raise _missing(shelf, whole, sites.at(*here))
        maker = _maker(shelf, whole, there, framework, (init, dtype), here)
        wanted = Wanted(whole, variables_scope.shape(shape), _dtype(maker, dtype), init, bool(trainable))
        new = None
        while (found := shelf.find(whole, maker, trainable=wanted.trainable)) is None:
            if scope.reuse is True:
                raise _missing(shelf, whole, sites.at(*here))
            new = _new(shelf, maker, wanted) if new is None else new
            if shelf.add(whole, new, sites.at(*here)):
                return new
            # Another process made it meanwhile: look again.
        if not scope.reuse:
            raise _taken(shelf, whole, found, sites.at(*here))
        if wanted.shape is not None or wanted.dtype is not None:
            _check_same(found, wanted, here)
        return found.variable


def _shelf(scope: State, framework: str | None) -> Shelf:
    graph = made.graph() if framework in (None, "tensorflow") else None
    if graph is None:
        return InStore(_default() if scope.store is None else scope.store)
    if scope.store is not None:
        raise Unsupported(
            f"a variable of a TensorFlow graph has its values in sessions, and cannot be stored in {scope.store.url}; leave "
            "store= out, and put values into it: store[name] = tf.constant(session.run(v))"
        )
    return InGraph(graph)


@functools.cache
def _default() -> Store:
    return Store("memory:variables")


def _maker(
    shelf: Shelf, name: str, there: str | None, framework: str | None, given: tuple[Any, ...], here: Mark
) -> Maker:
    """Return the maker for the requested framework, or that of the name, of the given value, or of the imported framework."""
    if framework is None:
        framework = there or next(filter(None, map(_shown, given)), None) or _only(name)
    if there not in (None, framework) and framework in made.NAMES:
        fix = f"pass framework={there!r}, or read its value with store.get(name, like={framework!r})"
        raise _other(
            name,
            f"it is a variable of {there}, but one of {framework} was requested",
            shelf.first(name),
            sites.at(*here),
            fix,
        )
    return made.maker(framework)


def _shown(given: Any) -> str | None:
    """Return the framework of a tensor, a function or a dtype."""
    owner = frameworks.owner(given)
    homes = (owner.name if owner else "", getattr(given, "__module__", None), type(given).__module__)
    roots = (str(home).partition(".")[0].replace("keras", "tensorflow") for home in homes)
    return next((root for root in roots if root in made.NAMES), None)


def _only(name: str) -> str:
    imported = made.imported()
    if len(imported) == 1:
        return imported[0]
    why = f"{' and '.join(imported)} are imported" if imported else "none is imported"
    choices = " or ".join(f'framework="{one}"' for one in imported or made.NAMES)
    raise Unsupported(f"cannot choose a framework for variable {name!r}: {why}; pass {choices}")


def _new(shelf: Shelf, maker: Maker, wanted: Wanted) -> Any:
    _check_outside(shelf, wanted.init, wanted.name)
    with maker.outside():
        new = maker.variable(made.first_value(maker, wanted), wanted.name, trainable=wanted.trainable)
    _check_outside(shelf, new, wanted.name)
    return keep(new, forever=True)


def _dtype(maker: Maker, dtype: Any) -> str | None:
    if dtype is None:
        return None
    try:
        return maker.dtype(dtype)
    except (TypeError, ValueError, AttributeError):
        raise Unsupported(f"{maker.name} has no dtype {dtype!r:.40}; try 'float32'") from None


def _check_outside(shelf: Shelf, new: Any, name: str) -> None:
    owner = frameworks.owner(new)
    state = owner.info(new).state if owner is not None else "live"
    if state != "live" and not isinstance(shelf, InGraph):
        raise Unsupported(
            f"the init of {name!r} returns a {state} value of the function that is being traced, which is valid only during the trace; "
            "pass numbers, a concrete tensor, or a function that creates one"
        )


def _check_same(found: Found, wanted: Wanted, here: Mark) -> None:
    owner = frameworks.owner(found.variable)
    if owner is None:
        return
    info = owner.info(found.variable)
    shape, dtype = wanted.shape, wanted.dtype
    if (shape is None or shape == info.shape) and dtype in (None, info.dtype):
        return
    there = f"{info.dtype}{list(info.shape)}"
    asked = f"{dtype or info.dtype}{list(info.shape if shape is None else shape)}"
    fix = "request it without shape and dtype, or use another name or scope for the other one"
    raise _other(wanted.name, f"it is {there}, but {asked} was requested", found.first, sites.at(*here), fix)


def _taken(shelf: Shelf, name: str, found: Found, again: Site | None) -> NameTaken:
    first = found.first
    lines = [f"variable {name!r} already exists in {shelf.title}, so it cannot be created again"]
    lines += _places(first=first, again=again)
    if first is not None and first == again and (caller := _caller(again)) is not None:
        lines += _places(by=caller)
    scope, _, last = name.rpartition("/")
    lines.append(f"  fix:   to share it: with tenure.variable_scope({scope!r}, reuse=True): tenure.variable({last!r});")
    lines.append(
        '         reuse="auto" creates it if it does not exist. For another variable, use another name or scope'
    )
    error = NameTaken("\n".join(lines))
    error.first, error.again = first, again
    return error


def _other(name: str, how: str, first: Site | None, again: Site | None, fix: str) -> NameTaken:
    error = NameTaken(
        "\n".join([f"variable {name!r} already exists: {how}", *_places(first=first, again=again), f"  fix:   {fix}"])
    )
    error.first, error.again = first, again
    return error


def _missing(shelf: Shelf, name: str, asked: Site | None) -> NameMissing:
    lines = [f"variable {name!r} does not exist in {shelf.title}, so it cannot be reused"]
    names = shelf.names()
    near = difflib.get_close_matches(name, names, 3, 0.6)
    near = near or [one for one in names if one.rpartition("/")[2] == name.rpartition("/")[2]][:3]
    error = NameMissing()
    error.asked = asked
    error.near = shelf.first(near[0]) if near else None
    lines += _places(asked=asked)
    grave = shelf.grave(name)
    if grave:
        lines.append(f"  gone:  deleted at {grave}")
    for one in near:
        lines.append(f"  near:  {one!r}" + (f", created at {first}" if (first := shelf.first(one)) else ""))
    lines.append('  fix:   create it first, without reuse; or use reuse="auto", which creates it if it does not exist')
    error.args = ("\n".join(lines),)
    return error


def _caller(site: Site) -> Site | None:
    """Return the next of the user's frames: if one line creates both variables, the frames differ there."""
    frame: FrameType | None = sys._getframe(1)
    seen = False
    while frame is not None:
        here = Site(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)
        if seen and sites.is_user(here.file):
            return here
        seen = seen or here == site
        frame = frame.f_back
    return None


def _places(**sites: Site | None) -> list[str]:
    return [
        f"  {word + ':':<6} {site}" + (f":  {site.text}" if site.text else "") for word, site in sites.items() if site
    ]
