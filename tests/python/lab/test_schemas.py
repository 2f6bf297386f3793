# SPDX-License-Identifier: Apache-2.0
"""What the program prints with --json is what docs/schemas says."""

import json
import pathlib
import re

import jsonschema
import pytest
import torch

SCHEMAS = pathlib.Path(__file__).resolve().parents[3] / "docs" / "schemas"
QUICK = ("--seconds", "0.05", "--threads", "1")


def schema(command):
    return json.loads((SCHEMAS / f"{command}.json").read_text(encoding="utf-8"))


@pytest.fixture
def checked(desk):
    """checked(command, args): the output as JSON, found to be as the command's schema says."""

    def run(command, *args, code=0):
        value = json.loads(desk(command, *args, "--json", code=code).out)
        jsonschema.Draft202012Validator(schema(command)).validate(value)
        return value

    return run


def objects(part):
    """All schemas of objects in a schema."""
    if isinstance(part, dict):
        if part.get("type") == "object":
            yield part
        for inner in part.values():
            yield from objects(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from objects(inner)


def test_every_command_with_json_has_a_schema_and_a_line_in_the_documentation(desk):
    completion = desk("completion", "fish").out
    with_json = sorted(re.findall(r"seen_subcommand_from (\w+)' -l json ", completion))
    assert "bisect" in with_json
    assert with_json == sorted(path.stem for path in SCHEMAS.glob("*.json"))
    text = (SCHEMAS.parent / "json.md").read_text(encoding="utf-8")
    assert [c for c in with_json if f"(schemas/{c}.json)" not in text] == []


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_schemas_are_schemas_that_let_nothing_unknown_pass(path):
    text = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(text)
    assert text["title"] == f"refx {path.stem} --json" and text["description"]
    for part in objects(text):
        assert "additionalProperties" in part or part.get("description") == "Settings of the transformation"


def test_list(checked):
    assert "merge-linears" in [transformation["name"] for transformation in checked("list")]
    assert "used-elsewhere" in [reason["code"] for reason in checked("list", "--reasons")]


@pytest.mark.parametrize("name", ["blocks", "choice", "plain"])
def test_a_model_from_its_inspection_to_forgetting_it(desk, model, checked, name):
    path = desk.put(model(name))
    checked("inspect", path)
    assert checked("log", path) == []
    assert checked("apply", path, "all", "--dry-run")["output"] is None
    applied = checked("apply", path, "all", "-o", "fast.pt2")
    assert len(checked("log", "fast.pt2")) == len(applied["steps"])
    assert checked("inspect", "fast.pt2", "--graph")["graph"]
    checked("diff", "fast.pt2", code=1 if applied["steps"] else 0)
    assert checked("diff", path, path)["equal"]
    checked("reverse", "fast.pt2", "--all", "-o", "back.pt2")
    left = checked("detach", "fast.pt2", "-o", "slim.pt2")
    checked("log", "slim.pt2")
    assert checked("inspect", "slim.pt2")["detached"]["tensors"] == len(left["tensors"])
    checked("forget", "fast.pt2", "-o", "slim.pt2")


def test_reversing_what_others_are_built_on(desk, model, checked):
    path = desk.put(model("blocks", steps=True))
    outcomes = {step["outcome"] for step in checked("reverse", path, "1", "-o", "a.pt2")["steps"]}
    assert outcomes == {"reversed", "reapplied"}
    outcomes = {step["outcome"] for step in checked("reverse", path, "1", "--cascade", "-o", "b.pt2")["steps"]}
    assert outcomes == {"reversed"}


def test_differences_of_values_and_interfaces(desk, model, checked):
    blocks, wide = desk.put(model("blocks")), desk.put(model("wide"))
    assert checked("diff", blocks, wide, code=1)["interface"]
    assert checked("diff", desk.put(model("floors")), desk.put(model("plain")), code=1)["nodes"]


@pytest.mark.parametrize("name", ["blocks", "plain"])
def test_running_and_verifying(desk, model, checked, name):
    path = desk.put(model(name, steps=True))
    assert checked("run", path)["outputs"]
    checked("run", path, "-o", "out.pt")
    assert checked("verify", path)["passed"]
    assert checked("verify", path, "--per-step")["passed"]


def test_a_verification_that_fails(desk, model, checked):
    result = checked("verify", desk.put(model("floors", steps=True)), "--tolerance", "1e-3", "--per-step", code=1)
    assert [step["passed"] for step in result["steps"]] == [True, True, False, True]
    assert result["steps"][2]["worst"]["problem"]


def test_what_lossy_steps_cost(desk, model, checked):
    path = desk.put(model("blocks"))
    tried = checked("sensitivity", path, "store-linear-int8")
    assert len(tried["steps"]) == 10 and tried["runs"] == 13 and not any(s["in_model"] for s in tried["steps"])
    desk("apply", path, "store-linear-int8", "-o", "lossy.pt2")
    assert [s["error"] for s in checked("sensitivity", "lossy.pt2")["steps"]] == [s["error"] for s in tried["steps"]]
    assert "no lossy steps" in desk("sensitivity", path, code=2).err


def test_verifying_a_lossy_model(desk, model, checked):
    path = desk.put(model("blocks"))
    lossy = desk.work / "lossy.pt2"
    desk("apply", path, "store-linear-int8", "-o", lossy)
    result = checked("verify", lossy, "--per-step", "--sort", "error", code=1)
    assert result["verdict"] == "not judged" and not result["passed"] and 0 < result["lossy"]["error"] < 0.1
    for output in result["sets"][0]["outputs"]:
        assert output["native_error"]["allowed"] is None and output["fp64_error"]["relative_allowed"] is None
    errors = [step["worst"]["l2"] for step in result["steps"]]
    assert errors == sorted(errors, reverse=True) and all(step["lossy"] for step in result["steps"])
    within = checked("verify", lossy, "--budget", 2 * result["lossy"]["error"])
    assert within["verdict"] == "lossy" and within["lossy"]["budget"] == 2 * result["lossy"]["error"]
    assert checked("verify", lossy, "--budget", result["lossy"]["error"] / 2, code=1)["verdict"] == "fail"


def test_values_that_are_not_finite(desk, model, checked):
    torch.save((torch.tensor([float("inf"), float("nan"), -1.0]),), desk.work / "x.pt")
    path = desk.put(model("plain"))
    [output] = checked("run", path, "--inputs", "x.pt")["outputs"]
    assert output["max"] is None and output["nan"] == 1
    checked("verify", path, "--inputs", "x.pt")


def test_bench(desk, model, checked):
    assert checked("bench", desk.put(model("fold")), *QUICK)["steps"] == []
    assert len(checked("bench", desk.put(model("floors", steps=True)), "--per-step", *QUICK)["steps"]) == 4


def test_sequences(desk, model, checked):
    path = desk.put(model("blocks", steps=True))
    assert len(checked("run", path, "--steps", 2)["calls"]) == 3
    assert checked("verify", path, "--steps", 2)["sets"][0]["calls"] == 3
    assert checked("bench", path, "--steps", 2, *QUICK)["calls"] == 2


def test_tune(desk, model, checked):
    assert checked("tune", desk.put(model("fold")), "-o", "a.pt2", *QUICK)["decided"]
    assert checked("tune", desk.put(model("plain")), "-o", "b.pt2", *QUICK)["classes"] == []
    path = desk.put(model("blocks"))
    checked("tune", path, "-o", "c.pt2", "--trials", "t.jsonl", *QUICK)
    checked("tune", path, "-o", "c.pt2", "--trials", "t.jsonl", "--resume", *QUICK)
    lossy = checked("tune", path, "-o", "d.pt2", "store-linear-int8", "--prefer", "size", "--budget", "0.01", *QUICK)
    assert lossy["within"]["budget"] == 0.01


def test_bisect(desk, model, checked):
    path = desk.put(model("floors", steps=True))
    assert checked("bisect", path, "--tolerance", "1e-3")["culprits"]
    assert checked("bisect", path, "--run", "true {}", code=1)["command"] is None
    assert checked("bisect", path, "--run", "false {}", code=1)["original"] == "bad"
    check = (
        "grep -aq levels.0.div {} && ! grep -aqF '\"site\": \"levels.1.div_1\"' {} && exit 125; "
        "! grep -aqF '\"site\": \"levels.0.div\"' {}"
    )
    assert checked("bisect", path, "--run", check)["culprits"]


def test_check(checked, tmp_path):
    rules = tmp_path / "rules.refx"
    rules.write_text(
        "rule wrong\nbefore(x):\n    return aten.add(x, x)\nafter:\n    return aten.mul(x, 3)\n", encoding="utf-8"
    )
    assert [rule["verdict"] for rule in checked("check", rules, "--instances", "10", code=1)] == ["fail"]
    assert [rule["verdict"] for rule in checked("check", "--rule", "fuse-silu", "--instances", "10")] == ["pass"]
