# SPDX-License-Identifier: Apache-2.0
"""How a history marks lossy steps, and what rules compute in each dtype."""

import json

import pytest
import torch


class Filled(torch.nn.Module):
    def forward(self, q, k, v, mask):
        scores = q @ k.transpose(-1, -2) * 0.5
        return scores.masked_fill(mask, _lowest(q.dtype)).softmax(-1) @ v


class Chosen(torch.nn.Module):
    def forward(self, q, k, v, mask):
        scores = q @ k.transpose(-1, -2) * 0.5
        return torch.where(mask.logical_not(), scores, _lowest(q.dtype)).softmax(-1) @ v


def _lowest(dtype):
    return float("-inf") if dtype == torch.float16 else torch.finfo(dtype).min


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("net,rule", [(Filled, "fuse-attention-masked-fill"),
                                      (Chosen, "fuse-attention-where")])
def test_masked_attention_runs_in_every_dtype(desk, dtype, net, rule):
    q, k, v = (torch.randn(2, 3, n, 8, dtype=dtype) for n in (4, 5, 5))
    inputs = (q, k, v, torch.arange(20).reshape(4, 5) % 3 == 0)
    torch.export.save(torch.export.export(net().eval(), inputs), desk.work / "m.pt2")
    desk("apply", "m.pt2", rule, "-o", "fast.pt2")
    assert len(json.loads(desk("log", "fast.pt2", "--json").out)) == 1
    fast = torch.export.load(desk.work / "fast.pt2").module()(*inputs)
    exact = net()(*(x.double() if x.is_floating_point() else x for x in inputs))
    assert fast.dtype == dtype
    torch.testing.assert_close(fast.double(), exact, rtol=0, atol=16 * torch.finfo(dtype).eps)


def small(desk):
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8)).eval()
    torch.export.save(torch.export.export(net, (torch.randn(2, 8),)), desk.work / "m.pt2")


def test_the_log_shows_lossy_steps(desk):
    small(desk)
    desk("apply", "m.pt2", "store-linear-int8", "-o", "q.pt2")
    assert [line.split()[-1] for line in desk("log", "q.pt2").out.splitlines()] == ["approximate"] * 2
    steps = json.loads(desk("log", "q.pt2", "--json").out)
    assert [step["numerics"] for step in steps] == ["approximate"] * 2
    assert [step["parameters"] for step in steps] == [{}, {}]
    assert desk("verify", "q.pt2", code=1).out.splitlines()[-1].startswith("not judged: error ")


def test_ids_of_reversed_steps_are_not_used_again(desk):
    small(desk)
    desk("apply", "m.pt2", "store-linear-int8", "-o", "a.pt2")
    desk("reverse", "a.pt2", "2", "-o", "b.pt2")
    desk("apply", "b.pt2", "store-linear-int8", "-o", "c.pt2")
    assert [step["id"] for step in json.loads(desk("log", "c.pt2", "--json").out)] == [1, 3]


@pytest.mark.parametrize("budget", ["inf", "nan", "-1", "0"])
def test_budgets_are_finite_and_above_zero(desk, budget):
    small(desk)
    assert "budget" in desk("verify", "m.pt2", f"--budget={budget}", code=2).err
