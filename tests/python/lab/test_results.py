# SPDX-License-Identifier: Apache-2.0
"""The typed results of the laboratory: their fields, how they print, and what notebooks show."""

import copy
import dataclasses
import json
import pathlib
import pickle
import re
import typing
from xml.etree import ElementTree

import pytest
import torch

import refx

SCHEMAS = pathlib.Path(__file__).resolve().parents[3] / "docs" / "schemas"
RESULTS = {"verify": refx.Verification, "sensitivity": refx.Sensitivity, "bench": refx.Benchmark,
           "tune": refx.Tuning, "bisect": refx.Bisection}
QUICK = {"threads": 1, "seconds": 0.05}


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(-1, -2) / 3.0
        return scores.softmax(-1) @ self.value(x)


@pytest.fixture(scope="module")
def results():
    torch.manual_seed(0)
    net = torch.nn.Sequential(Attention(), Attention()).eval()
    original = refx.export(net, (torch.randn(2, 4, 16),))
    exact, model = original.copy(), original.copy()
    exact.apply("merge-linears")
    model.apply("merge-linears", "change-true-div-to-mul-by-inverse", "store-linear-int8")
    return {
        "verify": model.verify(per_step=True, budget=0.1),
        "power": exact.verify(power=True),
        "sensitivity": model.sensitivity(),
        "bench": model.bench(per_step=True, **QUICK),
        "tune": original.copy().tune("store-linear-int8", prefer="size", budget=1e-3, **QUICK),
        "bisect": model.bisect(lambda form: len(form.log()) < 3),
    }


def is_record(kind):
    return isinstance(kind, type) and hasattr(kind, "from_json")


def record_type(kind):
    """The record type inside X, X | None and tuple[X, ...]; None for other types."""
    kinds = [kind, *typing.get_args(kind)]
    return next((one for one in kinds if is_record(one)), None)


def object_schema(schema, root):
    """The schema of the object inside references, arrays and alternatives."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if "oneOf" in schema:
        (schema,) = (object_schema(one, root) for one in schema["oneOf"] if one.get("type") != "null")
    return object_schema(schema["items"], root) if schema.get("type") == "array" else schema


def types_and_schemas():
    """Every record type that a result contains, with the schema of its JSON object."""
    found = {}

    def add(cls, schema, root):
        if cls in found:
            return
        found[cls] = schema
        for name, kind in typing.get_type_hints(cls).items():
            if record_type(kind) is not None:
                add(record_type(kind), object_schema(schema["properties"][name], root), root)

    for command, cls in RESULTS.items():
        root = json.loads((SCHEMAS / f"{command}.json").read_text(encoding="utf-8"))
        add(cls, root, root)
    return found


@pytest.mark.parametrize("cls,schema", types_and_schemas().items(), ids=lambda value: getattr(value, "__name__", ""))
def test_fields_are_the_members_of_the_json(cls, schema):
    fields = {field.name: field for field in dataclasses.fields(cls)}
    assert fields.keys() == schema["properties"].keys()
    without_default = {name for name, field in fields.items() if field.default is dataclasses.MISSING}
    assert without_default == set(schema["required"])
    assert cls.__name__ in refx.__all__ and getattr(refx, cls.__name__) is cls
    assert cls.__doc__ and not cls.__doc__.startswith(cls.__name__ + "(")


def records(value):
    """All records inside a result, with the JSON objects that they were read from."""
    if isinstance(value, tuple):
        for item in value:
            yield from records(item)
    elif is_record(type(value)):
        yield value
        for field in dataclasses.fields(value):
            yield from records(getattr(value, field.name))


def assert_same(value, data):
    """A field has the value of the JSON member."""
    if is_record(type(value)) or isinstance(value, refx.Step):
        for name, part in data.items():
            assert_same(getattr(value, name), part)
    elif isinstance(data, list):
        assert isinstance(value, tuple) and len(value) == len(data)
        for item, part in zip(value, data, strict=True):
            assert_same(item, part)
    else:
        assert value == data and type(value) is type(data) or float(value) == float(data)


@pytest.mark.parametrize("command", RESULTS)
def test_a_result_has_the_values_of_its_json(results, command):
    result = results[command]
    data = result.to_dict()
    assert type(result) is RESULTS[command]
    assert json.loads(json.dumps(data)) == data
    assert_same(result, data)
    for record in records(result):
        absent = {field.name for field in dataclasses.fields(record)} - record.to_dict().keys()
        assert all(getattr(record, name) in (None, False, ()) for name in absent)
        assert_same(record, record.to_dict())


@pytest.mark.parametrize("command", RESULTS)
def test_to_dict_is_a_copy(results, command):
    data = results[command].to_dict()
    data.clear()
    assert results[command].to_dict()
    with pytest.raises(dataclasses.FrozenInstanceError):
        results[command].notes = ()


@pytest.mark.parametrize("command", RESULTS)
def test_a_result_prints_as_in_the_program(results, command):
    result = results[command]
    assert str(result) == repr(result) == result.text
    assert result.text.strip() and "\n" in result.text


@pytest.mark.parametrize("command", RESULTS)
def test_parts_have_a_repr_of_one_line_with_their_fields(results, command):
    for record in list(records(results[command]))[1:]:
        assert "\n" not in repr(record)
        assert repr(record).startswith(f"{type(record).__name__}({dataclasses.fields(record)[0].name}=")


@pytest.mark.parametrize("command", RESULTS)
def test_results_are_copied_and_pickled(results, command):
    result = results[command]
    for other in (copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert other == result and other.text == result.text and other.to_dict() == result.to_dict()


def cells_of(html):
    """The tables of a notebook cell: for each, its rows of (tag, alignment, text)."""
    root = ElementTree.fromstring(html)
    return [[[(cell.tag, re.match("text-align: (left|right)", cell.get("style"))[1], cell.text or "") for cell in row]
             for row in table.iter("tr")] for table in root.iter("table")]


@pytest.mark.parametrize("command", RESULTS)
def test_a_notebook_shows_every_record(results, command):
    for record in records(results[command]):
        html = record._repr_html_()
        assert "None" not in html
        if html:
            root = ElementTree.fromstring(f"<div>{html}</div>")
            assert "".join(root.itertext()).strip()
        for table in cells_of(f"<div>{html}</div>"):
            assert len({len(row) for row in table}) == 1 and all(tag == "th" for tag, *_ in table[0])
            for column in zip(*table, strict=True):
                sides = {side for _, side, _ in column}
                assert len(sides) == 1
                if all(re.fullmatch(r"-?[\d.]+(e[+-]\d+)?", text) for _, _, text in column[1:]):
                    assert sides == {"right"}, column


def column(table, name):
    place = [text for *_, text in table[0]].index(name)
    return [row[place][2] for row in table[1:]]


def test_the_tables_of_a_verification(results):
    result = results["verify"]
    budget, *sets, steps = cells_of(result._repr_html_())
    assert [text for *_, text in budget[1]] == [f"{result.lossy.error:.1e}", "0.1"]
    assert [column(table, "verdict") for table in sets] == [[o.verdict for o in s.outputs] for s in result.sets]
    assert [column(table, "output") for table in sets] == [["output"]] * len(result.sets)
    assert column(steps, "site") == [step.site for step in result.steps]
    assert column(steps, "step") == [str(step.id) for step in result.steps]
    assert result and result.verdict == "lossy"
    assert result.outputs == tuple(output for one in result.sets for output in one.outputs)


def test_the_tables_of_the_errors_that_are_detected(results):
    result = results["power"]
    *sets, power = cells_of(result._repr_html_())
    errors = [[f"{output.native_error.relative:.1e}" for output in one.outputs] for one in result.sets]
    assert [column(table, "native error") for table in sets] == errors
    assert column(power, "step") == [str(step.id) for step in result.power] == ["1", "2"]
    assert column(power, "detected") == [f"{step.detected:.1e}" for step in result.power]


def test_the_tables_of_a_benchmark(results):
    result = results["bench"]
    times, steps = cells_of(result._repr_html_())
    assert column(times, "model") == [result.before, result.after]
    assert column(times, "runs") == [str(result.contest.before.runs), str(result.contest.after.runs)]
    assert column(steps, "speed") == [step.contest.speed for step in result.steps]
    assert f"{result.speed}: {result.ratio:.3f}x" in result._repr_html_()


def test_the_tables_of_tuning(results):
    result = results["tune"]
    limits, combinations, *classes = cells_of(result._repr_html_())
    assert column(limits, "budget") == ["0.001"]
    assert len(combinations) == 1 + len(result.within.tried)
    assert len(classes) == len(result.classes)
    assert [column(table, "transformations") for table in classes] == [["store-linear-int8"]] * len(classes)


def test_the_tables_of_a_bisection(results):
    result = results["bisect"]
    tables = cells_of(result._repr_html_())
    assert [column(table, "step") for table in tables] == [[str(step.id) for step in c] for c in result.culprits]
    assert result and all(isinstance(step, refx.Step) for culprit in result.culprits for step in culprit)
    assert all(len(culprit) == len(culprit.steps) for culprit in result.culprits)


def test_a_table_aligns_numbers_and_escapes_text():
    table = refx._table.html_table(["site", "x", "ok", "mixed"], [["<b>", 1, True, 2], ["c", None, False, "-"]])
    [rows] = cells_of(table)
    assert rows == [[("th", "left", "site"), ("th", "right", "x"), ("th", "left", "ok"), ("th", "left", "mixed")],
                    [("td", "left", "<b>"), ("td", "right", "1"), ("td", "left", "yes"), ("td", "left", "2")],
                    [("td", "left", "c"), ("td", "right", ""), ("td", "left", "no"), ("td", "left", "-")]]
    assert "<b>" not in table


def test_an_error_that_is_not_finite_is_shown_as_such():
    step = {"id": 1, "transformation": "t", "site": "s", "detected": None}
    assert "no error" in refx.StepPower.from_json(step)._repr_html_()
    output = refx.Combination.from_json({"places": 1, "error": None, "gain": 2, "score": None, "good": False})
    assert "not finite" in output._repr_html_() and output.gain == 2.0 and isinstance(output.gain, float)
