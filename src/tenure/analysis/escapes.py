"""Whether something else may hold what a name holds: a view, a container, an object, the autograd graph."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from tenure import untrusted
from tenure.model import Site

# What gives its input again, or a view of it. Of what is not named here the result is taken to be new.
_VIEWS = frozenset(
    [
        "alias",
        "as_strided",
        "as_tensor",
        "asarray",
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "broadcast_to",
        "bfloat16",
        "chunk",
        "conj",
        "contiguous",
        "cpu",
        "cuda",
        "data",
        "detach",
        "diagonal",
        "double",
        "expand",
        "expand_as",
        "flatten",
        "float",
        "from_dlpack",
        "from_numpy",
        "half",
        "hsplit",
        "imag",
        "int",
        "long",
        "moveaxis",
        "movedim",
        "narrow",
        "numpy",
        "permute",
        "positive",
        "ravel",
        "real",
        "requires_grad_",
        "reshape",
        "reshape_as",
        "resolve_conj",
        "select",
        "slice",
        "split",
        "squeeze",
        "swapaxes",
        "swapdims",
        "t",
        "tensor_split",
        "to",
        "transpose",
        "type",
        "unbind",
        "unflatten",
        "unfold",
        "unsqueeze",
        "view",
        "view_as",
        "vsplit",
        "T",
        "H",
        "mT",
        "mH",
        "identity",
        "device_put",
        "block_until_ready",
        "iter",
        "list",
        "tuple",
        "dict",
        "set",
        "zip",
        "enumerate",
        "reversed",
    ]
)
_FACTS = frozenset(
    [
        "shape",
        "dtype",
        "device",
        "ndim",
        "size",
        "is_cuda",
        "requires_grad",
        "grad_fn",
        "layout",
        "names",
        "nbytes",
        "itemsize",
    ]
)
_QUIET = ("no_grad", "inference_mode", "set_grad_enabled(False)")
# The functions in tf.nn and jax.nn record no graph.
_AUTOGRAD = re.compile(
    r"\b(requires_grad|requires_grad_|(?<!tf\.)(?<!tensorflow\.)(?<!jax\.)nn|Module|Parameter|backward|autograd|GradientTape|keras)\b"
)


def escapes(tree: ast.Module, function: ast.AST, names: Iterable[str], first: int, last: int) -> bool:
    """Whether in these lines of a function a name's value gets to where it may stay."""
    return bool(_Flow(tree).fates(function, set(names), first, last))


class _Flow:
    """Follows values upwards through expressions while they are the same bytes, and into functions of the same file."""

    def __init__(self, tree: ast.Module) -> None:
        self._functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        self._inside: set[str] = set()

    def fates(self, function: ast.AST, names: set[str], first: int, last: int) -> set[str]:
        """What becomes of the values of names: "kept", "returned", or nothing of these."""
        parents = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
        reads = [
            node
            for node in parents
            if isinstance(node, ast.Name)
            and node.id in names
            and isinstance(node.ctx, ast.Load)
            and first <= node.lineno <= last
        ]
        return {fate for node in reads if (fate := self._fate(node, parents))}

    def _fate(self, node: ast.AST, parents: dict[ast.AST, ast.AST]) -> str:
        while True:
            up = parents.get(node)
            match up:
                case ast.Attribute():
                    call = parents.get(up)
                    called = isinstance(call, ast.Call) and call.func is up
                    if up.attr in _FACTS or (called and up.attr not in _VIEWS):
                        return ""
                    if up.attr not in _VIEWS:
                        return "kept"  # something of an object that holds it
                    up = call if called else up
                case ast.Call():
                    fate = self._taken(up, node, parents)
                    if fate != "same":
                        return fate
                case ast.Subscript() if up.slice is node:
                    return ""
                case ast.For() | ast.AsyncFor():
                    return "kept" if up.iter is node else ""
                case ast.Return() | ast.Yield() | ast.YieldFrom():
                    return "returned"
                case ast.Assign() | ast.AnnAssign() | ast.NamedExpr():
                    return "kept"
                case (
                    ast.Subscript() | ast.List() | ast.Tuple() | ast.Set() | ast.Dict() | ast.Starred() | ast.IfExp()
                    | ast.BoolOp() | ast.keyword()
                ):  # fmt: skip
                    pass
                case _:
                    return ""
            assert up is not None
            node = up

    def _taken(self, call: ast.Call, argument: ast.AST, parents: dict[ast.AST, ast.AST]) -> str:
        """What a call does with an argument: "same" if its result is, or holds, the same bytes."""
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name in _VIEWS:
            return "same"
        if name[:1].isupper():
            return "kept"  # an object made of it
        callee = self._functions.get(name) if isinstance(call.func, ast.Name) else None
        if callee is not None:
            return self._inside_of(callee, call, argument)
        # What a call does shows in its result; without one, it was called to keep its argument.
        return "kept" if isinstance(parents.get(call), ast.Expr) else ""

    def _inside_of(self, callee: ast.FunctionDef, call: ast.Call, argument: ast.AST) -> str:
        plain = [one.arg for one in (*callee.args.posonlyargs, *callee.args.args)]
        if argument in call.args and call.args.index(argument) < len(plain):
            name = plain[call.args.index(argument)]
        elif isinstance(argument, ast.keyword) and argument.arg:
            name = argument.arg
        else:
            return "kept"  # through *args, or inside of another value
        if callee.name in self._inside:
            return ""
        self._inside.add(callee.name)
        fates = self.fates(callee, {name}, callee.lineno, callee.end_lineno or callee.lineno)
        self._inside.discard(callee.name)
        return "kept" if "kept" in fates else "same" if "returned" in fates else ""


def in_graph(birth: Sequence[Site], last: Sequence[Site]) -> bool:
    """Whether an autograd graph may hold what was born and last used with these stacks.

    A trace shows that a backward pass used a buffer, but not that one still might. So where the code has to do with
    autograd, only what a backward pass was the last to use is free, or what was made without a graph.
    """
    used = [site.text for site in last]
    if any("backward" in text for text in used):
        return any("retain_graph" in text for text in used)
    if any(_is_quiet(site.file, site.line) for site in (*birth, *last)):
        return False
    return any(_has_autograd(site.file) for site in (*birth, *last))


@untrusted.cached(256)
def _has_autograd(file: str) -> bool:
    return _AUTOGRAD.search("".join(untrusted.lines(file))) is not None


@untrusted.cached(4096)
def _is_quiet(file: str, line: int) -> bool:
    """Whether a line stands under `with torch.no_grad()` or in a function that is decorated so."""
    tree = parsed(file)
    for node in ast.walk(tree) if tree is not None else ():
        inside = getattr(node, "lineno", line + 1) <= line <= (getattr(node, "end_lineno", 0) or 0)
        if not inside:
            continue
        told: list[ast.expr] = []
        if isinstance(node, ast.With | ast.AsyncWith):
            told = [item.context_expr for item in node.items]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            told = node.decorator_list
        if any(quiet in ast.unparse(one) for one in told for quiet in _QUIET):
            return True
    return False


@untrusted.cached(64)
def parsed(file: str) -> ast.Module | None:
    """The source of a file of Python, if it can be read."""
    lines = untrusted.lines(file) if file.endswith((".py", ".pyw")) else []
    try:
        return ast.parse("".join(lines)) if lines else None
    except (SyntaxError, ValueError, RecursionError):
        return None
