"""What users read is short and in plain words: README, help texts, docstrings of the public names, messages, pages.

`python tests/user_texts.py` counts the terms to avoid. The headings of rule pages are tested in explain/test_pages.py.
"""

import inspect
import sys

import pytest

import tenure
import user_texts
from tenure import cli

sys.path.insert(0, str(user_texts.ROOT / "docs"))
import _api

TEXTS = user_texts.all_texts()
FOUND = user_texts.avoided(TEXTS)
# What a help text begins with: what the command or the option does. No help text needs an exception.
DOES = set(
    "accept add apply build check compare count exclude exit explain export find ignore leave list open overwrite print "
    "query read record remove replace report run select serve set show silence start take treat use watch write".split()
)
# What the docstring of a public function or method begins with.
RETURNS = DOES | set(
    "call close compare convert copy count delete keep mark move put record register release return wait wrap write yield".split()
)
# The first line of a class or a property is a noun phrase. These begin the few that are none of *a, an, the*.
NOUNS = set("buffers bytes counts live objects one results tensors true".split())


def test_the_readme_is_short():
    assert len((user_texts.ROOT / "README.md").read_text().split()) <= 900


@pytest.mark.parametrize("name", [name for name, _, _ in user_texts.AVOID])
def test_users_read_plain_words(name):
    instead = next(instead for row, _, instead in user_texts.AVOID if row == name)
    wrong = [f"{text.file}:{text.line}: {match}" for row, text, match in FOUND if row == name]
    assert wrong == [], f"write instead: {instead}"


def test_all_that_users_read_is_looked_at():
    files = {text.file for text in TEXTS}
    parts = ("README.md", "docs/limits.md", "docs/tutorials/torch.md", "benchmarks/trace_cost.md")
    parts += ("examples/losses.py", "examples/seeds/session_1_with.py")
    parts += tuple(
        f"src/tenure/{part}"
        for part in (
            *("errors.py", "model.py", "findings.py", "faults/tn301_loss_accumulated_with_graph.py", "cli/doctor.py"),
            *("sharing/session_told.py", "views/html/page/panels.js", "views/live/help.py", "views/console/report.py"),
            *("integrations/keras.py", "trace/api.py", "analysis/drag.py"),
        )
    )
    parts += ("native/births.c", "Makefile", "mkdocs.yml", "pyproject.toml", ".pre-commit-hooks.yaml")
    assert [part for part in parts if part not in files] == []
    assert len(TEXTS) > 5000


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("nobody holds it", {"nobody, somebody, whoever", "held by, who holds it"}),
        ("the tensor was born here, and it ended anew", {"born, birth", "end, ended (a tensor)", "anew, mend, beside"}),
        ("this is no leak", {"is no leak, is no store"}),
        ("there is no leak, and it is no longer alive", set()),
        ("`told` and 'birth' are code", set()),
        ("a segmentation fault in 900 words", set()),
    ],
)
def test_a_term_to_avoid_is_found_out(text, found):
    lines = [user_texts.Text("x.md", 1, user_texts.plain(text))]
    assert {name for name, _, _ in user_texts.avoided(lines)} == found


@pytest.mark.parametrize("verb", cli.VERBS)
def test_help_texts_begin_with_what_is_done(verb):
    parser = cli._parsers(cli._verbs([verb]))[1][verb]
    texts = {action.dest: action.help for action in parser._actions} | {"the command": parser.description}
    wrong = {name: text for name, text in texts.items() if not text or first_word(text) not in DOES}
    assert wrong == {}
    assert parser.description[0].isupper()


@pytest.mark.parametrize("name", [name for _, names in _api.GROUPS.values() for name in names])
def test_first_lines_of_the_api_make_sense_alone(name):
    found = _api._found(name)
    if not inspect.isclass(found):
        assert first_word(inspect.getdoc(found)) in RETURNS, name
        return
    assert is_noun(inspect.getdoc(found)), name
    for member, value in _api._members(found):
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if inspect.isfunction(function):
            assert first_word(inspect.getdoc(function)) in RETURNS, f"{name}.{member}"
        else:
            assert is_noun(inspect.getdoc(getattr(value, "func", None) or value.fget)), f"{name}.{member}"


def first_word(text):
    return text.split()[0].lower().strip(",:;")


def is_noun(text):
    return first_word(text) in {"a", "an", "the", *NOUNS}


def test_public_names_have_no_marker_for_pytest_in_their_first_line():
    assert "PYTEST" not in tenure.__doc__.partition("\n")[0]
