# SPDX-License-Identifier: Apache-2.0
"""Exports with subgraphs: regions without gradients and under autocast, branches and loops. torch is the judge."""

import warnings

import pytest
import torch
from torch import nn
from torch._higher_order_ops import map as map_over
from torch._higher_order_ops import scan, while_loop

from archives import sha256
from conftest import load

INLINE = "inline-subgraphs"
MERGE = "merge-linears"


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.register_buffer("scale", torch.rand(8) + 0.5)


class NoGrad(Layers):
    """Of the region's results one has no gradient in any case, another would have one."""

    def forward(self, x):
        with torch.no_grad():
            table = (self.scale * 2).cos()
            y = self.a(x) + self.b(x)
        return self.c(x) * table + y


class Nested(Layers):
    def forward(self, x):
        with torch.no_grad():
            y = self.a(x)
            with torch.autocast("cpu", enabled=False):
                z = (y * self.scale).sin() @ y.transpose(0, 1)
        return z @ self.c(x) + self.b(x).tanh(), y


class PassedOn(Layers):
    """A region that returns what it was given, and one value twice."""

    def forward(self, x):
        y = x + 1
        with torch.no_grad():
            z = y.cos()
            out = (y, z, z)
        return self.a(out[0]) + out[1] * out[2]


class Autocast(Layers):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.a(x) + self.b(x)
            z = torch.cat([torch.softmax(y, -1), x], 0)
            with torch.autocast("cpu", enabled=False):
                f = self.c(x)
            w = y @ self.scale.diag() + f
        return z, w


class Cond(Layers):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda t: self.a(t) + self.b(t), lambda t: self.c(t) / 3.0, (x,))


class While(Layers):
    def forward(self, x):
        return while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, (self.a(t) + self.b(t)).tanh()),
                          (torch.zeros((), dtype=torch.long), x))


class Scan(Layers):
    def forward(self, x):
        return scan(lambda c, v: (c + self.a(v) + self.b(v), c * 2.0), torch.zeros(8), x)


class Map(Layers):
    def forward(self, x):
        return map_over(lambda v: self.a(v) + self.b(v), x)


class Dynamic(Layers):
    def forward(self, x):
        with torch.no_grad():
            rows = torch.arange(x.shape[0] * 2).reshape(x.shape[0], 2).sum(1, keepdim=True)
            table = (rows * self.scale).cos().expand(x.shape[0], -1)
        return self.a(x) * table + self.b(x)


REGIONS = {"no_grad": NoGrad, "nested": Nested, "passed_on": PassedOn, "autocast": Autocast, "dynamic": Dynamic}
CONTROL_FLOW = {"cond": Cond, "while": While, "scan": Scan, "map": Map}
MODELS = REGIONS | CONTROL_FLOW


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("subgraphs"), {}

    def get(name):
        if name not in made:
            torch.manual_seed(0)
            example = torch.randn(5, 8)
            dynamic = {"x": {0: torch.export.Dim("rows", min=2, max=64)}} if name == "dynamic" else None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                program = torch.export.export(MODELS[name]().eval(), (example,), dynamic_shapes=dynamic)
                torch.export.save(program, folder / f"{name}.pt2")
            made[name] = folder / f"{name}.pt2", example
        return made[name]

    return get


def results(path, *args):
    torch.manual_seed(0)
    with torch.no_grad():  # with gradients, torch computes loops by other operators
        out = load(path).module()(*args)
    return [t.detach() for t in torch.utils._pytree.tree_leaves(out)]


def run(refx, path, x, folder, name):
    inputs, outputs = folder / f"{name}.in.pt", folder / f"{name}.out.pt"
    torch.save((x,), inputs)
    refx("run", path, "--inputs", inputs, "-o", outputs)
    return torch.utils._pytree.tree_leaves(torch.load(outputs, weights_only=True))


def same(a, b):
    return len(a) == len(b) and all(x.dtype == y.dtype and torch.equal(x, y) for x, y in zip(a, b, strict=True))


def close(a, b):
    return len(a) == len(b) and all(
        x.dtype == y.dtype and torch.allclose(x.double(), y.double(), rtol=2e-2 if x.dtype == torch.bfloat16 else 1e-4,
                                              atol=1e-5) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_running_gives_the_bits_of_torch(name, refx, files, tmp_path):
    path, x = files(name)
    for i, given in enumerate((x, -x) if name != "dynamic" else (x, torch.randn(9, 8))):
        assert same(run(refx, path, given, tmp_path, f"{name}{i}"), results(path, given))


@pytest.mark.parametrize("name", REGIONS)
def test_a_region_is_inlined_and_taken_back(name, refx, files, tmp_path):
    path, x = files(name)
    inlined, back = tmp_path / "inlined.pt2", tmp_path / "back.pt2"
    refx("apply", path, INLINE, "-o", inlined)
    assert "higher_order" not in refx("inspect", inlined, "--graph").out
    assert same(results(inlined, x), results(path, x))
    assert same(run(refx, inlined, x, tmp_path, name), results(path, x))
    refx("reverse", inlined, "--all", "-o", back)
    assert sha256(back) == sha256(path)


@pytest.mark.parametrize("name", MODELS)
def test_all_transformations_keep_the_results(name, refx, files, tmp_path):
    path, x = files(name)
    fast, back = tmp_path / "fast.pt2", tmp_path / "back.pt2"
    refx("apply", path, "all", "-o", fast)
    for given in (x, -x) if name != "dynamic" else (x, torch.randn(9, 8)):
        assert close(results(fast, given), results(path, given))
    assert refx("verify", fast).code == 0
    refx("reverse", fast, "--all", "-o", back)
    assert sha256(back) == sha256(path)


def gradients(path, x):
    program = load(path)
    module = program.module()
    module(x)[0].float().sum().backward() if isinstance(module(x), tuple) else module(x).float().sum().backward()
    return {name: p.grad is not None and p.grad.abs().sum().item() > 0 for name, p in module.named_parameters()}


@pytest.mark.parametrize("name", ["no_grad", "nested"])
def test_a_region_without_gradients_stays_one(name, refx, files, tmp_path):
    path, x = files(name)
    refx("apply", path, INLINE, "-o", tmp_path / "inlined.pt2")
    before = gradients(path, x)
    assert gradients(tmp_path / "inlined.pt2", x) == before and not all(before.values())


@pytest.mark.parametrize("name, inside", [
    ("cond", "cond/true_graph_0/{a,b}"), ("while", "while_loop/while_loop_body_graph_0/{a,b}"),
    ("scan", "scan/scan_combine_graph_0/{a,b}"), ("map", "map_impl/body_graph_0/{a,b}")])
def test_linears_in_branches_and_loops_are_merged(name, inside, refx, files, tmp_path):
    path, x = files(name)
    merged, back = tmp_path / "merged.pt2", tmp_path / "back.pt2"
    steps = refx("apply", path, MERGE, "-o", merged, "--json").json()["steps"]
    assert [s["site"] for s in steps] == [inside]
    names = load(merged).state_dict
    assert "a.weight" not in names and len(names) == len(load(path).state_dict) - 2
    for given in (x, -x):
        assert close(results(merged, given), results(path, given))
        assert close(run(refx, merged, given, tmp_path, name), results(path, given))
    refx("reverse", merged, "--all", "-o", back)
    assert sha256(back) == sha256(path)
    refx("apply", path, MERGE, "--exclude", inside, "-o", back)
    assert sha256(back) == sha256(path)


def test_steps_in_one_subgraph_are_taken_back_one_by_one(refx, files, tmp_path):
    path, x = files("cond")
    both, less, back = (tmp_path / f"{part}.pt2" for part in ("both", "less", "back"))
    refx("apply", path, MERGE, "change-true-div-to-mul-by-inverse", "-o", both)
    assert len(refx.log(both)) == 2
    refx("reverse", both, MERGE, "-o", less)
    assert [s["site"] for s in refx.log(less)] == ["cond/false_graph_0/div"]
    assert close(results(less, -x), results(path, -x))
    refx("reverse", less, "--all", "-o", back)
    assert sha256(back) == sha256(path)


def test_sites_in_a_region_are_found_after_inlining(refx, files, tmp_path):
    path, _ = files("no_grad")
    steps = refx("apply", path, INLINE, MERGE, "-o", tmp_path / "out.pt2", "--json").json()["steps"]
    assert [s["transformation"] for s in steps] == [INLINE, MERGE]
