# SPDX-License-Identifier: Apache-2.0
"""refx tune: keeps what pays, proves it, and shares the work."""

import json
import os
import pathlib
import re
import signal
import socket
import sys
import warnings

import pytest
import torch

from conftest import PROGRAM, REWRITES, mark_stable, until

DIV = "change-true-div-to-mul-by-inverse"
MERGE = "merge-linears"
BIAS = "fuse-bias-in-linear"
CONV = "fuse-batch-norm-2d-in-conv-2d"

QUICK = ("--seconds", "0.1", "--threads", "1")


def tune(desk, *args, **env):
    return json.loads(desk("tune", *args, *QUICK, "--json", **env).out)


def trials(tuning):
    return [trial for c in tuning["classes"] for trial in c["trials"]]


def recorded(desk, name):
    return [json.loads(line) for line in desk.lines(name)]


def changed(tuning):
    return tuning["changed"]


def log(desk, path):
    return json.loads(desk("log", path, "--json").out)


def run_by_torch(path, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.load(path).module()(x)


# ---- lossy rewrites are held to a budget ---------------------------------------------------------


def small(desk, model, *args):
    path = desk.put(model("blocks"))
    return path, tune(desk, path, "-o", "small.pt2", "store-linear-int8", "--prefer", "size", *args)


def test_a_budget_is_kept_on_inputs_that_were_held_out(desk, model):
    path, all_of_it = small(desk, model, "--budget", "1")
    within = all_of_it["within"]
    assert all_of_it["changed"] and 0 < within["error"] < 1 and within["score"] is None
    assert within["chosen_on"] != within["proven_on"]
    assert all_of_it["bytes_after"] < 0.5 * all_of_it["bytes_before"]
    taken = len(log(desk, "small.pt2"))
    budget = within["error"] / 2
    path, part = small(desk, model, "--budget", str(budget))
    assert part["changed"] and part["within"]["error"] <= budget
    assert 0 < len(log(desk, "small.pt2")) < taken
    chosen = [choice["chosen"] for c in part["classes"] for choice in c["choices"]]
    assert chosen.count(0) == len(log(desk, "small.pt2")) and None in chosen
    desk("reverse", "small.pt2", "--all", "-o", "back.pt2")
    assert desk.read("back.pt2") == desk.read(path)


def test_a_budget_that_nothing_meets_leaves_the_model_unchanged(desk, model):
    path, tuning = small(desk, model, "--budget", "1e-9")
    assert not tuning["changed"]
    assert desk.read("small.pt2") == desk.read(path)


def test_a_page_shows_what_was_tried_and_what_was_left(desk, model):
    _, all_of_it = small(desk, model, "--budget", "1")
    budget = all_of_it["within"]["error"] / 2
    small(desk, model, "--budget", str(budget), "--report", "page.html")
    html = desk.read("page.html").decode()
    data = json.loads(re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', html, re.S)[1])
    assert data["title"] == "small.pt2" and data["tuning"]["within"]["prefer"] == "size"
    assert data["tuning"]["within"]["budget"] == budget and data["tuning"]["within"]["tried"]
    kept = [step["in_model"] for step in data["sensitivity"]["steps"]]
    assert len(kept) == 10 and kept.count(True) == len(log(desk, "small.pt2")) < 10
    for name in ("small.pt2", "blocks.pt2"):
        desk.put(model("blocks"))
        said = desk("tune", "blocks.pt2", "-o", "small.pt2", "--report", name, code=2).err
        assert "give the page another file name" in said


@pytest.mark.parametrize("accept, accept_min", [("--accept", "--accept-min"), ("--budget-run", "--at-least")])
def test_a_command_accepts_the_result(desk, model, accept, accept_min):
    """The second pair of names is the former one."""
    (desk.work / "judge.sh").write_text(
        f'n=$("{PROGRAM}" log "$1" --json | grep -c store-linear-int8)\necho "steps: $n"\necho $((-n))\n')
    path, tuning = small(desk, model, accept, "sh judge.sh {}", accept_min, "-2")
    assert tuning["changed"] and len(log(desk, "small.pt2")) == 2
    assert tuning["within"]["score"] == -2 and tuning["within"]["budget"] is None
    assert any(attempt["score"] < -2 and not attempt["good"] for attempt in tuning["within"]["tried"])


# ---- what pays stays ---------------------------------------------------------------------------


def test_what_pays_is_applied_and_proven_and_the_input_is_not_touched(desk, model):
    path = desk.put(model("fold"))
    before = desk.read(path)
    result = until(lambda result: json.loads(result.out)["changed"],
                   lambda: desk("tune", path, "-o", "best.pt2", *QUICK, "--json"))
    tuning = json.loads(result.out)
    assert result.err.startswith("wrote best.pt2 (")
    assert tuning["decided"] and tuning["changed"]
    [place] = tuning["classes"]
    assert place["places"] == ["{conv,norm}"] and place["chosen"] == 0
    assert place["why"] == f"kept: {CONV} is faster"
    assert tuning["proof"]["speed"] == "faster" and tuning["proof"]["low"] > 1
    assert [(step["transformation"], step["site"]) for step in log(desk, "best.pt2")] == [(CONV, "{conv,norm}")]
    assert desk.read(path) == before
    desk("verify", "best.pt2")
    x = torch.randn(2, 4, 64, 64)
    torch.testing.assert_close(run_by_torch(desk.work / "best.pt2", x), run_by_torch(desk.work / path, x))
    desk("reverse", "best.pt2", "--all", "-o", "back.pt2")
    assert desk.read("back.pt2") == before


def test_the_report_names_each_site_what_was_tried_and_why(desk, model):
    path = desk.put(model("fold"))
    out = until(lambda out: "\n  kept: " in out, lambda: desk("tune", path, "-o", "best.pt2", *QUICK).out)
    head, foot = out.split("\n\n", 1)
    assert head.splitlines()[0] == "{conv,norm}"
    assert head.splitlines()[1].startswith(f"  *  {CONV}  ") and head.splitlines()[1].endswith("  faster")
    assert head.splitlines()[2] == f"  kept: {CONV} is faster"
    assert foot.startswith("1 site in 1 class\nfaster: ")
    assert "inputs: the file's sample inputs, f32[2, 4, 64, 64]\ncpu, 1 thread, inference mode; " in foot


def test_a_model_that_gains_nothing_is_unchanged(desk, model):
    path = desk.put(model("wide"))
    result = until(lambda result: "  slower\n" in result.out,
                   lambda: desk("tune", path, BIAS, "-o", "best.pt2", *QUICK))
    assert result.out.startswith(f"narrow\n    {BIAS}  0.")
    assert (
        "  slower\n  skipped: no variant is faster\n\n1 site in 1 class\n"
        "no rewrite pays: the model is unchanged\n"
    ) in result.out
    assert log(desk, "best.pt2") == []
    assert desk("diff", path, "best.pt2").err == f"no difference between {path} and best.pt2\n"
    assert desk.read("best.pt2") == desk.read(path)


def test_a_model_without_sites(desk, model):
    path = desk.put(model("plain"))
    tuning = tune(desk, path, "-o", "best.pt2")
    assert (tuning["classes"], tuning["changed"], tuning["proof"]) == ([], False, None)
    assert desk.read("best.pt2") == desk.read(path)


def test_a_step_that_does_not_pay_is_reversed(desk, model):
    path = desk.put(model("wide", steps=True))
    assert [step["transformation"] for step in log(desk, path)] == [BIAS]
    tuning = until(changed, lambda: tune(desk, path, BIAS, "-o", "best.pt2"))
    assert tuning["changed"] and tuning["proof"]["speed"] == "faster"
    assert desk.read("best.pt2") == model("wide").read_bytes()


def test_a_step_that_pays_is_kept_and_reported_as_kept(desk, model):
    path = desk.put(model("fold", steps=True))
    out = until(lambda out: "\n  kept: " in out, lambda: desk("tune", path, "-o", "best.pt2", *QUICK).out)
    assert desk.read("best.pt2") == desk.read(path)
    assert f"kept: {CONV} is faster\n" in out
    assert "no rewrite pays" not in out


def test_the_output_may_be_the_model(desk, model):
    path = desk.put(model("fold"))
    tuning = until(changed, lambda: tune(desk, path, "-o", path))
    assert tuning["changed"]
    assert [step["transformation"] for step in log(desk, path)] == [CONV]
    assert recorded(desk, path + ".trials.jsonl")


# ---- places that are alike ---------------------------------------------------------------------


def test_places_that_are_alike_are_measured_once_and_decided_together(desk, model):
    path = desk.put(model("blocks"))
    tuning = tune(desk, path, *REWRITES, "-o", "best.pt2")
    assert [c["places"] for c in tuning["classes"]] == [
        [f"blocks.{i}.{{q,k,v}}" for i in range(3)],
        ["blocks.0.div", "blocks.1.div_1", "blocks.2.div_2"],
        ["head"],
    ]
    assert [[t["moves"] for t in c["trials"]] for c in tuning["classes"]] == [
        [[MERGE], [BIAS], [MERGE, BIAS]], [[DIV]], [[BIAS]]]
    assert len(recorded(desk, "best.pt2.trials.jsonl")) == 5
    assert {line["class"] for line in recorded(desk, "best.pt2.trials.jsonl")} == {c["key"] for c in tuning["classes"]}
    # What the report says was chosen is what the file has: every move at each of the places.
    said = sorted(move for c in tuning["classes"] if c["chosen"] is not None
                  for move in c["trials"][c["chosen"]]["moves"] for _ in c["places"])
    merged_biases = 2 * 3 if tuning["classes"][0]["chosen"] == 1 else 0  # one for each of q, k, v
    assert sorted(step["transformation"] for step in log(desk, "best.pt2")) == sorted(said + [BIAS] * merged_biases)
    for c in tuning["classes"]:
        assert c["why"].startswith("skipped: " if c["chosen"] is None else "kept: ")
    desk("verify", "best.pt2")


def test_only_the_named_transformations_are_tried(desk, model):
    tuning = tune(desk, desk.put(model("blocks")), DIV, "-o", "best.pt2")
    assert [t["moves"] for t in trials(tuning)] == [[DIV]]
    assert {step["transformation"] for step in log(desk, "best.pt2")} <= {DIV}


def test_steps_of_other_transformations_stay(desk, model):
    path = desk.put(model("blocks", steps=True))
    tune(desk, path, DIV, "-o", "best.pt2")
    others = [step["site"] for step in log(desk, path) if step["transformation"] != DIV]
    assert [step["site"] for step in log(desk, "best.pt2") if step["transformation"] != DIV] == others


# ---- trials ------------------------------------------------------------------------------------


def test_a_killed_run_resumes_with_the_trials_it_made(desk, model):
    path = desk.put(model("blocks"))
    process = desk.start("tune", path, *REWRITES, "-o", "best.pt2", "--seconds", "5", "--threads", "1")
    desk.wait_for(lambda: len(desk.lines("best.pt2.trials.jsonl")) >= 2, process)
    desk.kill(process)
    assert not (desk.work / "best.pt2").exists()
    done = len(recorded(desk, "best.pt2.trials.jsonl"))
    assert done < 5
    mark_stable(desk.work / "best.pt2.trials.jsonl")
    tuning = tune(desk, path, *REWRITES, "-o", "best.pt2", "--resume")
    assert [t["remembered"] for t in trials(tuning)] == [True] * done + [False] * (5 - done)
    assert len(recorded(desk, "best.pt2.trials.jsonl")) == 5
    desk("verify", "best.pt2")


def test_a_trial_that_was_cut_short_is_made_again(desk, model):
    path = desk.put(model("fold"))
    tune(desk, path, "-o", "best.pt2")
    text = desk.read("best.pt2.trials.jsonl")
    (desk.work / "best.pt2.trials.jsonl").write_bytes(text[: len(text) // 2])
    assert [t["remembered"] for t in trials(tune(desk, path, "-o", "best.pt2", "--resume"))] == [False]
    mark_stable(desk.work / "best.pt2.trials.jsonl")
    assert [t["remembered"] for t in trials(tune(desk, path, "-o", "best.pt2", "--resume"))] == [True]


def test_without_resume_everything_is_measured_again(desk, model):
    path = desk.put(model("fold"))
    for _ in range(2):
        assert [t["remembered"] for t in trials(tune(desk, path, "-o", "best.pt2"))] == [False]
    assert len(recorded(desk, "best.pt2.trials.jsonl")) == 2


def test_trials_of_another_size_of_the_inputs_do_not_count(desk, model):
    path = desk.put(model("blocks"))
    args = (path, DIV, "-o", "best.pt2", "--trials", "t.jsonl", "--resume")
    torch.save((torch.randn(16, 8),), desk.work / "sixteen.pt")
    assert [t["remembered"] for t in trials(tune(desk, *args, "--batch", "1"))] == [False]
    mark_stable(desk.work / "t.jsonl")
    assert [t["remembered"] for t in trials(tune(desk, *args, "--batch", "1"))] == [True]
    assert [t["remembered"] for t in trials(tune(desk, *args, "--batch", "16"))] == [False]
    mark_stable(desk.work / "t.jsonl")
    assert [t["remembered"] for t in trials(tune(desk, *args, "--inputs", "sixteen.pt"))] == [True]
    assert [t["remembered"] for t in trials(tune(desk, *args))] == [False]


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("args, message", [
    ([], "'tune' needs an output file: -o OUT.pt2 (-o blocks.pt2 replaces the model)"),
    (["-o", "x.pt2", "--trials", "none/t"], "cannot write none/t: No such file or directory"),
    (["-o", "x.pt2", "merge-linear"], "there is no transformation 'merge-linear'; did you mean 'merge-linears'?"),
    (["-o", "x.pt2", "--batch", "17"], "a batch of 17 is not in the range of 'x': 1 to 16"),
    (["-o", "x.pt2", "--device", "tpu"], "'tpu' is not a device; devices are cpu, cuda and cuda:N"),
    (["-o", "x.pt2", "--accept-min", "1"], "--accept-min requires --accept; see `refx tune --help`"),
    (["-o", "x.pt2", "--accept", "true"], "the command `true` must contain {}, which becomes the path of the model"),
    (["-o", "x.pt2", "--trails", "t"], "unknown option '--trails'; did you mean '--trials'?"),
])
def test_wrong_usage(desk, model, args, message):
    assert desk.error("tune", desk.put(model("blocks")), *QUICK, *args) == f"refx: {message}\n"


@pytest.mark.parametrize("option, value", [("--batch", "0"), ("--seconds", "x")])
def test_a_number_that_is_not_positive_is_refused_in_few_words(desk, model, option, value):
    error = desk.error("tune", desk.put(model("wide")), "-o", "x.pt2", f"{option}={value}")
    assert error.startswith(f"refx: {option}") and error.endswith("; see `refx tune --help`\n")
    assert len(error) < 120


def test_a_folder_that_there_is_not_is_found_before_measuring(desk, model):
    error = desk.error("tune", desk.put(model("wide")), "-o", "none/x.pt2", "--trials", "t.jsonl", *QUICK)
    assert error == "refx: cannot write 'none/x.pt2': there is no folder 'none'\n"


def test_a_model_that_cannot_be_run_is_an_error(desk, model):
    error = desk.error("tune", desk.put_unknown(model("choice")), "-o", "x.pt2", *QUICK)
    assert "higher_order.gate" in error


def test_an_interrupt_leaves_no_output(desk, model):
    path = desk.put(model("blocks"))
    process = desk.start("tune", path, "-o", "best.pt2", "--seconds", "5", "--threads", "1")
    desk.wait_for(lambda: desk.lines("best.pt2.trials.jsonl"), process)
    result = desk.kill(process, signal.SIGINT)
    assert (result.code, result.out, result.err) == (130, "", "refx: interrupted; nothing was written\n")
    assert not (desk.work / "best.pt2").exists()


# ---- several processes -------------------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.fixture
def ranks(desk, model):
    """ranks(args): two processes that share the work, as torchrun would start them, without torchrun."""

    def start(*args):
        path = desk.put(model("blocks"))
        env = dict(WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
        return [desk.start("tune", path, *REWRITES, "-o", "best.pt2", "--json", *args, RANK=str(rank), **env)
                for rank in range(2)]

    return start


def torchrun(desk, model, *args):
    path = desk.put(model("blocks"))
    return desk.start("-m", "torch.distributed.run", "--standalone", "--no-python", "--nproc-per-node", "2",
                      "refx", "tune", path, *REWRITES, "-o", "best.pt2", "--json", *args, program=sys.executable)


def expect_whole(desk, out):
    """One report, of all places, and the file that it speaks of."""
    tuning = json.loads(out)
    assert tuning["decided"] and len(trials(tuning)) == 5
    made = recorded(desk, "best.pt2.trials.jsonl")
    assert sorted((t["class"], t["moves"]) for t in made) == sorted(
        (c["key"], t["moves"]) for c in tuning["classes"] for t in c["trials"])
    assert bool(log(desk, "best.pt2")) == tuning["changed"]
    desk("verify", "best.pt2")


def test_torchrun_gives_one_report_and_one_file(desk, model):
    result = desk.finish(torchrun(desk, model, *QUICK))
    assert result.code == 0, result
    expect_whole(desk, result.out)


def test_processes_started_by_hand_share_the_work_and_all_end_well(desk, ranks):
    results = [desk.finish(process) for process in ranks(*QUICK)]
    assert [result.code for result in results] == [0, 0], results
    [report] = [result.out for result in results if result.out]
    expect_whole(desk, report)


def test_when_one_of_two_is_killed_the_other_does_all_of_it(desk, ranks):
    first, second = ranks("--seconds", "0.5", "--threads", "1")
    desk.wait_for(lambda: desk.lines("best.pt2.trials.jsonl"), second)
    desk.kill(second)
    result = desk.finish(first)
    assert result.code == 0, result
    expect_whole(desk, result.out)


def test_after_a_rank_of_torchrun_was_killed_a_second_run_resumes(desk, model):
    process = torchrun(desk, model, "--seconds", "5", "--threads", "1")
    desk.wait_for(lambda: desk.lines("best.pt2.trials.jsonl"), process)
    os.kill(rank_of(process.pid, 1), signal.SIGKILL)
    result = desk.finish(process)
    assert result.code != 0 and result.out == ""
    assert not (desk.work / "best.pt2").exists()
    done = len(desk.lines("best.pt2.trials.jsonl"))
    mark_stable(desk.work / "best.pt2.trials.jsonl")
    result = desk.finish(torchrun(desk, model, *QUICK, "--resume"))
    assert result.code == 0, result
    expect_whole(desk, result.out)
    assert sum(t["remembered"] for t in trials(json.loads(result.out))) >= done


def rank_of(torchrun_pid, rank):
    """The process that torchrun started as this rank."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) if entry.name.isdigit() else None
            if parent == torchrun_pid and f"\0RANK={rank}\0".encode() in b"\0" + (entry / "environ").read_bytes():
                return int(entry.name)
        except OSError:
            continue  # it ended meanwhile
    raise AssertionError(f"there is no rank {rank}")


@pytest.mark.parametrize("env, message", [
    (dict(RANK="x"), "RANK='x' is not a number from 0 to 1; torchrun sets it"),
    (dict(RANK="2"), "RANK='2' is not a number from 0 to 1; torchrun sets it"),
    (dict(RANK="0"), "MASTER_PORT='' is not a number from 1 to 65535; torchrun sets it"),
    (dict(RANK="0", MASTER_PORT="99999"), "MASTER_PORT='99999' is not a number from 1 to 65535; torchrun sets it"),
])
def test_an_environment_that_torchrun_did_not_make(desk, model, env, message):
    error = desk.error("tune", desk.put(model("wide")), "-o", "x.pt2", *QUICK, WORLD_SIZE="2", **env)
    assert error == f"refx: {message}\n"
