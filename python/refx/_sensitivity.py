# SPDX-License-Identifier: Apache-2.0
"""The result of ``Model.sensitivity``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

from ._chart import bar_chart, decades, page
from ._core import Error
from ._record import Record, Result
from ._table import Cell, error_cell


@dataclasses.dataclass(frozen=True)
class StepSensitivity(Record):
    """The error that one approximate step causes by itself."""

    id: int
    transformation: str
    site: str
    built_on: tuple[int, ...]  # steps that were applied together with it
    in_model: bool  # False: the step was only tried
    error: float | None  # relative L2 error, or fraction of differing elements; None: not finite
    sqnr: float | None  # the same in dB; None: there is no error, or it is not finite
    bytes_before: int  # of the weights that it replaced
    bytes_after: int  # of its own weights

    def _row(self) -> dict[str, Cell]:
        return {**super()._row(), "error": error_cell(self.error)}

    def _about(self) -> str:
        decibels = "" if self.sqnr is None else f", {self.sqnr:.1f} dB"
        tried = "" if self.in_model else "; not in the model"
        return (f"step {self.id}, {self.transformation} at {self.site}: error {error_cell(self.error)}{decibels}; "
                f"{self.bytes_before} bytes, now {self.bytes_after}{tried}")


@dataclasses.dataclass(frozen=True, repr=False)
class Sensitivity(Result):
    """The error that each approximate step causes by itself, in the order of the model.

    Iterating gives the steps. A notebook shows their errors as bars.
    """

    error: float | None  # of all steps together; None: not finite
    inputs: str  # where the inputs come from, and their types
    threads: int
    runs: int  # how often a form of the model was run
    steps: tuple[StepSensitivity, ...]

    def __iter__(self) -> Iterator[StepSensitivity]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def worst(self, count: int = 1) -> list[StepSensitivity]:
        """The steps with the largest errors, the largest first."""
        return sorted(self.steps, key=lambda step: math.inf if step.error is None else step.error, reverse=True)[:count]

    def _repr_html_(self) -> str:
        return bar_chart([(step.site, step.error, step._about(), step.in_model) for step in self.steps],
                         "Error (relative L2) of each approximate step by itself")

    def html(self) -> str:
        """A self-contained HTML page with the bars."""
        return page("Sensitivity", self._repr_html_())

    def plot(self, ax: Any = None) -> Any:
        """Draws the bars with matplotlib, into ``ax`` if it is given, and returns the axes."""
        try:
            from matplotlib import pyplot
        except ImportError as missing:
            raise Error("plot() draws with matplotlib, which is not installed: `pip install matplotlib`; "
                        "html() needs nothing") from missing
        if ax is None:
            _, ax = pyplot.subplots(figsize=(8, 1 + 0.22 * len(self)), layout="constrained")
        low, high = decades([step.error or 0 for step in self.steps])
        positions = range(len(self))
        bars = ax.barh(positions, [10**high if step.error is None else step.error for step in self.steps])
        for bar, step in zip(bars, self.steps, strict=True):
            bar.set_fill(step.in_model)
        ax.set_xscale("log")
        ax.set_xlim(10**low, 10**high)
        ax.set_yticks(positions, [step.site.replace("$", r"\$") for step in self.steps], fontsize=8)
        ax.invert_yaxis()
        ax.set_xlabel("error (relative L2)")
        return ax
