"""Builds the native extensions with sanitizers, and runs the tests that exercise them; `make sanitize`.

AddressSanitizer and UBSan go into each extension; the tests run in a Python that loads their runtime first. Everything
they report goes to files, also from the processes that tests start. ThreadSanitizer needs a whole program, which Python
and the frameworks are not: it gets the recorders' queues in a program of their own (queues.cpp).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TESTS = (
    "tests/trace/test_torch_recording.py",
    "tests/trace/test_torch_nodes.py",
    "tests/trace/test_torch_steps.py",
    "tests/trace/test_jax_recording.py",
    "tests/trace/test_tensorflow_recording.py",
    "tests/trace/test_children.py",
    "tests/trace/test_threads_and_forks.py",
    "tests/trace/test_digest.py",
    "tests/analysis/test_scan.py",
    "tests/lifetime",
)
_FLAGS = "-g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize=vptr"  # torch hides its types' names


def compilers() -> dict[str, str]:
    """The compilers for the extensions; they themselves run without a sanitizer."""
    return {name: f"env -u LD_PRELOAD {tool} {_FLAGS}" for name, tool in (("CC", "gcc"), ("CXX", "g++"))}


def library(name: str) -> str:
    """Where the compiler keeps it."""
    return subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()


def queues(work: Path) -> dict[str, str]:
    """What each sanitizer says of the queues; empty if nothing."""
    found = {}
    for sanitizer in ("thread", "address,undefined"):
        program = work / f"queues-{sanitizer}"
        flags = ["-std=c++20", "-g", "-O1", "-pthread", f"-fsanitize={sanitizer}", f"-I{ROOT / 'native'}"]
        subprocess.run(["g++", *flags, str(HERE / "queues.cpp"), "-o", str(program)], check=True)
        done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=600)
        print(done.stdout, end="", flush=True)
        found[sanitizer] = "" if done.returncode == 0 and not done.stderr else done.stderr or done.stdout
    return found


def reports(folder: Path) -> dict[str, int]:
    """The summaries in the reports, and how often each was."""
    found: dict[str, int] = {}
    for path in folder.iterdir():
        text = path.read_text(errors="replace")
        if "Failed to mmap" in text:  # a test that leaves no address space, which the sanitizer itself needs
            continue
        for line in re.findall(r"^(?:SUMMARY: .*|.*: runtime error: .*)$", text, re.MULTILINE) or [text[:200]]:
            found[line] = found.get(line, 0) + 1
    return found


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "sanitizers", help="keep the extensions there")
    parser.add_argument("--write", type=Path, help="write the table there")
    parser.add_argument("tests", nargs="*", default=TESTS)
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    rows = []
    failed = False
    with tempfile.TemporaryDirectory(prefix="tenure-sanitizers-") as scratch:
        work = Path(scratch)
        for sanitizer, text in queues(work).items():
            rows.append(
                f"| the queues, 48 threads, 1.4 million events | {sanitizer} | {'reports' if text else 'clean'} | |"
            )
            failed |= bool(text)
            print(text)
        for number, test in enumerate(options.tests):
            told = work / str(number)
            told.mkdir()
            environment = {
                **os.environ,
                **compilers(),
                "XDG_CACHE_HOME": str(options.cache),  # not TENURE_*: tests take those out
                "LD_PRELOAD": f"{library('libasan.so')} {library('libstdc++.so')}",
                "ASAN_OPTIONS": f"detect_leaks=0:allocator_may_return_null=1:detect_odr_violation=0:log_path={told}/report",
                "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={told}/report",
            }
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-m",
                "not long",
                "-p",
                "no:cacheprovider",
                "--timeout=900",
                test,
            ]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT)
            said = done.stdout.strip().splitlines() or [""]
            counted = re.sub(r" in .*", "", said[-1])
            found = reports(told)
            failed |= bool(found)
            print("\n".join([test, *said[-30:], *found]), flush=True)
            rows.append(f"| {test} | address,undefined | {sum(found.values()) or 'clean'} | {counted} |")
            table = "\n".join(["| what | sanitizers | reports | tests |", "|---|---|---|---|", *rows])
            if options.write is not None:
                options.write.write_text(f"# Sanitizers\n\n{__doc__}\n{table}\n")
    print(table)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
