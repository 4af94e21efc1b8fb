#!/usr/bin/env python3
"""Measures a network against YuNet: faces found, false ones, landmarks; upright and turned, at one size or two.

    python -m faces.measure WEIGHTS --eval ../shared/data/eval --labels LABELS_EVAL [--sheet FILE] [--json FILE]

WEIGHTS are a checkpoint or an exported file; LABELS_EVAL comes from `label.py`. The truth is what YuNet scores 0.8 or
more and whose longer side is over 40 px in the picture; found is what a detection overlaps with an IoU of 0.5 or more.
False is a detection that overlaps nothing that YuNet scores 0.5 or more by 0.4, whatever its size: YuNet misses faces,
so look at them (`--sheet`). Animals that YuNet takes for people (`nobody.txt`) are no truth, and finding one is false.
"""
import argparse
import json
import sys
from pathlib import Path

import cv2
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
from data import pictures, read_rgb, resize_to
from faces.boxes import iou
from faces.detect import SIDE, detect, detect_near, detect_twice
from faces.export import load, threshold
from faces.scenes import moved, nobody, similarity
from faces.train import HELD_OUT

SETS = ("ecssd", "ccp", "matting", "product_real", "product_composite", "product_white_iconic")
TURNS = (0, -15, 15, -30, 30, 180)  # degrees
SURE, MAYBE = 0.8, 0.5              # YuNet's scores: truth from the first, not false from the second
SMALLEST = 40                       # px; of a face's longer side in the picture, to be asked for
FOUND, TOUCHED = 0.5, 0.4           # IoU
LONGEST = 1024                      # px; what is kept of a picture
LARGE = 400                         # px; longest side from which two sizes are tried
WAYS = {"320, then near": detect_near, "320": detect, "320 and 640": detect_twice}
THRESHOLDS = (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75)


def truth(rows: list, size: tuple[int, int]) -> np.ndarray:
    """Label rows as [f, 15] in pixels with right and bottom edges."""
    faces = np.array(rows, np.float32).reshape(-1, 15)
    faces[:, 2:4] += faces[:, :2]
    faces[:, :14] *= np.tile(np.array(size, np.float32), 7)
    return faces


def turned(rgb: np.ndarray, faces: np.ndarray, degrees: float) -> tuple[np.ndarray, np.ndarray]:
    """Picture and faces turned about the middle, on a mid-grey ground that holds all of it."""
    if degrees == 0:
        return rgb, faces
    h, w = rgb.shape[:2]
    c, s = abs(np.cos(np.deg2rad(degrees))), abs(np.sin(np.deg2rad(degrees)))
    size = (round(w * c + h * s), round(w * s + h * c))
    matrix = similarity(1.0, np.deg2rad(degrees), False, (w / 2, h / 2), (size[0] / 2, size[1] / 2))
    out = cv2.warpAffine(rgb, matrix, size, flags=cv2.INTER_CUBIC, borderValue=(128, 128, 128))
    return out, moved(faces, matrix)


def wanted(faces: np.ndarray, smallest: float) -> np.ndarray:
    return (faces[:, 14] >= SURE) & ((faces[:, 2:4] - faces[:, :2]).max(1, initial=0) > smallest)


def compare(found: np.ndarray, faces: np.ndarray, smallest: float = SMALLEST) -> dict:
    """`found` are the detections that count."""
    true = faces[wanted(faces, smallest)]
    out = {"truth": len(true), "found": 0, "iou": [], "points": [], "missed": [],
           "detections": len(found), "false": list(found)}
    if len(found) and len(faces):
        touches = (iou(found[:, :4], faces[faces[:, 14] >= MAYBE, :4]) >= TOUCHED).any(1)
        out["false"] = list(found[~touches])
    for face in true:
        overlap = iou(face[None, :4], found[:, :4])[0] if len(found) else np.zeros(0)
        if not (overlap >= FOUND).any():
            out["missed"].append(face)
            continue
        best = found[overlap.argmax()]
        out["found"] += 1
        out["iou"].append(float(overlap.max()))
        eyes = np.linalg.norm(face[4:6] - face[6:8])
        off = np.linalg.norm((best[4:14] - face[4:14]).reshape(5, 2), axis=1).mean()
        out["points"].append(float(off / max(eyes, 1e-6)))
    return out


def total(parts: list[dict]) -> dict:
    whole = sum(p["truth"] for p in parts)
    detections = sum(p["detections"] for p in parts)
    false = sum(len(p["false"]) for p in parts)
    points = [v for p in parts for v in p["points"]]
    return {
        "pictures": len(parts), "truth": whole, "recall": round(sum(p["found"] for p in parts) / max(1, whole), 4),
        "detections": detections, "false": false, "false_share": round(false / max(1, detections), 4),
        "iou": round(float(np.mean([v for p in parts for v in p["iou"]] or [0])), 3),
        "points": round(float(np.mean(points or [0])), 4), "points_median": round(float(np.median(points or [0])), 4),
    }


class Pictures:
    def __init__(self):
        self.items = []  # set, path, RGB, faces

    def read(self, folder: Path, labels: Path, last: int = 0) -> None:
        """A folder's pictures; only the last ones by name, if `last` is not 0."""
        name, inner = folder.name, folder / "image"
        rows, denied = json.loads((labels / f"{name}.json").read_text()), nobody(name)
        for path in pictures(inner if inner.is_dir() else folder)[-last:]:
            rgb = resize_to(read_rgb(path), LONGEST)
            faces = truth([] if path.stem in denied else rows[path.name], rgb.shape[1::-1])
            self.items.append((name, path, rgb, faces))

    def answers(self, model, degrees: float, how: str, sets=None) -> list[tuple]:
        """(set, path, RGB, truth, detections) of the pictures, turned."""
        out = []
        for name, path, rgb, faces in self.items:
            if sets and name not in sets:
                continue
            rgb, faces = turned(rgb, faces, degrees)
            small = how == "320 and 640" and max(rgb.shape[:2]) <= LARGE
            out.append((name, path, rgb, faces, (detect if small else WAYS[how])(model, rgb)))
        return out


def scored(answers: list[tuple], least: float, sets=SETS, smallest: float = SMALLEST) -> dict:
    return total([compare(f[f[:, 14] >= least], t, smallest) for n, _, _, t, f in answers if n in sets])


def draw(answers: list[tuple], least: float, side: int = 240, columns: int = 8) -> np.ndarray:
    """A sheet of pictures: detections green with their landmarks, false ones red, missed ones blue."""
    tiles = []
    for _, path, rgb, faces, found in answers:
        tile, parts = rgb.copy(), compare(found[found[:, 14] >= least], faces)
        wide = max(1, round(max(rgb.shape[:2]) / 200))
        for row, color in [(r, (0, 255, 0)) for r in found[found[:, 14] >= least]] + [
            (r, (255, 0, 0)) for r in parts["false"]] + [(r, (0, 0, 255)) for r in parts["missed"]]:
            cv2.rectangle(tile, *(tuple(int(v) for v in row[i : i + 2]) for i in (0, 2)), color, wide)
            for x, y in row[4:14].reshape(5, 2):
                cv2.circle(tile, (int(x), int(y)), wide, (255, 255, 0), -1)
        scale = side / max(tile.shape[:2])
        tile = cv2.resize(tile, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)[:side, :side]
        square = np.zeros((side + 16, side, 3), np.uint8)
        square[: tile.shape[0], : tile.shape[1]] = tile
        scores = " ".join(f"{r[14]:.2f}" for r in found[found[:, 14] >= least][:4])
        cv2.putText(square, f"{path.stem[:8]} {scores}", (2, side + 12), cv2.FONT_HERSHEY_SIMPLEX, 0.4, (255,) * 3, 1)
        tiles.append(square)
    tiles += [np.zeros_like(tiles[0])] * (-len(tiles) % columns)
    return np.vstack([np.hstack(tiles[i : i + columns]) for i in range(0, len(tiles), columns)])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("weights", type=Path)
    p.add_argument("--eval", type=Path, required=True)
    p.add_argument("--labels", type=Path, required=True)
    p.add_argument("--threshold", type=float, help="in place of the file's")
    p.add_argument("--turns", type=lambda t: [float(v) for v in t.split(",")], default=TURNS)
    p.add_argument("--quick", action="store_true", help="turned pictures in the first way only")
    p.add_argument("--held-out", type=Path, metavar="PORTRAITS", help="the portraits' folder: those not trained on")
    p.add_argument("--train-labels", type=Path, help="where the portraits' labels are")
    p.add_argument("--sheet", type=Path, help="pictures with a miss or a false face, as a PNG")
    p.add_argument("--json", type=Path)
    a = p.parse_args()
    torch.set_num_threads(1)
    model = load(a.weights)
    least = a.threshold if a.threshold is not None else threshold(a.weights)
    data, rows = Pictures(), {}
    for name in SETS:
        data.read(a.eval / name, a.labels)
    if a.held_out:
        data.read(a.held_out, a.train_labels, HELD_OUT)

    def tell(name: str, row: dict) -> None:
        rows[name] = row
        print(f"{name:34s}", "  ".join(f"{k} {v}" for k, v in row.items()), flush=True)

    for how in WAYS:
        answers = data.answers(model, 0, how)
        for t in THRESHOLDS:
            tell(f"{how}, threshold {t}", scored(answers, t))
        for name in dict.fromkeys(item[0] for item in data.items):
            tell(f"{how}, {name}", scored(answers, least, (name,)))
        tell(f"{how}, faces over 24 px", scored(answers, least, smallest=24))
        if a.sheet and how == next(iter(WAYS)):
            parts = [(x, compare(x[4][x[4][:, 14] >= least], x[3])) for x in answers]
            odd = [x for x, c in parts if c["missed"] or c["false"]]
            if odd:
                cv2.imwrite(str(a.sheet), draw(odd, least)[:, :, ::-1])
    turning = (*SETS[:2], *([a.held_out.name] if a.held_out else ()))
    for degrees in (d for d in a.turns if d):
        for how in list(WAYS)[: 1 if a.quick else None]:
            answers = data.answers(model, degrees, how, turning)
            tell(f"{how}, turned {degrees:g}°", scored(answers, least))
            if a.held_out:
                tell(f"{how}, turned {degrees:g}°, held out", scored(answers, least, turning[2:]))
    if a.json:
        a.json.write_text(json.dumps({"threshold": least, "side": SIDE, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
