# SPDX-License-Identifier: Apache-2.0
"""The versions of transformers that are installed, each of which exports models for the tests.

The newest is a package of the environment. scripts/setup.sh installs older ones into folders under .venv/producers;
REFX_PRODUCERS names further folders, separated by colons. An export runs in a process of its own, whose PYTHONPATH is
that folder.
"""

import importlib.metadata
import os
import pathlib
import subprocess
import sys
import time


def installed():
    """By version, newest first: the folder, or None for the package of the environment."""
    found = {}
    folders = [None, *sorted(pathlib.Path(sys.prefix).glob("producers/*"))]
    folders += [pathlib.Path(part) for part in os.environ.get("REFX_PRODUCERS", "").split(os.pathsep) if part]
    for folder in folders:
        options = {} if folder is None else {"path": [str(folder)]}
        for one in importlib.metadata.distributions(name="transformers", **options):
            found.setdefault(one.version, folder)
    return dict(sorted(found.items(), key=lambda item: [int(n) for n in item[0].split(".")[:2]], reverse=True))


def environment(folder):
    """For a process that exports with the transformers in this folder."""
    env = dict(os.environ, OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", PYTHONWARNINGS="ignore")
    if folder is not None:
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return env


class Work:
    """A process that writes files, one after another, while tests already look at the first ones."""

    def __init__(self, command, folder, log):
        self.log = log
        with log.open("w") as err:
            self.process = subprocess.Popen([sys.executable, *map(str, command)], stdout=err, stderr=err, env=environment(folder))

    def wait_for(self, found):
        """Returns what `found` returns as soon as that is true, or what it returns when the process has ended."""
        while not (result := found()) and self.process.poll() is None:
            time.sleep(0.1)
        return result or found()

    def stop(self):
        self.process.kill()
        self.process.wait()
