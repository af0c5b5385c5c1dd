"""Tracebacks as people paste them."""

import subprocess
import sys

import pytest

from tenure.explain import driver
from tenure.explain.text import parse

CLOSED = "RuntimeError: Attempted to use a closed Session."
PLAIN = f"""Traceback (most recent call last):
  File "/home/u/label.py", line 29, in <module>
    classes = sess.run(predicted)
              ^^^^^^^^^^^^^^^^^^^
  File "/opt/lib/python3.11/site-packages/tensorflow/python/client/session.py", line 977, in run
    result = self._run(None, fetches, feed_dict, options_ptr,
{CLOSED}
"""
FORMS = {
    "plain": PLAIN,
    "windows line ends": PLAIN.replace("\n", "\r\n"),
    "words around it": f"epoch 1 loss 0.3\nepoch 2 loss 0.2\n{PLAIN}\nException ignored in: <generator>\n",
    "a logger's first line": "2024-05-01 10:11:12,345 ERROR train: it failed\n" + PLAIN,
    "a logger's line with the head": "2024-05-01 10:11:12,345 ERROR train: " + PLAIN,
    "a launcher's rank": "".join(f"[rank0]: {line}\n" for line in PLAIN.splitlines()),
    "a worker's name": "".join(f"(train_fn pid=4242) {line}\n" for line in PLAIN.splitlines()),
    "a container's time": "".join(f"2024-05-01T10:11:12.345Z {line}\n" for line in PLAIN.splitlines()),
    "compose": "".join(f"trainer-1  | {line}\n" for line in PLAIN.splitlines()),
    "colours": PLAIN.replace("RuntimeError", "\x1b[1;35mRuntimeError\x1b[0m").replace("File", "\x1b[35mFile\x1b[0m"),
    "chained": "Traceback (most recent call last):\n"
    '  File "/home/u/label.py", line 3, in <module>\n    1 / 0\nZeroDivisionError: division by zero\n\n'
    f"During handling of the above exception, another exception occurred:\n\n{PLAIN}",
    "behind another": f'{PLAIN}\nThe above exception was the direct cause of the following exception:\n\nTraceback (most recent call last):\n  File "/home/u/label.py", line 40, in <module>\n    main()\nValueError: labelling failed\n',
    "group": "  + Exception Group Traceback (most recent call last):\n"
    '  |   File "/home/u/label.py", line 50, in <module>\n  |     asyncio.run(main())\n'
    "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n  +-+---------------- 1 ----------------\n"
    + "".join(f"    | {line}\n" for line in PLAIN.splitlines())
    + "    +------------------------------------\n",
    "notebook": f"""---------------------------------------------------------------------------
RuntimeError                              Traceback (most recent call last)
Cell In[3], line 5
      3 with tf.compat.v1.Session() as sess:
      4     pass
----> 5 classes = sess.run(predicted)

File ~/venv/lib/python3.11/site-packages/tensorflow/python/client/session.py:977, in BaseSession.run(self, fetches)
    976 try:
--> 977   result = self._run(None, fetches, feed_dict, options_ptr,
    978                      run_metadata_ptr)

{CLOSED}
""",
    "old notebook": f"""---------------------------------------------------------------------------
RuntimeError                              Traceback (most recent call last)
<ipython-input-7-3a1f> in <module>
      1 # label the new recordings
----> 2 classes = sess.run(predicted)

/usr/lib/python3.7/site-packages/tensorflow/python/client/session.py in run(self, fetches)
    949     try:
--> 950       result = self._run(None, fetches, feed_dict, options_ptr,

{CLOSED}
""",
    "pytest": f"""    def test_label():
>       classes = sess.run(predicted)

test_label.py:12:
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _
E       {CLOSED}

session.py:1145: RuntimeError
""",
    "the last line alone": CLOSED + "\n",
    "a worker of a data loader": "RuntimeError: Caught RuntimeError in DataLoader worker process 0.\nOriginal "
    + PLAIN,
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_the_fault_is_found_in_every_form(form):
    found = [finding.code for raised in parse(FORMS[form]) if (finding := driver.find(raised))]
    assert found == ["TN201"]


@pytest.mark.parametrize("form", [form for form in FORMS if form not in ("the last line alone", "pytest")])
def test_the_failing_line_is_found(form):
    finding = next(finding for raised in parse(FORMS[form]) if (finding := driver.find(raised)))
    line = {"notebook": 5, "old notebook": 2}.get(form, 29)
    assert [place.line for place in finding.places if place.role == "use"] == [line]


def test_a_log_that_is_older_than_the_file_shows_what_it_said(tmp_path):
    path = tmp_path / "label.py"
    path.write_text("\n" * 28 + "something_else()\n")
    raised = parse(PLAIN.replace("/home/u/label.py", str(path)))[0]
    finding = driver.find(raised)
    assert finding.places[-1].text == "classes = sess.run(predicted)"


@pytest.mark.parametrize("text", ["", "\x00\xff", "Traceback (most recent call last):", "Traceback (most recent call last):\n" * 99, 'File "x", line 1', "Error: ", PLAIN[:150], "é" * 10_000])  # fmt: skip
def test_text_that_is_none_gives_nothing(text):
    assert [finding for raised in parse(text) if (finding := driver.find(raised))] == []


def tenure(*words, told=b""):
    return subprocess.run(
        [sys.executable, "-m", "tenure", "explain", *words], input=told, capture_output=True, check=False
    )


def test_the_command(tmp_path):
    log = tmp_path / "out.log"
    log.write_text(PLAIN)
    done = tenure(str(log))
    assert done.returncode == 1
    assert b"error[TN201]" in done.stdout
    done = tenure("--format", "json", "-", told=b"all went well\n")
    assert (done.returncode, done.stdout) == (0, b"[]\n")
    for unknown in ("TN999", str(tmp_path / "no.log")):
        done = tenure(unknown)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.startswith(b"tenure: ")
        assert done.stderr.count(b"\n") == 1
    done = tenure("tn201")
    assert done.returncode == 0
    assert done.stdout.startswith(b"TN201 closed-session\n\n")
    done = tenure("--format", "concise", str(log))
    assert done.stdout.startswith(b"/home/u/label.py:29:1: TN201 ")


_RELEASED = {
    "now": """sum() used torch tensor float32[1024] on cpu after it was released
  created:  /home/u/train.py:11 in features():  rows.append(hidden[0])
  released: by the exit of scope 'features' at /home/u/train.py:15:  print(features(x))
  used:     /home/u/train.py:17:  total = sum(row.sum() for row in rows)
  fix:      return it from the scope
""",
    "before": """torch tensor float32[1024] on cpu was used after its end, by sum()
  born:  /home/u/train.py:11 in features():  rows.append(hidden[0])
  ended: by the exit of scope 'features' at /home/u/train.py:15:  print(features(x))
  used:  /home/u/train.py:17:  total = sum(row.sum() for row in rows)
  fix:   return it from the scope
""",
}


@pytest.mark.parametrize("form", _RELEASED)
def test_released_tensors_are_explained_from_messages_of_all_versions(form):
    text = PLAIN.replace(f"{CLOSED}\n", f"tenure.errors.TensorReleased: {_RELEASED[form]}")
    finding = next(finding for raised in parse(text) if (finding := driver.find(raised)))
    assert finding.code == "TN205"
    head = "sum() used torch tensor float32[1024] on cpu after it was released by the exit of scope 'features'"
    assert finding.message == head
    places = [(place.role, place.file, place.line) for place in finding.places]
    assert places == [(role, "/home/u/train.py", line) for role, line in (("birth", 11), ("end", 15), ("use", 17))]
    assert finding.fix.message == "return it from the scope"


@pytest.mark.parametrize(
    "what", ["jax array float32[2] on cpu:0 was used", ".grad was read on torch tensor float32[2] on cpu"]
)
def test_released_tensors_are_named_whatever_used_them(what):
    text = PLAIN.replace(
        f"{CLOSED}\n", f"tenure.errors.TensorReleased: {what} after it was released\n  created:  unknown\n"
    )
    finding = next(finding for raised in parse(text) if (finding := driver.find(raised)))
    assert finding.message == f"{what} after it was released"
