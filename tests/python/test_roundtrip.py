# SPDX-License-Identifier: Apache-2.0
"""`.pt2` in and out, with torch as the judge."""

import copy
import functools
import io
import json
import random
import shutil

import pytest
import torch

import models
import numerics
from archives import read, rewritten, sha256
from conftest import load
from models import BIAS, CONV, DIV, MERGE, NORM, TRANSFORMATIONS

# ---- every model, every transformation that has a site in it, and all of them -----------------


class Reference:
    """What a model computes on each of its inputs, as exported and exactly."""

    def __init__(self, name, path):
        self.example = models.MODELS[name].example()
        self.inputs = [(self.example.args, self.example.kwargs), *self.example.more]
        self.program = load(path)
        self.original = [numerics.results(self.program, *i) for i in self.inputs]
        self.exact = [numerics.exact(self.example, *i) for i in self.inputs]

    def check(self, program, what):
        for i, inputs in enumerate(self.inputs):
            current = numerics.results(program, *inputs)
            numerics.check_same(current, self.original[i], self.exact[i], f"{what}, inputs {i}")


@functools.lru_cache(maxsize=8)
def reference(name, path):
    return Reference(name, path)


def reference_of(made):
    return reference(made.name, made.original)


def bits(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def same_tensor(a, b):
    def form(t):
        return t.dtype, t.shape, t.stride(), t.requires_grad, type(t)

    return form(a) == form(b) and bits(a).equal(bits(b))


def check_interface(program, original):
    """Callers cannot tell the two programs apart by how they are called."""
    assert program.call_spec == original.call_spec
    assert program.graph_signature.user_inputs == original.graph_signature.user_inputs
    assert len(program.graph_signature.user_outputs) == len(original.graph_signature.user_outputs)
    assert program.range_constraints == original.range_constraints
    assert [e.fqn for e in program.module_call_graph] == [e.fqn for e in original.module_call_graph]


def modules(site):
    """The modules of a site: "layer.{q,k}" -> layer.q, layer.k. In a subgraph: "cond/true_graph_0/layer"."""
    site = site.rpartition("/")[2]
    head, brace, rest = site.partition("{")
    return [head + part for part in rest.rstrip("}").split(",")] if brace else [site]


def check_state(program, original, touched):
    """The tensors of modules that no step touched are the old ones, under the old names, in the old order."""
    before, after = original.state_dict, program.state_dict
    if touched is not None:  # the sites of a layer that is called twice are named after the calls: layer.conv2d_1
        owners = {key.rpartition(".")[0] for key in before}
        touched = {m if m in owners else m.rpartition(".")[0] for m in touched}
    kept = [k for k in before if k in after]
    assert [k for k in after if k in before] == kept
    for key in before:
        if touched is not None and key.rpartition(".")[0] not in touched:
            assert key in after and same_tensor(after[key], before[key]), key
    for key, value in original.constants.items():
        if isinstance(value, torch.Tensor) and key in program.constants:  # a divisor may be gone
            assert same_tensor(program.constants[key], value), key


def check_file(made, path, what, touched=None):
    program = load(path)
    t = reference_of(made)
    check_interface(program, t.program)
    check_state(program, t.program, touched)
    t.check(program, what)
    if made.entry.runs:
        assert not numerics.misdescribed_values(program, *t.inputs[0]), what


def test_each_transformation_keeps_the_results(made):
    sites = made.result("inspect").json()["sites"]
    for transformation in made.entry.sites:
        touched = {m for s in sites if s["transformation"] == transformation for m in modules(s["site"])}
        check_file(made, made.file(transformation), transformation, touched)


def test_all_transformations_keep_the_results(made):
    check_file(made, made.file("all"), "all")


def test_torch_can_work_on_with_the_file(made):
    t = reference_of(made)
    program = load(made.file("all"))
    args, kwargs = copy.deepcopy(t.inputs[0])
    torch.manual_seed(0)
    with torch.no_grad():
        out = torch.export.unflatten(program)(*args, **kwargs)
    numerics.check_same((out, (), {}), (t.original[0][0], (), {}), (t.exact[0][0], (), {}), "unflattened")
    if made.entry.decompose:
        t.check(load(made.file("all")).run_decompositions(), "decomposed")


def test_the_expected_sites_are_found(made):
    found = {}
    for site in made.result("inspect").json()["sites"]:
        found[site["transformation"]] = found.get(site["transformation"], 0) + 1
    for transformation in TRANSFORMATIONS:
        expected = made.entry.sites.get(transformation, 0)
        if expected is not None:
            assert found.get(transformation, 0) == expected, transformation


def test_refusals_have_reasons(made):
    for refusal in made.result("inspect").json()["refusals"]:
        assert refusal["transformation"] and refusal["site"] and len(refusal["reason"]) > 10, refusal


def test_refused_batch_norms_are_listed(refx, exported):
    refusals = refx("inspect", exported("norm_refused"), "--json").json()["refusals"]
    assert sum(r["transformation"] in (CONV, NORM) for r in refusals) >= 3


def test_strides_are_recorded(refx, exported, tmp_path):
    out = tmp_path / "out.pt2"
    refx("apply", exported("vit"), MERGE, "-o", out)
    example = models.MODELS["vit"].example()
    assert not numerics.misdescribed_values(load(out), example.args, example.kwargs, strides=True)


def test_without_a_site_the_file_is_copied(made):
    if "untouched" in made.results:
        assert sha256(made.file("untouched")) == sha256(made.original)


def test_reversing_all_restores_the_file(made):
    assert sha256(made.file("back")) == sha256(made.original)


def test_verify_passes(made):
    if not made.entry.runs:
        pytest.skip("not to be run without Python")
    said = made.results["verify"]
    assert said.code == 0 or not made.entry.smooth and said.json()["verdict"] == "cannot tell", str(said)


def plain(value):
    """Without the types that only Python has."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    return value


def test_running_gives_what_torch_gives(made):
    if not made.entry.runs:
        pytest.skip("not to be run without Python")
    made.result("run")
    got = plain(torch.load(made.folder / "outputs.pt", weights_only=True))
    reference = reference_of(made)
    expected = plain(reference.original[0][0])
    # Random numbers in fp64 are others.
    exact = expected if made.entry.random else plain(reference.exact[0][0])
    a, spec = torch.utils._pytree.tree_flatten(got)
    b, expected_spec = torch.utils._pytree.tree_flatten(expected)
    assert spec == expected_spec
    for x, y, z in zip(a, b, torch.utils._pytree.tree_leaves(exact)):
        if isinstance(y, torch.Tensor):
            assert not numerics.differs(x.detach(), y.detach(), z.detach())  # a parameter is a tensor, too
        else:
            assert x == y and type(x) is type(y)


# ---- histories --------------------------------------------------------------------------------


def check_program(name, original, path, what):
    reference(name, original).check(load(path), what)


def test_log_lists_the_steps(refx, exported, tmp_path):
    assert refx.log(exported("bert")) == []
    known = {t["name"] for t in refx("list", "--json").json()}
    for name in ("bert", "everything", "odd_names"):
        out = tmp_path / f"{name}.pt2"
        refx("apply", exported(name), "all", "-o", out)
        log = refx.log(out)
        assert log
        for step in log:
            assert step.keys() >= {"id", "transformation", "site", "nodes", "parameters", "bytes"}
            assert step["transformation"] in known
            assert step["site"] and step["nodes"]
        assert len({step["id"] for step in log}) == len(log)
        lines = refx("log", out).out.splitlines()
        assert all(any(s["site"] in line and s["transformation"] in line for line in lines) for s in log)


@pytest.mark.parametrize("seed", range(3))
def test_steps_reversed_in_random_order(refx, exported, tmp_path, seed):
    original = exported("everything")
    order = random.Random(seed)
    path = tmp_path / "0.pt2"
    refx("apply", original, "all", BIAS, "-o", path)
    steps = refx.log(path)
    assert {s["transformation"] for s in steps} >= set(TRANSFORMATIONS)
    for i in range(1, 40):
        if not steps:
            break
        step = order.choice(steps)
        after = tmp_path / f"{i}.pt2"
        refx("reverse", path, step["id"], "-o", after)
        left = refx.log(after)
        assert step["id"] not in [s["id"] for s in left]
        check_program("everything", original, after, f"after reversing {step}")
        path, steps = after, left
    assert not steps
    assert sha256(path) == sha256(original)


@pytest.mark.parametrize("backwards", [False, True])
def test_steps_reversed_one_by_one_in_place(refx, exported, tmp_path, backwards):
    original = exported("linear_norm")
    path = tmp_path / "m.pt2"
    refx("apply", original, "all", "-o", path)
    for _ in range(20):
        steps = refx.log(path)
        if not steps:
            break
        refx("reverse", path, steps[-1 if backwards else 0]["id"], "-o", path)
    assert sha256(path) == sha256(original)


def test_reversal_by_transformation_and_by_site(refx, exported, tmp_path):
    original = exported("bert")
    a, b, c, d = (tmp_path / f"{x}.pt2" for x in "abcd")
    refx("apply", original, MERGE, DIV, BIAS, "-o", a)
    refx("reverse", a, MERGE, "-o", b)
    left = [s["transformation"] for s in refx.log(b)]
    assert MERGE not in left and DIV in left and left.count(BIAS) == 14
    check_program("bert", original, b, "without merge-linears")
    refx("reverse", b, "*layers.1*", "-o", c)
    sites = [s["site"] for s in refx.log(c)]
    assert sites and not any("layers.1" in s for s in sites)
    check_program("bert", original, c, "without layer 1")
    refx("reverse", c, BIAS, DIV, "-o", d)
    assert sha256(d) == sha256(original)


def test_dependents_are_named_or_dropped_on_request(refx, exported, tmp_path):
    original = exported("everything")
    a, b = tmp_path / "a.pt2", tmp_path / "b.pt2"
    refx("apply", original, MERGE, BIAS, "-o", a)
    log = refx.log(a)
    merge = next(s for s in log if s["transformation"] == MERGE)
    refused = refx("reverse", a, merge["id"], "--refuse", "-o", b, code=2)
    assert not b.exists()
    assert BIAS in refused.err
    refx("reverse", a, merge["id"], "--cascade", "-o", b)
    assert [s["transformation"] for s in refx.log(b)] == [BIAS]  # of the linear before
    check_program("everything", original, b, "cascaded")


def test_applying_twice_changes_nothing_more(refx, exported, tmp_path):
    for name in ("bert", "everything"):
        a, b = tmp_path / "a.pt2", tmp_path / "b.pt2"
        refx("apply", exported(name), "all", "-o", a)
        refx("apply", a, "all", "-o", b)
        assert sha256(a) == sha256(b)


def test_a_second_transformation_on_a_written_file(refx, exported, tmp_path):
    original = exported("everything")
    at_once, path = tmp_path / "at_once.pt2", tmp_path / "m.pt2"
    refx("apply", original, "all", BIAS, "-o", at_once)
    shutil.copy(original, path)
    for transformation in (CONV, NORM, MERGE, DIV, BIAS):  # the order of `all`, and what it leaves out
        refx("apply", path, transformation, "-o", path)
        check_program("everything", original, path, f"up to {transformation}")
    steps = [(s["transformation"], s["site"]) for s in refx.log(path)]
    assert steps == [(s["transformation"], s["site"]) for s in refx.log(at_once)]
    refx("reverse", path, "--all", "-o", path)
    assert sha256(path) == sha256(original)


def test_output_may_be_the_input(refx, exported, tmp_path):
    path = tmp_path / "bert.pt2"
    shutil.copy(exported("bert"), path)
    refx("apply", path, "all", "-o", path)
    assert refx.log(path)
    refx("reverse", path, "--all", "-o", path)
    assert sha256(path) == sha256(exported("bert"))
    assert [p.name for p in tmp_path.iterdir()] == ["bert.pt2"]


def test_writing_needs_an_output(refx, exported, tmp_path):
    path = tmp_path / "m.pt2"
    shutil.copy(exported("everything"), path)
    before = sha256(path)
    for command in (["apply", path, "all"], ["reverse", path, "--all"], ["forget", path]):
        assert refx(*command, code=2).err
    assert sha256(path) == before


def test_forgetting_slims_the_file(refx, exported, tmp_path):
    original = exported("bert")
    a, b = tmp_path / "a.pt2", tmp_path / "b.pt2"
    refx("apply", original, "all", "-o", a)
    refx("forget", a, "-o", b)
    assert any(name.startswith("refx/") for name in read(a)[1])
    assert not any(name.startswith("refx/") for name in read(b)[1])
    assert refx.log(b) == []
    check_program("bert", original, b, "forgotten")
    assert b.stat().st_size < a.stat().st_size


def test_a_python_resave_drops_the_history_only(refx, exported, tmp_path):
    original = exported("everything")
    a, b = tmp_path / "a.pt2", tmp_path / "b.pt2"
    refx("apply", original, "all", "-o", a)
    torch.export.save(load(a), b)
    assert refx.log(b) == []
    check_program("everything", original, b, "saved again")


def test_python_saves_the_model_that_refx_wrote_with_the_same_records(refx, exported, tmp_path):
    """What refx writes is what torch would write for that program."""
    for name in ("symbols", "everything", "odd_state"):
        a, b, c = (tmp_path / f"{name}{i}.pt2" for i in "abc")
        refx("apply", exported(name), "all", "-o", a)
        refx("forget", a, "-o", b)
        torch.export.save(load(b), c)
        ours, theirs = read(b)[1], read(c)[1]
        mine, yours = (json.loads(r["models/model.json"]) for r in (ours, theirs))
        assert mine["graph_module"]["graph"]["nodes"] == yours["graph_module"]["graph"]["nodes"]
        assert mine["graph_module"]["signature"] == yours["graph_module"]["signature"]


def test_originals_are_stored_once(refx, exported, tmp_path):
    original = exported("wide_attention")
    out = tmp_path / "out.pt2"
    refx("apply", original, MERGE, "-o", out)
    merged = 3 * 256 * 256 * 4
    assert out.stat().st_size - original.stat().st_size < merged / 10


def test_extra_files_stay(refx, exported, tmp_path):
    out = tmp_path / "out.pt2"
    refx("apply", exported("bert"), "all", "-o", out)
    extra = {"notes.txt": "", "tokens/vocabulary.txt": ""}
    load(out, extra_files=extra)
    assert extra == models.MODELS["bert"].example().extra_files


def test_diff(refx, exported, tmp_path):
    original = exported("everything")
    out = tmp_path / "out.pt2"
    refx("apply", original, MERGE, "-o", out)
    assert refx("diff", original, original).code == 0
    assert refx("diff", out, out).code == 0
    assert refx("diff", original, out, code=1).out
    assert refx("diff", out, code=1).out  # against its own original
    refx("diff", original, code=0)


def test_only_the_named_sites(refx, exported, tmp_path):
    out = tmp_path / "out.pt2"
    refx("apply", exported("bert"), MERGE, "--site", "*layers.1*", "-o", out)
    assert len(refx.log(out)) == 1


def test_unknown_names_suggest_the_nearest(refx, exported, tmp_path):
    out = tmp_path / "out.pt2"
    assert MERGE in refx("apply", exported("everything"), "merge-linear", "-o", out, code=2).err
    refx("apply", exported("everything"), "all", "-o", out)
    assert "99" in refx("reverse", out, "99", "-o", out, code=2).err


def test_other_inputs(refx, exported, tmp_path):
    for name in ("bert", "nested", "symbols"):
        example = models.MODELS[name].example()
        program = load(exported(name))
        for inputs in example.more:
            given, got = tmp_path / "in.pt", tmp_path / "out.pt"
            torch.save(inputs, given)
            refx("run", exported(name), "--inputs", given, "-o", got)
            expected = numerics.results(program, *inputs)[0]
            a = torch.utils._pytree.tree_leaves(plain(torch.load(got, weights_only=True)))
            b = torch.utils._pytree.tree_leaves(plain(expected))
            torch.testing.assert_close(a, b)


def test_what_needs_python_is_refused(refx, exported, tmp_path):
    path = exported("custom_operator")
    for command in (["run", path, "-o", tmp_path / "out.pt"], ["verify", path]):
        assert "refx_tests" in refx(*command, code=2).err
    assert not (tmp_path / "out.pt").exists()


def test_odd_paths(refx, exported, tmp_path):
    folder = tmp_path / "a folder, \u00fc"
    folder.mkdir()
    path = folder / "-m 'odd'.pt2"
    shutil.copy(exported("everything"), path)
    refx("apply", path, "all", "-o", folder / "no extension")
    refx("reverse", folder / "no extension", "--all", "-o", folder / "back")
    assert sha256(folder / "back") == sha256(path)
    missing = tmp_path / "missing" / "out.pt2"
    assert str(missing.parent) in refx("apply", path, "all", "-o", missing, code=2).err
    refx("apply", path, "all", "-o", tmp_path, code=2)


# ---- weights that were changed after they were rewritten --------------------------------------


def with_other_weights(path, target, keys, change):
    """A copy in which the tensors of these names were changed, as training would."""

    def edit(records):
        config = json.loads(records["data/weights/model_weights_config.json"])["config"]
        for key in keys:
            name = "data/weights/" + config[key]["path_name"]
            records[name] = change(torch.frombuffer(bytearray(records[name]), dtype=torch.float32)).numpy().tobytes()

    return rewritten(path, target, edit)


def rewritten_keys(original, path):
    before, after = load(original).state_dict, load(path).state_dict
    return [k for k in after if k not in before or not same_tensor(after[k], before[k])]


@pytest.mark.parametrize("transformation", [MERGE, BIAS])
def test_training_is_carried_back(refx, exported, tmp_path, transformation):
    original = exported("wide_attention")
    a, b, c = (tmp_path / f"{x}.pt2" for x in "abc")
    refx("apply", original, transformation, "-o", a)
    with_other_weights(a, b, rewritten_keys(original, a), lambda w: w * 2)
    refx("reverse", b, "--all", "-o", c)
    old, back = load(original).state_dict, load(c).state_dict
    assert list(old) == list(back)
    changed = [k for k in old if torch.equal(back[k], old[k] * 2)]
    if transformation == BIAS:
        assert len(changed) == 8
    else:
        assert changed == [f"{m}.{p}" for m in "qkv" for p in ("weight", "bias")]
        assert same_tensor(back["o.weight"], old["o.weight"])


def test_verify_sees_a_difference(refx, exported, tmp_path):
    original = exported("resnet")
    a, b = tmp_path / "a.pt2", tmp_path / "b.pt2"
    refx("apply", original, CONV, "-o", a)
    with_other_weights(a, b, rewritten_keys(original, a)[:1], lambda w: w * 1.01)
    for command in ((), ("--against", original)):
        assert refx("verify", a, *command).out.splitlines()[-1] == "pass"
        assert refx("verify", b, *command, code=1).out.splitlines()[-1].startswith("FAIL: ")


def test_training_that_cannot_be_carried_back(refx, exported, tmp_path):
    original = exported("resnet")
    a, b, c = (tmp_path / f"{x}.pt2" for x in "abc")
    refx("apply", original, CONV, "-o", a)
    with_other_weights(a, b, rewritten_keys(original, a)[:1], lambda w: w * 2)
    assert "--discard-changes" in refx("reverse", b, "--all", "-o", c, code=2).err
    assert not c.exists()
    refx("reverse", b, "--all", "--discard-changes", "-o", c)
    assert sha256(c) == sha256(original)


# ---- pickles are never run --------------------------------------------------------------------


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_no_pickle_is_run(refx, exported, tmp_path, monkeypatch):
    monkeypatch.setattr(type(refx), "judged_by_torch", False)  # torch runs it
    sprung = tmp_path / "sprung"
    buffer = io.BytesIO()
    torch.save(((Trap(sprung),), {}), buffer)

    def set_trap(records):
        records["data/sample_inputs/model.pt"] = buffer.getvalue()

    path = rewritten(exported("everything"), tmp_path / "trap.pt2", set_trap)
    out, back = tmp_path / "out.pt2", tmp_path / "back.pt2"
    refx("inspect", path)
    refx("apply", path, "all", "-o", out)
    refx("log", out)
    refx("reverse", out, "--all", "-o", back)
    assert "sample_inputs" in refx("run", path, "-o", tmp_path / "x.pt", code=2).err
    refx("verify", out, code=None)
    assert not sprung.exists()
    assert sha256(back) == sha256(path)
    assert read(out)[1]["data/sample_inputs/model.pt"] == buffer.getvalue()
