# SPDX-License-Identifier: Apache-2.0
"""Files that another program changes while refx has them open."""

import os
import shlex
import shutil

import pytest


@pytest.fixture
def fast(exported, refx, tmp_path):
    path = tmp_path / "fast.pt2"
    refx("apply", exported("mixed_biases"), "all", "-o", path)
    return path


def meanwhile(refx, fast, command, code):
    """Runs `refx bisect`, during which this command is run once."""
    check = fast.parent / "check.sh"
    check.write_text(f"cd {shlex.quote(str(fast.parent))}\ntest -e done || {{ touch done; {command}; }}\n")
    return refx("bisect", fast, "--run", f"sh {shlex.quote(str(check))} {{}}", "--fresh", code=code)


def test_a_changed_byte_is_noticed_before_a_result_is_printed(refx, fast):
    result = meanwhile(refx, fast, "printf x | dd of=fast.pt2 bs=1 seek=300 conv=notrunc 2>/dev/null", 2)
    assert "fast.pt2: was changed by someone else while it was in use" in result.err
    assert not result.out


def test_a_file_that_is_cut_off_is_an_error(refx, fast):
    result = meanwhile(refx, fast, "truncate -s 100 fast.pt2", 2)
    assert "truncated" in result.err or "was changed" in result.err or "became shorter" in result.err
    assert not result.out and sorted(os.listdir(fast.parent)) == ["check.sh", "done", "fast.pt2"]


@pytest.mark.parametrize("command", ["cp fast.pt2 new && mv new fast.pt2", "rm fast.pt2", "chmod 600 fast.pt2"])
def test_a_command_does_not_see_that_its_file_was_replaced(refx, fast, command):
    assert "the check passes" in meanwhile(refx, fast, command, 1).out


def test_a_file_that_is_not_regular_is_an_error_at_once(refx, fast, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        for args in (["run", fast, "--inputs", odd], ["inspect", odd], ["diff", fast, odd]):
            assert "cannot be read (it is" in refx(*args, code=2).err


def test_python_notices_too(fast, tmp_path):
    refx = pytest.importorskip("refx")
    copy, saved = tmp_path / "copy.pt2", tmp_path / "saved.pt2"
    shutil.copy(fast, copy)
    model = refx.load(fast)
    assert model.verify()  # which checks what is in the file
    with open(fast, "r+b") as file:
        file.seek(300)
        file.write(b"x")
    for use in (model.verify, model.diff, model.state_dict, lambda: refx.load(copy).diff(model)):
        with pytest.raises(refx.Error, match="fast.pt2: was changed by someone else"):
            use()
    with pytest.raises(refx.Error, match="fast.pt2: "):
        model.save(saved)
    assert not saved.exists()

    model = refx.load(copy)
    os.replace(shutil.copy(copy, tmp_path / "other"), copy)
    assert model.verify()
    model.save(saved)


def test_a_page_of_python_appears_whole_or_not_at_all(fast, tmp_path):
    refx = pytest.importorskip("refx")
    page = tmp_path / "page.html"
    model = refx.load(fast)
    model.report(page, verify=False, bench=False)
    inode = page.stat().st_ino
    model.report(page, verify=False, bench=False)
    assert page.read_text(encoding="utf-8").endswith("</html>\n") and page.stat().st_ino != inode
