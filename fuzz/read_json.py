# SPDX-License-Identifier: Apache-2.0
"""What Python's json reads, in a form that can be compared byte by byte; see python_json.cpp."""

import json
import struct
import sys


def form(value):
    if isinstance(value, dict):
        items = ((key.encode("utf-8", "surrogatepass"), form(item)) for key, item in value.items())
        return b"{" + b"".join(b"%d:" % len(key) + key + item for key, item in items) + b"}"
    if isinstance(value, list):
        return b"[" + b"".join(map(form, value)) + b"]"
    if isinstance(value, str):
        text = value.encode("utf-8", "surrogatepass")
        return b"s%d:" % len(text) + text
    if isinstance(value, bool):
        return b"t" if value else b"f"
    if isinstance(value, int):
        return b"i%d " % value
    if isinstance(value, float):
        return b"d%d " % struct.unpack("<Q", struct.pack("<d", value))[0]
    return b"n"


def main():
    read, write = sys.stdin.buffer.read, sys.stdout.buffer.write
    while header := read(8):
        text = read(struct.unpack("<Q", header)[0])
        try:
            answer = form(json.loads(text))
        except (ValueError, RecursionError) as error:
            answer = b"refused: " + str(error).encode("utf-8", "replace")
        write(struct.pack("<Q", len(answer)) + answer)
        sys.stdout.buffer.flush()


main()
