#!/usr/bin/env python3
"""Lists the photos of training sets with their hashes, for `runs/<name>/photos.txt`, which identify data that is not in the repository.

    photo_list.py SET=SOURCE...

SOURCE is the folder of a collection, SET the folder with what `pick.py`, `voc_scenes.py` or `coco_people.py` took from it. One line for each
photo of SET: name of the set, class folder and file in the collection, and the first 16 digits of the file's SHA-256.
"""
import hashlib
import sys
from pathlib import Path

from teach import pictures


def lines(selected: Path, source: Path) -> list[str]:
    """The photos of `source` that `selected` has under their own name or under `pick.py`'s."""
    stems = {path.stem for path in pictures(selected)}
    listed = []
    for path in pictures(source):
        picked = f"{path.parent.name.replace(' ', '_')}__{path.stem}"
        if stems & {path.stem, picked}:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
            listed.append(f"{selected.name} {path.parent.name}/{path.name} {digest}")
    return listed


def main() -> None:
    for pair in sys.argv[1:]:
        selected, source = map(Path, pair.split("=", 1))
        print("\n".join(lines(selected, source)))


if __name__ == "__main__":
    main()
