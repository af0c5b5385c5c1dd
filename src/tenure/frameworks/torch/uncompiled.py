"""Keep torch's compiler away from functions of ours that run inside a program's compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch._C._dynamo import eval_frame

F = TypeVar("F", bound=Callable[..., Any])


def uncompiled(function: F) -> F:
    """Have the compiler run this function, and what it calls, as it is; without the compiler's import.

    Where a compiled function calls an optimizer, the compiler would compile the hooks too: with warnings, breaks in
    its graphs, and `is_compiling()` true in what then runs.
    """
    strategy = getattr(eval_frame, "set_code_exec_strategy", None)
    if strategy is not None:
        skip = eval_frame._FrameAction.SKIP
        strategy(function.__code__, eval_frame._FrameExecStrategy(skip, skip))
    elif hasattr(eval_frame, "skip_code"):  # before torch 2.7
        eval_frame.skip_code(function.__code__)
    return function
