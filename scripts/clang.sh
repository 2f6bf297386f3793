#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the newest clang++ (16 or later) that has libFuzzer; fails if there is none.
for version in {30..16}; do
  clang=$(command -v "clang++-$version") || continue
  if echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
      "$clang" -x c++ - -fsanitize=fuzzer,address -o /dev/null 2>/dev/null; then
    echo "$clang"
    exit
  fi
done
exit 1
