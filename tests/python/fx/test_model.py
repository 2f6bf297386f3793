# SPDX-License-Identifier: Apache-2.0
"""refx.Model: exported programs from Python."""

import hashlib
import os
import tempfile

import pytest
import torch

import refx
import refx.fx
import zoo
from kit import flat


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def program():
    model, inputs = zoo.make("encoder")
    return torch.export.export(model, inputs), inputs


@pytest.fixture
def path(program, tmp_path):
    torch.export.save(program[0], tmp_path / "model.pt2")
    return tmp_path / "model.pt2"


def test_from_load_to_save(program, path, tmp_path):
    exported, inputs = program
    model = refx.load(path)
    expected = exported.module()(*inputs)
    assert list(model.state_dict()) == list(exported.state_dict)
    assert "aten.linear.default" in repr(model.graph)
    assert len(model.sites("merge-linears")) == 2
    steps = model.apply(refx.fx.MergeLinears, "change-true-div-to-mul-by-inverse")
    assert [s.id for s in steps] == [s.id for s in model.log()] and len(steps) == 4
    result = model(*inputs)
    assert list(result) == list(expected)
    for a, b in zip(flat(result), flat(expected)):
        torch.testing.assert_close(a, b)
    verification = model.verify()
    assert verification and verification.outputs and "output" in str(verification)
    assert "query-key-value-merged" in model.diff()

    model.save(tmp_path / "fast.pt2")
    loaded = refx.load(tmp_path / "fast.pt2")
    assert [str(s) for s in loaded.log()] == [str(s) for s in steps]
    assert "4 steps" in repr(loaded) and "<table>" in loaded._repr_html_()
    loaded.reverse("merge-linears")
    assert len(loaded.log()) == 2
    loaded.reverse()
    loaded.save(tmp_path / "model_again.pt2")
    assert not loaded.diff()
    original = tmp_path / "other" / "model.pt2"
    original.parent.mkdir()
    loaded.save(original)
    assert digest(original) == digest(path)


def test_exported_programs_both_ways(program):
    exported, inputs = program
    model = refx.from_exported(exported)
    model.apply("merge-linears")
    back = model.to_exported()
    for a, b in zip(flat(back.module()(*inputs)), flat(exported.module()(*inputs))):
        torch.testing.assert_close(a, b)


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="there is no memory to write files into")
def test_exported_programs_need_no_disk(program, monkeypatch):
    exported, inputs = program
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", "/there/is/no/disk")
    model = refx.from_exported(exported)
    model.apply("merge-linears")
    for a, b in zip(flat(model.to_exported().module()(*inputs)), flat(exported.module()(*inputs))):
        torch.testing.assert_close(a, b)
    monkeypatch.setenv("TMPDIR", "/there/is/no/disk")  # whoever asks for a place gets it
    with pytest.raises(FileNotFoundError):
        model.to_exported()


def test_export():
    net, inputs = zoo.make("resnet")
    model = refx.export(net, inputs)
    copied = model.copy()
    model.apply(refx.fx.FuseBatchNorm2dInConv2d())
    assert len(model.log()) == 7 and not copied.log()
    torch.testing.assert_close(model(*inputs), net(*inputs))
    assert not model.diff(model.copy())
    model.reverse(model.log()[0])
    assert model.redo() and len(model.log()) == 7
    model.forget()
    assert not model.log()


def test_detached_originals_come_back(path, tmp_path):
    model = refx.load(path)
    kept = model.copy()
    model.apply("store-linear-int8")
    away = model.detach()
    assert away and away == model.detached() and not kept.detached()
    assert all(tensor.dtype is torch.float32 and tensor.bytes > 0 for tensor in away)
    model.save(tmp_path / "slim.pt2")

    slim = refx.load(tmp_path / "slim.pt2")
    assert slim.detached() == away and all(step.bytes == 0 for step in slim.log())
    steps = [str(step) for step in slim.log()]
    for attempt in (slim.reverse, slim.verify, lambda: slim.original().state_dict()):
        with pytest.raises(refx.Error, match="weight' was detached.*attach"):
            attempt()
    other = tmp_path / "other.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(2, 2), (torch.randn(1, 2),)), other)
    for attempt in (slim.attach, lambda base: slim.reverse(base=base)):
        with pytest.raises(refx.Error, match=f"other.pt2 .* '{away[0].name}': there is none"):
            attempt(other)
    assert [str(step) for step in slim.log()] == steps and slim.detached() == away

    slim.reverse(slim.log()[0], base=path)
    assert len(slim.detached()) == len(away) - 1
    slim.attach(path)
    assert not slim.detached() and slim.redo() and len(slim.log()) == len(steps)
    slim.reverse()
    slim.save(tmp_path / "back.pt2")
    assert digest(tmp_path / "back.pt2") == digest(path)


def test_operators_of_ones_own(tmp_path):
    """A program that was made here may call what it names; a file has to be trusted with it."""

    @torch.library.custom_op("refx_model_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    module = torch.nn.Sequential(torch.nn.Linear(2, 2))
    module.register_forward_hook(lambda module, args, output: torch.ops.refx_model_test.twice(output))
    x = torch.randn(3, 2)
    program = torch.export.export(module, (x,))
    torch.testing.assert_close(refx.from_exported(program)(x), module(x))

    torch.export.save(program, tmp_path / "model.pt2")
    with pytest.raises(refx.Error, match=r"refx_model_test.twice is refused.*allow_ops"):
        refx.load(tmp_path / "model.pt2")(x)
    for name in ("refx_model_test", ["refx_model_test.twice"]):
        model = refx.load(tmp_path / "model.pt2", allow_ops=name)
        torch.testing.assert_close(model(x), module(x))
        model.apply("fuse-bias-in-linear")
        assert model.verify()


def test_errors(program, tmp_path):
    model = refx.from_exported(program[0])
    with pytest.raises(refx.Error, match="did you mean 'merge-linears'"):
        model.apply("merge-linear")
    with pytest.raises(refx.Error):
        model.apply("merge-linears", "nonsense")
    assert not model.log()  # all or none
    with pytest.raises(refx.Error):
        refx.load(tmp_path / "missing.pt2")
    with pytest.raises(refx.Error):
        model()
    (tmp_path / "bad.pt2").write_bytes(b"no archive")
    with pytest.raises(refx.Error):
        refx.load(tmp_path / "bad.pt2")
