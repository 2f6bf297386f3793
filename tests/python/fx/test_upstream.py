"""The same script under optimum.fx.optimization, where it is installed, gives the same outputs."""

import pathlib
import sys

import pytest
import torch

import refx.fx
import zoo
from kit import flat, trace

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "bench"))
import fx_peers  # noqa: E402

optimum = fx_peers.peer()
pytestmark = pytest.mark.skipif(optimum is None, reason="optimum is not installed")


def script(module, model, inputs, names):
    composed = module.compose(*(getattr(module, name)() for name in names))
    gm = composed(trace(model))
    outputs = flat(gm(*inputs))
    if hasattr(composed, "reverse"):
        outputs += flat(composed(gm, reverse=True)(*inputs))
    return outputs


@pytest.mark.parametrize("name, transformations", [
    ("encoder", ["MergeLinears"]),
    ("encoder", ["FuseBiasInLinear"]),
    ("encoder", ["ChangeTrueDivToMulByInverse", "MergeLinears"]),
    ("decoder", ["ChangeTrueDivToMulByInverse"]),
])
def test_same_outputs(name, transformations):
    with torch.no_grad():
        mine = script(refx.fx, *zoo.make(name), transformations)
        theirs = script(optimum, *zoo.make(name), transformations)
    for a, b in zip(mine, theirs):
        torch.testing.assert_close(a, b)


def test_same_names():
    names = ["ChangeTrueDivToMulByInverse", "FuseBatchNorm1dInLinear", "FuseBatchNorm2dInConv2d",
             "FuseBiasInLinear", "MergeLinears", "ReversibleTransformation", "Transformation", "compose"]
    for name in names:
        ours, upstream = getattr(refx.fx, name), getattr(optimum, name)
        if isinstance(upstream, type):
            public = {n for n in dir(upstream) if not n.startswith("_")}
            if name.startswith("Fuse"):
                public = {"transform", "preserves_computation", "signature", "transformed",
                          "mark_as_transformed", "get_transformed_nodes"}
            assert public <= set(dir(ours)), name
