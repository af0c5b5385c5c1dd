"""Stacks that other tools recorded, as traces tell them: the user's lines, innermost first.

Their files are of another machine as often as not, so what is a library is told by the path alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_LIBRARY = re.compile(
    r"""^<(?:frozen|__array_function__|eval_with_key)
    |[-]packages/(?:torch|torchgen|functorch|triton|jax|jaxlib|numpy|tensorflow|keras|opt_einsum)/
    |/lib(?:64)?/python3\.\d+/(?!.*-packages/)
    |/torch/(?:nn|optim|autograd|cuda|utils|amp|fx|export|distributed|_dynamo|_inductor|_functorch|_refs|_prims)/
    |/torch/(?:_tensor|_ops|_compile|functional)\.py$""",
    re.VERBOSE,
)
_NATIVE = re.compile(r"^$|^\?\?$|\.(?:c|cc|cpp|cu|cxx|h|hpp|so)(?:\.[0-9.]+)?$")
# What would end a line of a stack, or of a report; and what no file's name can have.
_BREAKS = re.compile("[\0\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")

_LEAST = 1 << 22  # letters of stacks
_EACH_BYTE = 64  # letters for each byte of a file, which can name a frame again with three bytes
_FRAME = 10  # letters of a frame besides its names

Frame = tuple[str, int, str]  # file, line and function


class Stacks:
    """Stacks as text, for a file of so many bytes.

    A few bytes can name a stack of any length again and again: what no real file comes near raises ValueError.
    """

    def __init__(self, nbytes: int) -> None:
        self._left = _LEAST + _EACH_BYTE * nbytes

    def told(self, frames: Iterable[Frame]) -> str | None:
        """The user's frames, one a line: `/home/me/train.py:31 in step`. All of Python's if none is the user's."""
        python = [frame for frame in map(self._counted, frames) if frame[1] > 0 and not _NATIVE.search(frame[0])]
        users = [frame for frame in python if not _LIBRARY.search(frame[0].replace("\\", "/"))]
        return (
            "\n".join(f"{_line(file)}:{line} in {_line(function)}" for file, line, function in users or python) or None
        )

    def _counted(self, frame: Frame) -> Frame:
        self._left -= _FRAME + len(frame[0]) + len(frame[2])
        if self._left < 0:
            raise ValueError("its stacks are longer than a file of its size can contain")
        return frame


def _line(name: str) -> str:
    """A name on one line, whatever is in it."""
    return _BREAKS.sub(lambda found: found.group().encode("unicode_escape").decode(), name)
