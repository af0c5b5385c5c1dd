"""Fixes of the examples: what is fixed parses, runs, no longer shows the fault, and is not fixed again."""

import ast
import subprocess
import sys

from test_cases import blocks

from tenure.lint import fixes
from tenure.lint.runner import check_source

RUN = """
import sys, tempfile, os
os.chdir(tempfile.mkdtemp())
import torch
torch.set_num_threads(1)
for number, source in enumerate(eval(sys.stdin.read())):
    try:
        exec(compile(source, f"fixed{number}.py", "exec"), {"__name__": "__main__"})
    except Exception as error:
        raise SystemExit(f"{source}\\n{error!r}")
"""


def fixed(source):
    """The source after all rounds of fixing, and the codes that were fixed."""
    codes = set()
    for _ in range(8):
        changed, done = fixes.apply(source, check_source(source, "example.py"), "example.py", unsafe=True)
        codes |= {finding.code for finding in done}
        if not done:
            break
        source = changed
    return source, codes


def examples():
    for block in blocks():
        kind, source = block.values
        if kind == "fires":
            text, codes = fixed(source)
            if codes:
                yield source, text, codes


def test_what_is_fixed_is_gone_and_stays_fixed():
    seen = set()
    for source, text, codes in examples():
        ast.parse(text)
        seen |= codes
        assert not codes & {
            finding.code for finding in check_source(text, "example.py") if finding.fix and finding.fix.edits
        }
        assert fixed(text)[0] == text
        assert source.count("#") == text.count("#")
    assert seen >= {"TN203", "TN209", "TN214", "TN301", "TN302", "TN308", "TN404"}


def test_fixed_programs_run():
    # torch's programs, but a Trainer of transformers needs a model and data, which no example has.
    others = ("tensorflow", "jax", "transformers")
    texts = [text for source, text, _ in examples() if not any(name in source for name in others)]
    assert len(texts) > 12
    done = subprocess.run([sys.executable, "-c", RUN], input=repr(texts), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
