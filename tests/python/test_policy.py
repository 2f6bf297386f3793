# SPDX-License-Identifier: Apache-2.0
"""Files that call operators that do more than compute: every command that runs a model refuses them."""

import itertools
import os
import pathlib
import re

import pytest
import torch
from torch import nn

from archives import read, with_json

COMMANDS = {
    "run": (),
    "verify": (),
    "bench": ("--seconds", "0.1"),
    "tune": ("--seconds", "0.1", "-o", "out.pt2"),
    "bisect": ("--tolerance", "1e-4"),
    "report": ("-o", "out.html"),
}


@pytest.fixture(autouse=True)
def torch_runs_no_hostile_file(refx, monkeypatch):
    monkeypatch.setattr(type(refx), "judged_by_torch", False)



class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.a(x) + self.b(x))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "small.pt2"
    torch.export.save(torch.export.export(Small().eval(), (torch.randn(2, 4),)), path)
    return path


def to_argument(value):
    """"%relu" is the value of that name."""
    if isinstance(value, dict):
        return value
    if isinstance(value, str):
        return {"as_tensor": {"name": value[1:]}} if value.startswith("%") else {"as_string": value}
    if isinstance(value, list):
        return {"as_tensors": [to_argument(v)["as_tensor"] for v in value]} if "%" in str(value) else {"as_ints": value}
    kind = {bool: "as_bool", int: "as_int", float: "as_float", type(None): "as_none"}[type(value)]
    return {kind: value}


FLOAT = {"as_scalar_type": 7}


def argument_names(target):
    if not target.startswith("torch.ops."):
        return itertools.repeat("")
    space, name, overload = target.split(".")[2:]
    try:
        schema = torch._C._get_schema(f"{space}::{name}", "" if overload == "default" else overload)
    except RuntimeError:  # there is no such overload
        return itertools.repeat("")
    return [argument.name for argument in schema.arguments]


def node(name, target, args, kwargs=None, output=None):
    names = argument_names(target)
    inputs = [{"name": n, "arg": to_argument(v), "kind": 1} for n, v in zip(names, args)]
    inputs += [{"name": k, "arg": to_argument(v), "kind": 2} for k, v in (kwargs or {}).items()]
    return {"target": target, "inputs": inputs, "outputs": [output or {"as_tensor": {"name": name}}],
            "metadata": {}, "is_hop_single_tensor_return": None, "name": name}


def craft(source, path, *calls):
    """The file with these calls added, whose output is that of the last one."""

    def change(program):
        graph = program["graph_module"]["graph"]
        for call in calls:
            graph["nodes"].append(node(*call))
            if "as_tensor" in graph["nodes"][-1]["outputs"][0]:
                graph["tensor_values"][call[0]] = graph["tensor_values"]["relu"]
        last = {"as_tensor": {"name": calls[-1][0]}}
        graph["outputs"] = [last]
        program["graph_module"]["signature"]["output_specs"] = [{"user_output": {"arg": last}}]

    return with_json(source, path, change)


FROM_FILE = "torch.ops.aten.from_file.default"
REINTERPRET = "torch.ops.inductor._reinterpret_tensor.default"


def hostile(victim):
    return {
        "writes a file": (("f", FROM_FILE, [str(victim), True, 4], {"dtype": FLOAT}),
                          ("g", "torch.ops.aten.fill_.Scalar", ["%f", 7.0])),
        "reads a file": (("f", FROM_FILE, [str(victim), False, 4], {"dtype": FLOAT}),),
        "reads a file by another name": (("f", "torch.from_file", [str(victim), False, 4], {"dtype": FLOAT}),),
        "reads beyond an input": (("f", REINTERPRET, ["%relu", [4096], [1], 0]),),
        "crashes": (("f", REINTERPRET, ["%relu", [4], [1], 1 << 40]),),
        "trusts indices": (("i", "torch.ops.aten.full.default", [[1, 1], 1 << 40], {"dtype": {"as_scalar_type": 5}}),
                           ("v", "torch.ops.aten.ones.default", [[1]]),
                           ("s", "torch.ops.aten._sparse_coo_tensor_unsafe.default", ["%i", "%v", [4]]),
                           ("f", "torch.ops.aten.to_dense.default", ["%s"])),
        "trusts strides": (("f", "torch.ops.aten._reshape_alias.default", ["%relu", [4], [1 << 40]]),),
        "writes the terminal": (("p", "torch.ops.aten._print.default", ["\x1b[2J"], {}, {"as_none": True}),
                                ("f", "torch.ops.aten.relu.default", ["%relu"])),
    }


LONG, COMPLEX, SPARSE = {"as_scalar_type": 5}, {"as_scalar_type": 10}, {"as_layout": 1}
BFLOAT16, CHAR, INT = {"as_scalar_type": 13}, {"as_scalar_type": 2}, {"as_scalar_type": 4}


def full(name, sizes, value, dtype=LONG):
    return name, "torch.ops.aten.full.default", [sizes, value], {"dtype": dtype}


# Calls that once crashed or wrote out of bounds: what says no to them, and to what.
CRASHES = {
    "indices of a sparse tensor that are written": ("aten.to_sparse is refused", [
        ("s", "torch.ops.aten.to_sparse.default", ["%relu"]),
        ("i", "torch.ops.aten._indices.default", ["%s"]),
        ("j", "torch.ops.aten.fill_.Scalar", ["%i", 1 << 40]),
        ("f", "torch.ops.aten.to_dense.default", ["%s"])]),
    "a sparse tensor by its layout": ("sparse, quantized or nested", [
        ("f", "torch.ops.aten.zeros.default", [[4, 4]], {"layout": SPARSE})]),
    "an observer": ("aten.fused_moving_avg_obs_fake_quant is refused", [
        full("o", [1], 1),
        ("f", "torch.ops.aten.fused_moving_avg_obs_fake_quant.default",
         ["%relu", "%o", "%o", "%relu", "%relu", "%relu", "%relu", 0.1, 0, 255, 7, True, False])]),
    "attention with fused weights": ("aten._native_multi_head_attention is refused", [
        ("f", "torch.ops.aten._native_multi_head_attention.default",
         ["%relu", "%relu", "%relu", 4, 0, "%relu", "%relu", "%relu", "%relu"])]),
    "a range": ("aten.range is refused", [("f", "torch.ops.aten.range.step", [0, 10, 1])]),
    "distances of too many dimensions": ("pairwise distances expect", [
        full("z", [3, 5, 0, 3], 0, FLOAT), ("f", "torch.ops.aten._pdist_forward.default", ["%z", 2.0])]),
    "the smallest integer by -1, truncated": ("divided by -1", [
        full("a", [4], -(1 << 63)), full("b", [4], -1),
        ("f", "torch.ops.aten.div.Tensor_mode", ["%a", "%b"], {"rounding_mode": "trunc"})]),
    "the smallest integer by -1, rounded down": ("divided by -1", [
        full("a", [4], -(1 << 63)), full("b", [4], -1),
        ("f", "torch.ops.aten.floor_divide.default", ["%a", "%b"])]),
    "the remainder of the smallest integer by -1": ("divided by -1", [
        full("a", [4], -(1 << 63)), ("f", "torch.ops.aten.remainder.Scalar", ["%a", -1])]),
    "repeats whose sum wraps": ("repeats are negative or too many", [
        full("r", [4], 1 << 62), ("f", "torch.ops.aten.repeat_interleave.Tensor", ["%r"])]),
    "no offsets": ("expects at least one bag", [
        full("i", [4], 0), full("o", [0], 0),
        ("f", "torch.ops.aten._embedding_bag_forward_only.default", ["%relu", "%i", "%o"])]),
    "one offset, which is the end of no bag": ("expects at least one bag", [
        full("w", [5, 3], 0, FLOAT), full("i", [4], 0), full("o", [1], 0),
        ("f", "torch.ops.aten._embedding_bag.default", ["%w", "%i", "%o", True, 2, False, None, True, -1])]),
    "a convolution that strides out of 32 bits": ("the stride of a sliding window is out of bounds", [
        full("z", [2, 3, 8, 8], 0, BFLOAT16), full("w", [8, 3, 3, 3], 0, BFLOAT16),
        ("f", "torch.ops.aten.conv2d.default", ["%z", "%w", None, [1, (1 << 31) - 1], [0, 0], [1, 1], 1])]),
    "an integer product that torch does not write": ("expects rows of two or more elements", [
        full("a", [4, 1], 1, CHAR), full("b", [8, 1], 1, CHAR), ("t", "torch.ops.aten.t.default", ["%b"]),
        ("f", "torch.ops.aten._int_mm.default", ["%a", "%t"])]),
    "offsets that descend": ("start at 0 and ascend", [
        full("w", [5, 3], 0, FLOAT), full("i", [4], 0), full("p", [1], 0), full("n", [1], 2),
        ("o", "torch.ops.aten.cat.default", [["%n", "%p"]]),
        ("f", "torch.ops.aten._embedding_bag.default", ["%w", "%i", "%o", False, 0, False, None, False, -1])]),
    "a quotient whose divisor wraps": ("divided by -1", [
        full("a", [4], -(1 << 31), INT), full("b", [], (1 << 32) - 1),
        ("f", "torch.ops.aten.div.Tensor_mode", ["%a", "%b"], {"rounding_mode": "trunc"})]),
    "an average with a negative divisor": ("the divisor of an average is less than 1", [
        full("z", [1, 2, 4, 4], -(1 << 63)),
        ("f", "torch.ops.aten.avg_pool2d.default", ["%z", [2, 2], [2, 2], [0, 0], False, True, -1])]),
    "a mode that no grid sampler has": ("interpolation_mode of a grid sampler is 0, 1 or 2", [
        full("z", [1, 2, 4, 4], 0, FLOAT), full("g", [1, 3, 3, 2], 0, FLOAT),
        ("f", "torch.ops.aten.grid_sampler_2d.default", ["%z", "%g", 7, 0, False])]),
    "a group norm whose sizes wrap": ("the sizes of a group norm are not those of its input", [
        full("z", [1, 4, 1], 0, FLOAT),
        ("f", "torch.ops.aten.native_group_norm.default", ["%z", None, None, 1, 4, (1 << 62) + 1, 2, 1e-5])]),
    "a group norm of no groups": ("cannot be divided into its groups", [
        full("z", [1, 3, 1], 0, FLOAT),
        ("f", "torch.ops.aten.native_group_norm.default", ["%z", None, None, 1, 3, 1, 0, 1e-5])]),
    "a group norm that scales by less than it has": ("one element for each channel", [
        full("z", [1, 3, 1], 0, FLOAT), full("w", [1], 0, FLOAT), ("e", "torch.ops.aten.expand.default", ["%w", [3]]),
        ("f", "torch.ops.aten.native_group_norm.default", ["%z", "%e", None, 1, 3, 1, 1, 1e-5])]),
    "zeros in a layout of oneDNN": ("of oneDNN's own layout cannot be created", [
        ("f", "torch.ops.aten.zeros.default", [[1, 3, 3]], {"layout": {"as_layout": 6}})]),
    "repeated heads of attention, of which there are none": ("expects at least one head", [
        full("q", [3, 4, 7, 8], 0, FLOAT), full("k", [3, 0, 7, 8], 0, FLOAT),
        ("f", "torch.ops.aten.scaled_dot_product_attention.default", ["%q", "%k", "%k"], {"enable_gqa": True})]),
    "an inverse FFT of an expanded tensor": ("the input of an FFT is expanded", [
        full("z", [5, 1, 7], 0, FLOAT), ("e", "torch.ops.aten.expand.default", ["%z", [5, 4096, 7]]),
        ("f", "torch.ops.aten.fft_irfftn.default", ["%e"])]),
    "a matrix to a power without end": ("the power of a matrix is out of bounds", [
        full("z", [2, 2], 1, FLOAT), ("f", "torch.ops.aten.matrix_power.default", ["%z", -(1 << 63)])]),
    "a million parts": ("is split into 1000000 parts", [
        full("z", [1], 1, FLOAT), ("e", "torch.ops.aten.expand.default", ["%z", [1000000]]),
        ("f", "torch.ops.aten.split.Tensor", ["%e", 1])]),
    "patches beyond an image": ("the padding of a sliding window is out of bounds", [
        full("z", [1, 12, 4], 0, FLOAT),
        ("f", "torch.ops.aten.col2im.default", ["%z", [4, 4], [2, 1], [1, 1], [1 << 32, 0], [2, 2]])]),
    "an FFT of an expanded tensor": ("the input of an FFT is expanded", [
        full("z", [5, 1, 7], 0, COMPLEX), ("e", "torch.ops.aten.expand.default", ["%z", [5, 2, 7]]),
        ("f", "torch.ops.aten._fft_c2c.default", ["%e", [-1], 0, True])]),
    "bags of a matrix": ("in one dimension", [
        full("i", [2, 4], 0), full("o", [2], 0),
        ("f", "torch.ops.aten._embedding_bag_forward_only.default", ["%relu", "%i", "%o", False, 2])]),
    "an LSTM whose parameters do not fit": ("do not fit together", [
        full("z", [2, 3, 4], 0, FLOAT), full("h", [1, 2, 6], 0, FLOAT), full("w", [8, 4], 0, FLOAT),
        ("f", "torch.ops.aten.lstm.input",
         ["%z", ["%h", "%h"], ["%w", "%w"], False, 1, 0.0, False, False, True])]),
    "an FFT that is too small": ("aten._fft_c2r is refused", [
        full("z", [5, 6, 7], 0, COMPLEX), ("f", "torch.ops.aten._fft_c2r.default", ["%z", [2], 0, 1000])]),
    "attention to nothing": ("not empty", [
        full("q", [4, 4, 0, 8], 0, FLOAT),
        ("f", "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default", ["%q", "%q", "%q"])]),
}


@pytest.mark.parametrize("how", CRASHES)
def test_a_call_that_once_crashed_is_refused(refx, small, tmp_path, how):
    said, calls = CRASHES[how]
    assert said in refx("run", craft(small, tmp_path / "bad.pt2", *calls), code=2).err


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
@pytest.mark.parametrize("what", ["fold-constants", "all"])
def test_folding_refuses_what_would_trap(refx, small, tmp_path, what, dry):
    path = craft(small, tmp_path / "bad.pt2", full("a", [2, 4], -(1 << 63)), full("b", [2, 4], -1),
                 ("d", "torch.ops.aten.div.Tensor_mode", ["%a", "%b"], {"rounding_mode": "trunc"}),
                 ("f", "torch.ops.aten.add.Tensor", ["%relu", "%d"]))

    def correct(program):
        for name in "abd":
            program["graph_module"]["graph"]["tensor_values"][name] = {
                **program["graph_module"]["graph"]["tensor_values"]["relu"], "dtype": 5}

    path = with_json(path, tmp_path / "typed.pt2", correct)
    result = refx("apply", path, what, "-o", tmp_path / "out.pt2", *dry, code=None)
    assert result.code in (0, 2), str(result)
    refused = refx("apply", path, "fold-constants", "-o", tmp_path / "out.pt2", code=None)
    assert "divided by -1" in refused.out + refused.err


HOSTILE = hostile("victim")


@pytest.fixture(scope="module")
def attack(refx, small, tmp_path_factory):
    """attack(how): a folder with a file that has a step in its history, and the file that it wants."""
    made = {}

    def make(how):
        if how not in made:
            folder = made[how] = tmp_path_factory.mktemp("attack")
            (folder / "victim").write_bytes(b"secret__" * 2)
            path = craft(small, folder / "bad.pt2", *hostile(folder / "victim")[how])
            refx("apply", path, "merge-linears", "-o", folder / "rewritten.pt2")
        return made[how]

    return make


@pytest.mark.parametrize(("how", "command"), [(how, "run") for how in HOSTILE]
                         + [("writes a file", command) for command in COMMANDS if command != "run"])
def test_no_command_runs_it(refx, attack, how, command, monkeypatch):
    folder = attack(how)
    monkeypatch.chdir(folder)
    before = {p: p.read_bytes() for p in folder.iterdir()}
    result = refx(command, "rewritten.pt2", *COMMANDS[command], code=2)
    assert re.search(r"operator \w+\.\w+ is refused: it .*--allow-ops", result.err), str(result)
    assert before == {p: p.read_bytes() for p in folder.iterdir()}


def test_inspect_names_it(refx, attack):
    bad = attack("writes a file") / "bad.pt2"
    result = refx("inspect", bad)
    assert "operators that run only with --allow-ops" in result.out
    refused = refx("inspect", bad, "--json").json()["refused_operators"]
    assert [op["operator"] for op in refused] == ["aten.from_file"]
    assert "aten.from_file" in result.out and refused[0]["reason"] in result.out


def test_inspect_looks_into_subgraphs(refx, exported, tmp_path):
    root, records = read(exported("cond"))
    text = records["models/model.json"]
    assert b"torch.ops.aten.cos.default" in text
    bad = with_json(exported("cond"), tmp_path / "bad.pt2",
                    lambda _: text.replace(b"torch.ops.aten.cos.default", b"torch.ops.mylib.cos.default"))
    assert [op["operator"] for op in refx("inspect", bad, "--json").json()["refused_operators"]] == ["mylib.cos"]
    refx("run", bad, code=2)


def test_the_other_model_is_looked_at_too(refx, small, tmp_path):
    bad = craft(small, tmp_path / "bad.pt2", *HOSTILE["reads a file"])
    for command in ("verify", "bench"):
        assert "aten.from_file" in refx(command, small, "--against", bad, code=2).err


def test_what_is_allowed_by_name_runs(refx, small, tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(bytes(16))
    path = craft(small, tmp_path / "m.pt2", *hostile(victim)["writes a file"])
    assert "aten.from_file" in refx("run", path, "--allow-ops", "aten", code=2).err  # it is by its own name only
    refx("run", path, "--allow-ops", "aten.from_file")
    assert victim.read_bytes() != bytes(16)


@pytest.mark.parametrize("command", COMMANDS)
def test_other_namespaces_run_when_allowed(refx, small, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    craft(small, "m.pt2", ("f", REINTERPRET, ["%relu", [4], [1], 0]))
    refx("apply", "m.pt2", "merge-linears", "-o", "m.pt2")
    assert "'inductor'" in refx(command, "m.pt2", *COMMANDS[command], code=2).err
    name = "inductor" if command == "run" else "inductor._reinterpret_tensor"
    result = refx(command, "m.pt2", *COMMANDS[command], "--allow-ops", name, code=None)
    assert result.code in (0, 1), str(result)


def test_names_that_cannot_be_allowed(refx, small):
    for name in ("", "a b", "aten.x.y", "torch.ops.aten.relu", "*"):
        assert "cannot be allowed" in refx("run", small, "--allow-ops", name, code=2).err


def test_help_says_which_commands_run_a_model(refx):
    for command in COMMANDS:
        assert "The command runs the operators" in refx(command, "--help").out
    for command in ("inspect", "apply", "reverse", "log", "diff", "detach", "forget"):
        assert "The command runs the operators" not in refx(command, "--help").out


@pytest.mark.parametrize("more", [(), ("--resume",)])
def test_a_pipe_is_refused_as_a_file_of_trials(refx, small, tmp_path, more):
    os.mkfifo(tmp_path / "pipe")
    result = refx("tune", small, "-o", tmp_path / "out.pt2", "--seconds", "0.1", "--trials", tmp_path / "pipe", *more,
                  code=2)
    assert "it is not a regular file" in result.err


# ---- what documents say ---------------------------------------------------------------------------


ROOT = pathlib.Path(__file__).parents[2]


def rows(name):
    """Patterns and reasons in the book's table."""
    book = (ROOT / "src/book/allowed_ops.cpp").read_text()
    reasons = {k: "".join(re.findall(r'"(.*?)"', v))
               for k, v in re.findall(r"constexpr std::string_view (k\w+) =\s*((?:\"[^\"]*\"\s*)+);", book)}
    table = re.search(rf"{name}\[\] = {{(.*?)}};", book, re.S)[1]
    return [(pattern, reasons[reason]) for pattern, reason in re.findall(r'{"([^"]+)", (k\w+)}', table)]


def test_the_document_has_the_rows_of_the_book():
    document = (ROOT / "docs/security.md").read_text()
    told = {pattern: reason for patterns, reason in re.findall(r"^\| (`.*?`) \| (.*?) \|$", document, re.M)
            for pattern in re.findall(r"`([^`]+)`", patterns)}
    assert told == dict(rows("kRefused"))


def test_a_file_runs_what_the_table_has_and_nothing_else(refx, small, tmp_path):
    """New versions of torch bring new operators: none of them runs before it has been tried."""
    table = (ROOT / "src/book/allowed_ops.def").read_text()
    allowed = set(re.findall(r'^{"(\w+)",', table, re.M))
    names = {n.split("::")[1].split(".")[0] for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::")}
    names = sorted(names)
    calls = [(f"n{i}", f"torch.Tensor.{name}", ["%relu"]) for i, name in enumerate(names)]
    path = craft(small, tmp_path / "all.pt2", *calls)
    refused = {op["operator"].removeprefix("aten.")
               for op in refx("inspect", path, "--json").json()["refused_operators"]}
    assert refused == set(names) - allowed


def test_exports_call_nothing_refused(made):
    refused = made.result("inspect").json()["refused_operators"]
    assert [op["operator"] for op in refused] == (["refx_tests.twice"] if made.name == "custom_operator" else [])
