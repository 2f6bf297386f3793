# SPDX-License-Identifier: Apache-2.0
"""Rules on GraphModules: forward, state, copies and the exact way back; judged by torch in fp64."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn
from torch.fx.passes.shape_prop import ShapeProp
from torch.nn import functional as F

import refx
from kit import Snapshot, assert_close_to_double, graph_nodes, trace
from refx.fx import MergeLinears, NothingReversed, Rule, compose, explain, log, reverse


@refx.rule
class MergeLora:
    """linear + low-rank branch -> linear with a merged weight"""

    def before(x, W: refx.Weight, A: refx.Weight, B: refx.Weight, s: refx.Factor = 1.0):
        return F.linear(x, W) + F.linear(F.linear(x, A), B) * s

    def once(W, A, B, s):
        return {"M": W + s * (B @ A)}

    def after(x, M):
        return F.linear(x, M)

    where = "rank(W) == 2; size(A, 0) == size(B, 1); given(W)"


# A layer's own weight and bias are read by `after` itself: nothing is computed once.
TURNED = """rule turned
before(x, W: weight, b: weight):
    return aten.relu(aten.linear(x, W, b))
after:
    return aten.relu(aten.addmm(b, x, aten.t(W)))
"""
# One of the two is, the other is computed.
HALF = """rule half-turned
before(x, W: weight, b: weight):
    return aten.relu(aten.linear(x, W, b))
once:
    c = b * (size(W, 1) / size(W, 1))
after:
    return aten.clamp(aten.linear(x, W, c), 0)
"""


class Lora(nn.Module):
    def __init__(self, branch):
        super().__init__()
        self.block = nn.ModuleDict({"base": nn.Linear(6, 6, bias=False), "down": nn.Linear(6, 2, bias=False),
                                    "up": nn.Linear(2, 6, bias=False), "head": nn.Linear(6, 3)})
        self.branch = branch

    def forward(self, x):
        b = self.block
        return b["head"](self.branch(b["base"], b["down"], b["up"], x))


SPELLINGS = {
    "modules": lambda base, down, up, x: base(x) + up(down(x)) * 0.5,
    "turned": lambda base, down, up, x: 0.5 * up(down(x)) + base(x),
    "no factor": lambda base, down, up, x: up(down(x)) + base(x),
    "functions": lambda base, down, up, x: torch.add(
        F.linear(x, base.weight), torch.div(F.linear(F.linear(x, down.weight), up.weight), 2.0)),
    "methods": lambda base, down, up, x: base(x).add(up(down(x)).mul(0.5)),
    "aten": lambda base, down, up, x: torch.ops.aten.add.Tensor(
        torch.ops.aten.linear.default(x, base.weight), torch.ops.aten.mul.Tensor(up(down(x)), 0.5)),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_lora_is_merged_and_comes_back(spelling):
    model = Lora(SPELLINGS[spelling]).eval()
    gm, x = trace(model), torch.randn(4, 6)
    before, untouched = Snapshot(gm), Snapshot(model)
    merge = Rule(MergeLora)
    assert merge.signature == "merge-lora" and merge.preserves_computation
    gm = merge(gm)
    assert list(gm.state_dict()) == ["block.base.M", "block.head.weight", "block.head.bias"]
    assert isinstance(gm.get_parameter("block.base.M"), nn.Parameter)
    assert not graph_nodes(gm, "call_module", "block.base")
    assert_close_to_double(gm, model, [x])
    assert [step.transformation for step in log(gm)] == ["merge-lora"]
    untouched.assert_equals(Snapshot(model))
    gm = merge(gm, reverse=True)
    before.assert_equals(Snapshot(gm))


def test_it_trains():
    gm = Rule(MergeLora)(trace(Lora(SPELLINGS["modules"])))
    gm(torch.randn(4, 6)).sum().backward()
    assert gm.get_parameter("block.base.M").grad is not None


@refx.rule
class MergeTwo:
    def before(x, A: refx.Weight, B: refx.Weight):
        return F.linear(x, A), F.linear(x, B)

    def once(A, B):
        return {"C": torch.cat([A, B])}

    def after(x, A, B, C):
        y = F.linear(x, C)
        return y.narrow(-1, 0, A.shape[0]), torch.narrow(y, -1, A.shape[0], B.shape[0])


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 3, bias=False), nn.Linear(6, 5, bias=False)

    def forward(self, x):
        return self.a(x).relu().sum(-1) + self.b(x).tanh().sum(-1)


def test_two_results_and_training_that_is_carried_back():
    model = Pair()
    gm, x = trace(model), torch.randn(4, 6)
    gm = Rule(MergeTwo)(gm)
    assert list(gm.state_dict()) == ["a.C"]  # what is only asked for its size is not kept
    assert_close_to_double(gm, model, [x])
    with torch.no_grad():
        gm.get_parameter("a.C").mul_(2)
    trained = gm(x)
    gm = Rule(MergeTwo)(gm, reverse=True)
    assert torch.equal(gm.b.weight, 2 * model.b.weight)
    torch.testing.assert_close(gm(x), trained)


def test_it_composes():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = Lora(SPELLINGS["modules"]), Lora(SPELLINGS["modules"])

        def forward(self, x):
            return self.a(x) + self.b(x)

    model = Two().eval()
    gm, x = trace(model), torch.randn(4, 6)
    before = Snapshot(gm)
    both = compose(Rule(MergeLora), MergeLinears(), Rule("fuse-gelu"))
    gm = both(gm)
    assert {step.transformation for step in log(gm)} == {"merge-lora", "merge-linears"}
    assert_close_to_double(gm, model, [x])
    first = log(gm)[0]
    reverse(gm, first)  # the other steps stay, or are applied again
    assert first not in log(gm)
    assert_close_to_double(gm, model, [x])
    before.assert_equals(Snapshot(both(gm, reverse=True)))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU())

    def forward(self, x):
        return self.inner(x)


@pytest.mark.parametrize("text, kept", [
    (TURNED, ["inner.0.weight", "inner.0.bias", "inner.2.weight", "inner.2.bias"]),
    (HALF, ["inner.0.weight", "inner.0.c", "inner.2.weight", "inner.2.c"]),
])
def test_a_layers_own_weight_stays_without_the_layer(text, kept):
    model = Mlp().eval()
    gm, x = trace(model), torch.randn(4, 6)
    before, untouched = Snapshot(gm), Snapshot(model)
    rule = Rule(text)
    gm = rule(gm)
    assert len(log(gm)) == 2 and not graph_nodes(gm, "call_module")
    assert sorted(gm.state_dict()) == sorted(kept)
    assert gm.get_parameter("inner.0.weight") is model.inner[0].weight
    assert_close_to_double(gm, model, [x])
    untouched.assert_equals(Snapshot(model))
    reverse(gm, log(gm)[0])
    assert_close_to_double(gm, model, [x])
    before.assert_equals(Snapshot(rule(gm, reverse=True)))


@pytest.mark.parametrize("rule, model", [
    (MergeLora, Lora(SPELLINGS["modules"])), (TURNED, Mlp()), (HALF, Mlp()),
], ids=["computed", "own", "both"])
def test_copies_and_files(rule, model):
    gm, x = trace(model.eval()), torch.randn(4, 6)
    before = Snapshot(gm, objects=False, meta=False)
    gm = Rule(rule)(gm)
    file = io.BytesIO()
    torch.save(gm, file)
    file.seek(0)
    for other in (copy.deepcopy(gm), pickle.loads(pickle.dumps(gm)), torch.load(file, weights_only=False)):
        assert list(other.state_dict()) == list(gm.state_dict())
        assert torch.equal(other(x), gm(x))
        other = Rule(rule)(other, reverse=True)
        before.assert_equals(Snapshot(other, objects=False, meta=False))
    before.assert_equals(Snapshot(Rule(rule)(gm, reverse=True), objects=False, meta=False))


def layer_norm(x):
    d = x - x.mean(-1, keepdim=True)
    return d / torch.sqrt((d * d).mean(-1, keepdim=True) + 1e-5)


class Written(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize("name, function", [
    ("fuse-gelu", lambda x: x * 0.5 * (1.0 + torch.erf(x / 2 ** 0.5))),
    ("fuse-silu", lambda x: x.sigmoid() * x),
    ("fuse-layer-norm", layer_norm),
    ("fuse-rms-norm", lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)),
])
def test_a_rule_of_the_library_by_name(name, function):
    model = Written(function)
    gm, x = trace(model), torch.randn(4, 6)
    rule = Rule(name)
    assert explain(rule, gm).refusals and not log(rule(gm))  # a traced graph does not say what x is
    ShapeProp(gm).propagate(x)
    before, forms = Snapshot(gm), Snapshot(gm, objects=False, meta=False)
    gm = rule(gm)
    assert name.removeprefix("fuse-").replace("-", "_") in gm.code
    assert len(graph_nodes(gm, "call_function")) == 1
    assert_close_to_double(gm, model, [x])
    same = pickle.loads(pickle.dumps(gm))
    assert torch.equal(same(x), gm(x))
    forms.assert_equals(Snapshot(rule(same, reverse=True), objects=False, meta=False))
    before.assert_equals(Snapshot(rule(gm, reverse=True)))


def test_a_rule_that_there_is_not():
    with pytest.raises(refx.Error, match="did you mean 'fuse-gelu'"):
        Rule("gelu-writen-out")


def test_a_check_refuses():
    @refx.rule
    class Refused:
        def before(x, W: refx.Weight):
            return F.linear(x, W)

        def after(x, W):
            return x @ W.T

        def check(match):
            return f"{match['W'].name} of {match['x'].name} is to stay" if match["W"].tensor.numel() > 20 else None

    gm = trace(Lora(SPELLINGS["modules"]))
    found = explain(Rule(Refused), gm)
    assert [refusal.reason for refusal in found.refusals] == ["block.base.weight of x is to stay"]
    assert len(found.sites) == 2
    assert len(log(Rule(Refused)(gm))) == 2


def test_a_rule_is_pickled_and_says_when_there_is_nothing():
    for rule in (Rule(MergeLora), Rule(TURNED), Rule("fuse-gelu")):
        same = pickle.loads(pickle.dumps(rule))
        assert type(same) is Rule and same.signature == rule.signature
    with pytest.warns(NothingReversed):
        Rule(TURNED)(trace(Mlp()), reverse=True)


@pytest.mark.parametrize("cls", [refx.fx.StoreLinearInt8, refx.fx.StoreLinearBf16, refx.fx.ComputeLinearBf16,
                                 refx.fx.QuantizeLinearInt8])
@pytest.mark.parametrize("sizes", [(), (5,), (2, 5), (2, 3, 5)])
@pytest.mark.parametrize("typed", [False, True])
def test_lossy_rules_go_back(cls, sizes, typed):
    torch.manual_seed(0)  # of some weights and inputs ReLU leaves nothing
    model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4, bias=False)).eval()
    x = torch.randn(*sizes, 16)
    gm = trace(model)
    if typed:
        ShapeProp(gm).propagate(x)
    assert not cls.preserves_computation
    before, expected = Snapshot(gm), model(x).detach()
    onednn = torch.backends.mkldnn.enabled
    cls()(gm)
    assert len(log(gm)) == 2
    error = (gm(x).detach() - expected).norm() / expected.norm()
    torch._C._set_mkldnn_enabled(onednn)  # torch switches it off where a processor has no bfloat16
    assert 0 < error < 0.05
    cls()(gm, reverse=True)
    before.assert_equals(Snapshot(gm))


def test_a_dependent_step_that_is_dropped_is_named():
    first, second = refx.rules("""rule relu-as-clamp  "relu -> clamp_min"
before(x):
    return aten.relu(x)
after:
    return aten.clamp_min(x, 0.0)
where: floating(x)

rule clamp-as-threshold  "clamp_min -> threshold"
before(x):
    return aten.clamp_min(x, 0.0)
after:
    return aten.threshold(x, 0.0, 0.0)
where: floating(x)
""")
    gm = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()))
    ShapeProp(gm).propagate(torch.randn(2, 4))
    gm = refx.fx.Rule(second)(refx.fx.Rule(first)(gm))
    assert len(refx.fx.log(gm)) == 2
    with pytest.warns(UserWarning, match="dropped step 2 .*clamp-as-threshold.* it no longer matches"):
        refx.fx.reverse(gm, "relu-as-clamp")
    assert refx.fx.log(gm) == []
