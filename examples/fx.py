# SPDX-License-Identifier: Apache-2.0
"""Rewrite a traced model, look at the steps, and take them back."""

import torch
from torch import nn

from refx.fx import FuseBiasInLinear, MergeLinears, compose, explain, log, reverse


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(-1, -2)
        return torch.softmax(scores, -1) @ self.value(x)


model = Attention()
x = torch.randn(2, 5, 8)
gm = torch.fx.symbolic_trace(model)
expected = gm(x)

print(explain(MergeLinears(), gm))
optimize = compose(MergeLinears(), FuseBiasInLinear())
optimize(gm)
print(gm.code)
for step in log(gm):
    print(step)
torch.testing.assert_close(gm(x), expected)

reverse(gm, "merge-linears")  # alone; the fused bias is applied again to each linear
print([name for name, _ in gm.named_children()])

optimize(gm, reverse=True)
assert torch.equal(gm(x), expected) and gm.query is model.query
print("as before, bit for bit")
