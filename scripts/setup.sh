#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the build and the tests need: Debian packages (Node.js among them, if there is none),
# a .venv with torch, and an older transformers in .venv/producers. Running it again is cheap and changes
# nothing. PYTHON chooses the interpreter of the .venv, TORCH another version of torch. Arguments name
# further packages. With --program as the first argument, it installs only what the program needs: a compiler,
# the libraries, torch.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ cmake ninja-build ccache libcli11-dev libsimdjson-dev libxxhash-dev libdeflate-dev)
python=${PYTHON:-python3}
all=.venv/.refx-requirements # a copy of the requirements that were installed
changed=

requirements() { sed "${TORCH:+s/^torch==.*/torch==$TORCH/}" requirements-dev.txt; }
fail() { echo "setup: $*" >&2; exit 1; }

if [[ ${1-} == --program ]]; then
  shift
  wanted() { requirements | grep -E '^(torch|numpy)\b'; }
  stamp=.venv/.refx-torch what="torch: 0.8 GB on disk"
else
  packages+=(mold libgtest-dev libbenchmark-dev librapidcheck-dev libzip-dev strace
             chromium doxygen pkgconf groff-base zsh fish)
  # Only if there is no Node.js yet; one that Debian did not package is good enough.
  command -v node >/dev/null || packages+=(nodejs)
  command -v npm >/dev/null || packages+=(npm)
  wanted() { requirements; }
  stamp=$all what="requirements-dev.txt: 1.3 GB on disk"
fi
packages+=("$@")

# ---- Debian packages

venv_done() { wanted | cmp -s - "$stamp" || requirements | cmp -s - "$all"; }
if ! venv_done && ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
  packages+=(python3-venv)
fi

if command -v dpkg-query >/dev/null; then
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
  missing=()
  for p in "${packages[@]}"; do
    grep -qxF "installed $p" <<<"$installed" || missing+=("$p")
  done
  if ((${#missing[@]})); then
    sudo=()
    if ((EUID)); then
      sudo=(sudo -n)
      "${sudo[@]}" true 2>/dev/null || fail "please install these packages: ${missing[*]}"
    fi
    echo "setup: installing ${missing[*]}"
    apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
    log=$(mktemp)
    { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } \
      >"$log" 2>&1 || { cat "$log" >&2; fail "could not install: ${missing[*]} (log in $log)"; }
    rm -f "$log"
    changed=yes
  fi
elif ! venv_done; then
  echo "setup: not a Debian system; the build needs the equivalents of: ${packages[*]}"
fi

# ---- Python environment

if ! venv_done; then
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
    fail "needs Python 3.10 or newer as $python (or set PYTHON)"
  if ! .venv/bin/python -c '' 2>/dev/null; then
    echo "setup: creating .venv"
    "$python" -m venv --clear .venv
  fi
  echo "setup: installing into .venv $what, a minute or two"
  .venv/bin/python -m pip install -qq --disable-pip-version-check -r <(wanted)
  wanted >"$stamp"
  changed=yes
fi
[[ $stamp == "$all" ]] || exit 0

# ---- Older versions of transformers: a folder for each, which a test puts on PYTHONPATH

for list in requirements-transformers-*.txt; do
  folder=.venv/producers/${list#requirements-}
  folder=${folder%.txt}
  cmp -s "$list" "$folder/.refx-requirements" && continue
  echo "setup: installing $list into $folder: 70 MB"
  rm -rf "$folder"
  .venv/bin/python -m pip install -qq --disable-pip-version-check --no-deps --target "$folder" -r "$list"
  cp "$list" "$folder/.refx-requirements"
done

# ---- Configure again, because an earlier configuration did not find these packages

if [[ $changed ]]; then
  for folder in build build-*; do
    [[ ! -f $folder/CMakeCache.txt ]] || cmake "$folder" >/dev/null
  done
fi
