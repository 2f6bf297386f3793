# SPDX-License-Identifier: Apache-2.0
"""Makes the package in build/python importable in the environment of this Python, as `pip install --editable` would.

    python scripts/link_package.py

Writes refx.pth and the metadata that `pip show`, `pip uninstall` and importlib.metadata read.
"""

import json
import re
import shutil
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INSTALLER = "refx-make"


def value(key, text):
    return re.search(rf'^{key} = "(.*)"', text, re.M)[1]


def main():
    site = Path(sysconfig.get_path("purelib"))
    for old in site.glob("refx-*.dist-info"):
        if (old / "INSTALLER").is_file() and (old / "INSTALLER").read_text().strip() == INSTALLER:
            shutil.rmtree(old)
    version = re.search(r"project\(refx VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    project = (ROOT / "pyproject.toml").read_text()
    info = f"refx-{version}.dist-info"
    files = {
        "refx.pth": f"{ROOT / 'build/python'}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.4\nName: refx\nVersion: {version}\n"
                            f"Summary: {value('description', project)}\nLicense-Expression: {value('license', project)}\n"
                            f"Requires-Python: {value('requires-python', project)}\nRequires-Dist: torch\n",
        f"{info}/INSTALLER": f"{INSTALLER}\n",
        f"{info}/direct_url.json": json.dumps({"url": ROOT.as_uri(), "dir_info": {"editable": True}}),
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    (site / info).mkdir(exist_ok=True)
    for name, text in files.items():
        (site / name).write_text(text)


if __name__ == "__main__":
    main()
