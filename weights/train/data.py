"""The sources, read once into memory.

A `mix.toml` says which folders there are, what each is, and how often each is drawn. Folders are looked up under every
`--data` root in turn, so that a set of one's own is one more root and three more lines of the mix.
"""
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np

cv2.setNumThreads(0)  # every worker is one process already

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
LONGEST = 512         # kept in memory; more than the network ever sees of a picture's side
AGREE = 0.8           # least IoU of a teacher's mask with the human one, for the teacher to be heard
DOUBT = 0.15          # a teacher's mask between this and 1 minus this is doubt …
DOUBT_WIDTH = 7       # … and no mere edge where it is so many pixels wide


@dataclass
class Photo:
    rgb: np.ndarray                       # uint8
    mask: np.ndarray                      # uint8
    taught: np.ndarray | None = None      # uint8, the teacher's mask, at its own size
    sure: np.ndarray | None = None        # uint8, 0 where the mask says nothing and 255 elsewhere; None if it is so everywhere


@dataclass
class Source:
    name: str
    items: list
    share: float
    options: dict = field(default_factory=dict)


class Shares:
    """Draws a source by its share, then one of its items."""

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
    """Shrinks to the longest side; never enlarges."""
    h, w = a.shape[:2]
    scale = longest / max(h, w)
    if scale >= 1:
        return a
    return cv2.resize(a, (max(1, round(w * scale)), max(1, round(h * scale))), interpolation=cv2.INTER_AREA)


def pictures(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in IMAGE_SUFFIXES)


def masked_pairs(folder: Path):
    """(picture, mask) paths of a set: `image/x.jpg` and `mask/x.png`."""
    for path in pictures(folder / "image"):
        mask = folder / "mask" / f"{path.stem}.png"
        if mask.exists():
            yield path, mask


def agrees(mask: np.ndarray, taught: np.ndarray) -> bool:
    small = cv2.resize(mask, taught.shape[::-1], interpolation=cv2.INTER_AREA) > 127
    other = taught > 127
    return (small & other).sum() >= AGREE * (small | other).sum()


def sure_parts(mask: np.ndarray) -> np.ndarray | None:
    """Where the mask that teachers made is no compromise: not the patches that one took along and the other left away.

    Learned as they are, at about a half, they teach half transparent subjects.
    """
    doubt = ((mask > 255 * DOUBT) & (mask < 255 * (1 - DOUBT))).astype(np.uint8)
    round_patch = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (DOUBT_WIDTH, DOUBT_WIDTH))
    wide = cv2.morphologyEx(doubt, cv2.MORPH_OPEN, round_patch)
    return 255 - 255 * cv2.dilate(wide, np.ones((5, 5), np.uint8)) if wide.any() else None


def load_photos(folder: Path, taught: Path | None, by_teachers: bool, longest: int = LONGEST) -> list[Photo]:
    photos = []
    for path, mask_path in masked_pairs(folder):
        rgb = resize_to(read_rgb(path), longest)
        mask = cv2.resize(read_mask(mask_path), rgb.shape[1::-1], interpolation=cv2.INTER_AREA)
        file = taught / f"{path.stem}.png" if taught else None
        soft = read_mask(file) if file and file.exists() else None
        if soft is not None and not agrees(mask, soft):
            soft = None
        photos.append(Photo(rgb, mask, soft, sure_parts(mask) if by_teachers else None))
    return photos


def load_cutouts(folder: Path, longest: int = LONGEST, tighten: float = 0.0) -> list[np.ndarray]:
    """RGBA files as premultiplied uint8 RGBA, cropped to the subject.

    `tighten` takes so much alpha off everything (and stretches the rest), for renders whose alpha has a shadow in it.
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
            Source(s["name"], load_photos(f, taught / s["name"] if taught else None, s.get("by_teachers", False)), s["share"], s)
            for s, f in self._folders("photos")
        ]
        self.cutouts = [
            Source(s["name"], load_cutouts(f, tighten=s.get("tighten", 0.0)), s["share"], s)
            for s, f in self._folders("cutouts")
        ]
        self.backgrounds = [
            Source(s["name"], [resize_to(read_rgb(p), LONGEST) for p in pictures(f)], s["share"], s)
            for s, f in self._folders("backgrounds")
        ]

    def _folders(self, kind: str):
        for source in self.mix.get(kind, []):
            found = next((r / source["folder"] for r in self.roots if (r / source["folder"]).is_dir()), None)
            if found is None:
                if not source.get("optional"):
                    raise SystemExit(f"{source['folder']}: not under any --data root, and not optional in the mix")
                continue
            yield source, found

    def summary(self) -> str:
        groups = [*self.photos, *self.cutouts, *self.backgrounds]
        return ", ".join(f"{s.name} {len(s.items)}" for s in groups)


def load_mix(path: Path, changes: list[str]) -> dict:
    """The mix, with `--set kinds.solid=0` and the like applied."""
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
