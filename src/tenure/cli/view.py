"""Show a trace as a page: findings, bytes alive over time, and what any click asks for.

Without -o the page is served on this machine, to whoever has its address, until Ctrl-C; it asks for more detail when
one looks closer. With -o it is one file that needs no network and no tenure:

  tenure view TRACE
  tenure view TRACE -o page.html
  tenure view AFTER --compare BEFORE
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def prepare(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.add_argument("trace", metavar="TRACE", help="the folder of a trace, or one .arrows file of it")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the page here instead of serving it")
    parser.add_argument("-f", "--force", action="store_true", help="overwrite FILE even if it is not such a page")
    parser.add_argument("--compare", metavar="OTHER", help="another trace, to see what is different")
    parser.add_argument("--port", type=_port, default=0, help="where to serve it (default: any that is free)")
    parser.add_argument(
        "--no-open", action="store_true", help="do not open a browser (it is opened only from a terminal)"
    )


def run(options: argparse.Namespace) -> int:
    """Write the page, or serve it until it is interrupted."""
    from tenure import outputs
    from tenure.errors import TenureError
    from tenure.traces import load
    from tenure.views.html.build import both
    from tenure.views.html.page import is_page
    from tenure.views.html.server import Server

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
        raise TenureError(f"port {options.port} cannot be used: {error.strerror or error}; say another") from error
    with server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        sys.stderr.write("tenure: open this address; Ctrl-C ends it\n")
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
        raise argparse.ArgumentTypeError(f"{text!r} is no port; say a number from 1 to 65535")
    return int(text)
