"""SARIF of findings, read back by models of SARIF 2.1.0 that know nothing of tenure."""

import json

from sarif_pydantic import Sarif

from tenure.check.engine import check_source
from tenure.faults import FAULTS
from tenure.views.formats import sarif

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


def test_what_services_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = sarif.render(check_source(SOURCE, "train.py"))
    log = Sarif.model_validate_json(text)
    run = log.runs[0]
    assert log.version == "2.1.0"
    assert [result.rule_id for result in run.results] == ["TN301", "TN208"]
    assert {rule.id for rule in run.tool.driver.rules} <= set(FAULTS)
    for result in run.results:
        assert run.tool.driver.rules[result.rule_index].id == result.rule_id
        assert result.message.text
        place = result.locations[0].physical_location
        assert place.artifact_location.uri == "train.py"
        assert place.region.start_line >= 1


def test_what_the_standard_demands_and_models_do_not_check():
    told = json.loads(sarif.render(check_source(SOURCE, "train.py")))
    assert set(told) <= {"$schema", "version", "runs", "properties", "inlineExternalProperties"}
    (run,) = told["runs"]
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    for result in run["results"]:
        assert result["level"] in ("none", "note", "warning", "error")
        for fix in result.get("fixes", ()):
            for change in fix["artifactChanges"]:
                assert change["artifactLocation"]["uri"]
                for replacement in change["replacements"]:
                    region = replacement["deletedRegion"]
                    assert region["endLine"] >= region["startLine"] >= 1
                    assert min(region["startColumn"], region["endColumn"]) >= 1


def test_no_findings_is_a_log_too():
    assert Sarif.model_validate_json(sarif.render([])).runs[0].results == []
