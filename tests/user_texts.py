"""The texts that users read, each with its file and line: documents, strings of the source, docstrings of the public API.

`python tests/user_texts.py [ROOT]` counts the words to avoid in a tree, one row per word of the table.
"""

import ast
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent

# What to avoid: a name, a pattern that has no ordinary use in our texts, and what to write instead.
AVOID = [
    ("told, tell", r"told|tells?|telling|teller", "report, print, show, record"),
    ("heard, hear", r"heard|hears?|hearing", "read, receive"),
    ("say, says, said", r"says?|said|saying", "reports, shows; call, pass"),
    ("word, words", r"(?<!\d )words?", "string, name, label, text"),
    ("born, birth", r"born|births?|birthplaces?", "created (a tensor), allocated (a buffer)"),
    ("end, ended (a tensor)", r"ended|(?:after|past|before|since|until|at) (?:its|their) end|ends? (?:it|them|this|that|its|their|the (?:tensor|lease|session|trace))s?", "released, freed, closed, exited"),
    ("held by, who holds it", r"held (?:by|here)|holds? it|who holds?", "retained by, keeps it alive"),
    ("past its last use", r"(?:past|beyond) (?:its|their|the) last use", "still allocated after its last use"),
    ("turn of the loop", r"turns? of|(?:a|each|every|one|that|last|next|first) turns?", "iteration"),
    ("behind (order, time)", r"behind", "after, later"),
    ("stands, stands for", r"stands?|stood|standing", "is, appears, represents"),
    ("lie, lies", r"lies?|lay|lying", "is stored, is located, is"),
    ("goes (with, by, on, away)", r"goes|go (?:with|by|away|on)|going on|went", "scales with, is identified by, continues"),
    ("nobody, somebody, whoever", r"nobody|somebody|everybody|whoever", "the object: no reference, another process"),
    ("is no leak, is no store", r"(?<!there )(?<!where )(?:is|are|was|were) (?:no(?! longer| more)|(?-i:none))", "is not a …, there is no …"),
    ("of ours, of tenure's", r"of (?:ours|yours|theirs|mine)|(?:an?|no|any|some|each) \w+ of (?:tenure|the user)'s", "our, tenure's, the user's before the noun"),
    ("one file a verb", r"(?:one|a) (?:file|row|line|column|object|number|list|table|process) an? \w+", "one file per command"),
    ("twin", r"twins?", "pure-Python fallback, alias"),
    ("stranger", r"strangers?", "external storage, foreign tensor"),
    ("native part", r"native parts?", "native extension"),
    ("crowd", r"crowds?", "group"),
    ("look (a noun)", r"(?:a|an|the|each|every|one|last|next|first|this|two|at|between|which) looks?", "check, sample, scan"),
    ("suspect, verdict, judge", r"suspect(?:s|ed)?|verdicts?|judged?|judges|judging|judge?ments?", "leak candidate, summary, classify"),
    ("grave, bury, epitaph", r"graves?|bur(?:y|ies|ied|ial)|epitaphs?|tombstones?", "deletion record, release record"),
    ("autopsy, could not be had", r"autops(?:y|ies)|want of memory|could not be had|cannot be had", "out-of-memory report, allocation failed"),
    ("divorce, seal", r"divorced?|seal(?:ed|s)?", "swap out the TensorImpl, mark as released"),
    ("refuse, refusal", r"refuse[sd]?|refusals?", "reject, unsupported, not reused"),
    ("trouble", r"troubles?", "error, problem, warning"),
    ("gets out, got out", r"gets? out|got out", "escapes, escaped"),
    ("passed over", r"passe[ds] over", "skipped, ignored"),
    ("anew, mend, beside", r"anew|mend(?:s|ed|ing)?|beside", "again; fix; next to"),
    ("moment, stretch (of time)", r"moments?|stretch(?:es)?", "time, point in time, interval"),
    ("picture", r"pictures?", "chart, view, screen"),
    ("at hand, of late, in peace", r"at hand|of late|in peace|in words|so many|by and by", "available, recently, cleanly, N"),
    ("book, shelf, room, door", r"books?|shel(?:f|ves)|rooms?|doors?", "registry, storage, shared table, space, API"),
    ("fault (a catalogue entry)", r"(?<!segmentation )faults?(?! tolerance)", "rule; one occurrence is a finding"),
]  # fmt: skip
_WORD = re.compile(r"[A-Za-z]{2}[^\n]*\s[^\n]*[a-z]{2}")
# Names in the page's code and data that it does not show.
_JS_NAMES = {"picture", "suspect"}
_JS = re.compile(r"//[^\n]*|/\*.*?\*/|(\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)", re.DOTALL)
# Queries, and patterns for what programs print: those of explain/ and faults/tn205_used_after_release.py also read the
# messages of older versions in logs.
_CODE = re.compile(
    r"^\s*(?:select|pragma|union|order by|and|where)\b|\b(?:group by|order by|from \w+ where|select \*|min\(time\)|join moments)\b"
    r"|^\s*(?:with \w+ as|create (?:table|view|or|temp)|insert into|delete from|copy \()|\(\?[P:<!=]|\\[dswb]|::|#include",
    re.IGNORECASE,
)


# The errors of the native extensions, and the texts of files that are neither Python nor Markdown.
_RAISED = re.compile(r"PyErr_(?:Format|SetString)\([^\"]*\"([^\"\n]*)\"")
_SETTINGS = {
    "Makefile": re.compile(r"(?m)(?:##|@echo;? ?)([^\n]*)$"),
    "mkdocs.yml": re.compile(r"(?m)^(?:site_description:| +- )([^\n:]*)"),
    "pyproject.toml": re.compile(r"(?m)^description = \"([^\"\n]*)\""),
    ".pre-commit-hooks.yaml": re.compile(r"(?m)^  description: ([^\n]*)$"),
}
_RETURNED = re.compile(r'"([a-z_]+(?:\.[a-z_]+)*)\.([A-Z]\w+)"')
_INTEGRATED = [
    ("integrations.ipython", "Extension"),
    ("integrations.keras", "Following"),
    ("integrations.lightning", "Following"),
    ("integrations.tensorboard", "log"),
    ("integrations.training", "Callback"),
    ("integrations.transformers", "Following"),
]


@dataclass(frozen=True)
class Text:
    """A text that users read."""

    file: str
    line: int
    text: str


def all_texts(root=ROOT):
    """Return every text of a tree that users read."""
    found = []
    for path in documents(root):
        found += document(path, root)
    public = public_names(root)
    for path in sorted((root / "src/tenure").rglob("*.py")):
        found += source(path, root, public.get(path, set()))
    for path in sorted((root / "src/tenure/views/html/page").glob("*.*")):
        found += page(path, root)
    for path in sorted((root / "native").glob("*.*")):
        found += quoted(path, root, _RAISED)
    for name, pattern in _SETTINGS.items():
        found += quoted(root / name, root, pattern)
    return found


def documents(root):
    """Return the Markdown files of the site, the repository and the benchmarks, and the examples."""
    names = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
    return [
        *(root / name for name in names),
        *sorted((root / "docs").rglob("*.md")),
        *sorted((root / "benchmarks").glob("*.md")),
        *sorted((root / "examples").rglob("*.py")),
    ]


def document(path, root):
    """Return the lines of a document without code in backticks and targets of links."""
    name, fenced = path.relative_to(root).as_posix(), False
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fenced ^= line.lstrip().startswith("```")
        line = re.sub(r"\]\([^()\s]*\)", "]", line)
        found.append(Text(name, number, re.sub(r"[\"'][^\"'\n ]*[\"']", "…", line) if fenced else plain(line)))
    return found


def quoted(path, root, pattern):
    """Return the first group of each match of a pattern in a file."""
    text = path.read_text()
    name = path.relative_to(root).as_posix()
    return [Text(name, text.count("\n", 0, one.start()) + 1, plain(one[1])) for one in pattern.finditer(text)]


def plain(text):
    """Return a text without the code in it, and without the names that a docstring's list of arguments begins with."""
    text = re.sub(r"(?m)^ +\w+: ", " ", text)
    return re.sub(r"`[^`\n]*`|'[^'\n ]*'", "`…`", text)


def source(path, root, public):
    """Return the string literals of a file that read like text, and the docstrings that users see."""
    tree = ast.parse(path.read_text())
    name = path.relative_to(root).as_posix()
    inner = path.relative_to(root / "src/tenure").parts
    # The docstring of a rule is its page, that of a command its help.
    shown = (
        {tree}
        if inner[0] in ("cli", "faults") and inner[-1].startswith(("tn", *"abcdefghijklmnopqrstuvwxyz"))
        else set()
    )
    docs = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                docs[first.value] = node
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name in public:
            shown.add(node)
            if isinstance(node, ast.ClassDef):
                shown.update(
                    one for one in node.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")
                )
    return [
        Text(name, node.lineno, plain(text))
        for node, text in literals(tree)
        if (docs[node] in shown if node in docs else _WORD.search(text) and not _CODE.search(text))
    ]


def literals(tree):
    """Return each string and f-string of a tree once, with `{}` for its values."""
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node, "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node, node.value


def public_names(root):
    """Return the public functions and classes of each file: of `tenure`, those that they return, and the integrations."""
    tree = ast.parse((root / "src/tenure/__init__.py").read_text())
    homes = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "_HOMES"
    )
    found = {}
    for home, names in homes.items():
        path = root / "src/tenure" / (home.replace(".", "/") + ".py")
        path = path if path.exists() else path.with_suffix("") / "__init__.py"
        found[path] = set(names)
    for home, name in _RETURNED.findall((ROOT / "docs/_api.py").read_text()) + _INTEGRATED:
        path = root / "src/tenure" / (home.replace(".", "/") + ".py")
        path = path if path.exists() else path.with_suffix("") / "__init__.py"
        found.setdefault(path, set()).add(name)
    return found


def page(path, root):
    """Return the texts of the page that `tenure view` shows."""
    name, text = path.relative_to(root).as_posix(), path.read_text()
    if path.suffix == ".html":
        return [
            Text(name, number, re.sub(r"(?<=[ <])(?:id|class|for)=\"[^\"]*\"|<[/!]?\w+", "", line))
            for number, line in enumerate(text.splitlines(), 1)
        ]
    if path.suffix != ".js":
        return []
    return [
        Text(name, text.count("\n", 0, match.start()) + 1, re.sub(r"\$\{[^{}]*\}", "{}", match[1]))
        for match in _JS.finditer(text)
        if match[1] and match[1][1:-1] not in _JS_NAMES
    ]


def avoided(texts):
    """Return the words to avoid that these texts contain: for each its row of the table, the text, and the match."""
    patterns = [
        (name, re.compile(rf"(?<![\w`.#-])(?:{pattern})(?![\w`/-]|\.\w)", re.IGNORECASE)) for name, pattern, _ in AVOID
    ]
    return [
        (name, text, match[0]) for text in texts for name, pattern in patterns for match in pattern.finditer(text.text)
    ]


if __name__ == "__main__":
    counts = Counter(name for name, _, _ in avoided(all_texts(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)))
    for name, _, _ in AVOID:
        print(f"{counts[name]:5}  {name}")
    print(f"{counts.total():5}  in all")
