# SPDX-License-Identifier: Apache-2.0
"""Files without their originals: `refx detach` removes them, `--base` supplies them."""

import json
import struct

import pytest
import torch
from torch import nn

from archives import read, sha256, with_json
from conftest import load

HISTORY = "refx/history.json"
WIDTH = 640
QUANTIZED = ["a.weight", "b.weight", "c.weight"]


class Layers(nn.Module):
    """Three linears to quantize, and two with one input to merge."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(WIDTH, WIDTH, bias=bias) for bias in (True, False, True))
        self.q, self.k = nn.Linear(WIDTH, 8), nn.Linear(WIDTH, 8)

    def forward(self, x):
        x = self.c(torch.relu(self.b(torch.relu(self.a(x)))))
        return self.q(x) + self.k(x)


def export(path, seed=0, change=None):
    torch.manual_seed(seed)
    model = Layers().eval()
    if change:
        with torch.no_grad():
            change(model)
    torch.export.save(torch.export.export(model, (torch.randn(18, WIDTH),)), path)
    return path


def weights(path):
    return {name: tensor.detach() for name, tensor in load(path).state_dict.items()}


CODES = {torch.float32: "F32", torch.float16: "F16", torch.int8: "I8"}


def safetensors(path, tensors, header=None):
    """A .safetensors file, written by hand: the package may not be there."""
    places, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().numpy().tobytes()
        places[name] = {"dtype": CODES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    if header:
        header(places)
    text = json.dumps({"__metadata__": {"format": "pt"}, **places}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


@pytest.fixture(scope="module")
def files(refx, tmp_path_factory):
    """m.pt2, the quantized q.pt2, and slim.pt2, which is without its originals."""
    folder = tmp_path_factory.mktemp("detach")
    export(folder / "m.pt2")
    refx("apply", folder / "m.pt2", "quantize-linear-int8", "--exclude", "q.*", "--exclude", "k.*", "-o", folder / "q.pt2")
    refx("detach", folder / "q.pt2", "-o", folder / "slim.pt2")
    return folder


def check_refused(refx, out, *command, words):
    """Refused with these words, and nothing was written."""
    result = refx(*command, code=2)
    assert all(word in result.err for word in words), str(result)
    assert not out.exists() and result.out == ""


# ---- what leaves ------------------------------------------------------------------------------


def test_the_file_is_small_and_computes_the_same(refx, files):
    sizes = {name: (files / f"{name}.pt2").stat().st_size for name in ("m", "q", "slim")}
    assert sizes["slim"] < 0.3 * sizes["m"] < sizes["q"]
    x = torch.randn(18, WIDTH)
    with torch.no_grad():
        assert load(files / "slim.pt2").module()(x).equal(load(files / "q.pt2").module()(x))
    names = read(files / "slim.pt2")[1]
    assert [n for n in names if n.startswith("refx/original/data/weights/weight")] == []


def test_what_is_left_of_an_original(refx, files):
    history = json.loads(read(files / "slim.pt2")[1][HISTORY])
    assert history["format"] == 2
    away = [r["detached"] for r in history["records"] if "detached" in r]
    assert sorted(d["name"] for d in away) == QUANTIZED
    assert all(set(d) == {"name", "dtype", "bytes", "hash"} and d["bytes"] == 4 * WIDTH**2 for d in away)
    assert str(files) not in json.dumps(history)
    assert json.loads(read(files / "q.pt2")[1][HISTORY])["format"] == 1


def test_log_and_inspect_say_what_is_detached(refx, files):
    away = 4 * WIDTH**2
    assert [step["detached"] for step in refx.log(files / "slim.pt2")] == [away] * 3
    assert [step["bytes"] for step in refx.log(files / "slim.pt2")] == [0] * 3
    assert [step["detached"] for step in refx.log(files / "q.pt2")] == [0] * 3
    log = refx("log", files / "slim.pt2")
    assert log.out.count("1 original (") == log.out.count(" detached\n") == 3 and "3 originals" in log.err
    assert refx("inspect", files / "slim.pt2", "--json").json()["detached"] == {"tensors": 3, "bytes": 3 * away}
    assert "\ndetached: 3 originals (" in refx("inspect", files / "slim.pt2").out
    assert "detached" not in refx("inspect", files / "q.pt2").out


def test_detaching_again_changes_nothing(refx, files, tmp_path):
    result = refx("detach", files / "slim.pt2", "-o", tmp_path / "again.pt2")
    assert "nothing to detach" in result.out
    assert sha256(tmp_path / "again.pt2") == sha256(files / "slim.pt2")


def test_parts_of_what_stays_are_not_touched(refx, files, tmp_path):
    merged, slim, back = (tmp_path / f"{name}.pt2" for name in ("merged", "slim", "back"))
    refx("apply", files / "m.pt2", "merge-linears", "-o", merged)
    assert refx("detach", merged, "-o", slim, "--json").json()["tensors"] == []
    assert json.loads(read(slim)[1][HISTORY])["format"] == 1
    refx("reverse", slim, "--all", "-o", back)
    assert sha256(back) == sha256(files / "m.pt2")


# ---- what comes back --------------------------------------------------------------------------


def test_without_the_base_nothing_is_reversed(refx, files, tmp_path):
    out = tmp_path / "out.pt2"
    check_refused(refx, out, "reverse", files / "slim.pt2", "--all", "-o", out, words=["weight' was detached", "--base"])


@pytest.mark.parametrize("base", ["m.pt2", "q.pt2", "whole.safetensors", "folder"])
def test_with_it_the_file_is_the_original(refx, files, tmp_path, base):
    tensors = weights(files / "m.pt2")
    safetensors(tmp_path / "whole.safetensors", tensors)
    (tmp_path / "folder").mkdir()
    names = list(tensors)
    for i in range(2):
        safetensors(tmp_path / "folder" / f"{i}.safetensors", {n: tensors[n] for n in names[i::2]})
    where = files / base if base.endswith(".pt2") else tmp_path / base
    result = refx("reverse", files / "slim.pt2", "--all", "--base", where, "-o", tmp_path / "back.pt2")
    assert "byte for byte" in result.out
    assert sha256(tmp_path / "back.pt2") == sha256(files / "m.pt2")


def test_a_part_comes_back_and_the_rest_stays_detached(refx, files, tmp_path):
    part, base = tmp_path / "part.pt2", tmp_path / "b.safetensors"
    safetensors(base, {"b.weight": weights(files / "m.pt2")["b.weight"]})  # no more is needed
    refx("reverse", files / "slim.pt2", "b.*", "--base", base, "-o", part)
    assert weights(part)["b.weight"].equal(weights(files / "m.pt2")["b.weight"])
    assert refx("inspect", part, "--json").json()["detached"]["tensors"] == 2
    out = tmp_path / "out.pt2"
    check_refused(refx, out, "reverse", part, "a.*", "-o", out, words=["'a.weight' was detached"])
    check_refused(refx, out, "reverse", part, "a.*", "--base", base, "-o", out, words=["'a.weight': there is none"])
    refx("reverse", part, "--all", "--base", files / "m.pt2", "-o", out)
    assert sha256(out) == sha256(files / "m.pt2")


def test_steps_without_originals_are_reversed_as_ever(refx, files, tmp_path):
    both, slim, part, back = (tmp_path / f"{name}.pt2" for name in ("both", "slim", "part", "back"))
    refx("apply", files / "q.pt2", "merge-linears", "-o", both)
    refx("detach", both, "-o", slim)
    refx("reverse", slim, "merge-linears", "-o", part)
    assert [step["transformation"] for step in refx.log(part)] == ["quantize-linear-int8"] * 3
    assert {"q.weight", "k.weight"} <= set(weights(part))
    for path in (slim, part):
        refx("reverse", path, "--all", "--base", files / "m.pt2", "-o", back)
        assert sha256(back) == sha256(files / "m.pt2")
    refx("apply", files / "slim.pt2", "merge-linears", "-o", both)
    refx("reverse", both, "--all", "--base", files / "m.pt2", "-o", back)
    assert sha256(back) == sha256(files / "m.pt2")


def test_a_weight_that_does_not_lie_in_order(refx, tmp_path):
    def transpose(model):
        model.a.weight = nn.Parameter(model.a.weight.t().contiguous().t())

    m, q, slim, back = (tmp_path / f"{name}.pt2" for name in ("m", "q", "slim", "back"))
    export(m, change=transpose)
    assert not weights(m)["a.weight"].is_contiguous()
    refx("apply", m, "store-linear-int8", "-o", q)
    refx("detach", q, "-o", slim)
    for base in (m, safetensors(tmp_path / "m.safetensors", weights(m))):
        refx("reverse", slim, "--all", "--base", base, "-o", back)
        assert sha256(back) == sha256(m)


# ---- what is not the original -----------------------------------------------------------------


def one_bit(model):
    model.b.weight.view(torch.int32)[7, 5] ^= 1


@pytest.mark.parametrize("change,words", [
    (one_bit, ["'b.weight': its values differ"]),
    (lambda model: setattr(model, "b", nn.Linear(WIDTH, WIDTH, bias=False).half()) or model.c.half(),
     ["'b.weight': it is f16[640, 640] there, and was f32[640, 640]"]),
])
def test_another_model_is_refused_by_the_name_of_the_tensor(refx, files, tmp_path, change, words):
    torch.manual_seed(0)
    model = Layers()
    with torch.no_grad():
        change(model)
    tensors = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    base, out = safetensors(tmp_path / "w.safetensors", tensors), tmp_path / "out.pt2"
    check_refused(refx, out, "reverse", files / "slim.pt2", "--all", "--base", base, "-o", out, words=[base.name, *words])


def test_a_file_of_another_model_is_refused(refx, files, tmp_path):
    out = tmp_path / "out.pt2"
    other = export(tmp_path / "other.pt2", change=one_bit)
    check_refused(refx, out, "reverse", files / "slim.pt2", "--all", "--base", other, "-o", out,
                  words=["other.pt2", "'b.weight': its values differ"])
    check_refused(refx, out, "reverse", files / "slim.pt2", "--all", "--base", files / "slim.pt2", "-o", out,
                  words=["it was detached there, too"])
    check_refused(refx, out, "reverse", files / "slim.pt2", "--all", "--base", tmp_path / "none.pt2", "-o", out,
                  words=["none.pt2"])
    (tmp_path / "empty").mkdir()
    check_refused(refx, out, "reverse", files / "slim.pt2", "--all", "--base", tmp_path / "empty", "-o", out,
                  words=["there is no .safetensors file"])


def set_in(key, value):
    def change(places):
        places["a.weight"][key] = value

    return change


@pytest.mark.parametrize("header", [
    set_in("data_offsets", [0, 4 * WIDTH**2 + 4]),
    set_in("data_offsets", [-4, 4 * WIDTH**2]),
    set_in("data_offsets", [8, 4]),
    set_in("data_offsets", [2**62, 2**62 + 4 * WIDTH**2]),
    set_in("data_offsets", [0]),
    set_in("shape", [WIDTH]),
    set_in("shape", [2**32, 2**32]),
    set_in("shape", [-WIDTH, -WIDTH]),
    set_in("shape", "many"),
    set_in("dtype", "F99"),
    set_in("dtype", "F64"),
    set_in("dtype", None),
])
def test_damaged_tensor_files(refx, files, tmp_path, header):
    base, out = safetensors(tmp_path / "m.safetensors", weights(files / "m.pt2"), header), tmp_path / "out.pt2"
    check_refused(refx, out, "reverse", files / "slim.pt2", "--all", "--base", base, "-o", out,
                  words=["m.safetensors", "a.weight"])


@pytest.mark.parametrize("size", [0, 7, 8, 100, 4 * WIDTH**2])
def test_tensor_files_that_were_cut_off(refx, files, tmp_path, size):
    base, out = safetensors(tmp_path / "m.safetensors", weights(files / "m.pt2")), tmp_path / "out.pt2"
    base.write_bytes(base.read_bytes()[:size])
    check_refused(refx, out, "reverse", files / "slim.pt2", "--all", "--base", base, "-o", out, words=["m.safetensors"])


# ---- files that lie ---------------------------------------------------------------------------


def detached(change):
    def edit(history):
        change(next(r["detached"] for r in history["records"] if r.get("detached", {}).get("name") == "a.weight"))

    return edit


def move_to(name):
    """Says that another record was detached as well."""

    def edit(history):
        away = next(r["detached"] for r in history["records"] if "detached" in r)
        record = next(r for r in history["records"] if r["name"].endswith(name))
        del record["record"]
        record["detached"] = dict(away)

    return edit


@pytest.mark.parametrize("change", [
    lambda history: history.update(format=1),
    lambda history: history.update(format=3),
    detached(lambda d: d.update(bytes=0)),
    detached(lambda d: d.update(bytes=4 * WIDTH**2 - 1)),
    detached(lambda d: d.update(bytes=-1)),
    detached(lambda d: d.update(bytes=2**62)),
    detached(lambda d: d.update(bytes="many")),
    detached(lambda d: d.update(dtype=1)),
    detached(lambda d: d.update(dtype=1000)),
    detached(lambda d: d.update(hash="")),
    detached(lambda d: d.update(hash="g" * 32)),
    detached(lambda d: d.update(name="c.weight")),
    detached(lambda d: d.update(name="none")),
    detached(lambda d: d.pop("name")),
    detached(lambda d: d.pop("hash")),
    move_to("models/model.json"),
    move_to("model_weights_config.json"),
    move_to("data/sample_inputs/model.pt"),
    move_to("archive_format"),
])
def test_a_history_that_lies_is_refused(refx, files, tmp_path, change):
    path, out = with_json(files / "slim.pt2", tmp_path / "m.pt2", change, HISTORY), tmp_path / "out.pt2"
    check_refused(refx, out, "reverse", path, "--all", "--base", files / "m.pt2", "-o", out, words=["m.pt2: "])


def test_what_is_used_cannot_be_detached(refx, files, tmp_path):
    """A bias that no step replaces."""

    def change(history):
        record = next(r for r in history["records"] if r.get("record", "").startswith("data/weights/weight"))
        del record["record"]
        record["detached"] = {"name": "a.bias", "dtype": 6, "bytes": 4 * WIDTH, "hash": "0" * 32}

    path = with_json(files / "slim.pt2", tmp_path / "m.pt2", change, HISTORY)
    assert HISTORY in refx("log", path, code=2).err


def test_another_hash_is_another_original(refx, files, tmp_path):
    change = detached(lambda d: d.update(hash="0" * 32))
    path, out = with_json(files / "slim.pt2", tmp_path / "m.pt2", change, HISTORY), tmp_path / "out.pt2"
    assert len(refx.log(path)) == 3
    check_refused(refx, out, "reverse", path, "--all", "--base", files / "m.pt2", "-o", out,
                  words=["'a.weight': its values differ"])


# ---- everybody else ---------------------------------------------------------------------------


@pytest.mark.parametrize("command", [
    ["verify"], ["verify", "--per-step"], ["bench", "--seconds", "0.01"], ["diff"],
    ["bisect", "--tolerance", "1e-9", "--fresh"],
])
def test_whoever_needs_the_original_says_so_or_gets_it(refx, files, monkeypatch, tmp_path, command):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    name, *options = command
    if name != "diff":  # which compares values only where both have a tensor
        error = refx(name, files / "slim.pt2", *options, code=2).err
        assert "weight' was detached" in error and "--base" in error
    given = refx(name, files / "slim.pt2", *options, "--base", files / "m.pt2", code=None)
    assert given.code == refx(name, files / "q.pt2", *options, code=None).code != 2, str(given)


def test_the_page_of_a_slim_file(refx, files, tmp_path):
    page = tmp_path / "page.html"
    refx("report", files / "slim.pt2", "-o", page, "--no-verify", "--no-bench", code=None)
    refx("report", files / "slim.pt2", "-o", page, "--no-bench", "--base", files / "m.pt2", code=None)


def test_a_slim_file_can_be_forgotten_and_run(refx, files, tmp_path):
    refx("run", files / "slim.pt2")
    refx("forget", files / "slim.pt2", "-o", tmp_path / "out.pt2")
    assert refx.log(tmp_path / "out.pt2") == []
