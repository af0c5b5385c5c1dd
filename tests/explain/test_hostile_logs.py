"""Logs that name what is no file of source: pipes, devices, names that cannot be."""

import os
import subprocess
import sys

LOG = """\
Traceback (most recent call last):
  File "{}", line 3, in <module>
    loss.backward()
  File "/x/site-packages/torch/_tensor.py", line 623, in backward
    torch.autograd.backward(
RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors after they have
already been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad().
"""


def test_files_that_a_log_names_are_read_only_if_they_are_files(tmp_path):
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    with (tmp_path / "large.py").open("wb") as file:
        file.truncate(1 << 40)
    names = (tmp_path / "pipe.py", tmp_path / "zero.py", "/dev/zero", tmp_path / "large.py", "a\0b.py", tmp_path)
    log = "\n".join(LOG.format(name) for name in names)
    words = [sys.executable, "-m", "tenure", "explain", "-"]
    done = subprocess.run(words, input=log, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert not done.stderr
    assert done.stdout.count("[TN208]") == len(names)
