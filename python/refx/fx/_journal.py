# SPDX-License-Identifier: Apache-2.0
"""A former name of ``_history``, which pickled GraphModules still refer to."""

from ._history import History as Journal

__all__ = ["Journal"]
