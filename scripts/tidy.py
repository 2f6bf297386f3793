# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over the library, the program and the bindings, with the checks of .clang-tidy.

    python scripts/tidy.py [FILE...]     # all files, or these

Torch's headers take most of the time, so the sources of a folder are parsed together, as one unit.
Sources that cannot stand beside each other, because both give the same name to something of their
own, are then parsed alone.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHECKED = ("src", "cli", "python/engine", "python/src")
TOOL = ROOT / ".venv/bin/clang-tidy"
MESSAGE = re.compile(r"(?P<file>/[^:\n]+):\d+:\d+: (?:error|warning): .*\[(?P<check>[\w.,-]+)\]$")


def flags(entry):
    """The arguments of a compile command that say how to parse: no gcc's precompiled header."""
    arguments = iter(shlex.split(entry["command"])[1:])
    kept = []
    for argument in arguments:
        if argument in ("-include", "-o", "-c"):
            next(arguments)  # -c is followed by the source
        elif re.match(r"-(D|I|std=|fPIC$)", argument):
            kept.append(argument)
        elif argument == "-isystem":
            kept += [argument, next(arguments)]
    return kept


def compiled(source):
    """The sources that are compiled with this one: those that CMake has put together in it, or itself."""
    if "Unity" not in source.parts:
        return [source]
    return [Path(name) for name in re.findall(r'#include "(.*\.cpp)"', source.read_text())]


def units(build, only):
    """Lists of sources with the same flags, a folder or less each; the largest first."""
    grouped = collections.defaultdict(list)
    for entry in json.loads((build / "compile_commands.json").read_text()):
        for source in compiled(Path(entry["file"])):
            if not source.is_relative_to(ROOT) or source.is_relative_to(build):
                continue
            name = source.relative_to(ROOT)
            if source in only or not only and name.as_posix().startswith(tuple(f"{c}/" for c in CHECKED)):
                grouped[name.parent, tuple(flags(entry))].append(source)
    found = [(sources, list(how)) for (_, how), sources in grouped.items()]
    return sorted(found, key=lambda unit: -len(unit[0]))


def run(folder, sources, how):
    """Messages about one unit: (file, check, text with its lines of code)."""
    name = "_".join(sources[0].relative_to(ROOT).with_suffix("").parts)
    unit = folder / f"{name}.cpp"
    unit.write_text("".join(f'#include "{source}"\n' for source in sources))
    command = [TOOL, "--quiet", f"--config-file={ROOT}/.clang-tidy", unit, "--", *how, "-ferror-limit=0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    messages = []
    for line in done.stdout.splitlines():
        if match := MESSAGE.match(line):
            messages.append([match["file"], match["check"], line])
        elif messages:
            messages[-1][2] += "\n" + line
    if done.returncode and not messages:
        sys.exit(f"tidy: clang-tidy failed on {unit}:\n{done.stdout}{done.stderr}")
    return messages


def check(folder, sources, how):
    messages = run(folder, sources, how)
    clashing = {Path(file) for file, check, _ in messages if check.startswith("clang-diagnostic-error")}
    if len(sources) == 1 or not clashing:
        return messages
    alone = [source for source in sources if source in clashing] or sources
    messages = [m for m in messages if Path(m[0]) not in clashing]
    for source in alone:
        messages += run(folder, [source], how)
    return messages


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=lambda f: Path(f).resolve(), metavar="FILE")
    parser.add_argument("--build", default="build", help="a configured build folder")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()

    start = time.monotonic()
    build = (ROOT / options.build).resolve()
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    work = units(build, set(options.files))
    texts = set()  # what is said of a header comes from every unit that includes it
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(check, folder, *unit) for unit in work]
        for job in concurrent.futures.as_completed(jobs):
            for _, _, text in job.result():
                text = text.replace(f"{ROOT}/", "")
                if text not in texts:
                    texts.add(text)
                    print(text, flush=True)
    seconds = time.monotonic() - start
    print(f"clang-tidy: {len(texts)} in {sum(len(unit[0]) for unit in work)} sources, {seconds:.0f} s")
    sys.exit(1 if texts else 0)


main()
