"""Python's own functions and the methods of lists and dicts."""

from __future__ import annotations

import ast

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import NONE, Class, Const, Func, Map, Num, Obj, Ref, Seq, Tensor, Value, Wrapped
from tenure.check.language import iteration, objects, standard_library
from tenure.check.language.attributes import attribute
from tenure.check.language.items import as_key, item, set_item, update
from tenure.check.lifetimes import escapes, random_numbers, retention, uses
from tenure.check.syntax import Loop
from tenure.check.value_queries import best, inside, join, read, tensors

_NUMBERS = frozenset(
    [
        "int",
        "float",
        "bool",
        "complex",
        "str",
        "repr",
        "len",
        "hash",
        "ord",
        "round",
        "format",
        "ascii",
        "bin",
        "hex",
        "chr",
        "bytes",
    ]
)
_PLAIN = frozenset(
    ["print", "isinstance", "issubclass", "hasattr", "callable", "input", "open", "any", "all", "dir", "vars"]
)


def call(m: Interpreter, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """A call of a builtin."""
    first = args[0] if args else NONE
    if name in ("int", "float", "bool", "complex"):
        uses.read_as_number(m, first, node, name)
        return _number(args)
    if name in _NUMBERS:
        if name in ("str", "repr", "format"):
            uses.read_as_text(m, first, node)
        return _number(args)
    if name == "isinstance" and len(args) > 1:
        known = _instance(best(first), best(args[1]))
        return Num() if known is None else Const(known)
    if name == "bytearray":
        return standard_library.buffer(m, args, kwargs, node)
    if name in _PLAIN:
        for one in args:
            uses.read_as_text(m, one, node)
        return Num()
    if name == "id":
        return Num(of=best(first))
    if name in ("list", "tuple", "set", "sorted", "reversed", "frozenset"):
        return _collect(m, name, args, node)
    if name == "dict":
        made: Map = m.own(Map(m.spot(node)))
        if args:
            objects.merge_map(m, made, first)
        made.attrs.update({("k", key): value for key, value in kwargs.items()})
        return made
    if name in ("enumerate", "zip", "range", "map", "filter", "iter"):
        return _iterables(m, name, args, node)
    if name == "next":
        return iteration.element(m, best(first), node)
    if name == "super":
        return Ref("super")
    if name == "sum":
        return _sum(m, args, node)
    if name in ("min", "max", "abs", "pow", "divmod"):
        return _extreme(m, name, args, kwargs, node)
    if name == "getattr" and len(args) > 1 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        return attribute(m, best(first), args[1].value, node)
    if name == "setattr" and len(args) > 2 and isinstance(best(first), Obj):
        owner = best(first)
        key = args[1].value if isinstance(args[1], Const) else "?"
        if key == "?":  # under many names: as in a dict
            named = owner.attrs.setdefault("<named>", Map(owner.born))  # type: ignore[attr-defined]
            named.loops = owner.loops  # type: ignore[attr-defined]
            retention.stored(m, named, args[1], args[2], node)
        objects.attribute_set(m, owner, key, args[2], node)  # type: ignore[arg-type]
        m.note_write(owner.attrs, key, args[2], m.spot(node), owner)  # type: ignore[attr-defined]
        m.put(owner.attrs, key, args[2])  # type: ignore[attr-defined]
        return NONE
    if name == "staticmethod" and args:
        return first
    if name == "object":
        return m.obj("object", node)
    escapes.escape(m, [*args, *kwargs.values()], node)
    return m.unknown(node)


_PLAIN_TYPES = frozenset(f"builtins.{name}" for name in ("int", "float", "bool", "str", "list", "tuple", "dict", "set"))


def _instance(value: Value, kind: Value) -> bool | None:
    """`isinstance(value, kind)`, where it is certain."""
    if isinstance(kind, Seq):
        known = [_instance(value, best(one)) for one in kind.items]
        return True if True in known else None if None in known else False
    if isinstance(kind, Ref) and kind.name.endswith("Tracer") and isinstance(value, Tensor):
        return value.trace is not None
    plain = isinstance(kind, Ref) and (kind.name.startswith("numpy.") or kind.name in _PLAIN_TYPES)
    if plain and isinstance(value, Tensor) and value.fw in ("jax", "tf", "torch"):
        return False
    if isinstance(value, Obj) and isinstance(kind, Class):
        return value.cls is not None and _inherits(value.cls, kind)
    if isinstance(value, Obj) and isinstance(kind, Ref) and value.cls is None and value.kind.startswith("torch.nn."):
        return value.kind == kind.name or None if kind.name.endswith("Module") else value.kind == kind.name
    if isinstance(kind, Ref) and kind.name in ("torch.Tensor", "tensorflow.Tensor", "jax.Array"):
        if isinstance(value, Tensor) and value.fw is not None:
            return {"torch": "torch.Tensor", "tf": "tensorflow.Tensor", "jax": "jax.Array"}.get(value.fw) == kind.name
        return False if isinstance(value, (Num, Const, Seq, Map)) else None
    return None


def _inherits(cls: Class, kind: Class) -> bool:
    return cls is kind or any(isinstance(base, Class) and _inherits(base, kind) for base in cls.bases)


def _number(args: list[Value]) -> Num:
    varies = any(v.varies for arg in args for v in inside(arg) if isinstance(v, (Num, Tensor)))
    return Num(varies=varies or random_numbers.number_of(args))


def _collect(m: Interpreter, name: str, args: list[Value], node: ast.AST) -> Value:
    kind = {"sorted": "list", "reversed": "list"}.get(name, name)
    made = m.seq(kind, [], node)
    if args:
        source = best(args[0])
        if isinstance(source, Seq):
            source.state.ended = True
            made.items, made.rest = list(source.items), source.rest
            made.state.of = source.state.of
        elif isinstance(source, Map):
            made.rest = Num()
        elif isinstance(source, Tensor):
            made.rest = iteration.element(m, source, node)
        elif isinstance(source, Obj):
            made.items = [v for v in source.attrs.values() if isinstance(v, Obj)]
            made.rest = None if made.items else m.unknown(node)
        else:
            made.rest = m.unknown(node)
    return made


def _iterables(m: Interpreter, name: str, args: list[Value], node: ast.AST) -> Value:
    made = m.seq("generator", [], node)
    if name == "range":
        for one in args:
            if not any(t.framework == "tf" for t in m.traces):
                uses.read_as_number(m, one, node, "range()")
        made.rest = Num(varies=True, of=made)
        made.state.range = args
        return made
    if name == "map" and args:
        for turn in range(2):
            items = [iteration.next_element(m, best(arg), turn, node, node) for arg in args[1:]]
            m.uid += 1
            value = m.call(args[0], items, {}, node)
            made.rest = value if made.rest is None else join(made.rest, value)
        return made
    if name in ("filter", "iter"):
        source = best(args[-1]) if args else NONE
        if isinstance(source, (Seq, Map)):
            return source
        made.rest = iteration.element(m, source, node)
        return made
    sources = [best(arg) for arg in args]
    if name == "enumerate":
        sources = sources[:1]
    made.kind = "zip"
    made.items = sources
    made.state.zip = name
    return made


def _sum(m: Interpreter, args: list[Value], node: ast.AST) -> Value:
    found = [t for arg in args for t in tensors(arg)]
    known = [t for t in found if t.fw is not None]
    if known:
        return m.result(known[0].fw, found, node, "add", saves="nothing")
    return m.unknown(node) if found else Num()


def _extreme(m: Interpreter, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    key = kwargs.get("key")
    if isinstance(best(key), (Func, Wrapped)) if key is not None else False:
        m.uid += 1
        m.loops.append(Loop(m.uid, node))
        m.loop_ids = (*m.loop_ids, m.uid)
        for turn in range(2):
            m.loops[-1].turn = turn
            m.call(key, [iteration.next_element(m, best(args[0]), turn, node, node)], {}, node)  # type: ignore[arg-type]
        m.loops.pop()
        m.loop_ids = m.loop_ids[:-1]
    for one in args if name in ("min", "max") and len(args) > 1 else ():
        if isinstance(one, Tensor) and one.fw == "jax":
            uses.read_as_number(m, one, node, f"{name}()")
    found = [t for arg in args for t in tensors(arg)]
    if name == "min" and any(isinstance(arg, Const) for arg in args):
        return Num()  # it stops to grow there
    return m.unknown(node) if found else _number(args)


def seq_method(
    m: Interpreter, owner: Seq, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    """A method of a list, set, tuple or deque."""
    if name == "__init__":
        owner.rest = m.unknown(node) if args and args[0] is not NONE else owner.rest
        return NONE
    if name in ("append", "add", "appendleft", "put", "put_nowait", "insert") and args:
        value = args[-1]
        retention.stored(m, owner, NONE, value, node)
        m.note_write(owner, "items", value, m.spot(node), owner)
        owner.state.grown = True
        if len(owner.items) < 12:
            owner.items.append(value)
        else:
            owner.rest = value if owner.rest is None else join(owner.rest, value)
        return NONE
    if name in ("extend", "update") and args:
        source = best(args[0])
        if isinstance(source, (Seq, Map)):
            read(source)
        for value in source.items if isinstance(source, Seq) else [iteration.element(m, source, node)]:
            retention.stored(m, owner, NONE, value, node)
            m.note_write(owner, "items", value, m.spot(node), owner)
            owner.items.append(value) if len(owner.items) < 12 else None
        if isinstance(source, Seq) and source.rest is not None:
            owner.rest = source.rest if owner.rest is None else join(owner.rest, source.rest)
        return NONE
    if name in ("clear", "remove", "discard"):
        retention.drained(m, owner)
        if name == "clear" and not m.conditions:
            owner.items.clear()
            owner.rest = None
        elif args and not m.conditions:
            removed = best(args[0])
            owner.items[:] = [one for one in owner.items if one is not removed]
        return NONE
    if name in ("pop", "popleft", "get", "get_nowait"):
        retention.drained(m, owner)
        if owner.items and owner.rest is None and not m.conditions and name != "get":
            return owner.items.pop(0 if name == "popleft" or args else -1)
        return iteration.element(m, owner, node)
    if name == "copy":
        read(owner)
        made = m.seq(owner.kind, list(owner.items), node)
        made.rest = owner.rest
        return made
    if name in ("index", "count", "join", "sort", "reverse", "qsize", "empty"):
        return Num()
    found = objects.params_method(m, owner, name, args, node)
    return found if found is not None else m.unknown(node)


def map_method(
    m: Interpreter, owner: Map, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    """A method of a dict."""
    if name == "__init__":
        if args and isinstance(best(args[0]), (Ref, Func, Class)):
            owner.rest = standard_library.made_by(m, args[0], node)
        elif args or kwargs:
            owner.rest = m.unknown(node)
        return NONE
    if name == "get" and args:
        owner.state.tested = True
        key = as_key(args[0])
        if key is not None and key in owner.attrs:
            return owner.attrs[key]
        default = args[1] if len(args) > 1 else NONE
        return default if owner.rest is None else join(item(m, owner, args[0], node), default)
    if name == "setdefault" and args:
        key = as_key(args[0])
        have = owner.attrs.get(key) if key is not None else owner.rest
        if have is not None:
            return have
        value = args[1] if len(args) > 1 else NONE
        if isinstance(value, (Seq, Map)):
            # It lives as long as the dict it is put in.
            value.loops, value.traces = owner.loops, owner.traces
        m.note_write(owner.attrs if key is not None else owner, key or "rest", value, m.spot(node), owner)
        if key is not None:
            m.put(owner.attrs, key, value)
        else:
            owner.rest = value
        return value
    if name == "__setitem__" and len(args) > 1:
        set_item(m, owner, args[0], args[1], node)
        return NONE
    if name == "update":
        for key, value in kwargs.items():
            set_item(m, owner, Const(key), value, node)
        if args:
            source = best(args[0])
            if isinstance(source, Map):
                update(m, owner, source, node)
        return NONE
    if name in ("clear", "pop", "popitem"):
        retention.drained(m, owner)
        key = as_key(args[0]) if args else None
        if name == "pop" and key in owner.attrs:
            value = owner.attrs[key]
            if not m.conditions:
                owner.attrs.pop(key)
            return value
        if name == "clear" and not m.conditions:
            owner.attrs.clear()
            owner.rest = None
        return iteration.element(m, owner, node)
    if name in ("values", "items", "keys"):
        read(owner)
        made = m.seq("generator", [], node)
        made.state.of, made.state.origin = owner.state.of, owner
        values = list(owner.attrs.values())[:4]
        if owner.rest is not None:
            made.rest = owner.rest
        if name == "values":
            made.items = values
        elif name == "items":
            keys = [Const(key[1]) if key[0] == "k" else Num() for key in owner.attrs]
            made.items = [m.seq("tuple", [key, value], node) for key, value in zip(keys, values, strict=False)]
            made.rest = m.seq("tuple", [Num(), owner.rest], node) if owner.rest is not None else None
        else:
            made.rest = Num()
        return made
    if name == "copy":
        read(owner)
        copied: Map = m.own(Map(m.spot(node)))
        copied.attrs.update(owner.attrs)
        copied.rest = owner.rest
        copied.state.copy_from(owner.state)
        return copied
    return m.unknown(node)
