# SPDX-License-Identifier: Apache-2.0
"""Reading and rewriting `.pt2` archives record by record."""

import hashlib
import json
import zipfile


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def read(path):
    """The root folder, and name -> bytes of every record in order."""
    with zipfile.ZipFile(path) as zip:
        names = zip.namelist()
        root = names[0].split("/")[0]
        return root, {name[len(root) + 1 :]: zip.read(name) for name in names}


def write(path, root, records):
    """Stored, and aligned to 64 bytes as PyTorch does. `records` is a dict, or pairs if names repeat."""
    pairs = records.items() if isinstance(records, dict) else records
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as zip:
        for name, data in pairs:
            info = zipfile.ZipInfo(f"{root}/{name}")
            start = zip.fp.tell() + 30 + len(info.filename.encode()) + 4
            padding = -start % 64
            info.extra = b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
            zip.writestr(info, data)
    return path


def rewritten(source, target, change):
    """A copy of `source` in which `change(records)` was made."""
    root, records = read(source)
    records = change(records) or records
    return write(target, root, records)


def with_json(source, target, change, record="models/model.json"):
    """A copy of `source` with a changed JSON record."""

    def edit(records):
        value = json.loads(records[record])
        text = change(value)
        records[record] = text if isinstance(text, bytes) else json.dumps(value if text is None else text).encode()

    return rewritten(source, target, edit)
