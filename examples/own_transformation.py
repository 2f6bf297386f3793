# SPDX-License-Identifier: Apache-2.0
"""Transformations of your own, with their log and their undo: a torch.fx pass, and a rule."""

import torch
from torch import nn

import refx
from refx.fx import ReversibleTransformation, Rule, compose, log, reverse


# Any torch.fx code: refx compares the graph before and after.
class DropRepeatedRelu(ReversibleTransformation):
    """relu(relu(x)) -> relu(x)"""

    preserves_computation = True

    def transform(self, graph_module):
        for node in graph_module.graph.nodes:
            if node.target is torch.relu and node.args[0].target is torch.relu:
                node.replace_all_uses_with(node.args[0])
                graph_module.graph.erase_node(node)
        return graph_module


# Two small graphs, matched on meaning: x / 4 is x * 0.25, and b + x is x + b. refx knows where that
# would be wrong, and says why it leaves such a place alone.
@refx.rule
class ScaleAndShift:
    "(x * c + b) * w -> addcmul"

    where = "floating(x)"

    def before(x, b: refx.Weight, w: refx.Weight, c: refx.Factor):
        return (x * c + b) * w

    def once(b, w, c):
        return {"shift": b * w, "scale": w * c}

    def after(x, shift, scale):
        return torch.addcmul(shift, x, scale)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias, self.weight = (nn.Parameter(torch.randn(8)) for _ in range(2))

    def forward(self, x):
        return torch.relu(torch.relu((self.bias + x / 4) * self.weight))


net, x = Net(), torch.randn(2, 8)
expected = net(x)

# ---- a GraphModule: both

gm = torch.fx.symbolic_trace(net)
torch.fx.passes.shape_prop.ShapeProp(gm).propagate(x)  # where a rule asks for dtypes or sizes
code = gm.code
compose(DropRepeatedRelu(), Rule(ScaleAndShift))(gm)
print(gm.code)
for step in log(gm):
    print(step)
assert [step.transformation for step in log(gm)] == ["DropRepeatedRelu", "scale-and-shift"]
torch.testing.assert_close(gm(x), expected)

reverse(gm)
assert gm.code == code and torch.equal(gm(x), expected) and gm.bias is net.bias

# ---- an exported program: the rule

print(ScaleAndShift.text)  # also for `refx apply MODEL --rules FILE`; `refx check FILE` tries it
model = refx.export(net, (x,))
print(model.apply(ScaleAndShift))
assert len(model.log()) == 1 and model.verify()
model.reverse("scale-and-shift")
assert not model.diff(refx.export(net, (x,)))
print("as before, bit for bit")
