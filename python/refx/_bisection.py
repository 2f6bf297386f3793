# SPDX-License-Identifier: Apache-2.0
"""The result of ``Model.bisect`` and ``refx.fx.bisect``."""

from __future__ import annotations

import dataclasses
import html
import json
from collections.abc import Iterable, Iterator

from ._record import Record, Result, heading
from ._step import Step
from ._table import html_table


@dataclasses.dataclass(frozen=True)
class Culprit(Record):
    """A smallest set of steps that makes the check fail. Iterating gives the steps."""

    steps: tuple[Step, ...]  # together they make the check fail; no part of them does
    built_on: tuple[int, ...]  # steps that had to be applied with them

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def _repr_html_(self) -> str:
        return html_table(["step", "transformation", "site"],
                          [[step.id, step.transformation, step.site] for step in self.steps])


@dataclasses.dataclass(frozen=True, repr=False)
class Bisection(Result):
    """The smallest sets of steps that make a check fail. True if there are any."""

    original: str  # the check of the original: "good" or "bad"
    current: str  # the check of the model as it is: "good" or "bad"
    culprits: tuple[Culprit, ...]
    repair: tuple[int, ...]  # steps to reverse with dependents="cascade"
    repaired: bool  # the check was run without these steps, and passed
    command: str | None  # the call that repairs the model; None: nothing to repair, or several calls are needed
    unsure: tuple[int, ...]  # steps that may be culprits: checks of them were skipped
    checks: int  # how often the check was run
    remembered: int  # verdicts that were read from the journal

    def __bool__(self) -> bool:
        return bool(self.culprits)

    @classmethod
    def of_steps(cls, printed: tuple[str, str], steps: Iterable[Step]) -> Bisection:
        """Makes a result of the JSON and the text that the library gives, and the steps of the model."""
        by_id = {step.id: step for step in steps}
        culprits = [Culprit.from_json(one, steps=tuple(by_id[step["id"]] for step in one["steps"]))
                    for one in json.loads(printed[0])["culprits"]]
        return cls.of(printed, culprits=tuple(culprits))

    def _html_parts(self) -> Iterator[str]:
        yield heading(f"original: {self.original}, current: {self.current}")
        for number, culprit in enumerate(self.culprits, 1):
            yield heading(f"Culprit {number}") + culprit._repr_html_()
        if self.command is not None:
            yield f"{heading('Repair')}<pre>{html.escape(self.command)}</pre>"
