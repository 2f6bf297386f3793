# SPDX-License-Identifier: Apache-2.0
"""A user's program, for the type checker."""

import torch
from torch.fx import GraphModule

from refx import fx
from refx.fx import FuseBatchNorm2dInConv2d, MergeLinears, compose


def optimize(model: torch.nn.Module) -> GraphModule:
    both = compose(MergeLinears(), fx.FuseBatchNorm2dInConv2d())
    return both(torch.fx.symbolic_trace(model), lint_and_recompile=False)


def undo(graph_module: GraphModule) -> list[str]:
    graph_module = FuseBatchNorm2dInConv2d()(graph_module, reverse=True)
    return [step.site for step in fx.log(graph_module) if step.signature == MergeLinears().signature]
