"""SARIF of findings: what the standard's own schema says of it, and what services read."""

import json
from pathlib import Path

import jsonschema

from tenure.faults import FAULTS
from tenure.findings import Finding, Place
from tenure.lint.runner import check_source
from tenure.views.formats import sarif

# The OASIS standard's schema, as it comes with Microsoft's SARIF tools (MIT).
SCHEMA = json.loads(Path(__file__).with_name("sarif-2.1.0.json").read_text())
SOURCE = """\
import torch

w = torch.ones(3, requires_grad=True)
losses = []
for _ in range(10):
    loss = (w ** 2).sum()
    loss.backward()
    losses.append(loss)
loss.backward()
"""


def told_of(findings):
    log = json.loads(sarif.render(findings))
    jsonschema.validate(log, SCHEMA)
    return log["runs"][0]


def test_what_services_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = told_of(check_source(SOURCE, "train.py"))
    rules = run["tool"]["driver"]["rules"]
    assert [result["ruleId"] for result in run["results"]] == ["TN301", "TN208"]
    assert {rule["id"] for rule in rules} <= set(FAULTS)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "train.py"
        for fix in result.get("fixes", ()):
            for change in fix["artifactChanges"]:
                for replacement in change["replacements"]:
                    region = replacement["deletedRegion"]
                    assert (region["startLine"], region["startColumn"]) <= (region["endLine"], region["endColumn"])


def test_no_findings_is_a_log_too():
    assert told_of([])["results"] == []


def test_findings_without_a_place_or_with_odd_ones():
    odd = Place("use", "a file\nwith <odd> words.py", 0, text="\x1b[31m")
    told_of(
        [
            Finding("TN301", "loss-accumulated-with-graph", "…", (odd,)),
            Finding("TN302", "outputs-kept-with-graph", "m", ()),
        ]
    )


def test_addresses_are_quoted_and_findings_known_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def addresses(run):
        return {
            one["physicalLocation"]["artifactLocation"]["uri"]
            for result in run["results"]
            for one in result["locations"]
        }

    def marks(run):
        return [result["partialFingerprints"]["tenure/v1"] for result in run["results"]]

    run = told_of(check_source(SOURCE, "my file#1%20ü.py"))
    assert addresses(run) == {"my%20file%231%2520%C3%BC.py"}
    assert addresses(told_of(check_source(SOURCE, "a:b\udcff.py"))) == {"a%3Ab%FF.py"}
    assert addresses(told_of(check_source(SOURCE))) == {"stdin"}
    assert len(set(marks(run))) == len(run["results"]) == 2
    moved = told_of(check_source(f"import os\n\n{SOURCE}", "my file#1%20ü.py"))
    assert marks(moved) == marks(run)
    twice = told_of([*check_source(SOURCE, "a.py"), *check_source(SOURCE, "a.py")])
    assert len(set(marks(twice))) == 4
    assert all("tenure explain TN" in rule["help"]["text"] for rule in run["tool"]["driver"]["rules"])
