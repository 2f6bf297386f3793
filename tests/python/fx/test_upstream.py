# SPDX-License-Identifier: Apache-2.0
"""The same scripts under optimum.fx.optimization, where it is installed, and under refx.fx: they find the same.

What is meant to differ is in docs/from-optimum.md, and is said here where it is.
"""

import copy
import pathlib
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import refx.fx
import zoo
from kit import flat, trace

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "bench"))
import fx_peers  # noqa: E402

optimum = fx_peers.peer()
pytestmark = pytest.mark.skipif(optimum is None, reason="optimum is not installed")


def both(script, *args):
    """What a script returns under refx.fx and under optimum.fx.optimization, on the same random numbers."""
    found = []
    for module in refx.fx, optimum:
        torch.manual_seed(0)
        found.append(script(module, *copy.deepcopy(args)))
    return found


def assert_same(found, expected):
    assert type(found) is type(expected)
    if isinstance(found, dict):
        assert found.keys() == expected.keys()
        found, expected = found.values(), [expected[key] for key in found]
    if isinstance(found, torch.Tensor):
        torch.testing.assert_close(found, expected)
    elif isinstance(found, (list, tuple)) or not isinstance(found, (str, int, bool, set, type(None))):
        found, expected = list(found), list(expected)
        assert len(found) == len(expected)
        for a, b in zip(found, expected):
            assert_same(a, b)
    else:
        assert found == expected


# ---- the transformations -----------------------------------------------------------------------------


def transformed(fx, name, transformations):
    model, inputs = zoo.make(name)
    parts = [getattr(fx, t)() for t in transformations]
    composed = fx.compose(*parts) if len(parts) > 1 else parts[0]  # optimum does not reverse one of one
    gm = composed(trace(model))
    return gm, composed, inputs


def outputs_and_keys(fx, name, transformations):
    gm, composed, inputs = transformed(fx, name, transformations)
    found = {"outputs": flat(gm(*inputs)), "keys": set(gm.state_dict()),
             "shapes": {key: tuple(value.shape) for key, value in gm.state_dict().items()},
             "preserves": composed.preserves_computation}
    if all(hasattr(getattr(optimum, t), "reverse") for t in transformations):
        gm = composed(gm, reverse=True)
        found.update(back=flat(gm(*inputs)), state={k: v.detach() for k, v in gm.state_dict().items()})
    return found


@pytest.mark.parametrize("name, transformations", [
    ("encoder", ["MergeLinears"]),
    ("encoder", ["FuseBiasInLinear"]),
    ("encoder", ["ChangeTrueDivToMulByInverse"]),
    ("encoder", ["ChangeTrueDivToMulByInverse", "MergeLinears"]),
    ("encoder", ["MergeLinears", "FuseBiasInLinear"]),
    ("decoder", ["ChangeTrueDivToMulByInverse"]),
])
def test_same_outputs_and_state(name, transformations):
    with torch.no_grad():
        assert_same(*both(outputs_and_keys, name, transformations))


class Folds(nn.Module):
    """What optimum folds rightly: no bias in the convolution, an affine batch norm."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)
        self.linear, self.after = nn.Linear(4, 5), nn.BatchNorm1d(5)
        for norm in self.norm, self.after:
            norm.running_mean.uniform_()
            norm.running_var.uniform_(0.5, 1)
            nn.init.uniform_(norm.weight)
            nn.init.uniform_(norm.bias)

    def forward(self, x):
        return self.after(self.linear(torch.flatten(self.norm(self.conv(x)).mean((2, 3)), 1)))


class Tied(Folds):
    """Two convolutions with one weight."""

    def __init__(self):
        super().__init__()
        self.second, self.second_norm = nn.Conv2d(3, 4, 3, bias=False), copy.deepcopy(self.norm)
        self.second.weight = self.conv.weight
        nn.init.uniform_(self.second_norm.weight)

    def forward(self, x):
        return self.norm(self.conv(x)) - self.second_norm(self.second(x))


def folded(fx, cls):
    model, x = cls().eval(), torch.randn(2, 3, 6, 6)
    fold = fx.compose(fx.FuseBatchNorm2dInConv2d(), fx.FuseBatchNorm1dInLinear())
    gm = fold(trace(model))
    modules = {type(module).__name__ for module in gm.modules()} - {"GraphModule"}
    return {"outputs": gm(x).detach(), "norms": {m for m in modules if "Norm" in m},
            "keys": set(gm.state_dict()), "preserves": fold.preserves_computation}


@pytest.mark.parametrize("cls", [Folds, Tied])
def test_same_folds(cls):
    found, expected = both(folded, cls)
    assert not found["norms"]
    assert_same(found, expected)


def planned(fx):
    model = zoo.make("encoder")[0].to("meta")
    gm = fx.MergeLinears()(trace(model))
    merged = {key: (tuple(value.shape), value.is_meta) for key, value in gm.state_dict().items()}
    back = fx.MergeLinears()(gm, reverse=True).state_dict()
    return {"merged": merged, "back": {key: (tuple(v.shape), v.is_meta) for key, v in back.items()}}


def test_same_plans_of_a_model_without_data():
    found, expected = both(planned)
    assert found == expected


# ---- one's own ---------------------------------------------------------------------------------------


def own(fx):
    class GeluToSilu(fx.ReversibleTransformation):
        preserves_computation = False

        def __init__(self, beta=1):
            self.beta = beta

        def transform(self, graph_module):
            for node in graph_module.graph.nodes:
                if node.target is F.gelu:
                    node.target = F.silu
                    self.mark_as_transformed(node)
            return graph_module

        def reverse(self, graph_module):
            for node in self.get_transformed_nodes(graph_module):
                node.target = F.gelu
                self.mark_as_restored(node)
            return graph_module

    return GeluToSilu


def marks(fx):
    t, other = own(fx)(), own(fx)(2)
    gm = t(trace(zoo.make("encoder")[0]))
    marked = [node for node in gm.graph.nodes if hasattr(node, "transformations")]
    found = {
        "names": [node.name for node in marked],
        "are": all(node.transformations == {t.signature} for node in marked),
        "type": {type(node.transformations).__name__ for node in marked},
        "got": [node.name for node in t.get_transformed_nodes(gm)],
        "differ": t.signature != other.signature,
        "other": [node.name for node in other.get_transformed_nodes(gm)],
    }
    found["same"] = type(t)().signature == t.signature
    other.mark_as_transformed(marked[0])
    found["two"] = [len(node.transformations) for node in marked]
    try:
        other.mark_as_restored(marked[1])
    except ValueError as error:
        found["error"] = str(error)
    t(gm, reverse=True)
    found["after"] = [len(node.transformations) for node in marked]
    found["code"] = F.gelu in {node.target for node in gm.graph.nodes}
    return found


def test_same_marks():
    assert_same(*both(marks))


def marks_of_the_library(fx, name):
    t = getattr(fx, name)()
    gm = t(trace(zoo.make("encoder")[0]))
    found = [(node.name, node.transformations == {t.signature}) for node in t.get_transformed_nodes(gm)]
    t(gm, reverse=True)
    return found, t.get_transformed_nodes(gm)


@pytest.mark.parametrize("name", ["FuseBiasInLinear", "ChangeTrueDivToMulByInverse"])
def test_same_marks_of_the_library(name):
    """But for MergeLinears: optimum marks the merged linear, refx the nodes that read it."""
    assert_same(*both(marks_of_the_library, name))


def unfinished(fx):
    class Calls(fx.Transformation):
        def transform(self, graph_module):
            for node in graph_module.graph.nodes:
                if node.target is F.gelu:
                    node.op, node.target = "call_module", "act"
            return graph_module

    class Adds(fx.Transformation):
        def transform(self, graph_module):
            graph_module.add_submodule("act", nn.SiLU())
            return graph_module

    model, inputs = zoo.make("encoder")
    gm = Calls()(trace(model), lint_and_recompile=False)
    return flat(Adds()(gm)(*inputs)), flat(fx.compose(Calls(), Adds())(trace(model))(*inputs))


def test_same_between_two_passes():
    with torch.no_grad():
        assert_same(*both(unfinished))


def composed(fx):
    model, inputs = zoo.make("encoder")
    plain, gelu = own(fx), fx.MergeLinears

    class Plain(fx.Transformation):
        def transform(self, graph_module):
            return graph_module

    first, copied = trace(model), fx.compose(gelu(), plain(), inplace=False)
    second = copied(first)
    return {
        "another": second is not first and "merged" in second.code and "merged" not in first.code,
        "reversible": isinstance(copied, fx.ReversibleTransformation),
        "not": isinstance(fx.compose(gelu(), Plain()), fx.ReversibleTransformation),
        "preserves": (copied.preserves_computation, fx.compose(gelu(), gelu()).preserves_computation),
        "outputs": flat(second(*inputs)),
        "same": fx.compose(gelu())(first) is first,
    }


def test_same_compositions():
    with torch.no_grad():
        assert_same(*both(composed))


def test_same_names():
    names = ["ChangeTrueDivToMulByInverse", "FuseBatchNorm1dInLinear", "FuseBatchNorm2dInConv2d",
             "FuseBiasInLinear", "MergeLinears", "ReversibleTransformation", "Transformation", "compose"]
    for name in names:
        ours, upstream = getattr(refx.fx, name), getattr(optimum, name)
        if isinstance(upstream, type):
            public = {n for n in dir(upstream) if not n.startswith("_")} - {"fuse"}
            assert public <= set(dir(ours)), name
