# SPDX-License-Identifier: Apache-2.0
"""The result of ``Model.bench``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ._record import Record, Result, heading, remarks, section
from ._table import Cell, Number, html_table, ratio_cell


def _seconds(value: float) -> Number:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return Number(f"{value / size:.2f} {unit}")
    return Number(f"{value / 1e-9:.0f} ns")


@dataclasses.dataclass(frozen=True)
class Timing(Record):
    """The time of one run, in seconds."""

    low: float  # lower quartile
    median: float
    high: float  # upper quartile
    runs: int  # how many runs were timed

    def _row(self) -> dict[str, Cell]:
        return {"median": _seconds(self.median), "quartiles": Number(f"{_seconds(self.low)} .. {_seconds(self.high)}"),
                "runs": self.runs}


@dataclasses.dataclass(frozen=True)
class Contest(Record):
    """Two models that were run in turns."""

    speed: str  # of the second: "faster", "slower", "no difference" or "unstable"
    ratio: float  # how many times faster the second one is
    low: float  # lower end of the confidence interval of the ratio
    high: float  # upper end
    before: Timing
    after: Timing
    rounds: tuple[float, ...]  # the ratio in each round

    def _row(self) -> dict[str, Cell]:
        return {"ratio": ratio_cell(self.ratio, self.low, self.high), "speed": self.speed}


@dataclasses.dataclass(frozen=True)
class StepBenchmark(Record):
    """The model without one step (before) and with it (after)."""

    id: int
    transformation: str
    site: str
    contest: Contest

    def _row(self) -> dict[str, Cell]:
        return {"step": self.id, "transformation": self.transformation, "site": self.site, **self.contest._row()}


@dataclasses.dataclass(frozen=True)
class Rates(Record):
    """Calls or tokens per second, by the median times."""

    before: float
    after: float


@dataclasses.dataclass(frozen=True, repr=False)
class Benchmark(Result):
    """How much faster a model (after) is than another one (before)."""

    before: str  # what the model is compared with
    after: str
    inputs: str  # where the inputs come from, and their types
    device: str
    threads: int
    mode: str  # "inference"
    machine: str
    confidence: float  # of the intervals
    contest: Contest
    steps: tuple[StepBenchmark, ...]  # with per_step
    notes: tuple[str, ...]
    calls: int | None = None  # of a sequence: the calls in each timed run
    tokens: int | None = None  # of a sequence: the tokens in them
    calls_per_second: Rates | None = None
    tokens_per_second: Rates | None = None

    @property
    def speed(self) -> str:
        """The verdict on the model: "faster", "slower", "no difference" or "unstable"."""
        return self.contest.speed

    @property
    def ratio(self) -> float:
        """How many times faster the model is."""
        return self.contest.ratio

    @property
    def low(self) -> float:
        """The lower end of the confidence interval of the ratio."""
        return self.contest.low

    @property
    def high(self) -> float:
        """The upper end of the confidence interval of the ratio."""
        return self.contest.high

    def _html_parts(self) -> Iterator[str]:
        yield heading(f"{self.speed}: {ratio_cell(self.ratio, self.low, self.high)}")
        rows = [{"model": name, **timing._row()}
                for name, timing in ((self.before, self.contest.before), (self.after, self.contest.after))]
        yield html_table(list(rows[0]), [list(row.values()) for row in rows])
        yield section("Each step", self.steps)
        yield remarks("Notes", self.notes)
