# SPDX-License-Identifier: Apache-2.0
"""Results of measuring, tuning and searching, and how progress is told."""

from __future__ import annotations

import dataclasses
import html
import json
import math
from collections.abc import Callable, Iterator
from typing import Any, Protocol, cast

from ._chart import bar_chart, decades, page, shown
from ._core import Error
from ._step import Step
from ._table import text_as_html

# Called as progress(done, total, what); total is 0 where it is not known.
Callback = Callable[[int, int, str], object]


class Bar(Protocol):
    """What a bar of tqdm has."""

    total: Any
    n: Any

    def set_description(self, text: str) -> object: ...


Progress = Callback | Bar


def callback(progress: Progress | None) -> Callback | None:
    """A bar of tqdm as a function; a function as it is."""
    if progress is None or not hasattr(progress, "set_description"):
        return progress
    bar = cast(Bar, progress)

    def show(done: int, total: int, what: str) -> None:
        bar.total, bar.n = total or None, done
        bar.set_description(what)

    return show


@dataclasses.dataclass(frozen=True)
class Result:
    data: dict[str, Any] = dataclasses.field(repr=False)  # everything, as `refx ... --json` prints it
    text: str = dataclasses.field(repr=False)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return text_as_html(self.text)


@dataclasses.dataclass(frozen=True)
class Verification(Result):
    """How far a model's outputs are from its original's. True if rounding explains it, or, of a model with
    lossy steps, if it is within the budget; without a budget these are measured and not judged."""

    verdict: str  # "pass", "lossy", "not judged", "fail" or "cannot tell"
    reason: str  # why it does not pass
    outputs: list[dict[str, Any]] = dataclasses.field(repr=False)  # each on each set of inputs
    steps: list[dict[str, Any]] = dataclasses.field(repr=False)  # each by itself, with per_step
    power: list[dict[str, Any]] = dataclasses.field(repr=False)  # what would be noticed, with power
    warnings: list[str]  # steps that these inputs do not test

    @property
    def passed(self) -> bool:
        return self.verdict in ("pass", "lossy")

    def __bool__(self) -> bool:
        return self.passed

    @classmethod
    def of(cls, result: tuple[str, str]) -> Verification:
        data = json.loads(result[0])
        outputs = [{**output, "inputs": s["inputs"]} for s in data["sets"] for output in s["outputs"]]
        return cls(data, result[1], data["verdict"], data.get("reason", ""), outputs, data["steps"],
                   data["power"], data["warnings"])


@dataclasses.dataclass(frozen=True)
class Sensitivity(Result):
    """What each lossy step costs: rows in the order of the model. A notebook shows them as bars."""

    # id, transformation, site, built_on, in_model, error (relative L2; None: not finite), sqnr (dB),
    # bytes_before and bytes_after of its weights.
    rows: list[dict[str, Any]] = dataclasses.field(repr=False)
    error: float | None  # of all of them together
    runs: int  # forward passes that it took

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def worst(self, count: int = 1) -> list[dict[str, Any]]:
        """The rows that cost most, the worst first."""
        return sorted(self.rows, key=_cost, reverse=True)[:count]

    def _repr_html_(self) -> str:
        return bar_chart([(row["site"], row["error"], self._about(row), row["in_model"]) for row in self.rows],
                         "Error (relative L2) of each lossy step by itself")

    def html(self) -> str:
        """The bars as a page that needs nothing else."""
        return page("Sensitivity", self._repr_html_())

    def plot(self, ax: Any = None) -> Any:
        """The bars as axes of matplotlib, into ``ax`` if it is given."""
        try:
            from matplotlib import pyplot
        except ImportError as missing:
            raise Error("plot() draws with matplotlib, which is not installed: `pip install matplotlib`; "
                        "html() needs nothing") from missing
        if ax is None:
            _, ax = pyplot.subplots(figsize=(8, 1 + 0.22 * len(self)), layout="constrained")
        low, high = decades([row["error"] or 0 for row in self.rows])
        places = range(len(self))
        bars = ax.barh(places, [10**high if row["error"] is None else row["error"] for row in self.rows])
        for bar, row in zip(bars, self.rows, strict=True):
            bar.set_fill(row["in_model"])
        ax.set_xscale("log")
        ax.set_xlim(10**low, 10**high)
        ax.set_yticks(places, [row["site"].replace("$", r"\$") for row in self.rows], fontsize=8)
        ax.invert_yaxis()
        ax.set_xlabel("error (relative L2)")
        return ax

    @staticmethod
    def _about(row: dict[str, Any]) -> str:
        decibels = "" if row["sqnr"] is None else f', {row["sqnr"]:.1f} dB'
        tried = "" if row["in_model"] else "; not in the model"
        return (f'step {row["id"]}, {row["transformation"]} at {row["site"]}: error {shown(row["error"])}{decibels}; '
                f'{row["bytes_before"]} bytes, now {row["bytes_after"]}{tried}')

    @classmethod
    def of(cls, result: tuple[str, str]) -> Sensitivity:
        data = json.loads(result[0])
        return cls(data, result[1], data["steps"], data["error"], data["runs"])


def _cost(row: dict[str, Any]) -> float:
    return math.inf if row["error"] is None else row["error"]


@dataclasses.dataclass(frozen=True)
class Benchmark(Result):
    """How much faster a model is than another, with the interval that holds the true ratio."""

    speed: str  # "faster", "slower", "no difference" or "unstable"
    ratio: float
    low: float
    high: float
    steps: list[dict[str, Any]] = dataclasses.field(repr=False)  # what each gives

    @classmethod
    def of(cls, result: tuple[str, str]) -> Benchmark:
        data = json.loads(result[0])
        contest = data["contest"]
        return cls(data, result[1], contest["speed"], contest["ratio"], contest["low"],
                   contest["high"], data["steps"])


@dataclasses.dataclass(frozen=True)
class Tuning(Result):
    """What was tried where, what it gave, and what became of the model."""

    changed: bool
    ratio: float  # of the input's time to the result's; 1 if it was left as it was

    @classmethod
    def of(cls, result: tuple[str, str]) -> Tuning:
        data = json.loads(result[0])
        return cls(data, result[1], data["changed"], data["proof"]["ratio"] if data["changed"] else 1.0)


@dataclasses.dataclass(frozen=True)
class Bisection(Result):
    """The smallest sets of steps that make a check fail. True if there are any."""

    culprits: list[list[Step]]
    repair: list[int]  # ids of steps: reversed with dependents="cascade", the check passes

    def __bool__(self) -> bool:
        return bool(self.culprits)

    @classmethod
    def of(cls, result: tuple[str, str], steps: list[Step]) -> Bisection:
        data = json.loads(result[0])
        by_id = {step.id: step for step in steps}
        culprits = [[by_id[step["id"]] for step in culprit["steps"]] for culprit in data["culprits"]]
        return cls(data, result[1], culprits, data["repair"])


class Report(str):
    """A page of HTML that needs nothing else; shown inline in notebooks."""

    def _repr_html_(self) -> str:
        return (f'<iframe srcdoc="{html.escape(self, quote=True)}" width="100%" height="720" '
                'style="border: 1px solid #8884"></iframe>')
