# SPDX-License-Identifier: Apache-2.0
"""Rules as transformations of GraphModules."""

from __future__ import annotations

from typing import Any

from .. import _core, _rule
from ._builtin import BuiltIn


class Rule(BuiltIn):
    """A declarative rewrite rule as a transformation of GraphModules.

    Args:
        rule: a rule of ``refx.rule`` or ``refx.rules``, the text of a rule, or the name of a registered rule, such as
            "fuse-gelu".
    """

    def __init__(self, rule: _rule.Rule | str) -> None:
        if isinstance(rule, str) and "\n" in rule:
            rule = _rule.one(rule)
        self._rule = rule
        self.preserves_computation = _core.preserves_computation(self._name)
        if isinstance(rule, str):  # steps get the current name
            (self._rule,) = _core.find_transformations([rule])

    @property
    def _name(self) -> str:  # type: ignore[override]
        return self._rule if isinstance(self._rule, str) else self._rule._name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._rule,)

