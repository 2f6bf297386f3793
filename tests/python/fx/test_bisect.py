# SPDX-License-Identifier: Apache-2.0
"""bisect on GraphModules, with transformations of the library and of the user's own."""

import pytest
import torch

import refx
from refx.fx import MergeLinears, Transformation, bisect, log, reverse


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (torch.nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        return torch.relu(self.a(x)) + torch.tanh(self.b(x)) + torch.sigmoid(self.c(x))


class Wrong(Transformation):
    """A user's own pass, which replaces a function by another."""

    def __init__(self, old, new):
        super().__init__()
        self.old, self.new = old, new

    def transform(self, graph_module):
        for node in graph_module.graph.nodes:
            if node.target is self.old:
                node.target = self.new
        return graph_module


@pytest.fixture()
def net():
    torch.manual_seed(0)
    gm = torch.fx.symbolic_trace(Net().eval())
    x = torch.randn(5, 4)
    return gm, x, gm(x)


def test_names_the_step_of_a_pass_that_is_wrong(net):
    gm, x, expected = net
    MergeLinears()(gm)
    Wrong(torch.tanh, torch.sinh)(gm)
    before, steps = gm.code, log(gm)
    checked = []

    def check(form):
        checked.append(form)
        return torch.allclose(form(x), expected, atol=1e-5)

    result = bisect(gm, check)
    assert result and [[s.transformation for s in c] for c in result.culprits] == [[steps[-1].transformation]]
    assert gm.code == before and log(gm) == steps
    assert all(form is not gm for form in checked)
    for step in result.repair:
        reverse(gm, step, dependents="cascade")
    assert check(gm) and len(log(gm)) == len(steps) - 1
    assert not bisect(gm, check)


def test_names_two_passes_that_are_wrong_together(net):
    gm, x, expected = net
    MergeLinears()(gm)
    Wrong(torch.relu, torch.abs)(gm)
    Wrong(torch.sigmoid, torch.sin)(gm)
    both = {s.id for s in log(gm)[1:]}
    result = bisect(gm, lambda form: not both <= {s.id for s in log(form)})
    assert [{s.id for s in c} for c in result.culprits] == [both]


def test_says_when_there_is_nothing_to_search(net):
    gm, _, _ = net
    with pytest.raises(refx.Error, match="history is empty"):
        bisect(gm, lambda form: True)
    MergeLinears()(gm)
    for node in gm.graph.nodes:
        if node.target is torch.relu:
            node.target = torch.abs
    with pytest.raises(refx.Error, match="changed by others"):
        bisect(gm, lambda form: True)
