#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes the reference pages of the C++ library to build/reference/. A comment that Doxygen does not
# understand is an error.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p build/reference
# Doxygen warns that specializations of std::hash are not documented. That is intended.
warnings=$(doxygen docs/Doxyfile 2>&1 | grep -v 'scope for class std::hash' || true)
[[ -z $warnings ]] || { echo "$warnings" >&2; exit 1; }
echo "wrote build/reference/annotated.html"
