# SPDX-License-Identifier: Apache-2.0
"""The files that `make goldens` writes are what the program prints today."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import goldens  # noqa: E402


def test_goldens():
    command = [sys.executable, ROOT / "scripts" / "goldens.py", "--check", os.environ["REFX_PROGRAM"]]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_stale_golden_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(goldens, "ROOT", tmp_path)
    same, stale, missing, extra = (goldens.GOLDENS / name for name in ("same", "stale", "missing", "help/extra"))
    (tmp_path / extra.parent).mkdir(parents=True)
    for path in (same, stale, extra):
        (tmp_path / path).write_text("text")
    assert goldens.differing({same: "text", stale: "new", missing: "text"}) == [stale, missing, extra]


def test_a_table_is_written_below_its_mark(tmp_path, monkeypatch):
    monkeypatch.setattr(goldens, "ROOT", tmp_path)
    page = pathlib.Path("page.md")
    (tmp_path / page).write_text("<!-- rules -->\n\n| old |\n|---|\n\nText.\n")
    assert goldens.with_table(page, "rules", "| new |\n|---|\n") == {page: "<!-- rules -->\n\n| new |\n|---|\n\nText.\n"}
    assert goldens.with_table(page, "commands", "| new |\n") == {}
