"""Show a trace in the browser.

The page shows findings, memory over time, and details of any line or point in time. Without TRACE, tenure reads the
newest trace in this folder. Without -o, tenure serves the page on this machine until you press Ctrl-C; anyone who has
its address can read it. With -o, the page is one file that needs neither network nor tenure.

  tenure view
  tenure view TRACE -o page.html
  tenure view AFTER --compare BEFORE
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tenure.cli import newest


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("trace", metavar="TRACE", nargs="?", help=newest.READ)
    parser.add_argument("-o", "--output", metavar="FILE", help="write the page to FILE instead of serving it")
    parser.add_argument("-f", "--force", action="store_true", help="overwrite FILE even if tenure did not write it")
    parser.add_argument("--compare", metavar="OTHER", help="compare with this trace")
    parser.add_argument("--port", type=_port, default=0, help="serve the page on this port (default: any free port)")
    parser.add_argument(
        "--no-open", action="store_true", help="open no browser (tenure opens one only from a terminal)"
    )


def run(options: argparse.Namespace) -> int:
    """Write the page, or serve it until it is interrupted."""
    from tenure import outputs
    from tenure.errors import TenureError
    from tenure.traces import load
    from tenure.views.html.build import both
    from tenure.views.html.page import is_page
    from tenure.views.html.server import Server

    options.trace = newest.named(options.trace)
    if options.output is not None:
        named = (Path(options.trace),) if options.compare is None else (Path(options.trace), Path(options.compare))
        outputs.check(Path(options.output), is_page, force=options.force, spare=named, hint=", or pass -f")
    trace = load(options.trace)
    other = None if options.compare is None else load(options.compare)
    if options.output is not None:
        trace.to_html(options.output, other)
        sys.stderr.write(f"tenure: the page is {options.output}\n")
        _open(options, Path(options.output).absolute().as_uri())
        return 0
    try:
        server = Server(trace, both(trace, other), options.port)
    except OSError as error:
        raise TenureError(
            f"cannot use port {options.port}: {error.strerror or error}; choose another with --port"
        ) from error
    with server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        sys.stderr.write("tenure: open this address in a browser; Ctrl-C stops the server\n")
        _open(options, server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            sys.stderr.write("\n")
    return 0


def _open(options: argparse.Namespace, url: str) -> None:
    if sys.stdout.isatty() and not options.no_open:
        import webbrowser

        webbrowser.open(url)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; use a number from 1 to 65535")
    return int(text)
