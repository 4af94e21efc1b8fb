"""Composes training samples: pictures with faces of all sizes, pasted onto pictures without faces.

The canvas begins as a crop of a picture without faces. Up to seven pictures are pasted, each rotated, mirrored, relit and
scaled so that one of its faces has a random size: uncropped, cropped around the face, or cut out along its mask. An owner
map records which picture is on top; a face's target depends on the visible share of its box.
"""
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
from data import pictures, read_mask, read_rgb, resize_to
from faces.boxes import MIRRORED, area

cv2.setNumThreads(0)

FACE_SCORE, IGNORE_SCORE = 0.7, 0.45       # YuNet's score: of a face; of a picture's best face, or it has none
VISIBLE_SHARE, OCCLUDED_SHARE = 0.5, 0.15  # visible share of a box: of a face; below the second background, between ignored
MIN_SIZE = 9.0                             # px; smaller faces are ignored regions
NOT_FACES = Path(__file__).parent / "not_faces.txt"
MAX_SCALE = 2.5        # maximum enlargement of a pasted picture


@dataclass
class Picture:
    levels: list[np.ndarray]          # uint8 RGB, each half the size of the one before
    faces: np.ndarray                 # [f, 15] left, top, right, bottom, 5 × (x, y), score; in pixels of levels[0]
    mask: np.ndarray | None = None    # uint8, the subject

    @property
    def size(self) -> tuple[int, int]:
        return self.levels[0].shape[1], self.levels[0].shape[0]


def pyramid(rgb: np.ndarray) -> list[np.ndarray]:
    levels = [rgb]
    while min(levels[-1].shape[:2]) >= 32 and len(levels) < 5:
        h, w = levels[-1].shape[:2]
        levels.append(cv2.resize(levels[-1], (w // 2, h // 2), interpolation=cv2.INTER_AREA))
    return levels


def false_face_stems(name: str) -> set[str]:
    """Stems of the set's pictures whose YuNet detections are not faces."""
    lines = NOT_FACES.read_text().splitlines() if name == "ecssd" else []
    return {word for line in lines if not line.startswith("#") for word in line.split()}


def read_labels(folder: Path, labels: Path) -> dict[str, list]:
    """The labels of a folder's pictures by file name, without those excluded by `not_faces.txt` or by low scores."""
    rows = json.loads((labels / f"{folder.name}.json").read_text())
    excluded = false_face_stems(folder.name)
    known = {n for n, v in rows.items() if Path(n).stem not in excluded and any(row[14] >= IGNORE_SCORE for row in v)}
    return {name: row if name in known else [] for name, row in rows.items()}


def read_folder(folder: Path, labels: Path, longest: int) -> list[Picture]:
    """The labelled pictures of a folder, with their masks if there are any."""
    rows = read_labels(folder, labels)
    inner = folder / "image"
    out = []
    for path in pictures(inner if inner.is_dir() else folder):
        if path.name not in rows:
            continue
        rgb = resize_to(read_rgb(path), longest)
        h, w = rgb.shape[:2]
        faces = np.array(rows[path.name], np.float32).reshape(-1, 15)
        faces[:, 2:4] += faces[:, :2]
        faces[:, :14] *= np.tile(np.array([w, h], np.float32), 7)
        file = folder / "mask" / f"{path.stem}.png"
        mask = cv2.resize(read_mask(file), (w, h), interpolation=cv2.INTER_AREA) if file.exists() else None
        out.append(Picture(pyramid(rgb), faces, mask))
    return out


class Library:
    """Pictures with faces, grouped by source, and pictures without faces."""

    def __init__(self, groups: dict[str, tuple[list[Picture], float]], repeats: dict[str, int] | None = None):
        """`repeats`: relative sampling weight of a source's pictures without faces, 1 by default."""
        self.face_groups, self.shares, self.faceless = [], [], []
        for name, (items, share) in groups.items():
            known = [p for p in items if usable(p).any()]
            if known and share > 0:
                self.face_groups.append(known)
                self.shares.append(share)
            self.faceless += [p for p in items if not len(p.faces)] * (repeats or {}).get(name, 1)
        self.edges = np.cumsum(np.array(self.shares) / sum(self.shares))

    def draw_with_face(self, rng: np.random.Generator) -> Picture:
        group = self.face_groups[min(int(np.searchsorted(self.edges, rng.random(), "right")), len(self.face_groups) - 1)]
        return group[int(rng.integers(len(group)))]

    def draw_without_face(self, rng: np.random.Generator) -> Picture:
        return self.faceless[int(rng.integers(len(self.faceless)))]


def usable(picture: Picture) -> np.ndarray:
    """Which faces may be the main face of a pasted picture: score of a face, 14 px or larger."""
    return (picture.faces[:, 14] >= FACE_SCORE) & (np.sqrt(area(picture.faces)) >= 14)


def similarity(scale: float, turn: float, flip: bool, at: tuple[float, float], to: tuple[float, float]) -> np.ndarray:
    """2×3 matrix that maps `at` to `to`: scaled, rotated by `turn` radians, mirrored first if `flip`."""
    c, s = scale * np.cos(turn), scale * np.sin(turn)
    linear = np.array([[c, -s], [s, c]]) @ np.diag([-1.0 if flip else 1.0, 1.0])
    return np.hstack([linear, (np.array(to) - linear @ np.array(at))[:, None]])


def transform_faces(faces: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Applies a similarity to faces: landmarks are mapped; boxes keep their proportions around the mapped centre."""
    out = faces.copy()
    linear, shift = matrix[:, :2], matrix[:, 2]
    scale = np.sqrt(abs(np.linalg.det(linear)))
    middle = (faces[:, :2] + faces[:, 2:4]) / 2 @ linear.T + shift
    half = (faces[:, 2:4] - faces[:, :2]) / 2 * scale
    out[:, :2], out[:, 2:4] = middle - half, middle + half
    points = faces[:, 4:14].reshape(-1, 5, 2) @ linear.T + shift
    if np.linalg.det(linear) < 0:
        points = points[:, MIRRORED]
    out[:, 4:14] = points.reshape(-1, 10)
    return out


class Canvas:
    def __init__(self, rgb: np.ndarray):
        self.rgb, self.side = rgb, rgb.shape[0]
        self.owner = np.full(rgb.shape[:2], -1, np.int8)
        self.faces = []  # (owner, faces) of each pasted picture

    def put(self, picture: Picture, matrix: np.ndarray, alpha: np.ndarray, gain: np.ndarray) -> None:
        """Pastes a picture with `alpha` [H, W] uint8 and the colour factors `gain` [3]."""
        scale = np.sqrt(abs(np.linalg.det(matrix[:, :2])))
        level = int(np.clip(np.floor(np.log2(1 / max(scale, 1e-6))), 0, len(picture.levels) - 1))
        small = picture.levels[level]
        ratio = np.array([small.shape[1], small.shape[0]]) / np.array(picture.size)
        to_canvas = matrix.copy()
        to_canvas[:, :2] /= ratio
        size = (self.side, self.side)
        warped = cv2.warpAffine(small, to_canvas, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        if level:
            alpha = cv2.resize(alpha, (small.shape[1], small.shape[0]), interpolation=cv2.INTER_AREA)
        cover = cv2.warpAffine(alpha, to_canvas, size, flags=cv2.INTER_LINEAR, borderValue=0)
        warped = np.clip(warped * gain.astype(np.float32), 0, 255).astype(np.uint8)
        share = cv2.merge([cover] * 3)
        self.rgb = cv2.add(cv2.multiply(warped, share, scale=1 / 255), cv2.multiply(self.rgb, 255 - share, scale=1 / 255))
        number = len(self.faces)
        self.owner[cover > 127] = number
        self.faces.append((number, transform_faces(picture.faces, matrix)))

    def cover(self, box: np.ndarray, patch: np.ndarray) -> None:
        x0, y0, x1, y1 = np.clip(np.round(box).astype(int), 0, self.side)
        if x1 > x0 and y1 > y0:
            self.rgb[y0:y1, x0:x1] = cv2.resize(patch, (x1 - x0, y1 - y0), interpolation=cv2.INTER_AREA)
            self.owner[y0:y1, x0:x1] = -1

    def targets(self) -> np.ndarray:
        """[f, 15], the last value 1 for a face and 0 for an ignored region."""
        rows = []
        for number, faces in self.faces:
            for face in faces:
                x0, y0, x1, y1 = np.clip(np.round(face[:4]).astype(int), 0, self.side)
                whole = float(area(face[None, :4])[0])
                visible = float((self.owner[y0:y1, x0:x1] == number).sum()) / max(1.0, whole)
                if visible < OCCLUDED_SHARE:
                    continue
                is_target = face[14] >= FACE_SCORE and visible >= VISIBLE_SHARE and whole >= MIN_SIZE**2
                rows.append(np.append(face[:14], float(is_target)))
        return np.array(rows, np.float32).reshape(-1, 15)


class Scenes:
    def __init__(self, library: Library):
        self.library = library

    def sample(self, rng: np.random.Generator, side: int) -> tuple[np.ndarray, np.ndarray]:
        """RGB uint8 [side, side, 3] and its targets [f, 15]."""
        canvas = Canvas(self.ground(rng, side))
        kind = rng.random()
        if kind < 0.2:
            for _ in range(int(rng.integers(0, 4))):
                self.paste_distractor(rng, canvas)
        elif kind < 0.5:
            self.paste_face(rng, canvas, rng.random() < 0.85, np.exp(rng.uniform(np.log(12), np.log(0.95 * side))))
        else:
            sizes = np.exp(rng.uniform(np.log(10), np.log(0.5 * side), int(rng.integers(3, 8))))
            for size in np.sort(sizes)[::-1]:
                self.paste_face(rng, canvas, False, size)
                if rng.random() < 0.15:
                    self.paste_distractor(rng, canvas)
        self.occlude(rng, canvas)
        return degrade(rng, canvas.rgb), canvas.targets()

    def ground(self, rng: np.random.Generator, side: int) -> np.ndarray:
        if rng.random() < 0.12:
            color = np.full(3, 128.0) if rng.random() < 0.5 else rng.uniform(0, 255, 3)
            return np.broadcast_to(color.astype(np.uint8), (side, side, 3)).copy()
        picture = self.library.draw_without_face(rng)
        rgb = picture.levels[int(rng.integers(min(2, len(picture.levels))))]
        h, w = rgb.shape[:2]
        cut = int(min(h, w) * rng.uniform(0.5, 1.0))
        y, x = int(rng.integers(h - cut + 1)), int(rng.integers(w - cut + 1))
        interpolation = cv2.INTER_AREA if cut > side else cv2.INTER_LINEAR
        rgb = cv2.resize(rgb[y : y + cut, x : x + cut], (side, side), interpolation=interpolation)
        return np.ascontiguousarray(rgb[:, ::-1]) if rng.random() < 0.5 else rgb

    def paste_face(self, rng: np.random.Generator, canvas: Canvas, whole: bool, size: float) -> None:
        picture = self.library.draw_with_face(rng)
        known = np.flatnonzero(usable(picture))
        face = picture.faces[known[int(rng.integers(len(known)))]]
        scale = min(size / float(np.sqrt(area(face[None])[0])), MAX_SCALE)
        size = scale * float(np.sqrt(area(face[None])[0]))
        turn = np.deg2rad(np.clip(rng.normal(0, 10), -35, 35) if rng.random() < 0.6 else rng.uniform(-35, 35))
        middle = (face[:2] + face[2:4]) / 2
        low = min(0.1 * size, canvas.side / 2) if rng.random() < 0.2 else min(0.55 * size, canvas.side / 2)
        to = rng.uniform(low, canvas.side - low, 2)
        matrix = similarity(scale, turn, rng.random() < 0.5, tuple(middle), tuple(to))
        w, h = picture.size
        alpha = np.full((h, w), 255, np.uint8)
        if not whole:
            if picture.mask is not None and rng.random() < 0.4:
                alpha = cv2.GaussianBlur(picture.mask, (0, 0), 0.7)
            around = (face[2:4] - face[:2]) * rng.uniform(0.6, 2.5, (2, 2)) * np.array([[1], [1.3]])
            x0, y0 = np.clip(middle - around[0], 0, [w, h]).astype(int)
            x1, y1 = np.clip(middle + around[1], 0, [w, h]).astype(int)
            framed = np.zeros_like(alpha)
            framed[y0:y1, x0:x1] = alpha[y0:y1, x0:x1]
            alpha = framed
        canvas.put(picture, matrix, alpha, random_gain(rng))

    def paste_distractor(self, rng: np.random.Generator, canvas: Canvas) -> None:
        picture = self.library.draw_without_face(rng)
        w, h = picture.size
        scale = canvas.side * rng.uniform(0.15, 0.9) / max(w, h)
        to = rng.uniform(0, canvas.side, 2)
        matrix = similarity(scale, np.deg2rad(rng.uniform(-35, 35)), rng.random() < 0.5, (w / 2, h / 2), tuple(to))
        cut = picture.mask is not None and rng.random() < 0.5
        canvas.put(picture, matrix, picture.mask if cut else np.full((h, w), 255, np.uint8), random_gain(rng))

    def occlude(self, rng: np.random.Generator, canvas: Canvas) -> None:
        """Covers a part of some faces with a patch of a picture without faces."""
        for _, faces in list(canvas.faces):
            if not len(faces) or rng.random() > 0.15:
                continue
            box = faces[int(rng.integers(len(faces))), :4]
            sides = (box[2:] - box[:2]) * rng.uniform(0.15, 0.6, 2)
            corner = box[:2] + rng.uniform(-0.2, 1.0, 2) * (box[2:] - box[:2])
            patch = self.library.draw_without_face(rng).levels[-1]
            canvas.cover(np.concatenate([corner, corner + sides]), patch)


def random_gain(rng: np.random.Generator) -> np.ndarray:
    return np.exp(rng.normal(0, 0.15)) * np.exp(rng.normal(0, 0.05, 3))


def degrade(rng: np.random.Generator, rgb: np.ndarray) -> np.ndarray:
    """Random exposure, contrast, gamma, white balance, saturation or grey, blur, noise, JPEG."""
    curve = (np.arange(256, dtype=np.float32) / 255) ** np.exp(rng.normal(0, 0.25))
    curve = (curve - 0.5) * np.exp(rng.normal(0, 0.2)) + 0.5 + rng.normal(0, 0.06)
    table = curve[:, None] * np.exp(rng.normal(0, 0.06, 3)).astype(np.float32)
    rgb = cv2.LUT(rgb, np.clip(table * 255, 0, 255).astype(np.uint8)[None])
    draw = rng.random()
    if draw < 0.35:
        grey = cv2.cvtColor(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
        keep = 0.0 if draw < 0.12 else float(rng.uniform(0.2, 1.6))
        rgb = cv2.addWeighted(rgb, keep, grey, 1 - keep, 0)
    if rng.random() < 0.2:
        rgb = cv2.GaussianBlur(rgb, (0, 0), float(rng.uniform(0.4, 1.6)))
    if rng.random() < 0.2:
        noise = rng.standard_normal((*rgb.shape[:2], 1), np.float32) * rng.uniform(2, 12)
        rgb = np.clip(rgb + noise, 0, 255).astype(np.uint8)
    if rng.random() < 0.4:
        _, data = cv2.imencode(".jpg", rgb, [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(25, 96))])
        rgb = cv2.imdecode(data, cv2.IMREAD_COLOR)
    return rgb
