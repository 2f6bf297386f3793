#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the wheel in the ways that users do, and uses it there, with the torch of .venv.
# usage: tests/wheel.sh WHEEL PYTHON-OF-VENV FOLDER
set -euo pipefail
wheel=$(readlink -f "$1") python=$(realpath -s "$2") folder=$3
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
base=$("$python" -c 'import sys; print(sys._base_executable)')
pip=("$python" -m pip -q --disable-pip-version-check --no-cache-dir)
rm -rf "$folder" && mkdir -p "$folder" && cd "$folder"
unset PYTHONPATH REFX_PROGRAM

fail() { echo "wheel: $*" >&2; exit 1; }

# Program and package in an environment: PROGRAM COMMAND...
works() {
  local program=$1; shift
  [[ $("$program" --version) == "refx "* ]] || fail "$program does not start"
  [[ $("$@" -m refx --version) == "refx "* ]] || fail "python -m refx does not start: $*"
  "$program" demo >demo.txt || fail "$program demo"
  "$@" - <<'PYTHON' || fail "import refx: $*"
import pathlib, refx, refx.fx, torch
assert (pathlib.Path(refx.__file__).parent / "_core.pyi").exists(), "no stubs"
model = refx.export(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval(), (torch.randn(2, 4),))
model.apply("fuse-bias-in-linear")
assert model.verify() and model.report("page.html") and pathlib.Path("page.html").stat().st_size > 10_000
model.reverse()
PYTHON
}

# ---- a virtual environment, torch in another folder
"$base" -m venv --without-pip own
site=$(own/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
for entry in "$packages"/*; do
  case ${entry##*/} in refx.pth | refx-* | pip | pip-*) ;; *) ln -s "$entry" "$site/" ;; esac
done
"${pip[@]}" --python own/bin/python install --no-deps --no-index "$wheel"
works own/bin/refx own/bin/python

# ---- the user's site-packages, torch in the system's
"$base" -m venv --without-pip --system-site-packages system
echo "$packages" >"$(system/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
export PYTHONUSERBASE=$PWD/user
"${pip[@]}" --python system/bin/python install --no-deps --no-index --no-warn-script-location --user "$wheel"
works user/bin/refx system/bin/python
"${pip[@]}" --python system/bin/python uninstall -y refx

# ---- the layout of Debian's Python packages, torch in another folder
"${pip[@]}" --python system/bin/python install --no-deps --no-index --ignore-installed --no-warn-script-location --prefix debian "$wheel"
mv "$(find debian -name site-packages)" debian/dist-packages
PYTHONPATH=$PWD/debian/dist-packages works debian/bin/refx system/bin/python

# ---- a torch that differs from the one it was built for
sed -i 's/^TORCH = .*/TORCH = "1.99.0"/' "$site/refx/_build.py"
for command in "own/bin/refx --version" "own/bin/python -c 'import refx'"; do
  if eval "$command" >said.txt 2>&1; then fail "$command works with another torch"; fi
  grep -q "was built for torch 1.99.0, but this is torch .*: install torch 1.99, or build refx again" said.txt ||
    fail "$command says: $(cat said.txt)"
done
echo "1 passed, 0 failed"
