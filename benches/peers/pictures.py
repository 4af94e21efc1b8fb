"""Prepares the pictures: the same photo at several sizes, or the photos of a folder."""
from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from network import PHOTO, SIDE
from PIL import Image, ImageOps
from scipy.ndimage import binary_erosion

SIZES = ((512, 512), (1152, 864), (4000, 3000), (4096, 4096))
JPEG_QUALITY = 92
WEBP_QUALITY = 90
# Defaults of rembg's alpha matting.
FOREGROUND_THRESHOLD, BACKGROUND_THRESHOLD, ERODE_SIZE = 240, 10, 10


@dataclass(frozen=True)
class Picture:
    """A photo with the files that the stages start from, all in `folder`."""

    name: str
    folder: Path
    size: tuple[int, int]

    def file(self, name: str) -> Path:
        return self.folder / name

    @property
    def pixels(self) -> int:
        return self.size[0] * self.size[1]


def prepare(output: Path, photos: Path | None) -> list[Picture]:
    """Writes each picture as JPEG, PNG and WebP."""
    if photos is None:
        with Image.open(PHOTO) as photo:
            sources = [(f"{w}x{h}", ImageOps.fit(photo.convert("RGB"), (w, h), Image.Resampling.LANCZOS)) for w, h in SIZES]
    else:
        sources = []
        for path in sorted(photos.iterdir()):
            if path.suffix.lower() in (".jpg", ".jpeg", ".png", ".webp"):
                with Image.open(path) as photo:
                    sources.append((path.stem, ImageOps.exif_transpose(photo).convert("RGB")))
        if not sources:
            raise SystemExit(f"{photos}: no photo (.jpg, .png, .webp)")
    return [written(output / name, name, image) for name, image in sources]


def written(folder: Path, name: str, image: Image.Image) -> Picture:
    folder.mkdir(parents=True, exist_ok=True)
    image.save(folder / "photo.jpg", quality=JPEG_QUALITY)
    # All stages take the pixels of the JPEG.
    with Image.open(folder / "photo.jpg") as decoded:
        image = decoded.convert("RGB")
    image.save(folder / "photo.png", compress_level=1)
    image.save(folder / "photo.webp", quality=WEBP_QUALITY)
    # The network's input has the network's size, so that resampling is not part of the comparison.
    image.resize((SIDE, SIDE), Image.Resampling.BOX).save(folder / "network.png")
    return Picture(name, folder, image.size)


def write_trimap(picture: Picture, mask: np.ndarray) -> None:
    """The trimap that rembg's alpha matting makes of the network's mask."""
    grey = Image.fromarray((mask * 255).astype(np.uint8)).resize(picture.size, Image.Resampling.LANCZOS)
    values, structure = np.asarray(grey), np.ones((ERODE_SIZE, ERODE_SIZE), np.uint8)
    trimap = np.full(values.shape, 128, np.uint8)
    trimap[binary_erosion(values > FOREGROUND_THRESHOLD, structure=structure)] = 255
    trimap[binary_erosion(values < BACKGROUND_THRESHOLD, structure=structure, border_value=1)] = 0
    Image.fromarray(trimap).save(picture.file("trimap.png"), compress_level=1)


def write_cutout(picture: Picture, binary: Path) -> None:
    """The cutout that both sides encode, and its alpha."""
    cutout = picture.file("cutout.png")
    subprocess.run([binary, "remove", picture.file("photo.jpg"), "-o", cutout, "--device", "cpu", "--force"], check=True,
                   stdout=subprocess.DEVNULL)
    with Image.open(cutout) as image:
        image.getchannel("A").save(picture.file("alpha.png"), compress_level=1)
