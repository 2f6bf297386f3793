# SPDX-License-Identifier: Apache-2.0
"""`make lint ONLY=words` finds every phrase of its list in every kind of source, and nothing in plain English."""

import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("words", ROOT / "scripts/words.py")
words = importlib.util.module_from_spec(spec)
spec.loader.exec_module(words)

PLANTED = (
    "it will not do", "the size is told by the graph", "the type cannot be told", "told from time to time",
    "as it is meant to", "linear-written-out", "attention-written-out-masked", "3 a fault of refx", "how many wrongs",
    "how small a wrong", "every deed", "a number from 0 on", "what goes with it", "memory on trust", "as was asked",
    "the result errs by 1", "the model may err", "a module which is called as such", "it crosses the border of a module",
    "asked for ahead", "a one-way street", "nothing can be said", "others find nothing here", "it is said to be fast",
    "one that is dearer", "as they please", "this must be a text", "it is a number from 0", "it would be noticed",
    "what is no finite number",
)

PLAIN = """The acceptance command rejected the model. The error exceeds the tolerance; it cannot be determined why.
It will not do that twice, and you are told to stop. Goes without saying. The index starts at 0, from 0 to 7.
A text file is read. This is no longer an error. That is not a wrong answer. Write the rule out in full.
The name of a rule is fuse-linear; it is written out by the printer. An indeed long sentence, a border, merit.
There is no node 'x'. What the command prints, and what pays, is measured."""


@pytest.mark.parametrize("phrase", PLANTED)
@pytest.mark.parametrize("suffix, text", [
    (".md", "Text before, {}, and after."),
    (".refx", 'rule x "{}"'),
    (".cpp", 'throw Error("before {}, and");'),
    (".cpp", 'const char* help = R"(before\n{}.\n)";'),
    (".def", 'REFX_REASON(id, "{}", "")'),
    (".py", 'def f():\n    """Before {}."""\n'),
    (".py", 'x = f"before {{y}} {}: and"\n'),
    (".js", "note(`before {}; and`)"),
])
def test_a_planted_phrase_is_found(tmp_path, capsys, phrase, suffix, text):
    (tmp_path / f"planted{suffix}").write_text("\n" + text.format(phrase))
    assert words.main([tmp_path / f"planted{suffix}"])
    assert re.match(rf"{re.escape(str(tmp_path))}/planted{suffix}:\d+: '.+': write: .+\n", capsys.readouterr().out)


def test_every_pattern_is_planted():
    for pattern in words.PHRASES:
        regex = re.compile(pattern.replace(" ", r"\s+"))
        assert any(regex.search(phrase) for phrase in PLANTED), pattern


def test_plain_english_has_no_findings(tmp_path, capsys):
    lines = PLAIN.splitlines()
    (tmp_path / "plain.md").write_text(PLAIN)
    (tmp_path / "plain.py").write_text(f'"""{PLAIN}"""')
    (tmp_path / "plain.cpp").write_text("\n".join(f'f("{line}");' for line in lines))
    assert not words.main(sorted(tmp_path.iterdir())), capsys.readouterr().out


def test_a_phrase_may_continue_on_the_next_line(tmp_path, capsys):
    (tmp_path / "include").mkdir()
    (tmp_path / "page.md").write_text("It will\nnot do.\n")
    (tmp_path / "two.cpp").write_text('f("It will "\n  "not do.");\n')
    (tmp_path / "include/two.h").write_text("// It will\n// not do.\nint f();\n")
    assert words.main([tmp_path / "page.md", tmp_path / "two.cpp", tmp_path / "include/two.h"])
    assert capsys.readouterr().out.count(":1: 'will not do'") == 3


def test_code_is_not_text(tmp_path):
    (tmp_path / "code.cpp").write_text('int deeds = 1;  // a deed\nf("it will", deeds, "not do.");\nchar c = \'"\'; int errs;\n')
    (tmp_path / "code.py").write_text("deeds = errs = 1  # a deed\nf('it will', deeds, 'not do.')\n")
    assert not words.main([tmp_path / "code.cpp", tmp_path / "code.py"])


def test_the_tree_is_read():
    names = {str(path.relative_to(ROOT)) for path in words.files()}
    assert {"README.md", "docs/lab.md", "include/refx/tune.h", "cli/command_line.cpp", "python/refx/_model.py"} <= names
    assert any(name.endswith(".refx") for name in names)
    assert all((ROOT / name).is_file() for name in words.EXEMPT)
