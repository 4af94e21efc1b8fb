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


def check_folder(photos, folder, variables):
    """Names that curl's forms would split or that are equal in two folders, and a photo that fails."""
    names = ["a/one.jpg", "b/one.jpg", "b/one.JPEG", 'b/x;type=a,"b"\\ {}.jpg']
    source, cutouts = folder / "photos", folder / "cutouts"
    for name in names:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(photos / "one.jpg", source / name)
    (source / "broken.jpg").write_text("no photo")
    ended = subprocess.run(["bash", EXAMPLES / "folder.sh", source, cutouts], env=variables, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1 and f"failed: {source}/broken.jpg" in ended.stderr and "unsupported_media_type" in ended.stderr, ended
    assert f"{len(names)} cutouts" in ended.stdout, ended
    written = sorted(str(path.relative_to(cutouts)) for path in cutouts.rglob("*") if path.is_file())
    assert written == sorted(f"{name}.webp" for name in names), written
    for name in names:
        check("folder.sh", cutouts / f"{name}.webp", RIFF)


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
        for copy in ("one.jpg.webp", "two.jpg.webp"):
            check("folder.sh", cutouts / copy, RIFF)
        check_folder(photos, folder / "odd", variables)
        run("bash", EXAMPLES / "bulk.sh", photos.as_uri(), results.as_uri())
        for copy in ("one.png", "two.png"):
            check("bulk.sh", results / copy, PNG)
        run(library, PHOTO, folder / "library.png")
        check("cut_out.rs", folder / "library.png", PNG)
    print("5 passed, 0 failed")


if __name__ == "__main__":
    main()
