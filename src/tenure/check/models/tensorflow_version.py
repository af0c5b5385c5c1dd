"""Programs for TensorFlow 1: which names show it, and what follows for all that they run."""

from __future__ import annotations

import ast
import re
import sys

from tenure.check import facts
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Module, Spot
from tenure.check.library_calls import first_version_only

# What asks which TensorFlow is installed, or asks for version 1 by name.
_ASKS = re.compile(
    r"hasattr\(\s*(?:tf|tensorflow)\b|compat\.v1|import v1\b|tensorflow_version\s+1|contrib\.eager|\benable_eager"
)
_PINNED = re.compile(r"pip3? install[^\n]*tensorflow(?:-gpu)?\s*[=<~]=?\s*1\b|tensorflow_version\s+1")
_ENDS = frozenset(["exit", "quit", "_exit", "Exit"])
_REMOVED = ("tensorflow.contrib", "tensorflow.examples")


def look(m: Interpreter, module: Module) -> None:
    """Turn graph mode on for a program of TensorFlow 1, and note the first name that version 2 does not have."""
    if "tensorflow" not in module.text:
        m.world.may_turn_off = True  # whatever it calls decides
        return
    m.world.may_turn_off = _may_turn_off(m, module)
    if _PINNED.search(module.text):
        m.world.second_version = False
    found = _first(module)
    if found is None:
        return
    m.world.second_version = False
    if _asks_version(module.tree) or _ASKS.search(module.text):
        return  # it may run in either version
    m.world.graph_mode = True
    m.world.default_graph = m.obj("tf.Graph", module.tree)
    if _ends_elsewhere(module.tree) or _PINNED.search(module.text):
        return  # it says so itself
    node, name = found
    m.add_fact(facts.FirstVersion(use=Spot(module, node, _function(module.tree, node)), name=name))


def _asks_version(tree: ast.Module) -> bool:
    """Whether what runs depends on the version that is installed, by more than the end of the program."""
    for one in ast.walk(tree):
        if isinstance(one, (ast.If, ast.IfExp)) and _version(one.test) and not _ends(one):
            return True
    return any(isinstance(one, ast.Assign) and _version(one.value) for one in ast.walk(tree))


def _ends_elsewhere(tree: ast.Module) -> bool:
    """Whether the program ends by itself where the version of TensorFlow is not the one that it needs."""
    return any(isinstance(one, ast.Assert) and _version(one.test) for one in ast.walk(tree)) or any(
        isinstance(one, ast.If) and _version(one.test) and _ends(one) for one in ast.walk(tree)
    )


def _ends(test: ast.If | ast.IfExp) -> bool:
    last = test.body[-1] if isinstance(test, ast.If) and not test.orelse else None
    call = last.value if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) else None
    name = getattr(call.func, "attr", getattr(call.func, "id", "")) if call is not None else ""
    return isinstance(last, ast.Raise) or name in _ENDS


def _version(node: ast.AST) -> bool:
    """Whether an expression reads the version of TensorFlow."""
    return any(
        isinstance(one, ast.Attribute)
        and one.attr in ("__version__", "VERSION")
        and isinstance(one.value, ast.Name)
        and one.value.id in ("tf", "tensorflow")
        for one in ast.walk(node)
    )


# Packages that leave it to the program whether operations run immediately.
_NEUTRAL = frozenset(
    ["IPython", "PIL", "absl", "cv2", "google", "gym", "gymnasium", "imageio", "keras", "matplotlib", "numpy", "pandas", "scipy",
     "seaborn", "six", "skimage", "sklearn", "sonnet", "tensorboard", "tensorflow", "tensorflow_datasets", "tensorflow_hub",
     "tensorflow_probability", "tf_keras", "tqdm", "tree", "trfl"]
)  # fmt: skip


def _may_turn_off(m: Interpreter, module: Module) -> bool:
    """Whether an imported module may turn eager execution off: one that is not known, or that uses TensorFlow itself."""
    for name, level in _foreign(module):
        other = m.loader(name, level, module, near=True) if m.loader is not None else None
        if other is None or "tensorflow" in other.text or _foreign(other):
            return True
    return False


def turns_eager_off(module: Module) -> bool:
    """Whether some function of a file switches to graphs, for all that runs after it."""
    names = ("disable_eager_execution", "disable_v2_behavior")
    written = any(name in module.text for name in names)
    return written and any(isinstance(one, ast.Attribute) and one.attr in names for one in module.nodes)


def _foreign(module: Module) -> list[tuple[str, int]]:
    """The imports that may do anything."""
    found: list[tuple[str, int]] = []
    for one in module.nodes:
        if isinstance(one, ast.Import):
            found += [(alias.name, 0) for alias in one.names]
        elif isinstance(one, ast.ImportFrom):
            found.append((one.module or "", one.level))
    known = _NEUTRAL | sys.stdlib_module_names
    return [(name, level) for name, level in found if level or name.partition(".")[0] not in known]


def _first(module: Module) -> tuple[ast.AST, str] | None:
    """The first use of a name that only TensorFlow 1 has."""
    names: set[str] = set()
    uses: list[tuple[ast.AST, str]] = []
    for one in module.nodes:
        if isinstance(one, ast.Import):
            for alias in one.names:
                if alias.name == "tensorflow":
                    names.add(alias.asname or alias.name)
                elif alias.name.startswith(_REMOVED):
                    uses.append((one, alias.name))
        elif isinstance(one, ast.ImportFrom):
            if not one.level and (one.module or "").startswith(_REMOVED):
                uses.append((one, str(one.module)))
        elif isinstance(one, ast.Attribute):
            parts = _dotted(one)
            if len(parts) > 1 and ".".join(parts[1:]) in first_version_only():
                uses.append((one, ".".join(parts)))
    known = [use for use in uses if not isinstance(use[0], ast.Attribute) or use[1].partition(".")[0] in names]
    return min(known, key=lambda use: (use[0].lineno, use[0].col_offset), default=None)  # type: ignore[attr-defined]


def _dotted(node: ast.expr) -> list[str]:
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < 3:
        parts.insert(0, node.attr)
        node = node.value
    return [node.id, *parts] if isinstance(node, ast.Name) else []


def _function(tree: ast.Module, node: ast.AST) -> str:
    """The name of the innermost function around a node."""
    line, name = getattr(node, "lineno", 0), "<module>"
    for one in ast.walk(tree):
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) and one.lineno <= line <= (one.end_lineno or 0):
            name = one.name
    return name
