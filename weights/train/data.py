"""Finds the training data named in `mix.toml`: photos with masks, read for each sample; RGBA cut-outs and backgrounds, in memory.

`mix.toml` lists the folders, their kinds and sampling weights. Each folder is searched in all `--data` roots in order:
to add a set, add a root and an entry of the mix.
"""
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np

cv2.setNumThreads(0)  # each worker is a process

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
MAX_SIDE = 512       # pixels of labelled photos on disk
CUTOUT_SIDE = 416    # pixels of RGBA cut-outs, which stay in memory
MIN_AGREEMENT = 0.8  # minimum IoU of a teacher's mask with the hand-made one; others are not used
UNCERTAIN = 0.15     # a teacher's mask from this to 1 minus this is uncertain …
UNCERTAIN_WIDTH = 7  # … and not only an edge where it is this many pixels wide


@dataclass
class Photo:
    rgb: np.ndarray                         # uint8
    mask: np.ndarray                        # uint8
    teacher_mask: np.ndarray | None = None  # uint8, the teacher's mask, at the teacher's resolution
    valid: np.ndarray | None = None         # uint8, 255 where the mask is valid, else 0; None if all is valid

    def read(self) -> "Photo":
        return self


@dataclass(frozen=True)
class PhotoFile:
    """A photo's files. They are decoded for each sample: 9000 decoded photos of 512 px would take 7 GB."""
    path: Path
    mask_path: Path
    taught: Path | None = None   # folder of the teacher's masks
    by_teachers: bool = False    # wide grey regions of the mask are invalid
    void: int | None = None      # value of the mask's invalid pixels

    def read(self) -> Photo:
        rgb, raw = resize_to(read_rgb(self.path), MAX_SIDE), read_mask(self.mask_path)
        mask = cv2.resize(raw, rgb.shape[1::-1], interpolation=cv2.INTER_AREA)
        file = self.taught / f"{self.path.stem}.png" if self.taught else None
        soft = read_mask(file) if file and file.exists() else None
        if soft is not None and not agrees(mask, soft):
            soft = None
        valid = valid_mask(mask) if self.by_teachers else None
        if self.void is not None:
            certain = np.where(raw == self.void, 0, 255).astype(np.uint8)
            valid = np.where(cv2.resize(certain, rgb.shape[1::-1], interpolation=cv2.INTER_AREA) == 255, 255, 0).astype(np.uint8)
        return Photo(rgb, mask, soft, valid)


@dataclass
class Source:
    name: str
    items: list
    share: float
    options: dict = field(default_factory=dict)


class WeightedSources:
    """Draws a source with a probability proportional to its share, then one of its items uniformly."""

    def __init__(self, sources: list[Source], share: str = "share"):
        value = (lambda s: s.share) if share == "share" else (lambda s: s.options.get(share, 0.0))
        self.sources = [s for s in sources if s.items and value(s) > 0]
        weights = np.array([value(s) for s in self.sources], np.float64)
        self.edges = np.cumsum(weights / weights.sum()) if len(weights) else weights

    def draw(self, rng: np.random.Generator):
        source = self.sources[min(int(np.searchsorted(self.edges, rng.random(), "right")), len(self.sources) - 1)]
        return source, source.items[int(rng.integers(len(source.items)))]

    def __bool__(self) -> bool:
        return bool(self.sources)


def read_rgb(path) -> np.ndarray:
    return np.ascontiguousarray(cv2.imread(str(path), cv2.IMREAD_COLOR)[:, :, ::-1])


def read_mask(path) -> np.ndarray:
    return cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)


def resize_to(a: np.ndarray, longest: int) -> np.ndarray:
    """Reduces to the longest side; never enlarges."""
    h, w = a.shape[:2]
    scale = longest / max(h, w)
    if scale >= 1:
        return a
    return cv2.resize(a, (max(1, round(w * scale)), max(1, round(h * scale))), interpolation=cv2.INTER_AREA)


def pictures(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in IMAGE_SUFFIXES)


def find_folder(folder: str, roots: list[Path]) -> Path | None:
    """The folder in the first root that has it."""
    return next((root / folder for root in roots if (root / folder).is_dir()), None)


def masked_pairs(folder: Path):
    """(picture, mask) paths of a set: `image/x.jpg` and `mask/x.png`."""
    for path in pictures(folder / "image"):
        mask = folder / "mask" / f"{path.stem}.png"
        if mask.exists():
            yield path, mask


def agrees(mask: np.ndarray, teacher_mask: np.ndarray) -> bool:
    small = cv2.resize(mask, teacher_mask.shape[::-1], interpolation=cv2.INTER_AREA) > 127
    other = teacher_mask > 127
    return (small & other).sum() >= MIN_AGREEMENT * (small | other).sum()


def valid_mask(mask: np.ndarray) -> np.ndarray | None:
    """255 where the mean of the teachers' masks is valid, 0 in wide regions where they disagree; None if all is valid.

    Such regions are near a half in the mean; trained on, they would produce half-transparent subjects.
    """
    uncertain = ((mask > 255 * UNCERTAIN) & (mask < 255 * (1 - UNCERTAIN))).astype(np.uint8)
    round_patch = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (UNCERTAIN_WIDTH, UNCERTAIN_WIDTH))
    wide = cv2.morphologyEx(uncertain, cv2.MORPH_OPEN, round_patch)
    return 255 - 255 * cv2.dilate(wide, np.ones((5, 5), np.uint8)) if wide.any() else None


def load_cutouts(folder: Path, longest: int = CUTOUT_SIDE, tighten: float = 0.0) -> list[np.ndarray]:
    """RGBA files as premultiplied uint8 RGBA, cropped to the subject.

    `tighten` is subtracted from alpha, which is then rescaled to 0..1: for renders whose alpha includes a shadow.
    """
    cutouts = []
    for path in pictures(folder):
        bgra = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
        if bgra is None or bgra.ndim != 3 or bgra.shape[2] != 4:
            continue
        bgra = resize_to(premultiplied(bgra.astype(np.float32), tighten), longest)
        rows, columns = np.where(bgra[..., 3] > 8)
        if len(rows) < 50:
            continue
        bgra = bgra[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        cutouts.append(np.ascontiguousarray(np.clip(bgra[..., [2, 1, 0, 3]], 0, 255).round().astype(np.uint8)))
    return cutouts


def premultiplied(bgra: np.ndarray, tighten: float) -> np.ndarray:
    alpha = np.clip((bgra[..., 3:] / 255 - tighten) / (1 - tighten), 0, 1)
    return np.concatenate([bgra[..., :3] * alpha, alpha * 255], axis=2)


class Sources:
    def __init__(self, mix: dict, roots: list[Path], taught: Path | None):
        self.mix, self.roots = mix, roots
        self.photos = [
            Source(s["name"], [PhotoFile(*pair, taught / s["name"] if taught else None, s.get("by_teachers", False), s.get("void"))
                               for pair in masked_pairs(f)], s["share"], s)
            for s, f in self._folders("photos")
        ]
        self.cutouts = [
            Source(s["name"], load_cutouts(f, tighten=s.get("tighten", 0.0)), s["share"], s)
            for s, f in self._folders("cutouts")
        ]
        self.backgrounds = [
            Source(s["name"], [resize_to(read_rgb(p), MAX_SIDE) for p in pictures(f)], s["share"], s)
            for s, f in self._folders("backgrounds")
        ]

    def _folders(self, kind: str):
        for source in self.mix.get(kind, []):
            root_folder = find_folder(source["folder"], self.roots)
            if root_folder is None:
                if not source.get("optional"):
                    raise SystemExit(f"{source['folder']}: not under any --data root, and not optional in the mix")
                continue
            yield source, root_folder

    def summary(self) -> str:
        groups = [*self.photos, *self.cutouts, *self.backgrounds]
        return ", ".join(f"{s.name} {len(s.items)}" for s in groups)


def load_mix(path: Path, changes: list[str]) -> dict:
    """The mix with the changes of `--set`, such as `kinds.solid=0`, applied."""
    mix = tomllib.loads(path.read_text())
    for change in changes:
        name, value = change.split("=")
        *tables, key = name.split(".")
        table = mix
        for t in tables:
            table = table[t]
        if key not in table:
            raise SystemExit(f"--set {change}: the mix has no such value")
        table[key] = float(value)
    return mix
