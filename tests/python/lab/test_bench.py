# SPDX-License-Identifier: Apache-2.0
"""refx bench: measures a model against its original, or against another file."""

import json
import signal

import pytest
import torch

from conftest import until

QUICK = ("--seconds", "0.1", "--threads", "1")


def bench(desk, *args):
    return json.loads(desk("bench", *args, *QUICK, "--json").out)


def expect_sound(contest):
    """The numbers of a contest are consistent."""
    assert contest["low"] <= contest["ratio"] <= contest["high"]
    assert min(contest["rounds"]) <= contest["ratio"] <= max(contest["rounds"])
    assert len(contest["rounds"]) >= 10
    for timing in (contest["before"], contest["after"]):
        assert 0 < timing["low"] <= timing["median"] <= timing["high"]
        assert timing["runs"] >= len(contest["rounds"])
    if contest["speed"] == "faster":
        assert contest["low"] > 1
    elif contest["speed"] == "slower":
        assert contest["high"] < 1


def test_the_number_of_rounds(desk, model):
    result = bench(desk, desk.put(model("fold")), "--rounds", "14")
    assert len(result["contest"]["rounds"]) >= 14


# ---- what it says ------------------------------------------------------------------------------


def test_a_model_against_its_original(desk, model):
    path = desk.put(model("fold", steps=True))
    before = desk.files()
    result = until(lambda result: result["contest"]["speed"] == "faster", lambda: bench(desk, path))
    assert desk.files() == before
    assert (result["before"], result["after"]) == ("its original", "fold-fast.pt2")
    assert result["inputs"] == "the file's sample inputs, f32[2, 4, 64, 64]"
    assert (result["device"], result["threads"], result["mode"], result["confidence"]) == ("cpu", 1, "inference", 0.99)
    assert f"torch {torch.__version__.split('+')[0]}" in result["machine"]
    assert result["contest"]["speed"] == "faster"
    assert result["steps"] == []
    expect_sound(result["contest"])


def test_a_slower_model_against_a_faster_file(desk, model):
    fast, slow = desk.put(model("fold", steps=True)), desk.put(model("fold"))
    result = until(lambda result: result["contest"]["speed"] == "slower", lambda: bench(desk, slow, "--against", fast))
    assert (result["before"], result["after"]) == ("fold-fast.pt2", "fold.pt2")
    assert result["contest"]["speed"] == "slower"
    expect_sound(result["contest"])


def test_a_file_against_itself_is_not_taken_for_another(desk, model):
    path = desk.put(model("fold"))
    result = until(lambda result: 0.9 < result["contest"]["ratio"] < 1.1, lambda: bench(desk, path, "--against", path))
    expect_sound(result["contest"])
    assert 0.9 < result["contest"]["ratio"] < 1.1


def test_a_model_without_steps_is_compared_with_itself(desk, model):
    result = bench(desk, desk.put(model("fold")))
    assert result["notes"][0] == "the model has no steps: it was compared with itself"


def test_text(desk, model):
    path = desk.put(model("fold", steps=True))
    result = until(lambda result: "\nfaster: " in result.out, lambda: desk("bench", path, *QUICK))
    lines = result.out.splitlines()
    assert lines[0].split()[:3] == ["before", "its", "original"] and lines[0].endswith(" runs")
    assert lines[1].split()[:2] == ["after", "fold-fast.pt2"] and lines[1].endswith(" runs")
    assert lines[2].startswith("faster: ") and lines[2].endswith(" rounds") and "), 99% confidence, " in lines[2]
    assert lines[3:5] == ["", "inputs: the file's sample inputs, f32[2, 4, 64, 64]"]
    assert lines[5].startswith("cpu, 1 thread, inference mode; ")
    assert all(line.startswith("note: ") for line in lines[6:])
    assert result.err == ""


def test_per_step(desk, model):
    path = desk.put(model("blocks", steps=True))
    result = bench(desk, path, "--per-step")
    steps = json.loads(desk("log", path, "--json").out)
    assert len(steps) == 10
    told = [(s["id"], s["transformation"], s["site"]) for s in result["steps"]]
    assert told == [(s["id"], s["transformation"], s["site"]) for s in steps]
    for step in result["steps"]:
        expect_sound(step["contest"])
    lines = desk("bench", path, "--per-step", *QUICK).out.splitlines()
    at = lines.index("the model, compared with the model without one step:")
    assert lines[at + 1].split() == ["step", "transformation", "site", "gives", "verdict"]
    assert [line.split()[2] for line in lines[at + 2 : at + 12]] == [s["site"] for s in steps]


# ---- inputs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 16])
def test_batch_sizes_the_dynamic_dimension(desk, model, size):
    result = bench(desk, desk.put(model("blocks", steps=True)), "--batch", size)
    assert result["inputs"] == f"generated with seed 0, batch {size}, f32[{size}, 8]"


def test_given_inputs(desk, model):
    path = desk.put(model("blocks", steps=True))
    torch.save((torch.randn(7, 8),), desk.work / "x.pt")
    assert bench(desk, path, "--inputs", "x.pt")["inputs"].endswith("x.pt, f32[7, 8]")
    error = desk.error("bench", path, "--inputs", "x.pt", "--batch", "3", *QUICK)
    assert error == "refx: give inputs or a batch size, not both\n"


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("args, message", [
    (["--batch", "17"], "a batch of 17 is not in the range of 'x': 1 to 16"),
    (["--device", "tpu"], "'tpu' is not a device; devices are cpu, cuda and cuda:N"),
    (["--device", "mps"], "device 'mps' is not supported: cpu or cuda"),
    (["--cuda-graph"], "a CPU has no graphs to capture; choose a device: --device cuda"),
    (["--inputs", "none.pt"], "none.pt: cannot be opened (No such file or directory)"),
    (["--against", "none.pt2"], "none.pt2: cannot be opened (No such file or directory)"),
    (["--threads", "2000"], "--threads takes a number from 0 to 1024, not 2000; see `refx bench --help`"),
    (["--per-steps"], "unknown option '--per-steps'; did you mean '--per-step'?"),
])
def test_wrong_usage(desk, model, args, message):
    assert desk.error("bench", desk.put(model("blocks", steps=True)), *args) == f"refx: {message}\n"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_device_that_is_not_there(desk, model, device):
    error = desk.error("bench", desk.put(model("fold")), "--device", device)
    assert error == f"refx: there is no device '{device}' here, or this torch is built without it\n"


def test_a_batch_for_a_model_of_fixed_size(desk, model):
    error = desk.error("bench", desk.put(model("fold")), "--batch", "3")
    assert error == ("refx: no input has a dynamic first dimension to be the batch: export the model with dynamic_shapes, "
                     "or give inputs of that size\n")


@pytest.mark.parametrize("option, value", [("--batch", "x"), ("--batch", "-1"), ("--seconds", "0")])
def test_a_number_that_is_not_positive_is_refused_in_few_words(desk, model, option, value):
    error = desk.error("bench", desk.put(model("blocks")), f"{option}={value}")
    assert error.startswith(f"refx: {option}") and error.endswith("; see `refx bench --help`\n")
    assert len(error) < 120


def test_a_file_that_takes_other_inputs_is_refused(desk, model):
    paths = [desk.put(model("blocks")), desk.put(model("floors"))]
    error = desk.error("bench", paths[0], "--against", paths[1], *QUICK)
    assert error == "refx: floors.pt2 takes f32[3] as 'x', not f32[2, 8]\n"


def test_a_model_that_cannot_be_run_is_an_error(desk, model):
    assert "higher_order.gate" in desk.error("bench", desk.put_unknown(model("choice")), *QUICK)


def test_an_interrupt_ends_it_without_a_result(desk, model):
    process = desk.start("bench", desk.put(model("fold")), "--seconds", "60", "--threads", "1")
    desk.wait_for(lambda: catches_interrupts(process.pid), process)
    result = desk.kill(process, signal.SIGINT)
    assert (result.code, result.out, result.err) == (130, "", "refx: interrupted; nothing was written\n")


def catches_interrupts(pid):
    """Whether the process has set a handler for SIGINT, which it does when it begins to measure."""
    with open(f"/proc/{pid}/status") as status:
        [caught] = [line.split()[1] for line in status if line.startswith("SigCgt:")]
    return bool(int(caught, 16) >> (signal.SIGINT - 1) & 1)
