# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts as transformers 5 exports them run without Python, and their weights are sites."""

import pytest
import torch
from torch import nn


def grouped_mm(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    output = torch.zeros(input.size(0), weight.size(2), dtype=input.dtype)
    start = 0
    for i, end in enumerate(offs.tolist()):
        output[start:end] = input[start:end] @ weight[i]
        start = end
    return output


if not hasattr(torch.ops.transformers, "grouped_mm_fallback"):  # as transformers 5 registers it
    torch.library.custom_op("transformers::grouped_mm_fallback", grouped_mm, mutates_args=(),
                            schema="(Tensor input, Tensor weight, Tensor offs) -> Tensor")
    torch.library.register_fake("transformers::grouped_mm_fallback",
                                lambda x, w, offs: x.new_empty(x.size(0), w.size(2)))


class Experts(nn.Module):
    """Two experts for each token, of four; `turned` as in GPT-OSS, which adds its biases in place."""

    def __init__(self, turned):
        super().__init__()
        self.turned = turned
        self.router = nn.Linear(16, 4)
        self.up = nn.Parameter(torch.randn(4, 16, 48) if turned else torch.randn(4, 48, 16))
        self.down = nn.Parameter(torch.randn(4, 24, 16) if turned else torch.randn(4, 16, 24))
        self.bias = nn.Parameter(torch.randn(4, 48))

    def product(self, x, weight, offs):
        w = weight if self.turned else weight.transpose(-2, -1)
        return torch.ops.transformers.grouped_mm_fallback(x.to(w.dtype), w, offs=offs)

    def forward(self, x):
        scores, chosen = torch.topk(torch.softmax(self.router(x), -1), 2)
        ids, order = torch.sort(chosen.reshape(-1))
        offs = torch.cumsum(torch.histc(ids.float(), bins=4, min=0, max=3), 0, dtype=torch.int32)
        h = self.product(x[order // 2], self.up, offs)
        if self.turned:
            h.add_(self.bias[ids])
        gate, up = h.chunk(2, -1)
        y = self.product(nn.functional.silu(gate) * up, self.down, offs) * scores.reshape(-1)[order].unsqueeze(-1)
        return y[torch.argsort(order)].view(-1, 2, 16).sum(1)


@pytest.fixture(params=[False, True], ids=["plain", "turned"])
def exported(request, tmp_path):
    torch.manual_seed(0)
    model, x = Experts(request.param).eval(), torch.randn(10, 16)
    with torch.no_grad():
        program = torch.export.export(model, (x,))
    path = tmp_path / "moe.pt2"
    torch.export.save(program, path)
    with torch.no_grad():
        return path, x, program.module()(x)


def test_runs_without_the_operator(exported, refx, tmp_path):
    path, x, expected = exported
    given, got = tmp_path / "in.pt", tmp_path / "out.pt"
    torch.save((x,), given)
    refx("run", path, "--inputs", given, "-o", got)
    torch.testing.assert_close(torch.load(got), expected)
    assert "refused" not in refx("inspect", path).out.split("sites")[0]


def test_rewrites_around_the_operator(exported, refx, tmp_path):
    path, x, expected = exported
    fast, back = tmp_path / "fast.pt2", tmp_path / "back.pt2"
    assert refx("apply", path, "all", "-o", fast, "--json").json()["steps"]
    assert refx("verify", fast).code == 0
    with torch.no_grad():
        torch.testing.assert_close(torch.export.load(fast).module()(x), expected)
    refx("reverse", fast, "--all", "-o", back)
    assert back.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("rule", ["store-grouped-mm-bf16", "store-grouped-mm-int8"])
def test_expert_weights_are_sites(rule, exported, refx, tmp_path):
    path, x, expected = exported
    small, back = tmp_path / "small.pt2", tmp_path / "back.pt2"
    assert len(refx("apply", path, rule, "-o", small, "--json").json()["steps"]) == 2
    assert refx("verify", small, "--budget", "0.05").code == 0
    assert refx("verify", small, "--budget", "1e-6", code=1)
    with torch.no_grad():
        error = (torch.export.load(small).module()(x) - expected).norm() / expected.norm()
    assert 0 < error < 0.05
    refx("reverse", small, "--all", "-o", back)
    assert back.read_bytes() == path.read_bytes()
