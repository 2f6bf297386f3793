# SPDX-License-Identifier: Apache-2.0
"""Damaged files: exit code 2 and a message that says where, or the same result as from the good file."""

import concurrent.futures
import json
import random
import re
import struct
import zipfile

import pytest
import torch

from archives import read, rewritten, sha256, with_json, write

GRAPH = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"


def check_refused(result):
    assert result.code == 2, str(result)
    assert result.err.strip(), "no message"
    assert not re.search(r"Traceback|terminate called|Exception raised from|internal error", result.err), str(result)


@pytest.fixture(scope="module")
def small(exported):
    return exported("mixed_biases")


@pytest.fixture(scope="module")
def changed(refx, small, tmp_path_factory):
    """A file with a history in it."""
    path = tmp_path_factory.mktemp("changed") / "changed.pt2"
    refx("apply", small, "all", "-o", path)
    return path


# ---- flipped bits and missing ends ------------------------------------------------------------


def places(path, count, seed):
    """Offsets all over a file: in every record's header and data, in the padding and the directory."""
    order = random.Random(seed)
    data = path.read_bytes()
    parts = []
    with zipfile.ZipFile(path) as zip:
        end = 0
        for info in sorted(zip.infolist(), key=lambda i: i.header_offset):
            name, extra = struct.unpack_from("<HH", data, info.header_offset + 26)
            start = info.header_offset + 30 + name + extra
            parts += [(end, info.header_offset), (info.header_offset, info.header_offset + 30 + name),
                      (info.header_offset + 30 + name, start), (start, start + info.file_size)]
            end = start + info.file_size
        parts += [(end, zip.start_dir), (zip.start_dir, len(data) - 98), (len(data) - 98, len(data))]
    parts = [p for p in parts if p[0] < p[1]]
    chosen = [order.randrange(*p) for p in parts]
    while len(chosen) < count:
        chosen.append(order.randrange(len(data)))
    order.shuffle(chosen)
    return [(place, 1 << order.randrange(8)) for place in chosen[:count]]


def flipped(path, target, place, bit):
    data = bytearray(path.read_bytes())
    data[place] ^= bit
    target.write_bytes(data)
    return target


def in_parallel(function, cases):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(function, cases))


def check_all(cases, attempt, pristine, answer):
    """attempt(case) -> (Result, answer or None): refused, or the pristine answer."""
    wrong = []
    refused = 0
    for case, (result, got) in zip(cases, in_parallel(attempt, cases)):
        try:
            if result.code == 0:
                assert got == pristine, "another answer"
            else:
                check_refused(result)
                refused += 1
        except AssertionError as error:
            wrong.append(f"{case}: {error}")
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong[:5])
    return refused


def test_flipped_bits_when_run(refx, small, tmp_path):
    good = tmp_path / "good.pt"
    refx("run", small, "-o", good)

    def attempt(case):
        place, bit = case
        path, out = tmp_path / f"{place}.pt2", tmp_path / f"{place}.pt"
        result = refx.attempt("run", flipped(small, path, place, bit), "-o", out)
        return result, out.exists() and out.read_bytes()

    assert check_all(places(small, 60, seed=1), attempt, good.read_bytes(), None) > 20


def test_flipped_bits_when_inspected(refx, small, tmp_path):
    def answer(path):
        result = refx.attempt("inspect", path, "--json")
        return result, result.out.replace(str(path), "")

    def attempt(case):
        return answer(flipped(small, tmp_path / f"{case[0]}.pt2", *case))

    check_all(places(small, 30, seed=2), attempt, answer(small)[1], None)


def test_flipped_bits_in_a_history(refx, small, changed, tmp_path):
    def attempt(case):
        place, bit = case
        path, out = tmp_path / f"{place}.pt2", tmp_path / f"{place}.out.pt2"
        result = refx.attempt("reverse", flipped(changed, path, place, bit), "--all", "-o", out)
        return result, out.exists() and sha256(out)

    assert check_all(places(changed, 70, seed=3), attempt, sha256(small), None) > 20


def test_truncated_files(refx, small, changed, tmp_path):
    order = random.Random(4)
    cases = [(path, n) for path in (small, changed) for size in [path.stat().st_size]
             for n in [0, 1, 21, size - 1, size - 23, *(order.randrange(size) for _ in range(5))]]

    def attempt(case):
        source, size = case
        path = tmp_path / f"{source.stem}{size}.pt2"
        path.write_bytes(source.read_bytes()[:size])
        return refx.attempt("inspect", path, "--json")

    for result in in_parallel(attempt, cases):
        check_refused(result)


# ---- well-formed archives that say something impossible ---------------------------------------


def check_same_outputs(refx, path, original, folder):
    for source, name in ((path, "now.pt"), (original, "then.pt")):
        refx("run", source, "-o", folder / name)
    now, then = (torch.load(folder / name, weights_only=True) for name in ("now.pt", "then.pt"))
    assert len(now) == len(then) and all(torch.equal(a, b) for a, b in zip(now, then))


def test_a_rewritten_archive_is_accepted(refx, small, tmp_path):
    path = rewritten(small, tmp_path / "m.pt2", lambda records: None)
    assert refx("inspect", path, "--json").json()["sites"] == refx("inspect", small, "--json").json()["sites"]
    check_same_outputs(refx, path, small, tmp_path)


def test_records_that_older_archives_lack(refx, small, tmp_path):
    path = rewritten(small, tmp_path / "m.pt2", lambda r: r.pop("byteorder") and r.pop(".data/serialization_id") and None)
    check_same_outputs(refx, path, small, tmp_path)


def graph_of(model):
    return model["graph_module"]["graph"]


def node(model, i):
    return graph_of(model)["nodes"][i]


def meta(config, key="q.weight"):
    return config["config"][key]["tensor_meta"]


def set_at(container, key, value):
    container[key] = value


def cycle(m):
    node(m, 0)["inputs"][0]["arg"]["as_tensor"]["name"] = "relu"


def reorder(m):
    graph_of(m)["nodes"].reverse()


def duplicate_output(m):
    for place in (node(m, 2)["outputs"][0]["as_tensor"],):
        place["name"] = "linear"


def huge(c):
    meta(c)["sizes"] = [{"as_int": 2**40}, {"as_int": 2**40}]
    meta(c)["strides"] = [{"as_int": 2**40}, {"as_int": 1}]


def zero_size_huge_stride(c):
    meta(c)["sizes"] = [{"as_int": 3}, {"as_int": 3}]
    meta(c)["strides"] = [{"as_int": 2**62}, {"as_int": 2**62}]


# name -> (record, change, words that the message must have besides the record)
WRONG_JSON = {
    "unknown_value": (GRAPH, lambda m: set_at(node(m, 0)["inputs"][0]["arg"]["as_tensor"], "name", "nowhere"), ["nowhere"]),
    "cycle": (GRAPH, cycle, ["relu"]),
    "not_in_order": (GRAPH, reorder, ["linear_2"]),
    "duplicate_value": (GRAPH, duplicate_output, ["linear"]),
    "duplicate_input": (GRAPH, lambda m: graph_of(m)["inputs"].append(graph_of(m)["inputs"][0]), []),
    "unknown_output": (GRAPH, lambda m: set_at(graph_of(m)["outputs"][0]["as_tensor"], "name", "nowhere"), ["nowhere"]),
    "no_nodes": (GRAPH, lambda m: graph_of(m).pop("nodes") and None, ["nodes"]),
    "nodes_is_text": (GRAPH, lambda m: set_at(graph_of(m), "nodes", "none"), ["nodes"]),
    "no_graph": (GRAPH, lambda m: m["graph_module"].pop("graph") and None, ["graph"]),
    "no_signature": (GRAPH, lambda m: m["graph_module"].pop("signature") and None, ["signature"]),
    "missing_spec": (GRAPH, lambda m: m["graph_module"]["signature"]["input_specs"].pop() and None, ["input_specs"]),
    "spec_of_no_weight": (
        GRAPH,
        lambda m: set_at(
            m["graph_module"]["signature"]["input_specs"][0]["parameter"], "parameter_name", "lost.weight"
        ),
        ["lost.weight"],
    ),
    "two_kinds": (GRAPH, lambda m: set_at(node(m, 1)["inputs"][1]["arg"], "as_int", 3), ["as_"]),
    "unknown_kind": (GRAPH, lambda m: set_at(node(m, 1)["inputs"][1], "arg", {"as_nonsense": 3}), ["as_nonsense"]),
    "no_tensor_value": (GRAPH, lambda m: graph_of(m)["tensor_values"].pop("relu") and None, ["relu"]),
    "unknown_value_dtype": (GRAPH, lambda m: set_at(graph_of(m)["tensor_values"]["x"], "dtype", 977), ["dtype"]),
    "negative_value_size": (
        GRAPH,
        lambda m: set_at(graph_of(m)["tensor_values"]["x"], "sizes", [{"as_int": -4}, {"as_int": 8}]),
        ["sizes"],
    ),
    "schema_version": (GRAPH, lambda m: set_at(m["schema_version"], "major", 9), ["schema_version", "9"]),
    "no_schema_version": (GRAPH, lambda m: m.pop("schema_version") and None, ["schema_version"]),
    "unknown_dtype": (WEIGHTS, lambda c: set_at(meta(c), "dtype", 977), ["dtype"]),
    "negative_size": (WEIGHTS, lambda c: set_at(meta(c), "sizes", [{"as_int": -8}, {"as_int": 8}]), ["sizes"]),
    "beyond_the_record": (WEIGHTS, lambda c: set_at(meta(c), "sizes", [{"as_int": 9}, {"as_int": 8}]), ["q.weight"]),
    "offset_beyond": (WEIGHTS, lambda c: set_at(meta(c), "storage_offset", {"as_int": 1}), ["q.weight"]),
    "negative_offset": (WEIGHTS, lambda c: set_at(meta(c), "storage_offset", {"as_int": -1}), ["storage_offset"]),
    "negative_stride": (WEIGHTS, lambda c: set_at(meta(c), "strides", [{"as_int": -8}, {"as_int": 1}]), ["strides"]),
    "fewer_strides": (WEIGHTS, lambda c: set_at(meta(c), "strides", [{"as_int": 1}]), ["strides"]),
    "overflow": (WEIGHTS, huge, ["q.weight"]),
    "overflowing_strides": (WEIGHTS, zero_size_huge_stride, ["q.weight"]),
    "size_not_a_number": (WEIGHTS, lambda c: set_at(meta(c), "sizes", [{"as_int": "8"}, {"as_int": 8}]), ["sizes"]),
    "lost_record": (WEIGHTS, lambda c: set_at(c["config"]["q.weight"], "path_name", "weight_77"), ["weight_77"]),
    "record_elsewhere": (WEIGHTS, lambda c: set_at(c["config"]["q.weight"], "path_name", "../../archive_format"), ["q.weight"]),
    "no_config": (WEIGHTS, lambda c: {}, ["config"]),
    "config_is_a_list": (CONSTANTS, lambda c: {"config": [1]}, ["config"]),
}


@pytest.mark.parametrize("name", WRONG_JSON)
def test_wrong_json_is_refused_by_record_and_field(refx, small, tmp_path, name):
    record, change, words = WRONG_JSON[name]
    path = with_json(small, tmp_path / "m.pt2", change, record)
    result = refx("inspect", path, code=None)
    check_refused(result)
    for word in [record, *words]:
        assert word in result.err, str(result)


def test_wrong_json_is_refused_by_every_command(refx, small, tmp_path):
    path = with_json(small, tmp_path / "m.pt2", cycle)
    out = tmp_path / "out"
    for command in (["apply", path, "all", "-o", out], ["run", path, "-o", out], ["log", path], ["verify", path],
                    ["reverse", path, "--all", "-o", out], ["detach", path, "-o", out], ["forget", path, "-o", out],
                    ["diff", path, small]):
        check_refused(refx(*command, code=None))
    assert not out.exists()


BROKEN_TEXT = {
    "empty": b"",
    "not_json": b"graph",
    "cut": b'{"graph_module": {"graph": {"inputs": [',
    "deep": b"[" * 200_000 + b"]" * 200_000,
    "deep_objects": b'{"graph_module":' * 100_000 + b"1" + b"}" * 100_000,
    "nan": None,
    "not_utf8": None,
    "trailing": None,
}


@pytest.mark.parametrize("name", BROKEN_TEXT)
def test_broken_json_is_refused(refx, small, tmp_path, name):
    def change(model):
        text = json.dumps(model).encode()
        if name == "nan":
            return text.replace(b'"as_float": 3.0', b'"as_float": NaN')
        if name == "not_utf8":
            return text.replace(b"linear_2", b"linear\xff\xfe")
        if name == "trailing":
            return text + b"{}"
        return BROKEN_TEXT[name]

    path = with_json(small, tmp_path / "m.pt2", change)
    result = refx("inspect", path, code=None)
    check_refused(result)
    assert GRAPH in result.err, str(result)


@pytest.mark.parametrize("name", [GRAPH, WEIGHTS, CONSTANTS, "data/weights/weight_1", "archive_version", "archive_format"])
def test_missing_records(refx, small, tmp_path, name):
    path = rewritten(small, tmp_path / "m.pt2", lambda records: records.pop(name) and None)
    result = refx("inspect", path, code=None)
    check_refused(result)
    assert name in result.err, str(result)


@pytest.mark.parametrize("name, text", [("archive_format", b"pt1"), ("archive_version", b"99"), ("byteorder", b"big")])
def test_archives_of_another_kind(refx, small, tmp_path, name, text):
    path = rewritten(small, tmp_path / "m.pt2", lambda records: set_at(records, name, text))
    result = refx("inspect", path, code=None)
    check_refused(result)
    assert name in result.err, str(result)


def test_duplicate_names_are_refused(refx, small, tmp_path):
    root, records = read(small)
    with pytest.warns(UserWarning):
        path = write(tmp_path / "m.pt2", root, [*records.items(), (GRAPH, records[GRAPH])])
    result = refx("inspect", path, code=None)
    check_refused(result)
    assert GRAPH in result.err, str(result)


def test_compressed_records_are_refused(refx, small, tmp_path):
    root, records = read(small)
    with zipfile.ZipFile(tmp_path / "m.pt2", "w", zipfile.ZIP_DEFLATED) as zip:
        for name, data in records.items():
            zip.writestr(f"{root}/{name}", data)
    check_refused(refx("inspect", tmp_path / "m.pt2", code=None))


def test_a_short_weight_is_refused(refx, small, tmp_path):
    path = rewritten(small, tmp_path / "m.pt2", lambda r: set_at(r, "data/weights/weight_0", r["data/weights/weight_0"][:-4]))
    result = refx("inspect", path, code=None)
    check_refused(result)
    assert "q.weight" in result.err or "weight_0" in result.err, str(result)


def test_files_that_are_no_archives(refx, tmp_path):
    text, folder = tmp_path / "text.pt2", tmp_path / "folder.pt2"
    text.write_text("not a zip")
    folder.mkdir()
    for path in (text, folder, tmp_path / "missing.pt2", "/dev/null"):
        result = refx("inspect", path, code=None)
        check_refused(result)
        assert str(path) in result.err


def history_record(records):
    return next(n for n in records if n.startswith("refx/") and n.endswith(".json"))


@pytest.mark.parametrize("how", ["cut", "emptied", "array", "dropped_originals"])
def test_damaged_history(refx, changed, tmp_path, how):
    def damage(records):
        name = history_record(records)
        if how == "cut":
            records[name] = records[name][: len(records[name]) // 2]
        elif how == "emptied":
            records[name] = b"{}"
        elif how == "array":
            records[name] = b"[1, 2, 3]"
        else:
            for key in [k for k in records if k.startswith("refx/") and k != name]:
                del records[key]

    path = rewritten(changed, tmp_path / "m.pt2", damage)
    out = tmp_path / "out.pt2"
    result = refx("reverse", path, "--all", "-o", out, code=None)
    check_refused(result)
    assert "refx/" in result.err, str(result)
    assert not out.exists()


def test_a_history_of_another_model_is_refused(refx, exported, changed, tmp_path):
    """The records of a history, moved into a file that they do not belong to."""
    history = {k: v for k, v in read(changed)[1].items() if k.startswith("refx/")}
    path = rewritten(exported("everything"), tmp_path / "m.pt2", lambda records: records.update(history))
    out = tmp_path / "out.pt2"
    check_refused(refx("reverse", path, "--all", "-o", out, code=None))
    assert not out.exists()
