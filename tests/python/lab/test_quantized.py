# SPDX-License-Identifier: Apache-2.0
"""quantize-linear-int8 against numbers that are computed here, on every kind of input, wherever a file may go."""

import itertools
import os
import shutil

import numpy
import pytest
import torch
from torch import nn
from torch.export import Dim

import refx

RULE = "quantize-linear-int8"
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SIZES = [(), (1,), (5,), (0,), (2, 5), (1, 1), (2, 0), (2, 3, 5)]
IN, OUT = 40, 24


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(IN, OUT), nn.Linear(OUT, 8, bias=False)

    def forward(self, x):
        return self.two(torch.relu(self.one(x)))


def linear(dtype, bias=True):
    torch.manual_seed(0)
    layer = nn.Linear(IN, OUT, bias=bias).to(dtype).eval()
    with torch.no_grad():
        layer.weight[3] = 0
        layer.weight[4] *= 1e-5
    return layer


def quantized(module, x, tmp_path, **options):
    """The model, and the program that torch loads of its file."""
    model = refx.export(module, (x,), **options)
    model.save(tmp_path / "before.pt2")
    assert model.apply(RULE)
    model.save(tmp_path / "model.pt2")
    return model, torch.export.load(tmp_path / "model.pt2")


def double(tensor):
    return tensor.detach().double().numpy()


def reference(x, layer):
    """In fp64 but for what is rounded on purpose: the scales."""
    wide = torch.promote_types(x.dtype, torch.float32)
    single = numpy.float64 if wide == torch.float64 else numpy.float32
    values = x.detach().to(wide).numpy().reshape(-1, IN)
    top = numpy.abs(values).max(-1, keepdims=True, initial=0)
    with numpy.errstate(all="ignore"):
        rows = numpy.maximum(top.astype(single) / single(127), single(1e-38))
        numbers = numpy.rint(values / rows).astype(float)
    weight = double(layer.weight)
    columns = numpy.maximum(numpy.abs(weight).max(1) / 127, 1e-38)
    products = numpy.nan_to_num(numbers) @ numpy.rint(weight / columns[:, None]).T
    with numpy.errstate(all="ignore"):
        result = products * (rows * columns.astype(single)).astype(float)
    if layer.bias is not None:
        result = result + double(layer.bias)
    return result.reshape(*x.shape[:-1], OUT)


def ways(model, program):
    yield "refx", model
    yield "torch.export.load", program.module()
    yield "unflatten", torch.export.unflatten(program)
    yield "run_decompositions", program.run_decompositions().module()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_numbers(dtype, sizes, tmp_path):
    layer = linear(dtype, bias=len(sizes) != 1)
    x = torch.randn(*sizes, IN).to(dtype) * (1e300 if dtype == torch.float64 else 1)  # scales hold what the input does
    want, exact = reference(x, layer), double(x) @ double(layer.weight).T
    if layer.bias is not None:
        exact = exact + double(layer.bias)
    eps = max(torch.finfo(dtype).eps, 2e-7)
    for name, run in ways(*quantized(layer, x, tmp_path)):
        got = run(x)
        assert got.dtype == dtype and got.shape == want.shape, name
        numpy.testing.assert_allclose(double(got), want, rtol=eps, atol=eps * numpy.abs(want).max(initial=1), err_msg=name)
        if want.size:
            assert numpy.linalg.norm((double(got) - exact) / exact.max()) < 0.02 * numpy.linalg.norm(exact / exact.max()), name


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_of_zeros_nan_and_inf(dtype, tmp_path):
    layer = linear(dtype)
    x = torch.randn(2, 5, IN).to(dtype)
    plain = x.clone()
    x[0, 0], x[0, 1, 3], x[0, 2, 4], x[1, 0, 5] = 0, torch.nan, torch.inf, -torch.inf
    x[1, 1, :2] = torch.tensor([torch.inf, torch.nan])
    x[1, 2] = torch.finfo(dtype).tiny
    others = torch.ones(2, 5, dtype=bool)
    others[[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]] = False
    for name, run in ways(*quantized(layer, plain, tmp_path)):
        y, same = run(x), run(plain)
        assert torch.equal(y[0, 0], layer.bias), name
        assert y[0, 1].isnan().all() and y[1, 1].isnan().all(), name
        assert not y[0, 2].isfinite().any() and not y[1, 0].isfinite().any(), name
        torch.testing.assert_close(y[1, 2], layer.bias, rtol=1e-2, atol=1e-4, msg=name)
        assert torch.equal(y[others], same[others]), f"{name}: rows have nothing to do with each other"


@pytest.mark.parametrize("sizes", [(3,), (3, 5), (3, 2, 5)], ids=str)
def test_sizes_that_are_known_later(sizes, tmp_path):
    torch.manual_seed(0)
    layers, x = Layers().eval(), torch.randn(*sizes, IN)
    symbols = {i: Dim(f"size{i}", min=1, max=64) for i in range(len(sizes))}
    model, program = quantized(layers, x, tmp_path, dynamic_shapes=(symbols,))
    assert len(model.log()) == 2
    # What the file says of every value is what its operator gives.
    for node in program.graph.nodes:
        if node.op == "call_function":
            given = torch.fx.node.map_arg((node.args, node.kwargs), lambda value: value.meta["val"])
            found, said = node.target(*given[0], **given[1]), node.meta["val"]
            assert (str(found.shape), found.dtype) == (str(said.shape), said.dtype), node.name
    for name, run in ways(model, program):
        for extra in (1, 4, 7):
            other = torch.randn(*(extra for _ in sizes), IN)
            want = layers(other)
            got = run(other)
            assert got.shape == want.shape, name
            assert (got - want).norm() < 0.03 * want.norm(), name
    model.reverse(RULE)
    model.save(tmp_path / "back.pt2")
    assert (tmp_path / "back.pt2").read_bytes() == (tmp_path / "before.pt2").read_bytes()


def test_each_layer_is_reversed_alone(tmp_path):
    model, _ = quantized(Layers().eval(), torch.randn(2, 3, IN), tmp_path)
    for order in itertools.permutations([step.id for step in model.log()]):
        one = refx.load(tmp_path / "model.pt2")
        for step in order:
            one.reverse(step)
        one.save(tmp_path / "back.pt2")
        assert (tmp_path / "back.pt2").read_bytes() == (tmp_path / "before.pt2").read_bytes()


@pytest.mark.skipif(not shutil.which(os.environ.get("CXX", "g++")), reason="AOTInductor needs a compiler")
def test_aot_inductor(tmp_path):
    x = torch.randn(2, 3, IN)
    model, program = quantized(Layers().eval(), x, tmp_path)
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "compiled.pt2"))
    compiled = torch._inductor.aoti_load_package(path)
    torch.testing.assert_close(compiled(x), model(x), rtol=1e-2, atol=1e-2)
    x[0, 1, 2], x[1, 1, 0] = torch.nan, torch.inf
    y = compiled(x)
    assert y[0, 1].isnan().all() and not y[1, 1].isfinite().any()
    assert y[0, 0].isfinite().all()
