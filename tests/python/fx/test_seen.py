# SPDX-License-Identifier: Apache-2.0
"""Unchanged parts of a GraphModule are not read again; changed parts are."""

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

from refx.fx import (
    ChangeTrueDivToMulByInverse,
    FuseBatchNorm2dInConv2d,
    FuseBiasInLinear,
    MergeLinears,
    explain,
    log,
    reverse,
)


class Scales:
    def __init__(self):
        self.one = torch.full((), 4.0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.up, self.down = (nn.Linear(4, 4) for _ in range(4))
        self.conv, self.norm = nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2)
        self.pool = nn.AvgPool2d((2, 2))
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.register_buffer("scale", torch.full((), 2.0))
        self.register_buffer("shift", torch.ones(4), persistent=False)
        self.scales, self.plain = Scales(), torch.full((), 3.0)

    def forward(self, x):
        y = self.q(x) + self.k(x) / 8.0
        y = self.inner(y + self.shift) / self.scale
        z = self.pool(self.norm(self.conv(y.view(-1, 1, 4, 4))))
        return self.down(self.up(y)), z


class Tracer(torch.fx.Tracer):
    """Reads tensors that are plain attributes, of the module and of an object that is none."""

    def trace(self, root, concrete_args=None):
        graph = super().trace(root, concrete_args)
        first = next(n for n in graph.nodes if n.op == "call_module")
        with graph.inserting_before(first):
            for path in ("scales.one", "plain"):
                graph.call_function(torch.div, (next(iter(graph.nodes)), graph.get_attr(path)))
        return graph


def with_plain(gm, source):
    """torch.fx makes modules and buffers of what a graph reads."""
    scales, plain = source.scales, source.plain
    del gm.scales, gm.plain
    gm.scales, gm.plain = scales, plain
    return gm


def rewritten():
    """One step, which none of the changes below is about."""
    torch.manual_seed(0)
    net = Net().eval()
    gm = MergeLinears()(with_plain(GraphModule(net, Tracer().trace(net)), net))
    assert len(log(gm)) == 1
    assert findings(gm) == findings(gm)
    return gm


SAME_SITES = ("inside", "list", "inside_list", "padding", "groups")  # read again, and nothing to say of it
TRANSFORMATIONS = (MergeLinears, FuseBiasInLinear, ChangeTrueDivToMulByInverse, FuseBatchNorm2dInConv2d)


def findings(gm):
    """All that is said of the sites of a GraphModule."""
    return [(t.__name__, [s.name for s in found.sites], [(r.site, r.reason) for r in found.refusals])
            for t in TRANSFORMATIONS for found in [explain(t(), gm)]]


def fresh(gm):
    """The same modules and nodes, which refx has never seen."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(gm.graph, {}))
    return with_plain(GraphModule(gm, graph), gm)


def set_attribute(path, value):
    def change(gm):
        owner, _, name = path.rpartition(".")
        setattr(gm.get_submodule(owner), name, value)
    return change


def hook(module, *_):
    return None


def put_hook(gm):
    gm.up.register_forward_hook(hook)


def put_hook_on_weight(gm):
    gm.up.weight.register_hook(lambda grad: grad)


def put_forward(gm):
    gm.up.forward = lambda x: x


def put_subclass(gm):
    class Own(nn.Linear):
        pass
    gm.up.__class__ = Own


def put_list(gm):
    gm.conv.padding = [1, 1]


def grow_list(gm):
    gm.conv.padding = [1, 1]
    findings(gm)
    gm.conv.padding[0] = 0


def tie(gm):
    gm.up.weight = gm.down.weight


def tie_data(gm):
    gm.up.weight.data = gm.down.weight.data


def replace_inside(gm):
    gm.inner._modules["0"] = nn.Linear(4, 4, dtype=torch.float64)


def rename_inside(gm):
    parts = gm.inner._modules
    parts["0"], parts["1"] = parts["1"], parts["0"]


def cast_in_place(gm):
    gm.up.weight.data = gm.up.weight.data.double()


def put_plain(gm):
    gm.plain = torch.zeros(())


def drop_bias(gm):
    gm.up.bias = None


def edit_graph(gm):
    node = next(n for n in gm.graph.nodes if n.target == "down")
    with gm.graph.inserting_before(node):
        node.args = (gm.graph.call_function(torch.div, (*node.args, 3.0)),)


def edit_divisor(gm):
    node = next(n for n in gm.graph.nodes if 8.0 in n.args)
    node.args = (node.args[0], 0.0)


def swap_nodes(gm):
    up = next(n for n in gm.graph.nodes if n.target == "up")
    up.target = "down"


CHANGES = {
    "training": lambda gm: gm.train(), "norm_training": lambda gm: gm.norm.train(),
    "hook": put_hook, "weight_hook": put_hook_on_weight, "forward": put_forward, "class": put_subclass,
    "eps": set_attribute("norm.eps", float("nan")), "groups": set_attribute("conv.groups", 2),
    "padding": set_attribute("conv.padding", "same"), "list": put_list, "inside_list": grow_list,
    "tie": tie, "inside": replace_inside, "rename": rename_inside, "double": cast_in_place,
    "half": lambda gm: gm.half(), "tie_data": tie_data, "plain": put_plain, "bias": drop_bias,
    "registered": lambda gm: gm.register_parameter("scale_", nn.Parameter(gm._buffers.pop("scale"))),
    "edit": edit_graph, "divisor": edit_divisor, "target": swap_nodes,
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_noticed(name):
    gm = rewritten()
    before = findings(gm)
    CHANGES[name](gm)
    if name == "registered":
        for node in gm.graph.nodes:
            if node.target == "scale":
                node.target = "scale_"
    # A site is named after what the layer was at first, which the fresh one does not know.
    said = repr(findings(gm)).replace("{q,k}", "q-k-merged")
    if name == "rename":
        said = said.replace("inner.0.inner_1", "inner.1")
    assert said == repr(findings(fresh(gm)))
    assert findings(gm) != before or name in SAME_SITES


def test_unchanged_nodes_are_not_read_again():
    gm = rewritten()
    steps = len(log(gm))
    for _ in range(3):
        findings(gm)
    ChangeTrueDivToMulByInverse()(gm)
    findings(gm)
    assert len(log(gm)) == steps + 3  # and no changes by others
    refused = explain(ChangeTrueDivToMulByInverse(), gm).refusals
    assert [(r.site, r.reason) for r in refused] == [("div", "the divisor is computed, not constant")]
    reverse(gm)
    assert log(gm) == []
