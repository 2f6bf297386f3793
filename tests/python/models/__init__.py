# SPDX-License-Identifier: Apache-2.0
"""Small models that cover what torch.export can express, each with inputs and the number of sites that refx should find.

One file for each family; `python -m models FOLDER NAME...` exports models to FOLDER/NAME.pt2.
"""

# The order in which MODELS lists them.
from . import (  # isort: skip
    transformers,
    convolutions,
    states,
    interfaces,
    choices,
    control_flow,
    sizes,
    traps,
)
from .kit import (
    BIAS,
    CONV,
    DIV,
    MERGE,
    MODELS,
    NORM,
    TIDYING,
    TRANSFORMATIONS,
    Entry,
    Example,
    export,
)

__all__ = [
    "BIAS", "CONV", "DIV", "MERGE", "MODELS", "NORM", "TIDYING", "TRANSFORMATIONS", "Entry", "Example", "export",
    "choices", "control_flow", "convolutions", "interfaces", "sizes", "states", "traps", "transformers",
]
