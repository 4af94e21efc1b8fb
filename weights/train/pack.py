#!/usr/bin/env python3
"""Packs reduced training data into a tar file of at most 64 MiB, for training on another machine.

    pack.py --data ../shared/data --data SETS --taught TAUGHT --out data.tar [--side 320] [--quality 70]
    tar xf data.tar -C DATA && train.py --data DATA --taught DATA/taught ...

Pictures become WebP of at most `--side`, masks PNG of 32 levels. Only the folders of the mix are included.
"""
import argparse
import io
import tarfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from PIL import Image

LIMIT = 64 << 20
LEVELS = 31


def shrunk(image: Image.Image, side: int, resampling) -> Image.Image:
    scale = side / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image if scale >= 1 else image.resize(size, resampling)


def packed(path: Path, inside: str, side: int, quality: int) -> tuple[str, bytes]:
    image, out = Image.open(path), io.BytesIO()
    if image.mode == "L" and path.suffix == ".png":
        small = shrunk(image, side, Image.Resampling.BOX)
        small.point(lambda v: round(v / 255 * LEVELS) * 255 // LEVELS).save(out, "PNG", optimize=True)
        return str(Path(inside).with_suffix(".png")), out.getvalue()
    image = image.convert("RGBA" if image.mode == "RGBA" else "RGB")
    shrunk(image, side, Image.Resampling.LANCZOS).save(out, "WEBP", quality=quality, method=4)
    return str(Path(inside).with_suffix(".webp")), out.getvalue()


def files(mix: dict, roots: list[Path], taught: Path | None):
    """Yields (file, name in the archive) of all files of the mix."""
    for source in [*mix.get("photos", []), *mix.get("cutouts", []), *mix.get("backgrounds", [])]:
        folder = next((r / source["folder"] for r in roots if (r / source["folder"]).is_dir()), None)
        if folder is None:
            continue
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            yield path, f"{source['folder']}/{path.relative_to(folder)}"
        for path in sorted((taught / source["name"]).glob("*.png")) if taught else ():
            yield path, f"taught/{source['name']}/{path.name}"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", type=Path, action="append", required=True)
    p.add_argument("--taught", type=Path)
    p.add_argument("--mix", type=Path, default=Path(__file__).parent / "mix.toml")
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--side", type=int, default=320)
    p.add_argument("--quality", type=int, default=70)
    a = p.parse_args()
    todo = list(files(tomllib.loads(a.mix.read_text()), a.data, a.taught))
    with tarfile.open(a.out, "w") as archive, ThreadPoolExecutor(2) as pool:
        for name, data in pool.map(lambda f: packed(*f, a.side, a.quality), todo):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    size = a.out.stat().st_size
    print(f"{len(todo)} files, {size / 2**20:.1f} MiB" + (", above the limit of 64 MiB" if size > LIMIT else ""))


if __name__ == "__main__":
    main()
