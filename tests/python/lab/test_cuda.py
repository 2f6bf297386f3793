# SPDX-License-Identifier: Apache-2.0
"""bench and tune on a GPU, where there is one."""

import pytest
import torch

import refx

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(-1, -2) / 3.0
        mask = torch.ones(x.shape[-2], x.shape[-2], device=x.device).tril() == 0
        return scores.masked_fill(mask, float("-inf")).softmax(-1) @ self.value(x)


@pytest.fixture()
def model():
    torch.manual_seed(0)
    layers = torch.nn.Sequential(Block(256), Block(256)).eval()
    return refx.export(layers, (torch.randn(4, 32, 256),))


QUICK = {"device": "cuda", "seconds": 0.3}


def test_bench(model):
    model.apply("merge-linears")
    result = model.bench(**QUICK, per_step=True)
    print(result)
    assert result.device == "cuda:0"
    assert 0.2 < result.ratio < 5
    assert len(result.steps) == 2
    # The model itself stays where it is.
    assert all(t.device.type == "cpu" for t in model.state_dict().values())


def test_cuda_graph(model):
    model.apply("merge-linears")
    try:
        result = model.bench(**QUICK, cuda_graph=True)
    except refx.Error as error:
        assert "cannot capture" in str(error)
        pytest.skip(str(error))
    print(result)
    assert 0.2 < result.ratio < 5


def test_tune(model):
    x = torch.randn(4, 32, 256)
    expected = model(x)
    result = model.tune(**QUICK)
    print(result)
    assert result.device == "cuda:0"
    torch.testing.assert_close(model(x), expected, rtol=1e-4, atol=1e-5)
    assert all(t.device.type == "cpu" for t in model.state_dict().values())


# ---- programs that were exported on a GPU --------------------------------------------------------


@pytest.fixture()
def exported(tmp_path):
    torch.manual_seed(0)
    layers = torch.nn.Sequential(Block(64), Block(64)).eval().cuda()
    layers[1].query.weight = layers[0].query.weight  # tied
    program = torch.export.export(layers, (torch.randn(4, 8, 64, device="cuda"),))
    path = tmp_path / "gpu.pt2"
    torch.export.save(program, path)
    return path


def test_tensors_of_files_stay_on_their_device(exported, tmp_path):
    x = torch.randn(4, 8, 64, device="cuda")
    model = refx.load(exported)
    expected = torch.export.load(exported).module()(x)
    assert all(t.is_cuda for t in model.state_dict().values())
    torch.testing.assert_close(model(x), expected)

    model.apply("merge-linears", "change-true-div-to-mul-by-inverse", "fuse-bias-in-linear")
    assert model.log() and all(t.is_cuda for t in model.state_dict().values())
    assert model.verify()
    assert model.bench(seconds=0.1).device == "cuda:0"
    fast = tmp_path / "fast.pt2"
    model.save(fast)
    torch.testing.assert_close(torch.export.load(fast).module()(x), expected, rtol=1e-4, atol=1e-5)

    again = refx.load(fast)
    torch.testing.assert_close(again(x), expected, rtol=1e-4, atol=1e-5)
    for step in reversed(again.log()):
        again.reverse(step)
    back = tmp_path / "back.pt2"
    again.save(back)
    assert back.read_bytes() == exported.read_bytes()


def test_what_was_trained_on_a_gpu_is_saved(exported, tmp_path):
    model = refx.load(exported)
    model.apply("merge-linears")
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.add_(1)
    fast = tmp_path / "fast.pt2"
    model.save(fast)
    loaded = refx.load(fast)
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), loaded.state_dict().values()))
