# SPDX-License-Identifier: Apache-2.0
"""The result of ``Model.verify``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ._record import Record, Result, heading, remarks, section
from ._table import Cell, error_cell, html_table


@dataclasses.dataclass(frozen=True)
class Distance(Record):
    """The largest error of an output, in the row that uses most of its tolerance. None: not finite."""

    error: float | None  # absolute
    relative: float | None  # divided by OutputCheck.scale
    allowed: float | None  # the tolerance of that row, absolute; None: the error budget applies instead
    relative_allowed: float | None  # the tolerance divided by OutputCheck.scale


@dataclasses.dataclass(frozen=True)
class OutputCheck(Record):
    """One output on one set of inputs. An exact output (integers, booleans) has no errors."""

    path: str  # such as output[0]['logits']
    type: str  # such as f32[2, 10]
    verdict: str  # "pass", "fail", "not judged" or "cannot tell"
    passed: bool
    exact: bool  # compared bit by bit
    fraction_exceeding: float  # of the elements: those whose error exceeds the tolerance
    scale: float | None = None  # the largest magnitude of the reference
    fp64_error: Distance | None = None  # between the model and the original, both in fp64
    native_error: Distance | None = None  # between the model in its own dtype and the reference
    original_error: float | None = None  # the largest error of the original in its own dtype
    original_relative: float | None = None  # the same, divided by `scale`
    original_l2: float | None = None  # relative L2 error of the original
    l2: float | None = None  # relative L2 error of the model
    problem: str | None = None  # why it does not pass
    call: int | None = None  # of a sequence: the call with the largest error, counted from 1

    def _row(self) -> dict[str, Cell]:
        row: dict[str, Cell] = {"output": self.path, "type": self.type}
        if self.native_error is not None:
            row["native error"] = error_cell(self.native_error.relative)
            allowed = self.native_error.relative_allowed
            unused = allowed is None or (allowed == 0 and self.verdict in ("pass", "not judged"))
            row["allowed"] = None if unused else error_cell(allowed)
        if self.fp64_error is not None:
            row["fp64 error"] = error_cell(self.fp64_error.relative)
        if not self.exact:
            row["L2"] = error_cell(self.l2)
        return {**row, "call": self.call, "verdict": self.verdict, "problem": self.problem}


@dataclasses.dataclass(frozen=True)
class SetCheck(Record):
    """The outputs on one set of inputs."""

    inputs: str  # where they come from
    verdict: str  # "pass", "fail", "not judged" or "cannot tell"
    passed: bool
    outputs: tuple[OutputCheck, ...]
    calls: int | None = None  # of a sequence: how many calls were checked

    def _repr_html_(self) -> str:
        return section(f"{self.inputs}: {self.verdict}", self.outputs)


@dataclasses.dataclass(frozen=True)
class StepCheck(Record):
    """One step by itself, with ``per_step``."""

    id: int
    transformation: str
    site: str
    built_on: tuple[int, ...]  # steps that were applied together with it
    passed: bool
    added: float | None  # the relative error that it adds
    worst: OutputCheck
    lossy: bool = False  # it is approximate, or is built on a step that is
    marginal_error: float | None = None  # of a lossy step: the error of the model minus the error without this step

    def _row(self) -> dict[str, Cell]:
        row: dict[str, Cell] = {"step": self.id, "transformation": self.transformation, "site": self.site,
                                "added": error_cell(self.added)}
        if self.lossy:
            row["L2"] = error_cell(self.worst.l2)
            row["marginal error"] = error_cell(self.marginal_error)
        return {**row, "verdict": self.worst.verdict, "problem": self.worst.problem}


@dataclasses.dataclass(frozen=True)
class StepPower(Record):
    """The smallest error of one step that would be detected, with ``power``."""

    id: int
    transformation: str
    site: str
    detected: float | None  # relative error of every number that the step passes on; None: no error is detected

    def _row(self) -> dict[str, Cell]:
        detected = "no error" if self.detected is None else error_cell(self.detected)
        return {"step": self.id, "transformation": self.transformation, "site": self.site, "detected": detected}


@dataclasses.dataclass(frozen=True)
class LossyCheck(Record):
    """The error of a model that has approximate steps."""

    error: float | None  # the largest relative L2 error of an output, or fraction of differing elements
    steps: tuple[int, ...]  # the approximate steps
    budget: float | None = None  # the largest error that is accepted


@dataclasses.dataclass(frozen=True, repr=False)
class Verification(Result):
    """Whether a model computes what its original does.

    True if rounding explains the differences, or, for a model with approximate steps, if their error is within the
    budget. Without a budget the errors are measured, but not judged.
    """

    verdict: str  # "pass", "lossy" (within the budget), "fail", "not judged" or "cannot tell"
    passed: bool  # the verdict is "pass" or "lossy"
    reference: str  # what both are compared with: "fp64" or "original"
    random: bool  # the model draws random numbers
    seed: int
    threads: int
    sets: tuple[SetCheck, ...]  # one for each set of inputs
    steps: tuple[StepCheck, ...]  # with per_step
    power: tuple[StepPower, ...]  # with power
    warnings: tuple[str, ...]  # steps that these inputs do not test
    notes: tuple[str, ...]
    reason: str | None = None  # why it does not pass
    why_not_fp64: str | None = None
    lossy: LossyCheck | None = None  # of a model that has approximate steps

    @property
    def outputs(self) -> tuple[OutputCheck, ...]:
        """The outputs on all sets of inputs."""
        return tuple(output for one in self.sets for output in one.outputs)

    def __bool__(self) -> bool:
        return self.passed

    def _html_parts(self) -> Iterator[str]:
        yield heading(f"{self.verdict}: {self.reason}" if self.reason else self.verdict)
        if self.lossy is not None:
            yield html_table(["error (relative L2)", "budget"], [[error_cell(self.lossy.error), self.lossy.budget]])
        for one in self.sets:
            yield section(one.inputs, one.outputs)
        yield section("Each step by itself", self.steps)
        yield section("The smallest error that is detected", self.power)
        yield remarks("Warnings", self.warnings)
        yield remarks("Notes", self.notes)
