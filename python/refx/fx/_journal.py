# SPDX-License-Identifier: Apache-2.0
"""A former name of ``_history``, which GraphModules that were saved then still ask for."""

from ._history import History as Journal

__all__ = ["Journal"]
