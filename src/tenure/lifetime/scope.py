"""`scope`, `keep`, `adopt` and `carry`: regions of code that release the tensors created in them."""

from __future__ import annotations

import contextlib
import functools
import inspect
import opcode
import re
import sys
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Self, TypeVar, overload

from tenure import frameworks, sites
from tenure.errors import CapExceeded, ScopeError, Unsupported
from tenure.lifetime import containers, dispose, regions
from tenure.lifetime.budget import Budget
from tenure.lifetime.caps import parse_cap
from tenure.lifetime.regions import Record, Region
from tenure.model import Remains, Site, size

_DECORATED = str(Path(__file__).with_name("decorated.py"))  # a decorated generator's scope is for its own body
# Where yield fixtures are started: pytest's own, in whose context the tests run, and those that are asynchronous.
_SEND, _CACHE = opcode.opmap["SEND"], opcode.opmap["CACHE"]
_PLUGINS = {  # for async fixtures
    "pytest_asyncio/plugin.py": "pytest-asyncio",
    "anyio/pytest_plugin.py": "anyio",
    "anyio/_backends/_asyncio.py": "anyio",
}
_FIXTURES = ("_pytest/fixtures.py", *_PLUGINS)
_SHARING = {"pytest-asyncio": (0, 25), "anyio": (4, 0)}  # versions from which a test runs in its fixtures' context
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Scope:
    """A region of code that owns the tensors created in it. `tenure.scope` returns one; use it once, or as a decorator.

    Attributes:
        name: The name in reports and errors.
        cap: The most bytes that may be alive in the scope, or None.
    """

    def __init__(self, name: str | None, cap: int | None) -> None:
        self.name = name or ""
        self.cap = cap
        self._region: Region | None = None
        self._entered: tuple[CodeType | None, int] = (None, -1)
        self._report: Callable[[], Remains] | None = None

    # ---------------------------------------------------------------- as a context manager

    def __enter__(self) -> Self:
        if self._region is not None:
            raise ScopeError(
                f"scope {self.name!r} was entered already (at {sites.at(*self._entered)}); use a scope only once: "
                "write a new `with tenure.scope(...)` each time, or use it as a decorator"
            )
        frame = _owner_frame()
        self._entered = sites.mark(frame)
        if not self.name:
            entered = sites.at(*self._entered)
            self.name = entered.short if entered else "scope"
        self._region = Region(self.name, regions.current())
        if self.cap is not None:
            budget = Budget(self._region, self.cap)
            self._region.check, self._region.forget = functools.partial(self._check_cap, budget), budget.forget
        self._region.holder = weakref.ref(self)
        try:
            regions.enter(self._region, _code_inside(frame))
        except BaseException:  # an interrupt too: the block does not begin, and nothing would leave it
            regions.leave(self._region)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        try:
            self._leave(None, error)
        except BaseException:  # an interrupt may have come before the region was left, or in the middle of that
            if self._region is not None:
                self._finish(None)
                regions.leave(self._region)
            raise

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, tb)

    def _leave(self, result: Any, error: BaseException | None) -> None:
        region = self._opened()
        inner = regions.current()
        misnested = inner is not None and inner is not region and _is_inside(inner, region)
        over = self._excess() if self.cap is not None and error is None else None
        self._finish(result)
        if misnested and inner is not None:
            text = (
                f"scope {self.name!r} was left while scope {inner.name!r}, opened inside it, is still open; "
                f"its own tensors were released. Exit the inner scope first: nested `with` statements do"
            )
            if error is None:
                raise ScopeError(text)
            error.add_note(text)
        if over is not None:
            raise over

    # ---------------------------------------------------------------- as a decorator

    def __call__(self, function: F) -> F:
        """Return `function` wrapped, so that each call runs in a new scope."""
        if not callable(function):
            raise Unsupported(f"scope() decorates functions; got {type(function).__name__}")
        from tenure.lifetime import decorated

        wrapped: F = decorated.decorate(function, self.name or getattr(function, "__qualname__", "scope"), self.cap)
        return wrapped

    # ---------------------------------------------------------------- inside

    def keep(self, x: T) -> T:
        """Move the tensors in `x` out of this scope into the surrounding one, and return `x`."""
        region = self._opened()
        handles = containers.tensors(x, through_code=True)
        outer = _open_outer(region)
        for inside in regions.opened():
            if inside is region or _is_inside(inside, region):
                _move(handles, inside, outer)
        return x

    def tensors(self) -> list[Any]:
        """Return the live tensors that this scope owns now."""
        region = self._region
        handles = [] if region is None else [record[0]() for record in region.records()]
        return [handle for handle in handles if handle is not None]

    @property
    def nbytes(self) -> int:
        """The bytes of the tensors that this scope owns now. Shared bytes count once."""
        return sum(part.nbytes for part in dispose.parts(self.tensors()))

    def end(self) -> Remains:
        """Release what the scope owns and close it before its block ends, and return what remains."""
        self._opened()
        self._finish(None)
        return self.remains

    @property
    def remains(self) -> Remains:
        """The memory that the scope's exit left allocated, as it is now. Each read checks again.

        Assign it to a name to keep one state. What retains a buffer is searched for when `holders` or the text is read.
        """
        if self._report is None:
            raise ScopeError(f"scope {self.name!r} is still open: its remains are known after its block")
        return self._report()

    def __repr__(self) -> str:
        if self._region is None:
            return f"<tenure.scope {self.name!r}, not entered>"
        if self._region.noted is None:
            return f"<tenure.scope {self.name!r}, exited>"
        return f"<tenure.scope {self.name!r}, {len(self.tensors())} tensors, {size(self.nbytes)}>"

    # ---------------------------------------------------------------- the end

    def hand_out(self, value: Any) -> None:
        """Move the tensors in `value` to the scope that surrounds this one in the running code."""
        region = self._region
        if region is not None and region.births:
            _move(containers.tensors(value, through_code=True), region, regions.current(region))

    def _finish(self, result: Any) -> None:
        region = self._region
        if region is None or region.noted is None:
            return
        if result is not None:
            self.hand_out(result)
        births = regions.leave(region, spare=True)
        report = end(births, self.name, "scope exit", sites.here) if births else None
        self._report = report or Remains

    def _opened(self) -> Region:
        if self._region is None:
            raise ScopeError(f"scope {self.name!r} was never entered: write `with tenure.scope(...) as s:`")
        return self._region

    def _excess(self) -> CapExceeded | None:
        if self.cap is None or self._region is None or self._region.noted is None:
            return None
        handles = self.tensors()
        behind = sorted(dispose.parts(handles), key=lambda part: -part.nbytes)
        total = sum(part.nbytes for part in behind)
        if total <= self.cap:
            return None
        records = {id(record[0]()): record for record in self._region.records()}
        largest = [
            f"\n  {size(part.nbytes)} allocated at {sites.at(*records[part.users[0]][1:3]) or 'an unknown place'}"
            for part in behind[:3]
            if part.users[0] in records
        ]
        told = f"scope {self.name!r} uses {size(total)} in {len(handles)} tensors; its cap is {size(self.cap)}"
        for tell in list(regions.on_excess):
            tell(told)
        return CapExceeded(
            f"{told}. "
            f"The largest tensors:{''.join(largest)}\n  fix: release some earlier (tenure.dispose, a narrower scope), or raise the cap"
        )

    def _check_cap(self, budget: Budget, as_class: bool) -> Any:
        excess = self._excess() if budget.is_over() else None
        if excess is None or self._region is None:
            return None
        self._region.check = None  # once; the way out may make tensors too
        if not as_class:
            return excess
        told = str(excess)

        def begin(error: CapExceeded, text: str = told) -> None:
            CapExceeded.__init__(error, text)

        # In another thread the interpreter raises a class, and makes the error itself, without arguments.
        return type("CapExceeded", (CapExceeded,), {"__init__": begin, "__module__": CapExceeded.__module__})


@overload
def scope(name: F, /) -> F: ...
@overload
def scope(name: str | None = None, *, cap: int | str | None = None) -> Scope: ...
def scope(name: Any = None, *, cap: int | str | None = None) -> Any:
    """Release the tensors created in a block or a function when it exits, also by an exception.

    What a decorated function returns, or a decorated generator yields, is not released. In a `with` block, pass what you
    need later to `tenure.keep(x)`. A scope never releases parameters, variables, optimizer state, buffers of modules, or
    results in a `functools` cache. It holds only weak references, so it never extends a tensor's lifetime.

    Example:
        with tenure.scope("step") as s:
            loss = criterion(model(x), y)
            loss.backward()
        print(s.remains)

        @tenure.scope
        def features(x): ...

    Arguments:
        name: The name in reports and errors. Default: the source line that opens the scope.
        cap: The most bytes that may be alive in the scope, as an int or a text such as "512 MiB". A scope that needs more
            raises `CapExceeded`, as soon as the framework's call returns or at the scope's exit.

    Raises:
        ScopeError: The scope is entered twice or left out of order, or `cap` is not an amount of memory.
    """
    if name is not None and not isinstance(name, str):
        if callable(name):
            return Scope(None, parse_cap(cap))(name)
        raise Unsupported(f"scope() takes a name (text) or a function to decorate; got {type(name).__name__}")
    return Scope(name, None if cap is None else parse_cap(cap))


def keep(x: T, *, forever: bool = False) -> T:
    """Keep the tensors in `x` alive after the current scope: they move to the surrounding scope.

    Example:
        with tenure.scope():
            best = tenure.keep(model(x).max())

    Arguments:
        x: A tensor, or containers and objects with tensors in them.
        forever: Remove the tensors from all scopes instead.

    Returns:
        `x` itself.
    """
    handles = containers.tensors(x, through_code=True)
    if forever:
        for opened in regions.opened():
            regions.remember(opened.take(handles))
        return x
    region = regions.current()
    if region is not None:
        _move(handles, region, _open_outer(region))
    return x


def adopt(x: T) -> T:
    """Move existing tensors into the current scope, from any scope that owned them, and return `x`.

    The current scope then also releases what a scope does not own by itself, such as parameters and variables.

    Example:
        with tenure.scope("evaluation"):
            weights = tenure.adopt(torch.load("weights.pt"))

    Arguments:
        x: A tensor, or containers, objects and modules with tensors in them.

    Raises:
        ScopeError: There is no current scope.
        Unsupported: `x` cannot contain a tensor.
    """
    region = regions.current()
    if region is None:
        raise ScopeError("adopt() needs a scope to adopt into: call it inside `with tenure.scope():`")
    handles = dispose.gather(x, "adopt")
    for other in regions.opened():
        other.take(handles)
    region.give([(*_record(handle), "adopted") for handle in handles])
    return x


def register(handle: Any, *, instead_of: Any) -> None:
    """Add `handle`, which tenure has just created, to the current scope, instead of the tensor in it."""
    for other in regions.opened():
        other.take([instead_of])
    region = regions.current()
    if region is not None:
        region.give([_record(handle)])


def carry(function: F) -> F:
    """Wrap `function` so that it runs in the current scope, also in another thread or executor.

    Example:
        with tenure.scope():
            executor.submit(tenure.carry(work), x).result()

    Arguments:
        function: A function or a coroutine function.

    Raises:
        Unsupported: `function` is not callable.
    """
    if not callable(function):
        raise Unsupported(f"carry() takes a function; got {type(function).__name__}")
    region = regions.current()

    @contextlib.contextmanager
    def inside() -> Any:
        token = regions.joined(region)
        try:
            yield
        finally:
            regions.part(token)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def carried_coroutine(*args: Any, **kwargs: Any) -> Any:
            with inside():
                return await function(*args, **kwargs)

        return carried_coroutine  # type: ignore[return-value]

    @functools.wraps(function)
    def carried(*args: Any, **kwargs: Any) -> Any:
        with inside():
            return function(*args, **kwargs)

    return carried  # type: ignore[return-value]


def end(births: list[Record], name: str, cause: str, where: Callable[[], Site | None]) -> Callable[[], Remains] | None:
    """Release what is alive of these tensors, except what frameworks own for longer; None if there is nothing to release.

    The result, when called, reports on them. `name` is that of the scope or session that owned them.
    """
    groups, adopted = regions.hook().survivors(births)
    doomed: list[Any] = []
    for kind in list(groups):
        members = groups.pop(kind)
        framework = frameworks.owner_of(kind)
        spared = framework.exempt(members) - adopted if framework is not None else set()
        if len(spared) < len(members):
            doomed.extend(handle for handle in members if id(handle) not in spared)
        del members
    if not doomed:
        return None
    origins = {id(record[0]()): record for record in reversed(births)}  # of several the first

    def origin(handle: Any) -> tuple[Site | None, str | None]:
        record = origins.get(id(handle))
        return (sites.at(record[1], record[2]) if record else None), name

    return dispose.end(doomed, cause=cause, where=where(), scope=name, origin=origin)


def _record(handle: Any) -> Record:
    return (weakref.ref(handle), *sites.mark())


def _move(handles: list[Any], source: Region, target: Region | None) -> None:
    records = source.take(handles)
    if target is not None:
        target.give(records)
    else:
        regions.remember(records)


def _open_outer(region: Region) -> Region | None:
    outer = region.outer
    while outer is not None and outer.noted is None:
        outer = outer.outer
    return outer


def _is_inside(inner: Region, outer: Region) -> bool:
    region = inner.outer
    while region is not None and region is not outer:
        region = region.outer
    return region is not None


def _code_inside(frame: FrameType | None) -> FrameType | None:
    """The frame whose code runs inside a scope that `frame` opened.

    That of a generator made into a context manager, or of a yield fixture of pytest, only surrounds it.
    """
    while frame is not None and frame.f_code.co_flags & regions.GENERATORS:
        caller = frame.f_back
        while caller is not None and _delegates(caller):
            caller = caller.f_back
        if caller is None or not _surrounds(caller.f_code) or frame.f_code.co_filename == _DECORATED:
            return frame
        _warn_of_fixture(caller.f_code)
        while caller is not None and caller.f_code.co_filename == contextlib.__file__:
            caller = caller.f_back
        frame = caller
    return frame


def _delegates(frame: FrameType) -> bool:
    """Whether a generator is in a `yield from`."""
    if not frame.f_code.co_flags & inspect.CO_GENERATOR:
        return False
    code, at = frame.f_code.co_code, frame.f_lasti
    while at > 0 and code[at] == _CACHE:  # where Python 3.12 is, in it
        at -= 2
    return code[at] == _SEND


def _surrounds(code: CodeType) -> bool:
    if code.co_filename == contextlib.__file__:
        return code.co_name in ("__enter__", "__aenter__")
    return code.co_filename.endswith(_FIXTURES)


def _warn_of_fixture(code: CodeType) -> None:
    plugin = next((name for file, name in _PLUGINS.items() if code.co_filename.endswith(file)), None)
    if plugin is not None and not _shares_context(plugin):
        warnings.warn(
            f"a scope around the yield of an async fixture does not cover the test, which {plugin} before "
            f"{'.'.join(map(str, _SHARING[plugin]))} runs in another context; update it, or open the scope in the test",
            RuntimeWarning,
            stacklevel=5,
        )


@functools.cache
def _shares_context(plugin: str) -> bool:
    """Whether a test runs in the context of its async fixtures; not known of a version that cannot be read."""
    from importlib import metadata

    try:
        numbers = re.findall(r"\d+", metadata.version(plugin))
    except metadata.PackageNotFoundError:
        return True
    return not numbers or tuple(map(int, numbers[:2])) >= _SHARING[plugin]


def _owner_frame() -> FrameType | None:
    """The frame whose code is in the scope: not contextlib's, not ours."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename in (contextlib.__file__, __file__):
        frame = frame.f_back
    return frame
