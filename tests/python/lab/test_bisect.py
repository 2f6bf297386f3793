# SPDX-License-Identifier: Apache-2.0
"""refx bisect: names the steps that are to blame, and how to repair the model."""

import json
import shlex
import signal

import pytest

ALL_STEPS = """\
 1  merge-linears                      blocks.0.{q,k,v}
 2  merge-linears                      blocks.1.{q,k,v}
 3  merge-linears                      blocks.2.{q,k,v}
 4  change-true-div-to-mul-by-inverse  blocks.0.div
 5  change-true-div-to-mul-by-inverse  blocks.1.div_1
 6  change-true-div-to-mul-by-inverse  blocks.2.div_2
 7  fuse-bias-in-linear                blocks.0.{q,k,v}
 8  fuse-bias-in-linear                blocks.1.{q,k,v}
 9  fuse-bias-in-linear                blocks.2.{q,k,v}
10  fuse-bias-in-linear                head
"""
SITES = {int(line.split()[0]): line.split()[2] for line in ALL_STEPS.splitlines()}
STEPS = {int(line.split()[0]): ":".join(line.split()[1:]) for line in ALL_STEPS.splitlines()}

# Fails on a file whose history has all of the steps of one line of `culprits`. Archives are not compressed, so grep
# sees the history in them. Every call adds a line to `calls`.
CHECK = """\
echo checked >> calls
while read -r steps; do
  all=yes
  for step in $steps; do
    before="\\"transformation\\": \\"${step%%:*}\\", \\"signature\\": \\"${step%%:*}\\", \\"parameters\\": {}"
    grep -aqF "$before, \\"site\\": \\"${step#*:}\\"" "$1" || all=no
  done
  [ $all = no ] || exit 1
done < culprits
exit 0
"""
RUN = ("--run", "sh check.sh {}")


@pytest.fixture
def planted(desk, model):
    """planted(set, ...): a model with all steps, of which these sets fail the check; the name of its file."""

    def plant(*sets, name="fast.pt2"):
        desk.write("check.sh", CHECK)
        desk.write("culprits", "".join(" ".join(STEPS[i] for i in ids) + "\n" for ids in sets))
        return desk.put(model("blocks", steps=True), name)

    return plant


def passes(desk, path):
    return desk.shell(f"sh check.sh {shlex.quote(path)}").code == 0


def test_the_planted_model_has_these_steps(desk, planted):
    assert desk("log", planted()).out == ALL_STEPS


# ---- culprits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("sets", [[{4}], [{1, 6}], [{7, 8}], [{2, 5, 10}], [{4, 5, 6}, {2}]],
                         ids=str)
def test_names_exactly_the_planted_steps_and_its_command_repairs_the_model(desk, planted, sets):
    path = planted(*sets)
    before = desk.files()
    found = json.loads(desk("bisect", path, *RUN, "--json").out)
    assert [{step["id"] for step in culprit["steps"]} for culprit in found["culprits"]] == sorted(sets, key=len)
    for culprit in found["culprits"]:
        for step in culprit["steps"]:
            assert step["site"] == SITES[step["id"]]
    assert found["original"] == "good" and found["current"] == "bad" and found["repaired"]
    assert found["checks"] == len(desk.lines("calls")) and found["remembered"] == 0
    after = desk.files()
    after.pop(desk.work / "calls")
    assert after == before
    # One step of each set is enough; the others stay, but for those built on it.
    assert len(found["repair"]) == len(sets)
    assert not passes(desk, path)
    assert desk.shell(found["command"]).code == 0
    assert passes(desk, "fast-repaired.pt2")


def test_says_what_a_culprit_is_built_on(desk, planted):
    [culprit] = json.loads(desk("bisect", planted({8}), *RUN, "--json").out)["culprits"]
    assert [step["id"] for step in culprit["steps"]] == [8]
    assert culprit["built_on"] == [2]


def test_text_for_a_check_that_asks_the_log(desk, model):
    path = desk.put(model("floors", steps=True))
    command = "refx log {} --json | tr -d '\\n' | grep -q 'levels.0.div.*levels.2.div_2' && exit 1; exit 0"
    assert desk("bisect", path, "--run", command).out == """\
the check fails because of these steps together:
  1  change-true-div-to-mul-by-inverse  levels.0.div
  3  change-true-div-to-mul-by-inverse  levels.2.div_2
8 checks; the check passes after
  refx reverse floors-fast.pt2 3 --cascade -o floors-fast-repaired.pt2
"""


def test_text_of_steps_that_are_built_on_others(desk, planted):
    assert desk("bisect", planted({7, 10}), *RUN).out == """\
the check fails because of these steps together:
  7   fuse-bias-in-linear  blocks.0.{q,k,v}
  10  fuse-bias-in-linear  head
  they build on 1, which pass by themselves
14 checks; the check passes after
  refx reverse fast.pt2 10 --cascade -o fast-repaired.pt2
"""


def test_tolerance_finds_the_step_that_changes_the_result(desk, model):
    path = desk.put(model("floors", steps=True))
    assert desk("bisect", path, "--tolerance", "1e-3").out == """\
the check fails because of this step:
  3  change-true-div-to-mul-by-inverse  levels.2.div_2
6 checks; the check passes after
  refx reverse floors-fast.pt2 3 --cascade -o floors-fast-repaired.pt2
"""
    assert desk("bisect", path, "--tolerance", "1e-3", "--json").out == """\
{
  "original": "good",
  "current": "bad",
  "culprits": [
    {"steps": [{"id": 3, "transformation": "change-true-div-to-mul-by-inverse", "site": "levels.2.div_2"}], "built_on": []}
  ],
  "repair": [3],
  "repaired": true,
  "command": "refx reverse floors-fast.pt2 3 --cascade -o floors-fast-repaired.pt2",
  "unsure": [],
  "checks": 6,
  "remembered": 0
}
"""
    assert desk("verify", path, "--tolerance", "1e-3", code=1)
    assert desk.shell("refx reverse floors-fast.pt2 3 --cascade -o floors-fast-repaired.pt2").code == 0
    assert desk("verify", "floors-fast-repaired.pt2", "--tolerance", "1e-3")


def test_paths_may_have_spaces_and_quotes(desk, planted):
    odd = "it's \"my\" folder; $HOME/the model.pt2"
    path = planted({5}, name=odd)
    folder = desk.temporary / "it's a place"
    folder.mkdir()
    desk.env["TMPDIR"] = str(folder)
    found = json.loads(desk("bisect", path, *RUN, "--json").out)
    assert found["repair"] == [5]
    assert desk.shell(found["command"]).code == 0
    assert passes(desk, odd.replace("model.pt2", "model-repaired.pt2"))
    assert list(folder.iterdir()) == []


def test_json_stays_clean_when_the_check_prints(desk, planted):
    path = planted({5})
    result = desk("bisect", path, "--run", "echo some; echo more >&2; sh check.sh {}  # and {}", "--json")
    assert json.loads(result.out)["repair"] == [5]
    assert result.err.count("some\n") == result.err.count("more\n") == len(desk.lines("calls"))


# ---- no culprit --------------------------------------------------------------------------------


def test_a_check_that_passes_everywhere_is_answered_with_no(desk, planted):
    assert desk("bisect", planted(), *RUN, code=1).out == "the check passes on the model\n"
    found = json.loads(desk("bisect", planted(), *RUN, "--json", code=1).out)
    assert (found["original"], found["current"], found["culprits"], found["command"]) == ("good", "good", [], None)


def test_a_check_that_fails_everywhere_blames_no_step(desk, planted):
    out = desk("bisect", planted(), "--run", "false {}", code=1).out
    assert out == "the original fails the check, too: no step is to blame\n"


def test_a_check_that_only_the_original_fails(desk, planted):
    out = desk("bisect", planted(), "--run", "grep -aq '\"site\": \"head\"' {}", code=1).out
    assert "too" not in out
    assert "passes" in out


# ---- skips -------------------------------------------------------------------------------------


@pytest.mark.parametrize("skipped, what", [("grep", "model"), ("! grep", "original")])
def test_both_ends_must_be_judged(desk, planted, skipped, what):
    error = desk.error("bisect", planted(), "--run", f"{skipped} -aq '\"site\": ' {{}} && exit 125; ! grep -aq '\"site\": ' {{}}")
    assert error == f"refx: the check skips the {what}: it must judge both ends of the search\n"


def test_searches_around_forms_that_are_skipped(desk, planted):
    path = planted({6})
    # Forms that have step 3 but not step 2 cannot be judged.
    has = "grep -aqF '\"site\": \"blocks.{}.{{q,k,v}}\"' \"$1\""
    desk.write("skipping.sh", f"{has.format(2)} && ! {has.format(1)} && exit 125\n. ./check.sh\n")
    found = json.loads(desk("bisect", path, "--run", "sh skipping.sh {}", "--json").out)
    assert found["repair"] == [6] and found["repaired"]
    assert [step["id"] for step in found["culprits"][0]["steps"]] == [6]


def test_says_which_steps_it_is_not_sure_of(desk, planted):
    path = planted({4, 5})
    # Of the two, no form with only one of them can be judged.
    one, other = (f"grep -aqF '\"site\": \"{SITES[i]}\"' \"$1\"" for i in (4, 5))
    desk.write("skipping.sh", f"a=0; b=0; {one} && a=1; {other} && b=1; [ $a = $b ] || exit 125\n. ./check.sh\n")
    out = desk("bisect", path, "--run", "sh skipping.sh {}").out
    assert "uncertain: 4, 5; the check skipped the variants without them\n" in out
    assert "suggested repair, which the check skipped:\n  refx reverse fast.pt2 5 --cascade -o fast-repaired.pt2\n" in out


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("command, why", [
    ("exit 126 {}", "ended with exit code 126"),
    ("exit 128 {}", "ended with exit code 128"),
    ("exit 255 {}", "ended with exit code 255"),
    ("kill -9 $$ # {}", "was ended by signal 9"),
    ("sh -c 'kill -11 $$' {}", "was ended by signal 11"),
])
def test_a_check_that_breaks_is_an_error(desk, planted, command, why):
    path = planted()
    error = desk.error("bisect", path, "--run", command)
    assert error.splitlines()[-1] == f"refx: the check `{command}` {why}; 0 is good, 125 skip, 1 to 124 bad"
    assert list(desk.temporary.iterdir()) == []


def test_a_check_that_is_not_there_is_an_error(desk, planted):
    error = desk.error("bisect", planted(), "--run", "./no-such-check {}")
    assert error.endswith("refx: the check `./no-such-check {}` was not found (exit code 127); 0 is good, 125 skip, 1 to 124 bad\n")


@pytest.mark.parametrize("args, message", [
    (["--run", "true"], "the command `true` must contain {}, which becomes the path of the model"),
    ([], "bisect needs a check: --tolerance X or --run 'COMMAND {}'; see `refx bisect --help`"),
    (["--run", ""], "bisect needs a check: --tolerance X or --run 'COMMAND {}'; see `refx bisect --help`"),
    (["--run", "true {}", "--tolerance", "1"], "give either --tolerance or --run; see `refx bisect --help`"),
    (["--tolerence", "1"], "unknown option '--tolerence'; did you mean '--tolerance'?"),
    (["--tolerance", "1", "--inputs", "none.pt"], "none.pt: cannot be opened (No such file or directory)"),
])
def test_wrong_usage(desk, planted, args, message):
    assert desk.error("bisect", planted(), *args) == f"refx: {message}\n"


def test_a_model_without_steps_is_an_error(desk, model):
    path = desk.put(model("plain"))
    assert desk.error("bisect", path, "--tolerance", "1") == "refx: plain.pt2: the model has no steps\n"


# ---- cut short ---------------------------------------------------------------------------------

GOING_ON = "resuming an interrupted search; --fresh starts over\n"

# The fourth check does not come to an end, unless the file `go` is there.
STUCK = """\
if [ ! -e go ] && [ "$(wc -l < calls)" = 3 ]; then
  touch stuck
  for i in $(seq 400); do [ -e go ] || sleep 0.05; done
fi
. ./check.sh
"""
RUN_STUCK = ("--run", "sh stuck.sh {}")


@pytest.fixture
def cut_short(desk, planted):
    """cut_short(signal): a search that is ended in its fourth check; the file's name and what the program said."""

    def cut(sent):
        path = planted({1, 6})
        desk.write("stuck.sh", STUCK)
        desk.write("calls", "")
        process = desk.start("bisect", path, *RUN_STUCK)
        desk.wait_for((desk.work / "stuck").exists, process)
        result = desk.kill(process, sent)
        assert len(desk.lines("calls")) == 3
        desk.write("go", "")
        return path, result

    return cut


def journals(desk):
    return [p for p in desk.cache.rglob("*") if p.is_file()]


def test_a_killed_search_resumes_without_repeating_a_check(desk, cut_short):
    path, _ = cut_short(signal.SIGKILL)
    assert len(journals(desk)) == 1
    result = desk("bisect", path, *RUN_STUCK, "--json")
    assert result.err == GOING_ON
    found = json.loads(result.out)
    assert found["remembered"] == 3
    assert len(desk.lines("calls")) == 3 + found["checks"]
    assert journals(desk) == []
    # The same is found in one go, by as many checks in all.
    whole = desk("bisect", path, *RUN_STUCK, "--json")
    assert whole.err == ""
    whole = json.loads(whole.out)
    assert whole["checks"] == 3 + found["checks"] and whole["remembered"] == 0
    assert whole["culprits"] == found["culprits"] and whole["command"] == found["command"]
    assert journals(desk) == []


def test_fresh_begins_anew(desk, cut_short):
    path, _ = cut_short(signal.SIGKILL)
    result = desk("bisect", path, *RUN_STUCK, "--fresh", "--json")
    found = json.loads(result.out)
    assert result.err == "" and found["remembered"] == 0
    assert len(desk.lines("calls")) == 3 + found["checks"]
    assert journals(desk) == []


def test_verdicts_of_another_model_or_check_are_not_used(desk, cut_short):
    path, _ = cut_short(signal.SIGKILL)
    other = desk("bisect", path, *RUN, "--json")
    assert other.err == "" and json.loads(other.out)["remembered"] == 0
    desk("reverse", path, "head", "-o", path)
    changed = desk("bisect", path, *RUN_STUCK, "--json")
    assert changed.err == "" and json.loads(changed.out)["remembered"] == 0


def test_a_truncated_line_of_the_journal_is_ignored(desk, cut_short):
    path, _ = cut_short(signal.SIGKILL)
    [journal] = journals(desk)
    text = journal.read_bytes()
    journal.write_bytes(text[: len(text) - 10])
    found = json.loads(desk("bisect", path, *RUN_STUCK, "--json").out)
    assert found["remembered"] == 2 and found["repair"] == [6]


def test_an_interrupt_ends_it_and_leaves_no_temporary_files(desk, cut_short):
    path, result = cut_short(signal.SIGINT)
    assert (result.code, result.out) == (130, "")
    assert result.err.splitlines()[-1].startswith("refx: interrupted")
    assert list(desk.temporary.iterdir()) == []
    result = desk("bisect", path, *RUN_STUCK, "--json")
    assert result.err == GOING_ON and json.loads(result.out)["remembered"] == 3


def test_an_interrupt_that_only_the_program_gets_ends_it(desk, planted):
    path = planted({1, 6})
    process = desk.start("bisect", path, "--run", "touch started; until [ -e go ]; do sleep 0.05; done; sh check.sh {}")
    desk.wait_for((desk.work / "started").exists, process)
    process.send_signal(signal.SIGINT)
    desk.write("go", "")
    result = desk.finish(process)
    assert (result.code, result.out) == (130, "")
    assert len(desk.lines("calls")) <= 1
    assert list(desk.temporary.iterdir()) == []


def test_works_without_a_place_for_the_journal(desk, planted):
    path = planted({5})
    desk.env.pop("XDG_CACHE_HOME")
    desk.env.pop("HOME")
    assert json.loads(desk("bisect", path, *RUN, "--json").out)["repair"] == [5]
