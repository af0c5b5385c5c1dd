"""`dispose` and `remains`: release tensors now, and report what happened to their bytes."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable, Collection, Iterable
from typing import Any

from tenure import frameworks, sites
from tenure.errors import Unsupported
from tenure.frameworks import ended, host
from tenure.frameworks.base import Buffer, Framework, memories
from tenure.lifetime import containers, regions
from tenure.lifetime.own import Owned
from tenure.model import Fate, Holder, Remains, Remnant, Site, TensorInfo

Search = Callable[[], list[Holder]]
_UNKNOWN = "another library may still use its memory, which tenure cannot see"
_ENDED = ("disposed", "deleted", "donated")
# What a record of a birth tells: where, and in which scope.
Origin = Callable[[Any], tuple[Site | None, str | None]]


def dispose(x: Any) -> Remains:
    """Release the tensors in `x` now, free bytes that nothing else references, and report what retains the rest.

    A released tensor keeps its shape, dtype and device; any other use raises `TensorReleased`. Views, exported arrays
    and the autograd graph keep the bytes and their correct values. Releasing a tensor twice has no effect.

    Example:
        print(tenure.dispose(activations))

    Arguments:
        x: A tensor, an `Owned`, or containers, objects and modules with tensors in them.

    Returns:
        A `Remains`: which buffers were freed, and what retains the others.

    Raises:
        Unsupported: `x` cannot contain a tensor, for example a string.
    """
    return end(gather(x, "dispose"), cause="dispose", where=sites.here())()


def remains(x: Any) -> Remains:
    """Return what `dispose(x)` would free, and what would retain the rest. Nothing is released.

    Example:
        print(tenure.remains(model))

    Arguments:
        x: A tensor, an `Owned`, or containers, objects and modules with tensors in them.

    Raises:
        Unsupported: `x` cannot contain a tensor.
    """
    return foretell(gather(x, "remains"), containers.in_arrays(x))


def gather(x: Any, caller: str) -> list[Any]:
    """The tensors in `x`, or a clear error if there can be none."""
    found = containers.tensors(x)
    if not found and not _may_contain(x):
        raise Unsupported(
            f"{caller}() takes a tensor, or containers and objects with tensors in them; "
            f"got {x!r:.60} ({type(x).__name__}), which contains none"
        )
    return found


def end(
    handles: list[Any], *, cause: str, where: Site | None, scope: str | None = None, origin: Origin | None = None
) -> Callable[[], Remains]:
    """End these handles; the result, called, reports on every buffer behind them as it then is.

    The report is apart because a look at who else reads a buffer can cost a walk over the heap. `handles` is emptied:
    when a framework ends its tensors, one list is all that refers to them on our side, so that references from
    elsewhere can be counted without such a walk.
    """
    described = {id(handle): _info(handle) for handle in handles}
    already = _released_before(handle for handle in handles if described[id(handle)].state in _ENDED)
    groups: dict[Framework | None, list[Any]] = {}
    while handles:
        if described[id(handles[-1])].state not in _ENDED:
            groups.setdefault(frameworks.owner(handles[-1]), []).insert(0, handles[-1])
        handles.pop()
    behind = parts(handle for group in groups.values() for handle in group)
    with_buffer = {user for part in behind for user in part.users}
    bare = [id(handle) for group in groups.values() for handle in group if id(handle) not in with_buffer]

    noticed: dict[int, TensorInfo] = {}

    def notice(handle: Any) -> TensorInfo:
        info = described.get(id(handle)) or _info(handle)
        born, scope_of_birth = origin(handle) if origin is not None else regions.origin(handle)
        noticed[id(handle)] = dataclasses.replace(
            info,
            state="disposed",
            kind="owned tensor" if isinstance(handle, Owned) else info.kind,
            born=born or info.born,
            ended=where,
            cause=cause,
            scope=scope or scope_of_birth,
        )
        return noticed[id(handle)]

    refused: dict[int, str] = {}
    refs: dict[int, weakref.ref[Any]] = {}
    owned = groups.pop(None, [])
    for framework in list(groups):
        willing = groups.pop(framework)
        if framework is None:
            continue
        for handle in willing.copy():
            reason = framework.refusal(handle)
            if reason:
                refused[id(handle)], refs[id(handle)] = reason, weakref.ref(handle)
        if refused:
            willing = [handle for handle in willing if id(handle) not in refused]
        handle = None
        if willing:
            with regions.ending(cause):
                stubborn_ones = framework.end(willing, notice)
            for stubborn, reason in stubborn_ones:
                refused[id(stubborn)], refs[id(stubborn)] = reason, weakref.ref(stubborn)
            stubborn = None
            stubborn_ones.clear()
    with regions.ending(cause):
        while owned:
            _end_owned(owned.pop(), notice)
    for part in behind:
        for user in part.users:
            if user in noticed and user not in refused:
                ended.note(user, noticed[user], part)

    def report() -> Remains:
        remnants = already()
        for part, fate in zip(behind, _gone(behind), strict=True):
            reasons = {refused[user] for user in part.users if user in refused}
            search = _search(part.buffers, [refs[user] for user in part.users if user in refs])
            remnants.append(_judge(part.nbytes, fate, tuple(described[user] for user in part.users), reasons, search))
        for user in bare:
            end: Fate = "cannot" if user in refused else "freed"
            remnants.append(Remnant(end, 0, (described[user],), refused.get(user, "")))
        return Remains(tuple(remnants))

    return report


def dropped(handles: list[Any]) -> Remains:
    """What remains of tensors whose owner lets go of them, without ending them: `handles` is emptied.

    Whether a buffer without a handle is still read by somebody can cost a walk over the heap; then the report is made
    when it is first looked at.
    """
    described = {id(handle): _info(handle) for handle in handles}
    refs = {id(handle): weakref.ref(handle) for handle in handles}
    behind = parts(handles)
    with_buffer = {user for part in behind for user in part.users}
    bare = [
        Remnant("already" if info.state in _ENDED else "freed", 0, (info,))
        for user, info in described.items()
        if user not in with_buffer
    ]
    handles.clear()

    def tell() -> tuple[Remnant, ...]:
        found: list[Remnant] = []
        for part in behind:
            kept = [refs[user] for user in part.users if refs[user]() is not None]
            gone = False if kept else _gone([part])[0]
            infos = tuple(described[user] for user in part.users)
            found.append(_judge(part.nbytes, gone, infos, set(), _search(part.buffers, kept)))
        return (*found, *bare)

    in_use = {user for user, ref in refs.items() if ref() is not None}
    sure = all(in_use & set(part.users) or not any(one.shared for one in part.buffers) for part in behind)
    return Remains(tell()) if sure else Pending(tell)


class Pending(Remains):
    """A report that is made when it is first looked at."""

    def __init__(self, tell: Callable[[], tuple[Remnant, ...]]) -> None:
        object.__setattr__(self, "_tell", tell)

    @functools.cached_property
    def remnants(self) -> tuple[Remnant, ...]:
        """What became of each buffer."""
        tell: Callable[[], tuple[Remnant, ...]] = self.__dict__.pop("_tell")
        return tell()


def foretell(handles: list[Any], busy: Collection[int] = ()) -> Remains:
    """The report that `end` would give; `busy` are the ids of handles that keep their bytes, since a search cannot show why."""
    remnants = _released_before(handle for handle in handles if is_ended(handle))()
    fresh = [handle for handle in handles if not is_ended(handle)]
    sole: dict[object, bool | None] = {}
    inner = {id(_inner(handle)): _inner(handle) for handle in fresh}
    for framework, members in _by_framework(inner.values()).items():
        sole.update(framework.sole(members))
    behind = parts(fresh)
    with_buffer = {user for part in behind for user in part.users}
    for handle in fresh:
        if id(handle) not in with_buffer:
            reason = _refusal(handle)
            remnants.append(Remnant("cannot" if reason else "freed", 0, (_info(handle),), reason))
    for part in behind:
        members = [handle for handle in fresh if id(handle) in part.users]
        infos = tuple(map(_info, members))
        refs = [weakref.ref(_inner(handle)) for handle in members]
        reasons = set(filter(None, map(_refusal, members)))
        if reasons:
            why = "; ".join(sorted(reasons))
            remnants.append(Remnant("cannot", part.nbytes, infos, why, _search(part.buffers, refs)))
            continue
        alone = _all(sole.get(buffer.key) for buffer in part.buffers)
        if alone and not any(user in busy for user in part.users):
            remnants.append(Remnant("freed", part.nbytes, infos))
        else:
            unknown = (
                ""
                if alone is not None
                else "before the release, tenure cannot determine whether other references share it"
            )
            remnants.append(Remnant("held", part.nbytes, infos, unknown, _search(part.buffers, refs)))
    return Remains(tuple(remnants), done=False)


@dataclasses.dataclass
class Part:
    """A piece of memory: its buffers, and the ids of the handles that use them.

    `readers` are weak references to what else read it after its handles were released; None until that was looked up.
    """

    nbytes: int
    buffers: list[Buffer]
    users: list[int]
    readers: list[weakref.ref[Any]] | None = None


def left(handles: Iterable[Any]) -> list[Part]:
    """The memory that these released handles had, each piece once, as far as tenure released them."""
    found = [ended.memory(handle) for handle in handles]
    return list({id(part): part for part in found if part is not None}.values())


def retained(handles: Iterable[Any]) -> list[Part]:
    """The memory that these released handles had and that is certain to be still allocated."""
    behind = left(handles)
    return [part for part, gone in zip(behind, _gone(behind, late=True), strict=True) if gone is False]


def _released_before(handles: Iterable[Any]) -> Callable[[], list[Remnant]]:
    """A function that returns one remnant per released handle; memory that several of them had counts once."""
    asked = [(_info(handle), ended.memory(handle)) for handle in handles]

    def tell() -> list[Remnant]:
        behind: dict[int, Part] = {id(part): part for _, part in asked if part is not None}
        gone = dict(zip(behind, _gone(list(behind.values()), late=True), strict=True))
        remnants: list[Remnant] = []
        for info, part in asked:
            if part is None or behind.pop(id(part), None) is None or gone[id(part)]:
                remnants.append(Remnant("already", 0, (info,)))
            elif gone[id(part)] is None:
                remnants.append(Remnant("already", 0, (info,), _UNKNOWN))
            else:
                remnants.append(Remnant("already", part.nbytes, (info,), find=_search(part.buffers, [])))
        return remnants

    return tell


def parts(handles: Iterable[Any]) -> list[Part]:
    """The memory behind these handles, each piece once."""
    behind: list[Buffer] = []
    users: dict[object, dict[int, None]] = {}
    for handle in handles:
        value = handle if ended.find(handle) is not None else _inner(handle)
        framework = frameworks.owner(value)
        for buffer in framework.buffers(value) if framework is not None else ():
            behind.append(buffer)
            users.setdefault(buffer.key, {})[id(handle)] = None
    return [
        Part(nbytes, found, list({user: None for buffer in found for user in users[buffer.key]}))
        for nbytes, found in memories(behind)
    ]


def _all(answers: Iterable[bool | None]) -> bool | None:
    """False if any is, else None if any is not known."""
    known = set(answers)
    return False if False in known else (None not in known) or None


def _end_owned(owned: Owned, notice: Callable[[Any], TensorInfo]) -> None:
    value = owned.release()
    framework = frameworks.owner(value)
    ended.bury(owned, notice(owned))
    if framework is not None and ended.find(value) is None and not framework.refusal(value):
        values = [value]
        del value
        framework.end(values, notice)  # what stays has lost its owner, which is all that was asked


def _gone(asked: list[Part], *, late: bool = False) -> list[bool | None]:
    """Whether each part's bytes are gone: not while anything reads them, known to the framework or not.

    Readers are found by address, and remembered. If that is `late`, the address may belong to another tensor by now:
    then only a reader that leads to a released handle of the part proves that the bytes are still allocated.
    """
    gone = [_all(buffer.gone() for buffer in part.buffers) for part in asked]
    lent = [
        [buffer.span for buffer in part.buffers if buffer.shared and buffer.span is not None] if answer else []
        for part, answer in zip(asked, gone, strict=True)
    ]
    wanted = [span for part, spans in zip(asked, lent, strict=True) if part.readers is None for span in spans]
    found = host.readers(wanted)
    for index, (part, spans) in enumerate(zip(asked, lent, strict=True)):
        if not spans:
            continue
        if part.readers is not None:
            gone[index] = all(ref() is None for ref in part.readers)
            continue
        readers = [reader for _ in spans for reader in found.pop(0)]
        sure = [reader for reader in readers if _leads_to(reader, part)] if late else readers
        gone[index] = False if sure else (None if readers else True)
        if (sure or not readers) and not any(type(reader) is host.CAPSULE for reader in sure):
            part.readers = [weakref.ref(reader) for reader in sure]  # a capsule has no weak references
    return gone


def _leads_to(reader: Any, part: Part) -> bool:
    """Whether this array or memory view was made from a released handle of the part."""
    while reader is not None:
        if ended.memory(reader) is part:
            return True
        reader = getattr(reader, "obj" if type(reader) is memoryview else "base", None)
    return False


def _judge(nbytes: int, gone: bool | None, infos: tuple[TensorInfo, ...], reasons: set[str], search: Search) -> Remnant:
    if reasons:
        return Remnant("cannot", nbytes, infos, "; ".join(sorted(reasons)), search)
    if gone:
        return Remnant("freed", nbytes, infos)
    unknown = "" if gone is False else "its memory belongs to another library, which frees it"
    return Remnant("held", nbytes, infos, unknown, search)


def _refusal(handle: Any) -> str:
    framework = frameworks.owner(handle)  # none for an Owned, which can always let go
    return framework.refusal(handle) if framework is not None else ""


def _search(buffers: list[Buffer], refs: list[weakref.ref[Any]]) -> Search:
    """A search for the holders of buffers, to be made when they are asked for; `refs` lead to their live handles."""

    def search() -> list[Holder]:
        from tenure.analysis import holders

        return holders.find(list(filter(lambda handle: handle is not None, (ref() for ref in refs))), buffers)

    return search


def _by_framework(handles: Iterable[Any]) -> dict[Framework, list[Any]]:
    found: dict[Framework, list[Any]] = {}
    for handle in handles:
        framework = frameworks.owner(handle)
        if framework is not None:
            found.setdefault(framework, []).append(handle)
    return found


def _inner(handle: Any) -> Any:
    return handle.value if isinstance(handle, Owned) else handle


def is_ended(handle: Any) -> bool:
    """Whether this handle has ended, by tenure or by its framework."""
    return ended.find(handle) is not None or (not isinstance(handle, Owned) and _info(handle).state in _ENDED)


def _info(handle: Any) -> TensorInfo:
    buried = ended.find(handle)
    if buried is not None:
        return buried
    framework = frameworks.owner(_inner(handle))
    if framework is None:
        raise AssertionError(f"{type(handle).__name__} is not a tensor")
    return framework.info(_inner(handle))


def _may_contain(x: Any) -> bool:
    return not isinstance(x, str | bytes | int | float | complex | bool | type(None) | type)
