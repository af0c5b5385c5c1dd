"""Speak the language server protocol over standard input and output, for editors.

Gives diagnostics while you type, quick fixes, and a fault's page on hover. Needs the extra: pip install 'tenure[server]'.
"""

from __future__ import annotations

import argparse

from tenure.errors import TenureError


def prepare(parser: argparse.ArgumentParser) -> None:
    """It has no arguments but those that editors give by habit."""
    parser.add_argument("--stdio", action="store_true", help="the only way it speaks; accepted for editors that say it")


def run(options: argparse.Namespace) -> int:
    """Serve until the editor ends it."""
    try:
        from tenure.check.server import make
    except ImportError as error:
        raise TenureError(f"the language server needs pygls ({error}): pip install 'tenure[server]'") from None
    make().start_io()
    return 0
