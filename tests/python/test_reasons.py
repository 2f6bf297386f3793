# SPDX-License-Identifier: Apache-2.0
"""Every reason for a refusal is a row of include/refx/reasons.def, which the program lists."""

import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SOURCES = sorted(path for room in ("book", "ops", "rules", "transforms") for path in (ROOT / "src" / room).glob("*.[ch]*"))

OUTSIDE_THE_TABLE = {
    "a reason made of a literal": r'\bcustom_reason\(|\bReasonId::custom\b(?! &&)',
    "a function that returns its reason as a string": r"std::string(?:_view)? (?:\w+::)?why_\w+\(",
    "a refusal made of a literal": r'refusals\.(?:push|emplace)_back\([^;]*"[^;]*;',
    "a problem made of a literal": r'\b(?:layer|linear|conv|norm|div|value|made|dead)\.problem = (?:fmt::format\()?"',
}


def literals_in(text: str) -> list[str]:
    return [what for what, pattern in OUTSIDE_THE_TABLE.items() if re.search(pattern, text)]


def test_no_reason_is_written_outside_the_table():
    assert len(SOURCES) > 40
    # allowed_ops.cpp decides which operators may run. Those reasons have their own table, in docs/operators.md.
    found = {str(path): literals_in(path.read_text()) for path in SOURCES if path.stem != "allowed_ops"}
    assert {path: what for path, what in found.items() if what} == {}


@pytest.mark.parametrize("planted", [
    'findings.add(site, custom_reason("it is too large"));',
    "std::string why_not_linear(const Model& model);",
    "std::string Sharing::why_not(NodeId value);",
    'findings.refusals.push_back({std::move(site), "it is too large"});',
    'layer.problem = fmt::format("module {} is odd", name);',
])
def test_a_planted_literal_is_found(planted):
    assert literals_in(planted)


def rows() -> list[tuple[str, str]]:
    table = (ROOT / "include/refx/reasons.def").read_text()
    return re.findall(r'^REFX_REASON\(\w+, (\w+), "(.*?)",', table, re.M)


def test_every_reason_is_used():
    sources = "\n".join(path.read_text() for path in SOURCES)
    unused = [name for name, _ in rows() if name != "custom" and f"ReasonId::{name}>" not in sources]
    assert unused == []


def test_the_program_lists_and_explains_all(refx):
    listed = refx("list", "--reasons", "--json").json()
    assert [(row["code"], row["reason"]) for row in listed] == [(name.replace("_", "-"), text) for name, text in rows()]
    table = refx("list", "--reasons").out
    assert all(f"\n{row['code']} " in table for row in listed)
    for row in listed:
        assert refx("explain", row["code"]).out.startswith(f"{row['code']}: {row['reason']}\n\n{row['section']}\n")


def test_refusals_of_the_program_have_codes(refx, exported, tmp_path):
    model = exported("norm_refused")
    codes = {row["code"] for row in refx("list", "--reasons", "--json").json()}
    inspected = refx("inspect", model, "--json").json()["refusals"]
    applied = refx("apply", model, "all", "-o", tmp_path / "fast.pt2", "--json").json()["refusals"]
    for refusal in inspected + applied:
        assert refusal["code"] in codes - {"custom"}, json.dumps(refusal)
        assert refusal["nodes"] and all(isinstance(name, str) for name in refusal["nodes"])
    assert inspected and applied
