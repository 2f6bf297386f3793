# SPDX-License-Identifier: Apache-2.0
"""Whether `refx verify` detects planted errors, and reports nothing else.

Errors are planted into exported and into rewritten programs, and judged, by torch alone (planted_errors.py): one that moves
a result by a ten-thousandth of its scale in fp64, or by a hundredth where 16-bit types are at work, must be detected.
By default a few of each model, chosen by seed: of a kind the one that moves the results least. REFX_MUTATIONS=all
plants everything.
"""

import collections
import concurrent.futures
import dataclasses
import os
import random

import pytest
import torch

import planted_errors
from conftest import SUMMARY, load
from models import BIAS, CONV, DIV, MERGE, NORM

ALL = os.environ.get("REFX_MUTATIONS") == "all"
PASS, FAIL, UNKNOWN = "pass", "fail", "cannot tell"
PILE = [BIAS, DIV, MERGE, NORM, CONV]  # another order than that of `all`
POOL = concurrent.futures.ThreadPoolExecutor(2)


class Tally:
    """How many of what, by model and by kind of error."""

    def __init__(self):
        self.models, self.kinds = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)

    def lines(self):
        total = sum(self.models.values(), collections.Counter())
        shown = {name: c for name, c in self.models.items() if ALL or c["missed"]}
        shown |= {f"all {len(self.models)} models": total}
        for name, c in shown.items():
            yield (f"{name}: {c['detected']} of {c['planted']} planted errors detected, {c[UNKNOWN]} \"cannot tell\", "
                   f"{c['missed']} missed; {c['small']} too small, {c['rows']} of them move a row; "
                   f"{c['passed']} of {c['right']} right rewrites pass")
        yield "detected, by kind: " + ", ".join(f"{kind} {c['detected']}/{c['planted']}" for kind, c in sorted(self.kinds.items()))


@pytest.fixture(scope="module")
def tally():
    tally = Tally()
    yield tally
    SUMMARY.extend(tally.lines())


def verdict(result):
    """What verify says; its exit code says the same."""
    assert result.code in (0, 1), str(result)
    said = result.json()
    answer = said["verdict"]
    assert (answer == PASS) == (result.code == 0), str(result)
    assert answer != UNKNOWN or said["reason"], str(result)
    return answer


@dataclasses.dataclass
class Case:
    program: torch.export.ExportedProgram
    error: planted_errors.PlantedError
    inputs: int
    moved: float

    def __str__(self):
        return f"{self.error}, inputs {self.inputs}: moved by {self.moved:.2g}"


class Bench:
    """One model, its inputs, and what it gives on them."""

    def __init__(self, made, folder):
        self.made, self.folder = made, folder
        self.original = load(made.original)
        self.inputs = [self.original.example_inputs, *made.entry.example().more]
        self.run = planted_errors.in_its_own_types if made.entry.random else planted_errors.exactly
        self.right = [self.run(self.original, *i) for i in self.inputs]
        self.types = planted_errors.dtypes(self.original)
        self.least = 1e-2 if planted_errors.is_half(self.original) else 1e-4
        for i, inputs in enumerate(self.inputs):
            torch.save(inputs, self.inputs_file(i))

    def inputs_file(self, i):
        return self.folder / f"{i}.pt"

    def cases(self, program, planted, counts):
        """The errors that must be detected."""
        for i, error in enumerate(planted):
            at = i % len(self.inputs)
            with error.planted():
                moved, by_row = planted_errors.movement(self.run(program, *self.inputs[at]), self.right[at], self.types)
            counts["small"] += moved < self.least
            counts["rows"] += moved < self.least <= by_row
            if moved >= self.least:
                yield Case(program, error, at, moved)

    def verify(self, refx, case, number):
        """The future verdict. The file's own inputs are given only every other time."""
        path = self.folder / f"{number}.pt2"
        with case.error.planted():
            torch.export.save(case.program, path)
        given = ["--inputs", self.inputs_file(case.inputs)] if case.inputs or number % 2 else []
        return POOL.submit(refx, "verify", path, "--against", self.made.original, *given, "--json", code=None)


def some(planted, seed):
    """Up to four errors of each kind, the kinds mixed."""
    if ALL:
        return planted
    random.Random(seed).shuffle(planted)
    by_kind = collections.defaultdict(list)
    for error in planted:
        by_kind[error.kind].append(error)
    return [error for of_kind in by_kind.values() for error in of_kind[:4]]


def hardest(cases, count):
    """Of so many kinds the one that moves least."""
    if ALL:
        return cases
    least = {}
    for case in cases:
        least[case.error.kind] = min(case, least.get(case.error.kind, case), key=lambda c: c.moved)
    return list(least.values())[:count]


def attends(program):
    return any("attention" in str(n.target) or "softmax" in str(n.target) for n in program.graph.nodes)


def test_planted_errors_are_detected(made, refx, tally, tmp_path):
    if not made.entry.runs:
        pytest.skip("not to be run without Python")
    counts = tally.models[made.name]
    bench = Bench(made, tmp_path)
    many = 5 if attends(bench.original) else 2
    cases = hardest([*bench.cases(bench.original, some(planted_errors.candidates(bench.original), made.name), counts)], many)
    if made.entry.sites:
        rewritten = load(made.file("all"))
        planted = [*planted_errors.candidates(rewritten), *planted_errors.folded_with_other_eps(rewritten, bench.original)]
        cases += hardest([*bench.cases(rewritten, some(planted, made.name), counts)], many // 2)
    verdicts = [verdict(f.result()) for f in [bench.verify(refx, case, i) for i, case in enumerate(cases)]]
    enough = (FAIL,) if made.entry.smooth else (FAIL, UNKNOWN)
    missed = [f"{case}: {said}" for case, said in zip(cases, verdicts) if said not in enough]
    counts["missed"] += len(missed)
    for case, said in zip(cases, verdicts):
        for counter in (counts, tally.kinds[case.error.kind]):
            counter.update(["planted", "detected" if said == FAIL else said])
    assert not missed, f"{len(missed)} of {len(cases)}:\n" + "\n".join(missed)


@pytest.fixture(scope="module")
def folded(exported, refx, tmp_path_factory):
    """The decoder with its tables stored, and as it was."""
    path = tmp_path_factory.mktemp("folded") / "rotary.pt2"
    original = exported("rotary")
    refx("apply", original, "fold-constants", "-o", path)
    return path, original


def test_folded_tables_pass(folded, refx):
    """They are what the original computes in every run, bit for bit."""
    path, _ = folded
    said = refx("verify", path, "--per-step", "--power", "--json").json()
    assert said["verdict"] == PASS and not said["warnings"]
    assert all(output["fp64_error"]["error"] == 0 for inputs in said["sets"] for output in inputs["outputs"])


def test_wrong_tables_are_detected(folded, refx, tmp_path):
    path, original = folded
    planted = []
    for program in load(path), load(original):
        for error in planted_errors.candidates(program):
            if error.kind in ("wrong table", "wrong frequencies"):
                planted.append((error, tmp_path / f"{len(planted)}.pt2"))
                with error.planted():
                    torch.export.save(program, planted[-1][1])
    assert len(planted) == 3 + 3 + 1 + 2  # of cosines, of sines, swapped; frequencies in both programs
    for error, file in planted:
        result = refx("verify", file, "--against", original, "--json", code=None)
        assert verdict(result) == FAIL, f"{error}\n{result}"


def test_right_rewrites_pass(made, refx, tally, tmp_path):
    if not made.entry.runs or not made.entry.sites:
        pytest.skip("not to be run without Python, or nothing to rewrite")
    torch.save([load(made.original).example_inputs, *made.entry.example().more][-1], tmp_path / "in.pt")
    files = {"all": made.file("all")}
    for pile in [PILE, *([t] for t in made.entry.sites if ALL)]:
        files[" ".join(pile)] = path = tmp_path / f"{len(files)}.pt2"
        refx("apply", made.original, *pile, "-o", path)

    def judge(path):
        return verdict(refx("verify", path, "--inputs", tmp_path / "in.pt", "--json", code=None))

    said = dict(zip(files, POOL.map(judge, files.values())))
    tally.models[made.name].update(right=len(said), passed=list(said.values()).count(PASS))
    alarms = {key: answer for key, answer in said.items() if answer == FAIL or made.entry.smooth and answer != PASS}
    assert not alarms
