# SPDX-License-Identifier: Apache-2.0
"""Which rewrite broke my model? A rule with a mistake in it, found and taken back."""

import torch
from model import VisionTransformer
from torch.nn import functional as F

import refx


# The mistake: the bias has to be scaled, too. Where it is 0, as it is before training, nobody notices.
# (`refx check`, with ScaleInQuery.text in a file, shows it on the smallest model there is.)
@refx.rule
class ScaleInQuery:
    "query(x) @ key / c -> the query's weight is divided instead"

    def before(x, key, W: refx.Weight, b: refx.Weight, c: refx.Factor):
        return F.linear(x, W, b) @ key * c

    def once(W, c):
        return {"scaled": W * c}

    def after(x, key, scaled, b):
        return F.linear(x, scaled, b) @ key


torch.manual_seed(0)
net = VisionTransformer(layers=4).eval()
with torch.no_grad():
    for layer in net.layers:
        layer.query.bias.zero_()
    net.layers[2].query.bias.normal_()  # this one was trained

model = refx.export(net, (torch.randn(2, 3, 16, 16),))
model.apply("fuse-batch-norm-2d-in-conv-2d", ScaleInQuery, "merge-linears")
print(model)
verification = model.verify()
print(f"verify: {verification.verdict}, {verification.reason}\n")
assert verification.verdict == "fail"

found = model.bisect(0)  # with the tolerance of verify; or a function of a model that returns True or False
print(found)
(culprit,) = [step for steps in found.culprits for step in steps]
assert (culprit.transformation, "layers.2" in culprit.site) == ("scale-in-query", True)

model.reverse(culprit)  # merge-linears, which came later, is applied again without it
print(model)
assert model.verify()
assert len(model.log()) == 8

model.reverse("scale-in-query")  # and where its bias is 0: the rule itself is wrong
assert model.verify() and len(model.log()) == 5
print("\nrepaired: verify passes, and all other rewrites are still there")
