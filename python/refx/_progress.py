# SPDX-License-Identifier: Apache-2.0
"""How long operations report their progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

# Called as progress(done, total, what); total is 0 where it is not known.
Callback = Callable[[int, int, str], object]


class Bar(Protocol):
    """The part of a tqdm progress bar that is used."""

    total: Any
    n: Any

    def set_description(self, text: str) -> object: ...


Progress = Callback | Bar


def callback(progress: Progress | None) -> Callback | None:
    """Makes a function of a tqdm bar; returns a function unchanged."""
    if progress is None or not hasattr(progress, "set_description"):
        return progress
    bar = cast(Bar, progress)

    def show(done: int, total: int, what: str) -> None:
        bar.total, bar.n = total or None, done
        bar.set_description(what)

    return show
