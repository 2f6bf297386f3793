# SPDX-License-Identifier: Apache-2.0
"""Train, rewrite for an evaluation, go back, train on: as if it had never been rewritten, bit for bit."""

import torch
from model import VisionTransformer
from torch.nn.functional import cross_entropy

from refx.fx import FuseBatchNorm2dInConv2d, MergeLinears, compose, log

optimize = compose(MergeLinears(), FuseBatchNorm2dInConv2d())


def images(seed, count=8):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 3, 16, 16, generator=generator), torch.randint(10, (count,), generator=generator)


def train(gm, optimizer, steps):
    gm.train()
    for step in steps:
        x, y = images(step)
        optimizer.zero_grad()
        cross_entropy(gm(x), y).backward()
        optimizer.step()


def evaluate(gm):
    gm.eval()
    x, y = images(1000, count=64)
    with torch.no_grad():
        return cross_entropy(gm(x), y)


def run(rewrite):
    torch.manual_seed(0)
    gm = torch.fx.symbolic_trace(VisionTransformer())
    optimizer = torch.optim.AdamW(gm.parameters(), lr=1e-3)
    train(gm, optimizer, range(20))
    loss = evaluate(gm)
    if rewrite:
        optimize(gm)  # the batch norm must be in eval to be folded
        for step in log(gm):
            print(step)
        faster = evaluate(gm)
        print(f"loss {loss:.6f}, rewritten {faster:.6f}")
        torch.testing.assert_close(faster, loss)
        optimize(gm, reverse=True)
        assert not log(gm)
    train(gm, optimizer, range(20, 40))  # the optimizer still has the tensors of the model
    return gm.state_dict(), optimizer.state_dict()


def bits(value):
    """All that is in it, tensors as their bytes."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, value.contiguous().reshape(-1).view(torch.uint8).tolist()
    if isinstance(value, dict):
        return [(key, bits(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [bits(item) for item in value]
    return value


(state, moments), (other_state, other_moments) = run(rewrite=True), run(rewrite=False)
assert bits(state) == bits(other_state)
assert bits(moments) == bits(other_moments)
print("weights, batch statistics and the optimizer's state: as if it had never been rewritten")
