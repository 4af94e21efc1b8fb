#!/usr/bin/env python3
"""Runs every program of `examples/` against a daemon and a folder, and checks what each wrote.

    python tests/clients/examples.py target/release/backdrop target/release/examples/cut_out
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from daemon import KEY, Daemon

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES, PHOTO = ROOT / "examples", ROOT / "tests" / "photos" / "astronaut.jpg"
PNG, JPEG, RIFF = b"\x89PNG", b"\xff\xd8\xff", b"RIFF"


def check(example, path, magic):
    head = path.read_bytes()[:4]
    assert head.startswith(magic), f"{example}: {path.name} begins with {head}"
    print(f"{example}: ok, {path.stat().st_size} bytes")


def main():
    binary, library = (Path(argument).resolve() for argument in sys.argv[1:])
    with tempfile.TemporaryDirectory() as name, Daemon(binary) as url:
        folder = Path(name)
        photos, cutouts, results = (folder / part for part in ("photos", "cutouts", "results"))
        photos.mkdir()
        for copy in ("one.jpg", "two.jpg"):
            shutil.copy(PHOTO, photos / copy)
        variables = os.environ | {"BACKDROP_URL": url, "BACKDROP_KEY": KEY, "BACKDROP": str(binary)}
        # Settings of whoever runs this must not reach the commands.
        for setting in [name for name in variables if name.startswith("BACKDROP_") and name not in ("BACKDROP_URL", "BACKDROP_KEY")]:
            del variables[setting]

        def run(*command):
            subprocess.run([str(part) for part in command], check=True, cwd=folder, env=variables, timeout=120)

        run(sys.executable, EXAMPLES / "cutout.py", PHOTO, folder / "cutout.png")
        check("cutout.py", folder / "cutout.png", PNG)
        run("node", EXAMPLES / "studio_shot.mjs", PHOTO, folder / "shot.jpg")
        check("studio_shot.mjs", folder / "shot.jpg", JPEG)
        run("bash", EXAMPLES / "folder.sh", photos, cutouts)
        for copy in ("one.webp", "two.webp"):
            check("folder.sh", cutouts / copy, RIFF)
        run("bash", EXAMPLES / "bulk.sh", photos.as_uri(), results.as_uri())
        for copy in ("one.png", "two.png"):
            check("bulk.sh", results / copy, PNG)
        run(library, PHOTO, folder / "library.png")
        check("cut_out.rs", folder / "library.png", PNG)
    print("5 passed, 0 failed")


if __name__ == "__main__":
    main()
