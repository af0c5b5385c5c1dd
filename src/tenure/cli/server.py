"""Start a language server for editors.

It reads standard input and writes standard output. It reports findings while you type, offers their fixes, and shows
the page of a rule on hover. It needs an extra: pip install 'tenure[server]'.
"""

from __future__ import annotations

import argparse

from tenure.errors import TenureError


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the one argument that editors pass."""
    parser.add_argument(
        "--stdio",
        action="store_true",
        help="use standard input and output; this is always so, and accepted because editors pass it",
    )


def run(options: argparse.Namespace) -> int:
    """Serve until the editor closes the connection."""
    try:
        from tenure.lint.server import make
    except ImportError as error:
        raise TenureError(f"the language server needs pygls ({error}): pip install 'tenure[server]'") from None
    make().start_io()
    return 0
