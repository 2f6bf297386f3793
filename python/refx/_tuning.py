# SPDX-License-Identifier: Apache-2.0
"""The result of ``Model.tune``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ._benchmark import Contest
from ._record import Record, Result, heading, remarks, section
from ._table import Cell, Number, error_cell, html_list, html_table, ratio_cell


@dataclasses.dataclass(frozen=True)
class Trial(Record):
    """One way to rewrite a site, as it was measured."""

    moves: tuple[str, ...]  # transformations, one after the other
    speed: str  # "faster", "slower", "no difference" or "unstable"
    ratio: float  # how many times faster than the site as it was
    low: float  # lower end of the confidence interval of the ratio
    high: float  # upper end
    before: float  # seconds; 0: not measured
    after: float  # seconds; 0: not measured
    saved: int  # bytes of weights that it saves
    remembered: bool  # read from a file of trials

    def _row(self) -> dict[str, Cell]:
        row: dict[str, Cell] = {"transformations": ", then ".join(self.moves)}
        if self.before > 0:  # with prefer="size" nothing is timed
            row.update({"ratio": ratio_cell(self.ratio, self.low, self.high), "speed": self.speed})
        return {**row, "bytes saved": self.saved}


@dataclasses.dataclass(frozen=True)
class SiteChoice(Record):
    """The decision about one site, where errors count."""

    chosen: int | None  # index of the trial; None: the site stays as it was
    errors: tuple[float | None, ...]  # relative L2 error of each trial by itself; None: not finite, or it does not run

    def _row(self) -> dict[str, Cell]:
        errors = Number(", ".join(error_cell(error) for error in self.errors))
        return {"chosen": "no trial" if self.chosen is None else f"trial {self.chosen}", "errors": errors}


@dataclasses.dataclass(frozen=True)
class SiteClass(Record):
    """Equal sites, and the trials that were measured for them."""

    key: str  # identifies the class
    places: tuple[str, ...]  # the sites
    trials: tuple[Trial, ...]
    chosen: int | None  # index of the trial; None: the sites stay as they were
    why: str  # the reason for the decision
    choices: tuple[SiteChoice, ...] = ()  # the decision about each site, where errors count

    def _repr_html_(self) -> str:
        chosen = [] if self.chosen is None else [f"chosen: {', then '.join(self.trials[self.chosen].moves)}"]
        return section(", ".join(self.places), self.trials) + html_list([*chosen, self.why])


@dataclasses.dataclass(frozen=True)
class Combination(Record):
    """A form of the whole model that was tried."""

    places: int  # how many sites are rewritten
    error: float | None  # relative L2 error
    gain: float  # seconds or bytes, summed over the sites
    score: float | None  # of the acceptance test
    good: bool  # it is within the budget, and was accepted

    def _row(self) -> dict[str, Cell]:
        return {**super()._row(), "error": error_cell(self.error)}


@dataclasses.dataclass(frozen=True)
class WithinBudget(Record):
    """The limits on the error of the result, and what was tried to stay within them."""

    budget: float | None  # the largest relative L2 error; None: no limit
    error: float | None  # of the result, on the inputs that it was proven on
    score: float | None  # of the result, by the acceptance test
    chosen_on: str  # inputs
    proven_on: str  # other inputs
    tried: tuple[Combination, ...]
    prefer: str  # "speed" or "size"

    def _repr_html_(self) -> str:
        cells: dict[str, Cell] = {"error (relative L2)": error_cell(self.error), "budget": self.budget, "score": self.score}
        return html_table(list(cells), [list(cells.values())]) + section("Combinations", self.tried)


@dataclasses.dataclass(frozen=True, repr=False)
class Tuning(Result):
    """The rewrites that were tried, their speed, and the decisions."""

    decided: bool  # False: the trials were only measured
    changed: bool  # the model was changed
    classes: tuple[SiteClass, ...]
    proof: Contest | None  # the model before and after; None: no candidate was measured
    verdict: str | None  # of the verification of the result: "pass", "fail" or "cannot tell"
    bytes_before: int  # of the tensors of the model
    bytes_after: int
    inputs: str  # where the inputs come from, and their types
    device: str
    threads: int
    mode: str  # "inference"
    machine: str
    notes: tuple[str, ...]
    within: WithinBudget | None = None  # where transformations are approximate, or an acceptance test was given

    @property
    def ratio(self) -> float:
        """How many times faster the model became; 1 if it was not changed."""
        return self.proof.ratio if self.changed and self.proof is not None else 1.0

    def _html_parts(self) -> Iterator[str]:
        changed = "changed" if self.changed else "not changed"
        yield heading(f"{changed}, {ratio_cell(self.proof.ratio, self.proof.low, self.proof.high)}, {self.proof.speed}"
                      if self.proof is not None else changed)
        if self.within is not None:
            yield self.within._repr_html_()
        for one in self.classes:
            yield one._repr_html_()
        yield remarks("Notes", self.notes)
