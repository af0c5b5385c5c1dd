"""IPython and Jupyter: `%load_ext tenure` brings `%tenure`, `%%tenure`, and HTML views of tenure's values.

`%%tenure` records what the cell does to tensors, and shows the report; `-o FOLDER` keeps the trace there, a NAME gives
it that name, as a `tenure.Trace`. `%tenure STATEMENT` does the same for one line; alone it shows what is alive now.
"""

from __future__ import annotations

import argparse
import ast
import io
import shlex
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from tenure.errors import TraceError
from tenure.lifetime.look import memory
from tenure.trace.api import trace
from tenure.traces import Trace, load
from tenure.views import notebook
from tenure.views.formats import full
from tenure.views.notebook.page import shortened

_extensions: dict[int, Extension] = {}


def load_ipython_extension(shell: Any) -> None:
    """Add the magics `%tenure` and `%%tenure`, and HTML views of tenure's values. `%load_ext tenure` calls this.

    Example:
        %load_ext tenure
    """
    if id(shell) not in _extensions:
        _extensions[id(shell)] = Extension(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Remove what `load_ipython_extension` added. `%unload_ext tenure` calls this."""
    extension = _extensions.pop(id(shell), None)
    if extension is not None:
        extension.remove()


class Extension:
    """The magics and formatters that are added to one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._folders: list[tempfile.TemporaryDirectory[str]] = []  # which go when the process does
        self._pages = shell.display_formatter.formatters["text/html"]
        self._texts = shell.display_formatter.formatters["text/plain"]
        for (module, name), show in notebook.SHOWN.items():
            self._pages.for_type_by_name(module, name, lambda value, show=show: show(value, self._named))
        for name in ("Remains", "Memory", "Holder"):
            self._texts.for_type_by_name("tenure.model", name, lambda value, out, cycle: out.text(str(value)))
        self._texts.for_type_by_name(
            "tenure.findings", "Finding", lambda value, out, cycle: out.text(full.render([value]))
        )
        self._lists = list not in self._pages
        if self._lists:
            self._pages.for_type(list, lambda values: notebook.several(values, self._named))
        shell.register_magic_function(self._magic, "line_cell", "tenure")

    def remove(self) -> None:
        """Remove the magics and formatters."""
        for module, name in notebook.SHOWN:
            _forget(self._pages, module, name)
            if name not in ("TensorInfo", "Trace"):
                _forget(self._texts, module, name)
        if self._lists and list in self._pages:
            self._pages.pop(list)
        for magics in self._shell.magics_manager.magics.values():
            magics.pop("tenure", None)

    def _named(self, file: str) -> str:
        """Return the name of a file for users: a cell by its number."""
        told = getattr(self._shell.compile, "format_code_name", lambda name: None)(file)
        return " ".join(told) if told else shortened(file)

    def _magic(self, line: str, cell: str | None = None) -> Any:
        """Record a cell or a statement, and show what it did to tensors. Without one, show the tensors that are alive now.

        %%tenure [-o FOLDER] [NAME]
        %tenure [STATEMENT]
        """
        if cell is None and not line.strip():
            self._display(memory())
            return None
        if cell is None:
            return self._record(line, None, "")
        options = _options(line)
        # A line instead of the magic's, so that lines have the numbers that the user sees.
        return self._record(f"# %%tenure {line}\n{cell}", options.output, options.name or "")

    def _record(self, source: str, output: str | None, name: str) -> Any:
        if output is None:
            self._folders.append(tempfile.TemporaryDirectory(prefix="tenure-cell-", ignore_cleanup_errors=True))
            folder = Path(self._folders[-1].name) / "trace"
        else:
            folder = Path(output).expanduser().absolute()
        recording = trace(folder)
        try:
            with recording:
                return self._run(source)
        finally:
            self._show(recording.path, name)

    def _run(self, source: str) -> Any:
        """Run a cell as IPython does: other magics work, and the last expression is the cell's value."""
        shell = self._shell
        transformed = shell.transform_cell(source)
        number = len(shell.history_manager.input_hist_parsed) - 1  # `execution_count` is this cell's or the next one's
        file = shell.compile.cache(transformed, number, raw_code=source)
        tree = shell.transform_ast(ast.parse(transformed, file))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, file, "exec"), shell.user_ns)  # noqa: S102 - the user's own cell
        if last is None:
            return None
        value = eval(compile(ast.Expression(last.value), file, "eval"), shell.user_ns)  # noqa: S307
        return None if transformed.rstrip().endswith(";") else value

    def _show(self, folder: Path, name: str) -> None:
        try:
            found = load(folder)
        except TraceError as error:
            self._say(f"tenure: nothing was recorded: {error}")
            return
        if name:
            self._shell.user_ns[name] = found
        try:
            self._display(found)
        except Exception as error:  # noqa: BLE001 - the cell's own value or exception is what the user must get
            self._say(f"tenure: the report failed: {type(error).__name__}: {error}; the trace is {folder}")

    def _display(self, value: Any) -> None:
        """Display a value as HTML where that is possible, otherwise as text."""
        show = notebook.SHOWN[type(value).__module__, type(value).__name__]
        plain = _report(value) if isinstance(value, Trace) else str(value)
        self._shell.display_pub.publish({"text/plain": plain, "text/html": show(value, self._named)})

    def _say(self, text: str) -> None:
        self._shell.display_pub.publish({"text/plain": text})


def _report(found: Trace) -> str:
    """Return the report of a trace as text."""
    from tenure import untrusted
    from tenure.analysis.summary import summary
    from tenure.views.console import report

    out = io.StringIO()
    try:
        with untrusted.reading(found.source):
            report.write(summary(found, found.scanned, found.peak()), out, found.findings())
    except TraceError as error:
        return str(error)
    return out.getvalue()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        from IPython.core.error import UsageError

        raise UsageError(f"{message}; write %%tenure [-o FOLDER] [NAME]")


def _options(line: str) -> argparse.Namespace:
    parser = _Parser(prog="%%tenure", add_help=False, allow_abbrev=False)
    parser.add_argument("-o", dest="output", metavar="FOLDER")
    parser.add_argument("name", nargs="?")
    try:
        words = shlex.split(line)
    except ValueError as error:  # a quote that is not closed
        parser.error(str(error))
    options = parser.parse_args(words)
    if options.name is not None and not options.name.isidentifier():
        parser.error(f"{options.name!r} is not a valid name")
    return options


def _forget(formatter: Any, module: str, name: str) -> None:
    import sys

    kind = getattr(sys.modules.get(module), name, None)
    for key in (kind, f"{module}.{name}"):
        if key is not None and key in formatter:
            formatter.pop(key)
