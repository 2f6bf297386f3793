# SPDX-License-Identifier: Apache-2.0
"""Files of every version of transformers that is installed, in the forms that users export, through a whole life.

scripts/architectures.py does the work, in a process for each version: it exports a case, takes the file through refx,
and judges by torch what refx wrote. Here every case has to be free of problems. REFX_PRODUCER_CASES=all takes all forms
of all types with all versions, which is an hour's work.
"""

import json
import os

import pytest

import producers
from conftest import HERE, PROGRAM

pytest.importorskip("transformers")
hub_types = pytest.importorskip("hub_types")

# Forms beside the plain one, which all of the most used types have with the newest version.
FORMS = (
    "bert/no-grad", "bert/dynamic", "bert/decomposed", "llama/no-grad", "llama/dynamic", "llama/decomposed",
    "llama/dynamic-cache", "llama/static-cache", "qwen3/static-cache", "gpt2/dynamic-cache", "t5/no-grad", "vit/dynamic")
OLDER = (
    "bert", "bert/dynamic", "xlm-roberta", "deberta-v2", "gpt2", "llama", "llama/no-grad", "llama/static-cache",
    "llama/dynamic-cache", "qwen2", "t5", "whisper", "vit", "clip", "resnet")
# What torch cannot export, by version: then there is nothing to judge.
NOT_EXPORTED = {}


def cases(version):
    if os.environ.get("REFX_PRODUCER_CASES") == "all":
        return [case for kind in hub_types.MOST_USED for case in (kind, *(f"{kind}/{form}" for form in hub_types.FORMS))]
    return [*hub_types.MOST_USED, *FORMS] if version == next(iter(producers.installed())) else list(OLDER)


@pytest.fixture(scope="module")
def records(request, tmp_path_factory):
    """records(version, case): what became of a case."""
    params = [item.callspec.params for item in request.session.items if item.module.__name__ == __name__]
    works = {}
    for version, source in producers.installed().items():
        wanted = [p["case"] for p in params if p["version"] == version]
        if wanted:
            folder = tmp_path_factory.mktemp(version)
            command = [HERE.parents[1] / "scripts/architectures.py", "--folder", folder, "--program", PROGRAM, "--jobs", "1",
                       "--only", ",".join(wanted)]
            works[version] = folder, producers.Work(command, source, folder / "log")

    def record(version, case):
        folder, work = works[version]

        def find():
            path = folder / "results.jsonl"
            lines = path.read_text().split("\n")[:-1] if path.exists() else []  # without one that is being written
            return next((r for r in map(json.loads, lines) if r["case"] == case), None)

        found = work.wait_for(find)
        assert found, (folder / "log").read_text()
        return found

    yield record
    for _, work in works.values():
        work.stop()


@pytest.mark.parametrize("version, case", [(version, case) for version in producers.installed() for case in cases(version)])
def test_files_load_agree_and_come_back(version, case, records):
    record = records(version, case)
    if "error" in record and (case in NOT_EXPORTED.get(version, ()) or os.environ.get("REFX_PRODUCER_CASES") == "all"):
        pytest.skip(f"torch does not export it: {record['error'][:100]}")
    assert "error" not in record, record["error"]
    assert record["transformers"] == version
    assert not record["problems"], "\n".join(record["problems"])
    assert record["difference"] <= 1 and record["verdict"] == "pass" and record["back"]
