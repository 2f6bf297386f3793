# SPDX-License-Identifier: Apache-2.0
"""README.md and docs/: what they show is run and does what they say, and links lead somewhere.

A page is run from top to bottom in a folder of its own, in which the models of `files` are; its Python blocks are one
program, its C++ blocks one function. Blocks by language:

    console    `$ ` and a command, then what it prints; `# exit code N` at its end if that is not 0
    python     run; `pycon` as doctest does
    cpp        compiled, all pages in one program, and run
    output     what the block before it prints
    refx       a rule, which becomes the file my.refx and has to pass `refx check`
    graph      the text form of a model, which is read and printed again
    cmake      lines of tests/install_consumer

Of what is printed, `...` stands for anything, and numbers with a point or an exponent may be others.
"""

import contextlib
import doctest
import io
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys

import pytest
import torch
from torch import nn

from conftest import PROGRAM
from pages import PAGES, ROOT, anchors, blocks, inline_code, links, matches, name_of, session, split

# What is not run, by its beginning, and why.
NOT_RUN = {
    "make test": "runs this test",
    "make demo": "builds; a test of the program compares what `refx demo` prints",
    "cmake --install build": "the CTest `install` does it",
    "c++ app.cpp": "needs an installed refx; tests/install_consumer has a program that is built so",
    "torchrun": "tests/python/lab/test_tune.py runs it",
    "torch.onnx.export": "onnxscript is not among our packages",
}
NOT_RUN_LANGUAGES = {
    "grammar": "a grammar",
    "drawing": "a drawing",
    "mermaid": "a drawing",
    "text": "what `refx explain` says, which test_generated.py compares",
}
OPTIONAL = ("jq",)  # programs without which a command is left out
MEASURED = re.compile(r"^refx (bench|tune)\b")  # what these print differs from machine to machine

BUILD = pathlib.Path(PROGRAM).resolve().parents[1] if PROGRAM else None


def not_run(text):
    return text.startswith(tuple(NOT_RUN))


# ---- the files that pages speak of ---------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self, width, names):
        super().__init__()
        for name in names:
            self.add_module(name, nn.Linear(width, width))
        self.names = names

    def forward(self, x):
        q, k, v = (getattr(self, name)(x) for name in self.names)
        return torch.softmax(q @ k.transpose(-1, -2) / 4, -1) @ v


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention(16, ("query", "key", "value"))
        self.head = nn.Linear(16, 16)

    def forward(self, x):
        return self.head(self.attention(x))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Attention(32, "qkv") for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


class Lora(nn.Module):
    def __init__(self):
        super().__init__()
        self.base, self.a, self.b = nn.Linear(8, 8, bias=False), nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)

    def forward(self, x):
        return self.base(x) + self.b(self.a(x)) * 0.5


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.b, self.w = nn.Parameter(torch.randn(6)), nn.Parameter(torch.randn(6))

    def forward(self, x):
        return (x / 4 + self.b) * self.w


CHECK = """#!/bin/sh
case "$(refx log "$1" 2>&1 | tr '\\n' ' ')" in *layers.1.*layers.0.div*) exit 1;; esac
"""


@pytest.fixture(scope="module")
def files(refx, tmp_path_factory):
    import hub  # BERT as transformers has it, tiny

    folder = tmp_path_factory.mktemp("files")
    torch.manual_seed(0)
    for name, module, size in (("model", Small(), (2, 5, 16)), ("encoder", Encoder(), (2, 5, 32)),
                               ("lora", Lora(), (3, 8)), ("scaled", Scaled(), (3, 6))):
        torch.export.save(torch.export.export(module.eval(), (torch.randn(size),)), folder / f"{name}.pt2")
    bert, inputs = hub.bert()
    torch.export.save(torch.export.export(bert.eval(), (), inputs), folder / "bert.pt2")
    refx("apply", folder / "model.pt2", "merge-linears", "-o", folder / "fast.pt2")
    for name, text in (("check.sh", CHECK), ("eval.sh", "#!/bin/sh\necho 0.95\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(stat.S_IRWXU)
    return folder


# ---- C++ -----------------------------------------------------------------------------------------

MARK = "\x1e"  # before what a block prints
HARNESS = """
bool same_text(const std::string& text) {{ return refx::print(refx::parse(text)) == text; }}
int main(int, char** argv) {{
  const std::map<std::string, int (*)()> pages = {{{pages}}};
  return pages.at(argv[1])();
}}
"""


def cpp_source(pages):
    """One program that runs the C++ of the page that is its argument."""
    headers, functions = ["#include <iostream>", "#include <map>", "#include <refx/refx.h>"], {}
    for name, page in pages.items():
        body = []
        for block in page:
            if block.language == "cpp":
                headers += re.findall(r"^#include .*$", block.text, re.M)
                code = re.sub(r"^#include .*$", "", block.text, flags=re.M)
                body.append(f'#line {block.line} "{block.page}"\n{code}')
            elif block.language == "graph":
                body.append(f'if (!same_text(R"-({block.text})-")) return 1;\n')
            body += [f'std::cout << "{MARK}";\n'] if block.language in ("cpp", "graph") else []
        if body:
            functions[name] = f"int page_{len(functions)}() {{\n{''.join(body)}return 0;\n}}\n"
    table = ", ".join(f'{{"{name}", page_{i}}}' for i, name in enumerate(functions))
    first, last = HARNESS.format(pages=table).split("int main", 1)
    return "\n".join([*dict.fromkeys(headers), first, *functions.values(), "int main" + last])


@pytest.fixture(scope="module")
def cpp_program(tmp_path_factory):
    """Its path, when it is compiled; compiling goes on beside the first tests."""
    cache = BUILD / "CMakeCache.txt"
    if not cache.exists():
        yield lambda: pytest.skip("not a build folder")
        return
    value = dict(re.findall(r"^(\w+):\w+=(.*)$", cache.read_text(), re.M))
    folder, torch_home = tmp_path_factory.mktemp("cpp"), value["LibTorch_HOME"]
    (folder / "pages.cpp").write_text(cpp_source({name_of(path): blocks(path) for path in PAGES}))
    compiler = [value["CMAKE_CXX_COMPILER"], *value["CMAKE_CXX_FLAGS"].split()]
    command = [*([ccache] if (ccache := shutil.which("ccache")) else []), *compiler, "-std=c++20", f"-I{ROOT}/include",
               "-isystem", f"{torch_home}/include", "-isystem", f"{torch_home}/include/torch/csrc/api/include",
               "-c", "pages.cpp"]
    link = [*compiler, "pages.o", "-o", "pages", "-Wl,--no-as-needed", "-lrefx", "-ltorch_cpu", "-lc10",
            *(flag for lib in (BUILD / "lib", f"{torch_home}/lib") for flag in (f"-L{lib}", f"-Wl,-rpath,{lib}"))]
    compiling = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    done = []

    def finish():
        if not done:
            done.append(compiling.communicate()[0])
            if compiling.returncode == 0:
                subprocess.run(link, cwd=folder, check=True)
        assert compiling.returncode == 0, done[0]
        return folder / "pages"

    yield finish
    compiling.kill()
    compiling.wait()


# ---- a page --------------------------------------------------------------------------------------

WRAPPER = """#!/bin/sh
case " $* " in *" --seconds "*) ;; " bench "*|" tune "*) set -- "$@" --seconds 0.02 ;; esac
exec "{program}" "$@"
"""


class Page:
    """Runs the blocks of a page, in its folder."""

    def __init__(self, path, folder, cpp_program):
        self.blocks, self.folder, self.cpp_program = blocks(path), folder, cpp_program
        self.printed = None  # by the last block that can print
        self.names = {"__name__": "__main__", "net": Attention(16, ("query", "key", "value")).eval()}
        self.cpp_prints = None
        tools = folder / ".tools"
        tools.mkdir()
        (tools / "refx").write_text(WRAPPER.format(program=PROGRAM))  # measures no longer than needed
        (tools / "refx").chmod(stat.S_IRWXU)
        self.environment = dict(os.environ, OMP_NUM_THREADS="1", NO_COLOR="1", XDG_CACHE_HOME=str(tools),
                                PATH=f"{tools}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")

    def run(self):
        for block in self.blocks:
            if block.language not in NOT_RUN_LANGUAGES and not not_run(block.text):
                method = getattr(self, f"run_{block.language}", None)
                assert method, f"{block.place}: no such language: '{block.language}'"
                method(block)

    def compare(self, place, what, shown, got):
        assert matches(shown, got.splitlines()), (
            f"{place}: {what}\n\nshown:\n" + "\n".join(shown) + f"\n\nprinted:\n{got}")

    def run_console(self, block):
        for command in session(block):
            if not not_run(command.text) and not self.made(command) and not self.lacks(command):
                done = subprocess.run(["bash", "-c", command.text], cwd=self.folder, env=self.environment, timeout=120,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                assert done.returncode == command.code, (
                    f"{command.place}: {command.text}\nexit code {done.returncode}\n{done.stdout}")
                if not MEASURED.match(command.text):
                    self.compare(command.place, command.text, command.shown, done.stdout)

    def made(self, command):
        """A `cat` of a file that is not there is how a page shows a file."""
        name = re.fullmatch(r"cat ([\w.]+)", command.text)
        if not name or (self.folder / name[1]).exists():
            return False
        (self.folder / name[1]).write_text("\n".join(command.shown) + "\n")
        return True

    @staticmethod
    def lacks(command):
        return any(re.search(rf"\b{program}\b", command.text) and not shutil.which(program) for program in OPTIONAL)

    def run_python(self, block):
        self.require_package()
        # Lines as in the page, so that a traceback says where.
        code = compile("\n" * (block.line - 1) + block.text, block.page, "exec")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, self.names)
        self.printed = out.getvalue()

    def run_pycon(self, block):
        self.require_package()

        class Checker(doctest.OutputChecker):
            def check_output(self, want, got, flags):
                return matches(want.splitlines(), got.splitlines())

        test = doctest.DocTestParser().get_doctest(block.text, self.names, block.page, block.page, block.line - 1)
        out = []
        doctest.DocTestRunner(Checker()).run(test, out=out.append, clear_globs=False)
        assert not out, "".join(out)

    @staticmethod
    def require_package():
        package = BUILD / "python"
        if not any((package / "refx").glob("_core.*so")):
            pytest.skip("this build has no Python package")
        if str(package) not in sys.path:
            sys.path.insert(0, str(package))
        import refx as package

        for method in (package.Model.bench, package.Model.tune):
            method.__wrapped__.__kwdefaults__["seconds"] = 0.02  # measure no longer than needed

    def run_cpp(self, block):
        if self.cpp_prints is None:
            done = subprocess.run([self.cpp_program(), block.page], cwd=self.folder, env=self.environment, timeout=120,
                                  capture_output=True, text=True)
            assert done.returncode == 0, f"{block.place}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
            self.cpp_prints = iter(done.stdout.split(MARK))
        self.printed = next(self.cpp_prints)

    run_graph = run_cpp

    def run_output(self, block):
        assert self.printed is not None, f"{block.place}: nothing before it that prints"
        self.compare(block.place, "what the block before it prints", block.text.splitlines(), self.printed)

    def run_refx(self, block):
        (self.folder / "my.refx").write_text(block.text)
        done = subprocess.run([PROGRAM, "check", "my.refx"], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0, f"{block.place}: {done.stdout}"

    def run_cmake(self, block):
        consumer = (ROOT / "tests/install_consumer/CMakeLists.txt").read_text().splitlines()
        for line in block.text.splitlines():
            assert re.sub(r"\bapp\b", "consumer", line) in consumer, f"{block.place}: {line}"


@pytest.mark.parametrize("path", [path for path in PAGES if blocks(path)], ids=name_of)
def test_what_a_page_shows_is_what_happens(path, files, cpp_program, tmp_path, monkeypatch):
    folder = tmp_path / "page"
    shutil.copytree(files, folder)
    monkeypatch.chdir(folder)
    Page(path, folder, cpp_program).run()


def test_what_is_not_run_is_there():
    lines = [line.removeprefix("$ ") for path in PAGES for block in blocks(path) for line in block.text.splitlines()]
    assert not [text for text in NOT_RUN if not any(line.startswith(text) for line in lines)]


# ---- what stands between the blocks --------------------------------------------------------------


def markdown_files():
    folders = [path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith((".", "build"))]
    return [*ROOT.glob("*.md"), *(path for folder in folders for path in folder.rglob("*.md") if "node_modules" not in path.parts)]


def test_every_link_leads_somewhere():
    wrong = []
    for path in markdown_files():
        for link in links(path):
            if re.match(r"\w+:", link):
                continue
            file, _, heading = link.partition("#")
            target = (path.parent / file).resolve() if file else path
            if not target.exists() or heading and heading not in anchors(target):
                wrong.append(f"{name_of(path)}: {link}")
    assert not wrong


def test_every_page_is_in_the_index():
    index = {(ROOT / "docs" / link.partition("#")[0]).resolve() for link in links(ROOT / "docs/README.md")}
    assert not [name_of(path) for path in PAGES if path not in index and path != ROOT / "docs/README.md"]


def test_files_of_ours_that_pages_name_exist():
    folders = "|".join(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith((".", "build")))
    wrong = []
    for path in markdown_files():
        for code in inline_code(path):
            for name in re.findall(rf"(?:^|\s)((?:{folders})/[\w./-]*)(?![\w./-]|[<*{{])", code):
                if not (ROOT / name).exists() and not list((ROOT / name).parent.glob(f"{pathlib.Path(name).name}.*")):
                    wrong.append(f"{name_of(path)}: {name}")
            for name in re.findall(r"build/bin/bench_(\w+)", code):
                if not (ROOT / f"bench/{name}.cpp").exists():
                    wrong.append(f"{name_of(path)}: {code}")
    assert not wrong


def options(refx):
    """Of each command of the program, as its completion offers them."""
    script, of = refx("completion", "fish").out, {}
    for name in re.findall(r"-n __fish_use_subcommand -a (\S+)", script):
        of[name] = set(re.findall(rf"subcommand_from {name}' .*?-l ([\w-]+)", script))
    return of


def test_commands_in_the_text_exist_with_their_options(refx):
    of, wrong = options(refx), []
    for path in PAGES:
        for line in split(path)[1].splitlines():
            codes = re.findall(r"`([^`]+)`", line)
            if re.match(r"\| `refx \w+ [A-Z]", line):  # in a table the options stand beside their command
                codes = [" ".join(code for code in codes if code == codes[0] or not code.startswith("refx ")), *codes[1:]]
            for code in codes:
                command = re.match(r"refx ([a-z]+)(?: |$)", code)
                if command:
                    wrong += [f"{name_of(path)}: {code}: {option}" for option in re.findall(r"(?<![\w-])--([a-z][\w-]*)", code)
                              if option not in of.get(command[1], ())]
                    is_one = re.search(r"[A-Z]{2}|\.pt2|--", code)  # "refx does not know it" is no command
                    wrong += [f"{name_of(path)}: {code}"] if is_one and command[1] not in of else []
    assert not wrong


def test_every_command_is_in_the_readme(refx):
    text = (ROOT / "README.md").read_text()
    assert not [name for name in options(refx) if not re.search(rf"`refx {name}\b", text)]


def test_names_of_the_package_in_the_text_exist():
    Page.require_package()
    import refx as package

    wrong = []
    for path in PAGES:
        for code in inline_code(path):
            for name in re.findall(r"(?<![\w/.])refx((?:\.\w+)+)(?![\w/])", code):
                value = package
                for part in name[1:].split("."):
                    value = getattr(value, part, None)
                if value is None and name != ".h":
                    wrong.append(f"{name_of(path)}: refx{name}")
    assert not wrong


def test_what_tables_say_of_transformations_is_what_the_program_says(refx):
    summary = {t["name"]: t["summary"] for t in refx("list", "--json").json()}
    wrong, rows = [], {}
    for path in PAGES:
        for table in re.findall(r"^\| name \| what it does \|\n\|[-|]*\|\n((?:\|.*\n)+)", path.read_text(), re.M):
            for name, text in re.findall(r"^\| `([^`]+)` \| (.*) \|$", table, re.M):
                rows.setdefault(name_of(path), []).append(name)
                if summary.get(name) != text:
                    wrong.append(f"{name_of(path)}: {name}: {text}")
    assert not wrong
    shipped = re.findall(r"^rule (\S+)", "\n".join(path.read_text() for path in (ROOT / "rules").iterdir()), re.M)
    assert rows["docs/rules.md"] == [name for name in summary if name in shipped]


# ---- the notation itself -------------------------------------------------------------------------


@pytest.mark.parametrize("shown, got, same", [
    ("pass", "pass\n", True),
    ("pass", "fail", False),
    ("pass", "pass\nmore", False),
    ("", "anything", False),
    ("...", "", True),
    ("a\n...\nz", "a\nb\nc\nz", True),
    ("a\n...\nz", "a\nz", True),
    ("a\n...\nz", "a\nb", False),
    ("1  merge-linears  x.{q,k}", "1  merge-linears      x.{q,k}", True),
    ("1  merge-linears", "2  merge-linears", False),
    ("1.31x (1.28 .. 1.33)  faster", "0.9x (0.88 .. 1e-3)  faster", True),
    ("1.31x  faster", "0.9x  slower", False),
    ("layers.0.q", "layers.1.q", False),
    ("3 of ... bytes", "3 of 5 or 6 bytes", True),
    ("f32[2, 3]  4.5e-16", "f32[2, 3]  1.0e-15", True),
    ("f32[2, 3]  4.5e-16", "f32[2, 4]  4.5e-16", False),
])
def test_what_is_shown_is_compared(shown, got, same):
    assert matches(shown.splitlines(), got.splitlines()) == same
