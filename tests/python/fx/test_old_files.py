# SPDX-License-Identifier: Apache-2.0
"""GraphModules that an earlier refx.fx saved (tests/data/fx): they open, show their steps, and go back."""

import copy
import pathlib
import pickle

import pytest
import torch
from torch.fx.passes.shape_prop import ShapeProp

import refx
from kit import Snapshot, assert_close_to_double, bits, flat
from refx.fx import Rule, log, reverse

DATA = pathlib.Path(__file__).parents[2] / "data" / "fx"
FILES = sorted(p.name for p in DATA.glob("*.*.*") if p.suffix in (".pt", ".pickle") and ".state." not in p.name)


def load(name):
    path = DATA / name
    if path.suffix == ".pickle":
        return pickle.loads(path.read_bytes())
    return torch.load(path, weights_only=False)


def undo(gm, file, what=None):
    """These were saved by a refx that took a weight for changed when a later step had replaced it."""
    mistaken = file.startswith(("encoder.", "bfloat16."))
    reverse(gm, what, discard_changes=mistaken)


class Original:
    def __init__(self, file):
        name = file.partition(".")[0]
        self.gm = load(f"{name}.pt")
        kept = torch.load(DATA / f"{name}.state.pt", weights_only=True)
        self.code, self.state, self.inputs = kept["code"], kept["state"], kept["inputs"]

    def check(self, gm):
        """To the last bit what was first transformed."""
        assert log(gm) == []
        assert gm.code == self.code
        state = gm.state_dict()
        assert list(state) == list(self.state)
        for name, tensor in self.state.items():
            assert state[name].dtype == tensor.dtype and state[name].shape == tensor.shape
            assert bits(state[name]) == bits(tensor), name
        back, original = Snapshot(gm, objects=False, meta=False), Snapshot(self.gm, objects=False, meta=False)
        back.attributes = original.attributes
        back.assert_equals(original)
        with torch.no_grad():
            for mine, theirs in zip(flat(gm(*self.inputs)), flat(self.gm(*self.inputs)), strict=True):
                assert torch.equal(mine, theirs)


def text(gm):
    return "".join(f"{step}\n" for step in log(gm))


def test_there_are_files():
    assert len(FILES) >= 10


@pytest.mark.parametrize("file", FILES)
def test_an_old_file_opens(file):
    gm, original = load(file), Original(file)
    assert text(gm) == (DATA / file).with_suffix(".log").read_text()
    assert_close_to_double(gm, original.gm, original.inputs)


@pytest.mark.parametrize("file", FILES)
def test_an_old_file_is_reversed(file):
    gm = load(file)
    undo(gm, file)
    Original(file).check(gm)


@pytest.mark.parametrize("file", FILES)
def test_each_step_of_an_old_file_is_reversed_alone(file):
    original = Original(file)
    for step in log(load(file)):
        gm = load(file)
        undo(gm, file, str(step.id))
        assert step.id not in [s.id for s in log(gm)]
        assert_close_to_double(gm, original.gm, original.inputs)
        gm = pickle.loads(pickle.dumps(gm))
        undo(gm, file)
        original.check(gm)


@pytest.mark.parametrize("file", FILES)
def test_an_old_file_is_reversed_step_by_step(file):
    for newest in (True, False):
        gm = load(file)
        while steps := log(gm):
            undo(gm, file, str(steps[-1 if newest else 0].id))
        Original(file).check(gm)


def test_rules_are_reversed_by_both_names():
    gm = load("written-out.all.pt")
    for name in ("silu-written-out", "fuse-attention"):
        rule = Rule(name)
        assert rule.get_transformed_nodes(gm)
        rule(gm, reverse=True)
        assert not rule.get_transformed_nodes(gm)
    assert [step.transformation for step in log(gm)] == ["change-true-div-to-mul-by-inverse", "linear-written-out"]
    typed = copy.deepcopy(gm)
    ShapeProp(typed).propagate(torch.randn(3, gm.query.shape[1]))
    assert log(Rule("silu-written-out")(typed))[-1].transformation == "fuse-silu"
    assert refx.fx.SiluWrittenOut is refx.fx.FuseSilu
    reverse(gm)
    Original("written-out.all.pt").check(gm)


@pytest.mark.parametrize("name", ["bfloat16", "convolutions", "encoder", "tied"])
def test_reversed_in_part_it_is_what_it_was_then(name):
    gm, then = load(f"{name}.all.pt"), load(f"{name}.middle.pt")
    reverse(gm, "1")
    gm = pickle.loads(pickle.dumps(gm))  # torch.fx gives names anew
    assert text(gm) == text(then)
    assert gm.code == then.code
    assert list(gm.state_dict()) == list(then.state_dict())
    for a, b in zip(gm.state_dict().values(), then.state_dict().values()):
        assert bits(a) == bits(b)
