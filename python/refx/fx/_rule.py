# SPDX-License-Identifier: Apache-2.0
"""Rules, on GraphModules."""

from __future__ import annotations

from typing import Any

from .. import _core, _rule
from ._builtin import BuiltIn


class Rule(BuiltIn):
    """A rewrite that is written down.

    Args:
        rule: what ``refx.rule`` or ``refx.rules`` made, the text of a rule, or the name of one that is
            known: ``"gelu-written-out"``.
    """

    def __init__(self, rule: _rule.Rule | str) -> None:
        if isinstance(rule, str) and "\n" in rule:
            rule = _rule.one(rule)
        self._rule = rule
        self.preserves_computation = _core.preserves_computation(self._name)

    @property
    def _name(self) -> str:  # type: ignore[override]
        return self._rule if isinstance(self._rule, str) else self._rule._name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._rule,)

