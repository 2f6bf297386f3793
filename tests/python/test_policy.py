"""Files that want more than to compute: what they call is refused, in every command that runs a model."""

import itertools
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
    assert "operators that run only with --allow-ops, and why" in result.out
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
        assert "It runs the operators" in refx(command, "--help").out
    for command in ("inspect", "apply", "reverse", "log", "diff", "detach", "forget"):
        assert "It runs the operators" not in refx(command, "--help").out


# ---- what documents say ---------------------------------------------------------------------------


ROOT = pathlib.Path(__file__).parents[2]


def rows(name):
    """Patterns and reasons in the book's table."""
    book = (ROOT / "src/book/policy.cpp").read_text()
    reasons = {k: "".join(re.findall(r'"(.*?)"', v))
               for k, v in re.findall(r"constexpr std::string_view (k\w+) =\s*((?:\"[^\"]*\"\s*)+);", book)}
    table = re.search(rf"{name}\[\] = {{(.*?)}};", book, re.S)[1]
    return [(pattern, reasons[reason]) for pattern, reason in re.findall(r'{"([^"]+)", (k\w+)}', table)]


def test_the_document_has_the_rows_of_the_book():
    document = (ROOT / "docs/security.md").read_text()
    told = {pattern: reason for patterns, reason in re.findall(r"^\| (`.*?`) \| (.*?) \|$", document, re.M)
            for pattern in re.findall(r"`([^`]+)`", patterns)}
    assert told == dict(rows("kRefused"))


def test_no_operator_of_torch_that_looks_dangerous_is_without_a_decision(refx, small, tmp_path):
    """New versions of torch bring new operators. Those that run although their names look like it are known."""
    suspicious = re.compile(r"unsafe|file|storage|^_?set_?$|resize|reinterpret|nested|ptr|path|pin_mem|stream|"
                            r"prepack|int4pack|fbgemm|cudnn|miopen|mkldnn|_backward|_sparse_\w+_tensor|print|alias")
    names = {n.split("::")[1].split(".")[0] for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::")}
    names = sorted(n for n in names if suspicious.search(n))
    calls = [(f"n{i}", f"torch.ops.aten.{name}.default", ["%relu"]) for i, name in enumerate(names)]
    path = craft(small, tmp_path / "all.pt2", *calls)
    refused = refx("inspect", path, "--json").json()["refused_operators"]
    runs = sorted(set(names) - {op["operator"].removeprefix("aten.") for op in refused})
    assert runs == [
        "_scaled_dot_product_cudnn_attention", "_unsafe_index", "_unsafe_index_put", "_unsafe_masked_index",
        "_unsafe_masked_index_put_accumulate", "_unsafe_view", "alias", "alias_copy", "storage_offset",
        "sym_storage_offset", "to_mkldnn", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes"]


def test_exports_call_nothing_refused(made):
    refused = made.result("inspect").json()["refused_operators"]
    assert [op["operator"] for op in refused] == (["refx_tests.twice"] if made.name == "custom_operator" else [])
