"""The exports for pprof and Speedscope, read by others' parsers and held against others' schemas."""

import gzip
import importlib.util
import json
import sys
from pathlib import Path

import jsonschema
import pytest
from export_words import HOSTILE, SNAPSHOT

from tenure.traces import load
from tenure.views.export.base import frames

SCHEMA = json.loads(Path(__file__).with_name("speedscope-schema.json").read_text())


@pytest.fixture(scope="module")
def profile_pb2():
    """The classes of pprof's profile.proto, as TensorFlow carries them; TensorFlow itself is not imported."""
    place = Path(importlib.util.find_spec("tensorflow").origin).parent / "tsl/profiler/protobuf/profile_pb2.py"
    spec = importlib.util.spec_from_file_location("pprof_profile_pb2", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parsed(profile_pb2, path):
    """The profile, and its samples as plain values: stacks outermost first, values and labels by name."""
    profile = profile_pb2.Profile.FromString(gzip.decompress(path.read_bytes()))
    words = list(profile.string_table)
    assert words[0] == ""
    functions = {one.id: one for one in profile.function}
    places = {one.id: one for one in profile.location}
    kinds = [words[one.type] for one in profile.sample_type]
    samples = []
    for sample in profile.sample:
        lines = [places[at].line[0] for at in sample.location_id]
        stack = [
            (words[functions[one.function_id].filename], one.line, words[functions[one.function_id].name])
            for one in lines
        ]
        labels = {words[one.key]: words[one.str] for one in sample.label}
        samples.append((tuple(stack), dict(zip(kinds, sample.value, strict=True)), labels))
    return profile, samples


def test_pprof_holds_the_peak_of_each_device_and_all_that_was_born(profile_pb2, trace, tmp_path):
    _, samples = parsed(profile_pb2, trace.export("pprof", tmp_path / "run.pb.gz"))
    for device in ("cpu", "cuda:0"):
        here = [values for _, values, labels in samples if labels["device"] == device]
        top = trace.peak(device)
        assert sum(values["inuse_space"] for values in here) == top.bytes
        assert sum(values["inuse_objects"] for values in here) == top.count
    (born,) = trace.sql("select count(*) as n, sum(bytes)::bigint as bytes from buffers where bytes > 0").to_pylist()
    assert sum(values["alloc_space"] for _, values, _ in samples) == born["bytes"]
    assert sum(values["alloc_objects"] for _, values, _ in samples) == born["n"]


def test_pprof_has_stacks_innermost_first_and_labels(profile_pb2, trace, tmp_path):
    profile, samples = parsed(profile_pb2, trace.export("pprof", tmp_path / "run.pb.gz"))
    rows = trace.sql(
        "select stack, kind, device, sum(bytes)::bigint as bytes from buffers where bytes > 0 group by all"
    ).to_pylist()
    told = {}
    for stack, values, labels in samples:
        key = stack, labels["kind"], labels["device"]
        told[key] = told.get(key, 0) + values["alloc_space"]
    assert told == {
        (tuple((one.file, one.line, one.function) for one in frames(row["stack"])), row["kind"], row["device"]): row[
            "bytes"
        ]
        for row in rows
    }
    assert {labels["process"] for _, _, labels in samples} == {"-c", "rank 3: -c"}
    first, last = trace.scanned.facts[:2]
    assert (profile.time_nanos, profile.duration_nanos) == (first * 1000, (last - first) * 1000)
    assert profile.string_table[profile.default_sample_type] == "inuse_space"


def test_pprof_in_jaxs_own_parser(jax, trace, tmp_path):
    core = sys.modules["jaxlib._jax"]
    data = gzip.decompress(trace.export("pprof", tmp_path / "run.pb.gz").read_bytes())
    told = json.loads(core.pprof_profile_to_json(data))
    kinds = [told["stringTable"][int(one["type"])] for one in told["sampleType"]]
    at = kinds.index("inuse_space")
    assert sum(int(sample["value"][at]) for sample in told["sample"]) == sum(
        trace.peak(d).bytes for d in ("cpu", "cuda:0")
    )


def test_speedscope_holds_the_peaks_by_its_own_schema(trace, tmp_path):
    path = trace.export("speedscope", tmp_path / "run.speedscope.json")
    told = json.loads(path.read_text())
    jsonschema.validate(told, SCHEMA)
    by_name = {one["name"]: one for one in told["profiles"]}
    for device in ("cpu", "cuda:0"):
        (top,) = (one for name, one in by_name.items() if name.startswith(f"{device} at its peak of "))
        assert top["endValue"] == sum(top["weights"]) == trace.peak(device).bytes
        born = trace.sql(f"select sum(bytes)::bigint as b from buffers where device = '{device}'").to_pylist()[0]["b"]
        assert by_name[f"{device}, all allocations"]["endValue"] == born
    # Outermost first.
    names = [one["name"] for one in told["shared"]["frames"]]
    assert {tuple(names[at] for at in stack) for stack in top["samples"]} == {("<module>", "step")}


def test_the_schema_can_fail():
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"$schema": SCHEMA.get("$id", "x"), "shared": {}, "profiles": []}, SCHEMA)


def test_a_snapshot_in_both(profile_pb2, tmp_path):
    trace = load(SNAPSHOT)
    _, samples = parsed(profile_pb2, trace.export("pprof", tmp_path / "x"))
    assert sum(values["inuse_space"] for _, values, _ in samples) == trace.peak().bytes == 91_038_728
    told = json.loads(trace.export("speedscope", tmp_path / "y").read_text())
    jsonschema.validate(told, SCHEMA)
    assert told["profiles"][0]["endValue"] == 91_038_728


def test_hostile_words_are_text(profile_pb2, hostile, tmp_path):
    profile, samples = parsed(profile_pb2, hostile.export("pprof", tmp_path / "x"))
    assert set(HOSTILE) <= set(profile.string_table)
    assert {labels["device"] for _, _, labels in samples} == set(HOSTILE)
    assert {stack[0][2] for stack, _, _ in samples} == set(HOSTILE)
    text = hostile.export("speedscope", tmp_path / "y").read_text()
    told = json.loads(text)
    jsonschema.validate(told, SCHEMA)
    assert {one["name"] for one in told["shared"]["frames"]} >= set(HOSTILE)
    assert "\x1b" not in text
