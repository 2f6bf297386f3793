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

from conftest import PROGRAM, REWRITES

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


def log(desk, path):
    return json.loads(desk("log", path, "--json").out)


def run_by_torch(path, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.load(path).module()(x)


# ---- what errs is held to a budget ---------------------------------------------------------------


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


def test_a_budget_that_nothing_keeps_leaves_the_model_as_it_was(desk, model):
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
        assert "the page needs a file of its own" in said


def test_a_command_is_the_judge(desk, model):
    (desk.work / "judge.sh").write_text(
        f'n=$("{PROGRAM}" log "$1" --json | grep -c store-linear-int8)\necho "steps: $n"\necho $((-n))\n')
    path, tuning = small(desk, model, "--budget-run", "sh judge.sh {}", "--at-least", "-2")
    assert tuning["changed"] and len(log(desk, "small.pt2")) == 2
    assert tuning["within"]["score"] == -2 and tuning["within"]["budget"] is None
    assert any(attempt["score"] < -2 and not attempt["good"] for attempt in tuning["within"]["tried"])


# ---- what pays stays ---------------------------------------------------------------------------


def test_what_pays_is_applied_and_proven_and_the_input_is_not_touched(desk, model):
    path = desk.put(model("fold"))
    before = desk.read(path)
    result = desk("tune", path, "-o", "best.pt2", *QUICK, "--json")
    tuning = json.loads(result.out)
    assert result.err.startswith("wrote best.pt2 (")
    assert tuning["decided"] and tuning["changed"]
    [place] = tuning["classes"]
    assert place["places"] == ["{conv,norm}"] and place["chosen"] == 0
    assert place["why"] == f"kept: {CONV} pays"
    assert tuning["proof"]["speed"] == "faster" and tuning["proof"]["low"] > 1
    assert [(step["transformation"], step["site"]) for step in log(desk, "best.pt2")] == [(CONV, "{conv,norm}")]
    assert desk.read(path) == before
    desk("verify", "best.pt2")
    x = torch.randn(2, 4, 64, 64)
    torch.testing.assert_close(run_by_torch(desk.work / "best.pt2", x), run_by_torch(desk.work / path, x))
    desk("reverse", "best.pt2", "--all", "-o", "back.pt2")
    assert desk.read("back.pt2") == before


def test_the_report_names_each_site_what_was_tried_and_why(desk, model):
    out = desk("tune", desk.put(model("fold")), "-o", "best.pt2", *QUICK).out
    head, foot = out.split("\n\n", 1)
    assert head.splitlines()[0] == "{conv,norm}"
    assert head.splitlines()[1].startswith(f"  *  {CONV}  ") and head.splitlines()[1].endswith("  faster")
    assert head.splitlines()[2] == f"  kept: {CONV} pays"
    assert foot.startswith("1 place in 1 class\nfaster: ")
    assert "inputs the file's sample inputs: f32[2, 4, 64, 64]\ncpu, 1 thread, inference mode; " in foot


def test_a_model_that_gains_nothing_is_left_as_it_was(desk, model):
    path = desk.put(model("wide"))
    result = desk("tune", path, BIAS, "-o", "best.pt2", *QUICK)
    assert result.out.startswith(f"narrow\n    {BIAS}  0.")
    assert (
        "  slower\n  left: nothing that was tried is faster\n\n1 place in 1 class\n"
        "nothing pays: the model stays as it was\n"
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
    tuning = tune(desk, path, BIAS, "-o", "best.pt2")
    assert tuning["changed"] and tuning["proof"]["speed"] == "faster"
    assert desk.read("best.pt2") == model("wide").read_bytes()


def test_a_step_that_pays_stays_and_is_not_said_to_be_nothing(desk, model):
    path = desk.put(model("fold", steps=True))
    out = desk("tune", path, "-o", "best.pt2", *QUICK).out
    assert desk.read("best.pt2") == desk.read(path)
    assert f"kept: {CONV} pays\n" in out
    assert "nothing pays" not in out


def test_the_output_may_be_the_model(desk, model):
    path = desk.put(model("fold"))
    assert tune(desk, path, "-o", path)["changed"]
    assert [step["transformation"] for step in log(desk, path)] == [CONV]
    assert len(recorded(desk, path + ".trials.jsonl")) == 1


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
        assert c["why"].startswith("left: " if c["chosen"] is None else "kept: ")
    desk("verify", "best.pt2")


def test_only_the_transformations_that_were_asked_for_are_tried(desk, model):
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
    process = desk.start("tune", path, *REWRITES, "-o", "best.pt2", "--seconds", "2", "--threads", "1")
    desk.wait_for(lambda: len(desk.lines("best.pt2.trials.jsonl")) >= 2, process)
    desk.kill(process)
    assert not (desk.work / "best.pt2").exists()
    done = len(recorded(desk, "best.pt2.trials.jsonl"))
    assert done < 5
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
    assert [t["remembered"] for t in trials(tune(desk, *args, "--batch", "1"))] == [True]
    assert [t["remembered"] for t in trials(tune(desk, *args, "--batch", "16"))] == [False]
    assert [t["remembered"] for t in trials(tune(desk, *args, "--inputs", "sixteen.pt"))] == [True]
    assert [t["remembered"] for t in trials(tune(desk, *args))] == [False]


def test_shards_are_measured_apart_and_merged(desk, model):
    path = desk.put(model("blocks"))
    parts = []
    for i in range(2):
        result = desk("tune", path, *REWRITES, "--shard", f"{i}/2", "--trials", f"{i}.jsonl", *QUICK)
        assert "measured only; the decision is made elsewhere\n" in result.out
        assert result.err == ""
        parts.append(recorded(desk, f"{i}.jsonl"))
    assert not [p for p in desk.work.glob("*.pt2") if p.name != path]
    classes = [{trial["class"] for trial in part} for part in parts]
    assert sorted(map(len, classes)) == [1, 2] and not classes[0] & classes[1]
    tuning = tune(desk, path, *REWRITES, "-o", "best.pt2", "--merge", "0.jsonl", "--merge", "1.jsonl")
    assert tuning["decided"]
    assert len(trials(tuning)) == 5 and all(t["remembered"] for t in trials(tuning))
    assert desk.lines("best.pt2.trials.jsonl") == []
    desk("verify", "best.pt2")


def test_a_shard_reports_what_it_measured(desk, model):
    tuning = tune(desk, desk.put(model("blocks")), "--shard", "1/3", "--trials", "t.jsonl")
    assert (tuning["decided"], tuning["changed"], tuning["proof"]) == (False, False, None)
    assert [len(c["trials"]) for c in tuning["classes"]] == [0, 1, 0]


def test_one_shard_of_one_only_measures_too(desk, model):
    tuning = tune(desk, desk.put(model("fold")), "--shard", "0/1", "--trials", "t.jsonl")
    assert not tuning["decided"]
    assert len(recorded(desk, "t.jsonl")) == 1


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["1", "a/2", "0/2x", "0/", "0/99999999999"])
def test_a_shard_that_is_not_written_as_one(desk, model, text):
    args = ("tune", desk.put(model("wide")), f"--shard={text}", "--trials", "t.jsonl")
    assert f"refx: --shard {text}: a part is written I/N, as in 0/4\n" == desk.error(*args)


@pytest.mark.parametrize("shard", ["2/2", "-1/2", "0/0"])
def test_a_shard_that_there_is_not(desk, model, shard):
    args = ("tune", desk.put(model("wide")), f"--shard={shard}", "--trials", "t.jsonl")
    assert desk.error(*args) == f"refx: --shard {shard}: there is no such part, they are counted from 0\n"


@pytest.mark.parametrize("args, message", [
    ([], "'tune' writes a file: say which with -o OUT.pt2 (-o blocks.pt2 replaces the model)"),
    (["--shard", "0/2"], "--shard measures only: say with --trials FILE where the trials go"),
    (["--shard", "0/2", "--trials", "t", "-o", "x.pt2"], "--shard measures only: leave -o out, and use --merge afterwards"),
    (["--shard", "0/2", "--trials", "none/t"], "cannot write none/t: No such file or directory"),
    (["-o", "x.pt2", "--merge", "none"], "none: there is no such file of trials"),
    (["-o", "x.pt2", "merge-linear"], "there is no transformation 'merge-linear'; did you mean 'merge-linears'?"),
    (["-o", "x.pt2", "--batch", "17"], "a batch of 17 is not in the range of 'x': 1 to 16"),
    (["-o", "x.pt2", "--device", "tpu"], "'tpu' is not a device: cpu, cuda, cuda:1"),
    (["-o", "x.pt2", "--budget-run", "true"], "the check `true` must say with {} where the model's path goes"),
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


def test_an_interrupt_ends_it_and_nothing_is_written(desk, model):
    path = desk.put(model("blocks"))
    process = desk.start("tune", path, "-o", "best.pt2", "--seconds", "5", "--threads", "1")
    desk.wait_for(lambda: desk.lines("best.pt2.trials.jsonl"), process)
    result = desk.kill(process, signal.SIGINT)
    assert (result.code, result.out, result.err) == (130, "", "refx: interrupted; nothing was written\n")
    assert not (desk.work / "best.pt2").exists()


def test_help(desk):
    assert desk("tune", "--help").out == """\
Find the rewrites that pay on this machine and these inputs
Usage: refx tune [OPTIONS] MODEL [TRANSFORMATION...]

Arguments:
  MODEL                   A .pt2 file
  TRANSFORMATION          Names from `refx list`; without any, all

Options:
  -h,--help               Print this help and exit
  -q,--quiet              No messages but errors
  --site PATTERN          Only sites whose name, module, tensor or node matches (* and ?); repeatable
  --except PATTERN        Leave these alone: patterns as of --site; repeatable
  -o,--output OUT         The file to write; it may be MODEL
  --base BASE             Has the originals that were detached: a .pt2 or .safetensors file, or a folder of these
  --allow-ops NAME        Run operators of this namespace, or this one (mylib.add), too; repeatable
  --inputs FILE           (args, kwargs), or args, or a dict by name, or a list of such calls, by torch.save; repeatable
  --steps N               Then N calls on the state that the first one left, as in decoding
  --seed N                For inputs that are generated, and random operators
  --batch N               Generated inputs with this size of a dynamic batch
  --threads N             Threads to run on; 0: as many as there are cores
  --device DEVICE         cpu, cuda or cuda:N; without it, where the model is
  --seconds X             How long to measure, at least (3)
  --budget X              The largest relative L2 error that lossy rewrites may make
  --budget-run COMMAND    A command that says whether the model at the path {} will do: exit 0
  --at-least N            … if the number in the last line that it prints is not smaller
  --prefer speed|size     What to gain within the budget (speed)
  --report OUT.html       Write a page about the result, too: see `refx report`
  --trials FILE           Keep what was measured in this file (OUT.trials.jsonl)
  --resume                Do not measure again what is in the file of trials
  --shard I/N             Measure only part I of N, and write only trials
  --merge FILE            Use these trials, too; repeatable
  --rules FILE            Rules of your own, see docs/rules.md; repeatable
  --json                  Print JSON

Examples:
  refx tune model.pt2 -o best.pt2
  refx tune model.pt2 -o best.pt2 merge-linears fuse-bias-in-linear --threads 1
  refx tune model.pt2 -o best.pt2 quantize-linear-int8 --budget 0.01
  refx tune model.pt2 -o small.pt2 store-linear-int8 --prefer size --budget-run './eval.sh {}'
  refx tune model.pt2 --trials a.jsonl --shard 0/2    on one machine of two
  refx tune model.pt2 -o best.pt2 --merge a.jsonl --merge b.jsonl
  torchrun --no-python --nproc-per-node 2 refx tune model.pt2 -o best.pt2

It runs the operators that the file names, but for those that touch files or trust memory;
docs/security.md says what that means for files from others.
"""


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


def test_shards_and_ranks_do_not_mix_silently(desk, model):
    env = dict(RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
    result = desk("tune", desk.put(model("fold")), "--shard", "0/2", "--trials", "t.jsonl", *QUICK, "--json", code=None, **env)
    assert "cannot write ''" not in result.err
    if result.code == 0:
        assert not json.loads(result.out)["decided"]
    else:
        assert result.code == 2 and "--shard" in result.err


@pytest.mark.parametrize("env, message", [
    (dict(RANK="x"), "RANK='x' is not a number from 0 to 1; torchrun sets it"),
    (dict(RANK="2"), "RANK='2' is not a number from 0 to 1; torchrun sets it"),
    (dict(RANK="0"), "MASTER_PORT='' is not a number from 1 to 65535; torchrun sets it"),
    (dict(RANK="0", MASTER_PORT="99999"), "MASTER_PORT='99999' is not a number from 1 to 65535; torchrun sets it"),
])
def test_an_environment_that_torchrun_did_not_make(desk, model, env, message):
    error = desk.error("tune", desk.put(model("wide")), "-o", "x.pt2", *QUICK, WORLD_SIZE="2", **env)
    assert error == f"refx: {message}\n"
