# SPDX-License-Identifier: Apache-2.0
"""Filters: an excluded module stays as it is, whatever it is called after other rewrites."""

import fnmatch

import pytest
import torch
from torch import nn

import refx as package
from conftest import load

WIDTH = 64
STORE = "store-linear-int8"


class Block(nn.Module):
    """Q, K and V to merge, a GELU that is written out, and a norm between linears."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.fc1, self.fc2 = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(-1, -2) / WIDTH**0.5
        x = x + torch.softmax(scores, -1) @ self.v(x)
        y = self.fc1(self.norm(x))
        y = y * 0.5 * (1 + torch.erf(y / 2**0.5))
        return x + self.fc2(y) / 2.0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())
        self.twice = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.head(self.twice(self.twice(self.blocks(x))))


LAYERS = [f"blocks.{i}.{name}" for i in (0, 1) for name in ("q", "k", "v", "fc1", "fc2")] + ["head"]


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("sites") / "net.pt2"
    torch.export.save(torch.export.export(Net().eval(), (torch.randn(2, 5, WIDTH),)), path)
    return path


@pytest.fixture(scope="module")
def fast(refx, net):
    path = net.with_name("fast.pt2")
    refx("apply", net, "all", "-o", path)
    return path


def tensors(path):
    return {name: tensor.detach() for name, tensor in load(path).state_dict.items()}


@pytest.mark.parametrize("module", [*LAYERS, "blocks", "blocks.1", "blocks.?.fc*"])
@pytest.mark.parametrize("start", ["net", "fast"])
def test_an_excluded_layer_is_bit_identical_in_the_result(refx, request, start, module, tmp_path):
    path, out = request.getfixturevalue(start), tmp_path / "small.pt2"
    steps = refx("apply", path, STORE, "--exclude", module, "-o", out, "--json").json()["steps"]
    assert steps
    before, after = tensors(path), tensors(out)
    # A merged layer has the rows of all its members.
    held = {name: tensor for name, tensor in before.items()
            if any(is_of(name, layer) for layer in LAYERS if is_within(layer, module))}
    assert held
    for name, tensor in held.items():
        assert torch.equal(after[name], tensor), name
        assert after[name].dtype == tensor.dtype
    assert any(tensor.dtype == torch.int8 for tensor in after.values())


def is_within(layer, pattern):
    return any(fnmatch.fnmatchcase(layer.rsplit(".", n)[0], pattern) for n in range(layer.count(".") + 1))


def is_of(name, layer):
    """Whether the tensor is the layer's, or one that was merged from it."""
    parent, _, own = layer.rpartition(".")
    path = name.rpartition(".")[0]
    merged = path.removeprefix(parent + ".").split("-") if path.endswith("-merged") and path.startswith(parent) else []
    return path == layer or own in merged


def test_sites_have_one_name_before_and_after_other_rewrites(refx, net, fast):
    def names(path):
        found = refx("inspect", path, STORE, "--json").json()
        sites = [site["site"] for site in found["sites"] + found["refusals"]]
        assert len(set(sites)) == len(sites)
        return set(sites)

    assert {name for name in names(net) if "fc" in name} == {name for name in names(fast) if "fc" in name}
    assert "blocks.0.{q,k,v}" in names(fast)
    assert sum(name.startswith("twice.") for name in names(net)) == 2


def test_tune_and_sensitivity_leave_out_what_is_excluded(refx, fast, tmp_path):
    found = refx("sensitivity", fast, STORE, "--site", "blocks.1", "--exclude", "*.fc1", "--json").json()
    assert found["steps"] and all(step["site"].startswith("blocks.1.") for step in found["steps"])
    assert not any("fc1" in step["site"] for step in found["steps"])
    out = tmp_path / "tuned.pt2"
    refx("tune", fast, STORE, "--prefer", "size", "--site", "blocks.0", "--seconds", "0.01", "-o", out)
    stored = [step["site"] for step in refx.log(out) if step["transformation"] == STORE]
    assert stored and all(site.startswith("blocks.0.") for site in stored)


def test_the_node_of_a_merged_layer_protects_what_it_became(refx, net, tmp_path):
    merged = tmp_path / "merged.pt2"
    refx("apply", net, "merge-linears", "-o", merged)
    every = refx("inspect", merged, STORE, "--json").json()["sites"]
    kept = refx("inspect", merged, STORE, "--exclude", "linear_1", "--json").json()["sites"]  # blocks.0.k
    assert [site["site"] for site in every if site not in kept] == ["blocks.0.{q,k,v}"]


def test_inspect_counts_the_sites_of_lossy_transformations(refx, net):
    summary = refx("inspect", net, "--lossy").out
    assert f"\n{STORE} " in summary and f"\n  {STORE} " not in summary
    assert f"`refx inspect {net} NAME` lists the sites of a transformation that `all` leaves out\n" in summary
    listed = refx("inspect", net, "--lossy", "--site", "*").out
    assert listed.count(f"\n  {STORE} ") >= len(LAYERS) - 1
    one = refx("inspect", net, STORE, "--site", "blocks.0.fc1").out
    assert one.count(f"\n  {STORE} ") == 1 and "merge-linears" not in one


FIRST = """rule relu-twice  "relu -> relu(relu)"
before(x):
    return aten.relu(x)
after:
    return aten.clamp(x, 0)
"""
SECOND = """rule clamp-again  "clamp -> relu"
before(x):
    return aten.clamp(x, 0)
after:
    return aten.maximum(x, aten.neg(aten.relu(aten.neg(aten.abs(x)))))
"""


def test_reports_a_step_that_is_dropped_because_its_rule_is_missing(refx, tmp_path):
    """The second rule's step is built on the first one's."""
    path, both, back = (tmp_path / name for name in ("a.pt2", "b.pt2", "c.pt2"))
    rules = tmp_path / "r.refx"
    rules.write_text(FIRST + SECOND)
    torch.export.save(torch.export.export(nn.ReLU(), (torch.randn(3),)), path)
    refx("apply", path, "relu-twice", "clamp-again", "--rules", rules, "-o", both)
    assert len(refx.log(both)) == 2
    out = refx("reverse", both, "relu-twice", "-o", back).out
    assert "dropped: it depended on a reversed step, and its rule is not loaded; to apply it again, " \
        "load the rule with --rules FILE" in out
    model = package.load(both)
    with pytest.warns(UserWarning, match=r"dropped step 2 \(clamp-again .*\), which was built on a reversed one: its "
                                         r"rule is not loaded; load it with refx\.rules\(path\) and apply it again"):
        model.reverse("relu-twice")
    assert not model.log()
