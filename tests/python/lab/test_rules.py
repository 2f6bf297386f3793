# SPDX-License-Identifier: Apache-2.0
"""Rules that are written in Python, on exported programs; judged by torch in fp64."""

import copy
import math
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import refx


@refx.rule
class MergeLora:
    """linear + low-rank branch -> linear with a merged weight

    More about it.
    """

    def before(x, W: refx.Weight, A: refx.Weight, B: refx.Weight, s: float):
        return F.linear(x, W) + F.linear(F.linear(x, A), B) * s

    def once(W, A, B, s):
        return {"M": W + s * (B @ A)}

    def after(x, M):
        return F.linear(x, M)

    def check(match):
        return "the rank is too high" if match["A"].shape[0] > 4 else None


class Lora(nn.Module):
    def __init__(self, rank=2):
        super().__init__()
        self.base = nn.Linear(6, 5, bias=False)
        self.down, self.up = nn.Linear(6, rank, bias=False), nn.Linear(rank, 5, bias=False)

    def forward(self, x):
        return torch.relu(self.base(x) + self.up(self.down(x)) * 0.3)


def export(module, *shape):
    torch.manual_seed(0)
    return refx.export(module.eval(), (torch.randn(*shape or (3, 6)),))


def distance(model, module, x):
    """From what torch computes in fp64."""
    with torch.no_grad():
        return (model(x) - copy.deepcopy(module).double()(x.double())).abs().max().item()


def test_a_class_is_a_text():
    assert MergeLora.name == "merge-lora"
    assert MergeLora.text == '''rule merge-lora  "linear + low-rank branch -> linear with a merged weight"
before(x, W: weight, A: weight, B: weight, s: float):
    return torch.nn.functional.linear(x, W) + torch.nn.functional.linear(torch.nn.functional.linear(x, A), B) * s
once:
    M = W + s * aten.matmul(B, A)
after:
    return torch.nn.functional.linear(x, M)'''


def test_lora_is_merged_and_comes_back(tmp_path):
    module = Lora()
    model = export(module)
    x, text, bits = torch.randn(4, 6)[:3], model.graph, {k: v.clone() for k, v in model.state_dict().items()}
    model.save(tmp_path / "before.pt2")
    assert len(model.sites(MergeLora)) == 1
    assert [step.transformation for step in model.apply(MergeLora)] == ["merge-lora"]
    assert model.graph.count("aten.linear") == 1 and list(model.state_dict()) == ["base.M"]
    merged = (module.base.weight.double() + 0.3 * (module.up.weight.double() @ module.down.weight.double()))
    assert torch.equal(model.state_dict()["base.M"], merged.float())  # rounded once
    assert distance(model, module, x) < 1e-6
    assert torch.equal(model.to_exported().module()(x), model(x))
    assert model.verify()
    model.reverse("merge-lora")
    model.save(tmp_path / "after.pt2")
    assert model.graph == text
    assert all(torch.equal(value, bits[key]) for key, value in model.state_dict().items())
    assert (tmp_path / "before.pt2").read_bytes() == (tmp_path / "after.pt2").read_bytes()


def test_a_check_refuses():
    model = export(Lora(rank=5))
    assert not model.apply(MergeLora)
    assert [(r.code, r.reason) for r in model.refusals(MergeLora)] == [("custom", "the rank is too high")]


def test_what_a_check_sees():
    seen = {}

    @refx.rule
    class Seen:
        def before(x, W: refx.Weight, s: float, d: int, t: torch.dtype = None):
            return torch.softmax(F.linear(x, W) * s, d, dtype=t)

        def after(x, W, s, d, t):
            return torch.softmax(F.linear(x * s, W), d, dtype=t)

        def check(match):
            seen.update(match)
            return None

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(6, 5, bias=False)

        def forward(self, x):
            return torch.softmax(self.fc(x) * 0.5, -1)

    x = torch.randn(3, 6)
    batch = torch.export.Dim("batch")
    model = refx.export(Model(), (x,), dynamic_shapes=({0: batch},))
    assert model.sites(Seen)
    assert (seen["s"], seen["d"], seen["t"]) == (0.5, -1, None)
    assert seen["W"].name == "fc.weight" and torch.equal(seen["W"].tensor, model.state_dict()["fc.weight"])
    assert seen["x"].name == "x" and seen["x"].dtype is torch.float32 and seen["x"].tensor is None
    assert isinstance(seen["x"].shape[0], str) and seen["x"].shape[1] == 6


@pytest.mark.parametrize("check, error", [
    (lambda match: match["q"], KeyError),
    (lambda match: True, refx.Error),
])
def test_a_check_that_fails_changes_nothing(check, error):
    wrong = check

    @refx.rule
    class Wrong:
        def before(x):
            return torch.relu(x)

        def after(x):
            return x.clamp(min=0)

        check = wrong

    model = export(Lora())
    text = model.graph
    with pytest.raises(error):
        model.apply(Wrong)
    assert model.graph == text and not model.log()


@refx.rule
class Attention:
    """softmax(q k^T * c + mask) v -> scaled_dot_product_attention"""

    def divided(q, k, v, c: refx.Factor = 1.0, mask=None):
        scores = q @ k.transpose(-2, -1) * c + mask
        return F.softmax(scores, dim=-1) @ v

    def turned(q, k, v, c: refx.Factor = 1.0, mask=None):
        scores = (k @ q.mT * c).mT + mask
        return F.softmax(scores, dim=-1) @ v

    before = [divided, turned]

    def after(q, k, v, c, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=c)

    where = """
        rank(q) > 2; floating(q)
        size(scores, -1) == size(k, -2)
    """


class Spelled(nn.Module):
    def __init__(self, function, name=""):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.softmax = nn.Softmax(-1)
        self.function = function

    def forward(self, x):
        return self.function(self, self.q(x), self.k(x), self.v(x))


SPELLINGS = {
    "functions": lambda m, q, k, v: torch.matmul(
        F.softmax(torch.div(torch.matmul(q, torch.transpose(k, 1, 2)), 4), 2), v),
    "methods": lambda m, q, k, v: q.matmul(k.permute(0, 2, 1)).div(4.0).softmax(-1).matmul(v),
    "modules": lambda m, q, k, v: m.softmax(0.25 * (q @ k.mT)) @ v,
    "aten": lambda m, q, k, v: torch.bmm(torch.ops.aten._softmax(torch.bmm(q, k.mT) / 4, -1, False), v),
    "turned": lambda m, q, k, v: F.softmax(torch.bmm(k, q.mT).mT, -1) @ v,
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("decomposed", [False, True])
def test_one_rule_for_every_spelling(spelling, decomposed):
    module = Spelled(SPELLINGS[spelling]).eval()
    x = torch.randn(2, 5, 8)
    program = torch.export.export(module, (x,))
    model = refx.from_exported(program.run_decompositions() if decomposed else program)
    text = model.graph
    assert len(model.apply(Attention)) == 1
    assert "aten.scaled_dot_product_attention" in model.graph and "softmax" not in model.graph
    assert distance(model, module, x) < 1e-6
    assert model.verify()
    assert model.reverse(Attention).graph == text


def test_asks_for_what_tracing_cannot_determine():
    @refx.rule
    class Normed:
        def before(x, w: refx.Weight | None = None, *, eps: float):
            return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * w

        def once(w, eps):
            return {"scaled": refx.value_or(w, 1.0) * 1.0}

        def after(x, scaled, eps):
            width = x.shape[-1]
            root = math.sqrt(eps) * math.sqrt(eps)
            return F.rms_norm(x.to(x.dtype), (width,), scaled, -(-root) ** 1)

    assert Normed.text.splitlines()[1:] == [
        "before(x, w: weight = None, eps: float):",
        "    return x * torch.rsqrt(torch.Tensor.mean(x * x, -1, keepdim=True) + eps) * w",
        "once:",
        "    scaled = value_or(w, 1.0) * 1.0",
        "after:",
        "    width = size(x, -1)",
        "    root = sqrt(eps) * sqrt(eps)",
        "    return torch.nn.functional.rms_norm(torch.Tensor.to(x, dtype(x)), [width], weight=scaled, eps=-(-root) ** 1)",
    ]


def test_the_last_definition_of_a_name_holds_and_what_is_used_is_what_was_given():
    def made(constant):
        @refx.rule
        class Shift:
            def before(x):
                return torch.relu(x)

            def after(x):
                return torch.relu(x) + constant

            approximate = True

        return Shift

    first, second = made(1), made(2)
    assert not first.preserves_computation and "shift  approximate" in first.text
    x = torch.randn(3, 6)
    plain = export(Lora())(x)

    def shift(rule):
        model = export(Lora())
        model.apply(rule, site="*")
        return (model(x) - plain).mean().round().item()

    # Each application leaves a relu, so it goes on for as many rounds as there may be.
    assert shift("shift") == shift(second) == 2 * shift(first)
    with pytest.raises(refx.Error, match="'merge-linears' is already registered"):
        refx.rules(second.text.replace("shift", "merge-linears"))


def test_value_or_has_its_former_name_too():
    assert refx.either is refx.value_or
    assert refx.value_or(None, 1.0) == 1.0 and refx.value_or(2.0, 1.0) == 2.0
    text = ("rule r\nbefore(x, b: weight = None):\n    return aten.gelu(x)\n"
            "after:\n    return aten.relu(x) + {}(b, 0.0)\n")
    for name in "either", "value_or":
        assert refx.rules(text.format(name))[0].name == "r"


def test_rules_of_a_file_and_of_a_text(tmp_path):
    text = "rule a\nbefore(x):\n    return aten.relu(x)\nafter:\n    return aten.clamp(x, 0)\n"
    both = f"# one\n{text}\n# another\n  # of two lines\n{text.replace('rule a', 'rule b')}\n"
    (tmp_path / "two.refx").write_text(both)
    for source in (both, tmp_path / "two.refx", str(tmp_path / "two.refx")):
        found = refx.rules(source)
        assert [rule.name for rule in found] == ["a", "b"]
        assert [rule.text for rule in found] == [text.strip(), text.replace("rule a", "rule b").strip()]
        assert len(export(Lora()).apply(*found)) == 1
    assert pickle.loads(pickle.dumps(found[1])).text == found[1].text
    assert pickle.loads(pickle.dumps(MergeLora)) is MergeLora
    with pytest.raises(refx.Error, match="no_such"):
        refx.rules(tmp_path / "no_such")


def test_bisect_names_the_rule_that_is_wrong():
    @refx.rule
    class Halve:
        def before(x):
            return torch.relu(x)

        def after(x):
            return torch.clamp(x, min=0) / 2

    module = Lora()
    model = export(module)
    model.apply(MergeLora, Halve)
    assert model.verify().verdict == "fail"
    found = model.bisect(lambda form: bool(form.verify()))
    assert [[step.transformation for step in culprit] for culprit in found.culprits] == [["halve"]]


# ---- texts that are not rules -------------------------------------------------------------------


def branches(x):
    return x if x.sum() > 0 else -x


def takes(annotation, default=None):
    def before(x, c: annotation):
        return x * c

    return before


@pytest.mark.parametrize("parts, message", [
    (dict(before=branches), "Bad.branches cannot be traced: .*control flow"),
    (dict(before=takes(str)), "Bad.before: 'c' cannot be a <class 'str'>; annotations are .*refx.Weight"),
    (dict(before=takes("Nowhere")), "Bad.before: name 'Nowhere' is not defined"),
    (dict(before=lambda *x: x[0]), "takes '\\*x'"),
    (dict(before=lambda x: x.shape), "a shape as a whole has no word"),
    (dict(before=lambda x: x[:, 0]), "slice"),
    (dict(before=lambda x: x.grad), "'.grad' of a tensor"),
    (dict(before=lambda x: x + torch.ones(2)), "tensor or module of its own"),
    (dict(before=3), "Bad.before is no function: 3"),
    (dict(after=lambda x, q: x * q), "Bad: line 5, .*there is no value 'q'"),
    (dict(once=lambda x: x), "Bad.<lambda> returns a dict"),
    (dict(once=lambda x: {"M": x}), "Bad: .*line 5.*there is no value 'x'"),
    (dict(wher="rank(x) == 2"), "Bad: a rule has no 'wher'"),
    (dict(where="rang(x) == 2"), "Bad: line 7.*did you mean 'rank'"),
])
def test_errors_name_the_line(parts, message):
    whole = dict(before=lambda x: x + 1, after=lambda x: 1 + x)
    with pytest.raises(refx.Error, match=f"(?s){message}"):
        refx.rule(type("Bad", (), {**whole, **parts}))
    assert "bad" not in [name for name, _ in refx._core.transformations()]


def test_a_rule_has_a_before_and_an_after():
    for part in ("before", "after"):
        with pytest.raises(refx.Error, match="has no function"):
            refx.rule(type("Bad", (), {part: lambda x: x + 1}))
