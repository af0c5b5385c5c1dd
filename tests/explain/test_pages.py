"""The pages of the rules: the example really fails and is explained by its rule, and what the page recommends runs."""

import ast
import contextlib
import inspect
import io
import itertools
import re
import textwrap
import warnings

import pytest
from programs import failed

import tenure
from tenure.faults import FAULTS, MODULES
from tenure.views.formats import rule_page

PAGES = [code for code in FAULTS if code[2] in "124"]
SILENT = {"TN403", "TN404"}  # nothing fails
HEADINGS = ["What it means", "Why it hurts", "Example", "Use instead", "How to be sure"]
COLUMNS = 100
SHORT = "`x`"  # stands for a value that a headline is filled with


def example(code, head):
    found = re.search(rf"^## {head}\n\n((?:    .*\n|\n)+)", FAULTS[code].page, re.MULTILINE)
    return textwrap.dedent(found[1])


def run(text, path):
    path.write_text(text)
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(text, str(path), "exec"), {"__name__": "__main__"})


def parts(page):
    """A page's title, and the text below each heading."""
    title, *found = re.split(r"^## (.+)\n", page, flags=re.MULTILINE)
    return title.strip(), found[::2], [text.strip() for text in found[1::2]]


@pytest.mark.parametrize("code", FAULTS)
def test_each_page_has_the_same_headings(code):
    title, headings, texts = parts(FAULTS[code].page)
    assert headings == HEADINGS
    assert all(texts)
    assert "\n" not in title and title.endswith(".") and not title.endswith("..")
    for head in ("Example", "Use instead"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if code[2] in "124":
                compile(example(code, head), head, "exec")
        assert example(code, head).strip()


@pytest.mark.parametrize("code", FAULTS)
def test_a_page_is_text_in_a_terminal(code):
    fault = FAULTS[code]
    text = rule_page.render(fault)
    lines = text.splitlines()
    assert lines[0] == f"{code} {fault.name}" and lines[2] == textwrap.wrap(fault.title, COLUMNS)[0]
    assert [line for line in lines if line in HEADINGS] == HEADINGS
    assert "## " not in text and "\x1b" not in text and "\0" not in text
    assert re.sub(r"\s+", "", fault.page).replace("##", "") == re.sub(r"\s+", "", text).removeprefix(code + fault.name)
    assert f"\x1b[1m{HEADINGS[0]}\x1b[0m\n  " in rule_page.render(fault, colour=True)


@pytest.mark.parametrize("code", PAGES)
def test_page(code, tmp_path):
    run(example(code, "Use instead"), tmp_path / "right.py")
    wrong = example(code, "Example")
    if code in SILENT:
        run(wrong, tmp_path / "wrong.py")
        return
    error, _ = failed(wrong, tmp_path / "wrong.py")
    finding = tenure.explain(error)
    assert finding is not None, error
    assert finding.code == code
    assert finding.places
    assert finding.fix
    is_a_headline(finding.message)


def is_a_headline(text):
    assert text[0] == text[0].lower(), text
    assert not text.endswith("."), text
    assert len(text) <= COLUMNS, text


def texts(node, function):
    """What an expression of a headline can be, with SHORT for what only a program can tell."""
    if isinstance(node, ast.Constant):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        choices = [[SHORT] if isinstance(one, ast.FormattedValue) else [one.value] for one in node.values]
        return ["".join(some) for some in itertools.product(*choices)]
    if isinstance(node, ast.IfExp):
        return texts(node.body, function) + texts(node.orelse, function)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [a + b for a in texts(node.left, function) for b in texts(node.right, function)]
    if isinstance(node, ast.Name):
        bound = [
            one.value
            for one in ast.walk(function)
            if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == node.id
        ]
        return [text for value in bound for text in texts(value, function)]
    return [SHORT]


def headlines(module):
    for function in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(function, ast.FunctionDef):
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "FAULT.finding":
                    yield from texts(call.args[0], function)
                elif isinstance(call, ast.Call) and ast.unparse(call.func) == "growth.told":
                    yield from texts(call.args[2], function)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.FAULT.code)
def test_headlines(module):
    found = list(headlines(module))
    if module.FAULT.code != "TN106":
        assert any(len(text) > len(SHORT) for text in found), "no headline was looked at"
    for text in found:
        is_a_headline(text)
