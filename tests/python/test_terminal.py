# SPDX-License-Identifier: Apache-2.0
"""Names come from untrusted files: no name may control the terminal that shows it."""

import json
import re
import subprocess

import pytest

import conftest
from archives import read, write

EVIL = "\x1b[31m\nforged line\x9b\u202e\x07\r\x7f\u2028"
HARMLESS = re.compile(r"[^\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]*")


def spoilt(value, words):
    """JSON in which every name that is made of one of the words has the evil in it."""
    if isinstance(value, dict):
        return {spoilt(key, words): spoilt(item, words) for key, item in value.items()}
    if isinstance(value, list):
        return [spoilt(item, words) for item in value]
    if not isinstance(value, str) or value.startswith(("torch.", "[")):
        return value
    if value in words:
        return value + EVIL
    return re.sub(rf"(?<![a-zA-Z.])({'|'.join(words)})(?=[_.]|$)", lambda m: m[1] + EVIL, value)


@pytest.fixture(scope="module")
def hostile(exported, refx, tmp_path_factory):
    """A file full of such names, under such a name, without and with a history."""
    root, records = read(exported("mixed_biases"))
    config = json.loads(records["data/weights/model_weights_config.json"])["config"]
    graph = json.loads(records["models/model.json"])["graph_module"]["graph"]
    words = {name.split(".")[0] for name in config} | {i["as_tensor"]["name"] for i in graph["inputs"]}
    words |= {o["as_tensor"]["name"] for node in graph["nodes"] for o in node["outputs"] if "as_tensor" in o}
    for name in [name for name in records if name.endswith(".json")]:
        records[name] = json.dumps(spoilt(json.loads(records[name]), words)).encode()
    folder = tmp_path_factory.mktemp("hostile")
    plain, fast = folder / f"a{EVIL}.pt2", folder / f"b{EVIL}.pt2"
    write(plain, root, records)
    refx("apply", plain, "all", "-o", fast)
    return plain, fast


def commands():
    help = subprocess.run([conftest.PROGRAM, "--help"], capture_output=True, text=True).stdout
    return re.findall(r"^  (\w+) ", re.search(r"\nCommands:\n(.*?)\n\n", help + "\n\n", re.S)[1], re.M)


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    """A rule that can be tried, one that cannot be read and one that is never right, all with the evil."""
    folder = tmp_path_factory.mktemp("rules")
    good = 'rule right  "{0}"\nbefore(x):\n    return aten.neg(aten.neg(x))\nafter:\n    return {1}\n'
    texts = {
        "good": good.format(EVIL.replace("\n", ""), "aten.clone(x)"),
        "bad": good.format("", f"aten.clone{EVIL}(x)"),
        "wrong": good.format(EVIL.replace("\n", ""), "aten.neg(x)"),
    }
    for name, text in texts.items():
        (folder / f"{name}{EVIL}").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}{EVIL}" for name in texts}


# How each is run: {a} is the file, {b} the one with a history, {o} a file to write; {good}, {bad} and
# {wrong} are files of rules.
RUNS = {
    "list": ["", "--rules {good}", "--rules {bad}"],
    "explain": ["merge-linears", "none{e}", "'{e}'", "--rules {good} x{e}"],
    "man": [""],
    "check": ["{good} --instances 2", "{wrong} --instances 2", "{bad}", "{good} --rule x{e}"],
    "inspect": ["{a}", "{b}", "{b} --graph", "{a} --rules {good}"],
    "log": ["{a}", "{b}"],
    "diff": ["{b}", "{a} {b}", "{a} {a}"],
    "apply": ["{a} all -o {o}", "{a} merge-linears --dry-run", "{b} all --exclude nothing{e} --dry-run",
              "{a} merge-linears --site a{e} --dry-run", "{a} none{e} --dry-run"],
    "reverse": ["{b} --all -o {o}", "{b} 1 -o {o}", "{b} 1 --refuse -o {o}", "{b} a{e} -o {o}", "{b}"],
    "detach": ["{b} -o {o}", "{a} -o {o}"],
    "forget": ["{b} -o {o}", "{a} -o {o}"],
    "run": ["{b}", "{b} --inputs {a}", "{b} -o {o}"],
    "verify": ["{b} --per-step --power", "{b} --against {a}", "{b} --inputs {a}"],
    "sensitivity": ["{b}", "{b} store-linear-int8", "{b} none{e}", "{b} --inputs {a}"],
    "bench": ["{b} --seconds 0.01 --per-step", "{b} --seconds 0.01 --against {a}"],
    "tune": ["{a} -o {o} --seconds 0.01", "{a} none{e} -o {o}"],
    "bisect": ["{b} --tolerance 1e-30 --fresh", "{b} --run false --fresh", "{a} --run true"],
    "report": ["{b} -o {o} --no-bench", "{b} -o {b}", "{b} -o {o}/none"],
    "demo": [""],
    "completion": ["bash"],
}
OTHER_RUNS = ["{a}", "{b}", "{b} -o {o}", "{b} --json"]  # of a command that is not listed above


@pytest.mark.parametrize("command", commands() if conftest.PROGRAM else [])
def test_no_name_acts_on_the_terminal(command, hostile, rules, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    a, b = hostile
    words = dict(a=a, b=b, o=tmp_path / f"o{EVIL}", e=EVIL, **rules)
    for run in ["--none{e}", *RUNS.get(command, OTHER_RUNS), "{b}{e}none"]:
        args = [command, *(word.format(**words) for word in run.split())]
        done = subprocess.run([conftest.PROGRAM, *args], capture_output=True, timeout=300)
        assert done.returncode in (0, 1, 2), f"{args}\n{done.stderr}"
        for stream in (done.stdout, done.stderr):
            text = stream.decode("utf-8")
            assert HARMLESS.fullmatch(text), f"{args}\n{text!r}"
            assert not re.search(r"^forged", text, re.M), f"{args}\n{text}"


def test_json_is_exact(hostile, refx):
    out = refx("log", hostile[1], "--json").out
    assert HARMLESS.fullmatch(out)
    assert any(EVIL in step["site"] for step in json.loads(out))
    assert any(EVIL in node for step in json.loads(out) for node in step["nodes"])


def test_everything_is_printed_in_one_place():
    for path in (conftest.HERE.parents[1] / "cli").glob("*.cpp"):
        if path.name not in {"main.cpp", "output.cpp"}:
            text = path.read_text()
            assert not re.search(r"\bf?printf\(|std::c(out|err)|\bputs\(|fmt::print\((?!stderr, \"\{\}\", line.app)", text), path
