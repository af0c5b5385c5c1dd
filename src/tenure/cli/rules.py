"""List all rules, and the commands that report them.

`tenure explain CODE` prints the page of a rule.
"""

from __future__ import annotations

import argparse
import json
import sys


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="print in this format (default: text)"
    )


def run(options: argparse.Namespace) -> int:
    """Print the list."""
    from tenure.faults import MODULES

    ways = {"in_source": "check", "in_run": "run", "in_exception": "explain", "in_trace": "report"}
    told = [
        {
            "code": module.FAULT.code,
            "name": module.FAULT.name,
            "title": module.FAULT.title,
            "found by": [word for function, word in ways.items() if hasattr(module, function)],
        }
        for module in MODULES
    ]
    if options.format == "json":
        sys.stdout.write(json.dumps(told, indent=1) + "\n")
    else:
        width = max(len(one["name"]) for one in told)
        for one in told:
            sys.stdout.write(f"{one['code']}  {one['name']:{width}}  {', '.join(one['found by'])}\n")
    return 0
