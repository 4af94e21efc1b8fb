#!/usr/bin/env python3
"""Measures a face network against YuNet: recall, false detections, landmark error; upright and rotated pictures.

    python -m faces.measure WEIGHTS --eval ../shared/data/eval --labels LABELS_EVAL [--sheet FILE] [--json FILE]

WEIGHTS are a checkpoint or an exported file; LABELS_EVAL comes from `label.py`. The truth are
YuNet's faces of score 0.8 or more whose longer side is over 40 px in the picture; one is found if a detection has an IoU
of 0.5 or more with it. A detection is false if its IoU with every YuNet face of score 0.5 or more, of any size, is under
0.4: YuNet misses faces, so inspect them (`--sheet`). Animals that YuNet detects (`not_faces.txt`) are not in the truth,
and a detection there is false.
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
from faces.detect import SIDE, detect, detect_and_refine, detect_two_scales
from faces.export import load, threshold
from faces.scenes import transform_faces, false_face_stems, similarity
from faces.train import HELD_OUT

SETS = ("ecssd", "ccp", "matting", "product_real", "product_composite", "product_white_iconic")
TURNS = (0, -15, 15, -30, 30, 180)      # degrees
TRUTH_SCORE, POSSIBLE_SCORE = 0.8, 0.5  # YuNet's score: in the truth from the first, not a false detection from the second
MIN_SIDE = 40                           # px; of a face's longer side in the picture, to be in the truth
MATCH_IOU, TOUCH_IOU = 0.5, 0.4         # IoU
MAX_SIDE = 1024                         # px; pictures are reduced to this side
TWO_SCALES_ABOVE = 400                  # px; longest side above which two sizes are run
METHODS = {"320, then near": detect_and_refine, "320": detect, "320 and 640": detect_two_scales}
THRESHOLDS = (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75)


def truth_faces(rows: list, size: tuple[int, int]) -> np.ndarray:
    """Label rows as [f, 15] in pixels with right and bottom edges."""
    faces = np.array(rows, np.float32).reshape(-1, 15)
    faces[:, 2:4] += faces[:, :2]
    faces[:, :14] *= np.tile(np.array(size, np.float32), 7)
    return faces


def rotated(rgb: np.ndarray, faces: np.ndarray, degrees: float) -> tuple[np.ndarray, np.ndarray]:
    """Picture and faces rotated about the centre, on a mid-grey canvas that contains the whole picture."""
    if degrees == 0:
        return rgb, faces
    h, w = rgb.shape[:2]
    c, s = abs(np.cos(np.deg2rad(degrees))), abs(np.sin(np.deg2rad(degrees)))
    size = (round(w * c + h * s), round(w * s + h * c))
    matrix = similarity(1.0, np.deg2rad(degrees), False, (w / 2, h / 2), (size[0] / 2, size[1] / 2))
    out = cv2.warpAffine(rgb, matrix, size, flags=cv2.INTER_CUBIC, borderValue=(128, 128, 128))
    return out, transform_faces(faces, matrix)


def is_truth(faces: np.ndarray, min_side: float) -> np.ndarray:
    return (faces[:, 14] >= TRUTH_SCORE) & ((faces[:, 2:4] - faces[:, :2]).max(1, initial=0) > min_side)


def compare(found: np.ndarray, faces: np.ndarray, min_side: float = MIN_SIDE) -> dict:
    """Matches the detections above the threshold, `found`, with the truth of one picture."""
    true = faces[is_truth(faces, min_side)]
    out = {"truth": len(true), "found": 0, "iou": [], "points": [], "missed": [],
           "detections": len(found), "false": list(found)}
    if len(found) and len(faces):
        touches = (iou(found[:, :4], faces[faces[:, 14] >= POSSIBLE_SCORE, :4]) >= TOUCH_IOU).any(1)
        out["false"] = list(found[~touches])
    for face in true:
        overlap = iou(face[None, :4], found[:, :4])[0] if len(found) else np.zeros(0)
        if not (overlap >= MATCH_IOU).any():
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
        rows, excluded = json.loads((labels / f"{name}.json").read_text()), false_face_stems(name)
        for path in pictures(inner if inner.is_dir() else folder)[-last:]:
            rgb = resize_to(read_rgb(path), MAX_SIDE)
            faces = truth_faces([] if path.stem in excluded else rows[path.name], rgb.shape[1::-1])
            self.items.append((name, path, rgb, faces))

    def detect_all(self, model, degrees: float, method: str, sets=None) -> list[tuple]:
        """(set, path, RGB, truth, detections) of the rotated pictures."""
        out = []
        for name, path, rgb, faces in self.items:
            if sets and name not in sets:
                continue
            rgb, faces = rotated(rgb, faces, degrees)
            small = method == "320 and 640" and max(rgb.shape[:2]) <= TWO_SCALES_ABOVE
            out.append((name, path, rgb, faces, (detect if small else METHODS[method])(model, rgb)))
        return out


def scored(results: list[tuple], min_score: float, sets=SETS, min_side: float = MIN_SIDE) -> dict:
    return total([compare(f[f[:, 14] >= min_score], t, min_side) for n, _, _, t, f in results if n in sets])


def draw(results: list[tuple], min_score: float, side: int = 240, columns: int = 8) -> np.ndarray:
    """A contact sheet: detections green with their landmarks, false ones red, missed ones blue."""
    tiles = []
    for _, path, rgb, faces, found in results:
        tile, parts = rgb.copy(), compare(found[found[:, 14] >= min_score], faces)
        line_width = max(1, round(max(rgb.shape[:2]) / 200))
        for row, color in [(r, (0, 255, 0)) for r in found[found[:, 14] >= min_score]] + [
            (r, (255, 0, 0)) for r in parts["false"]] + [(r, (0, 0, 255)) for r in parts["missed"]]:
            cv2.rectangle(tile, *(tuple(int(v) for v in row[i : i + 2]) for i in (0, 2)), color, line_width)
            for x, y in row[4:14].reshape(5, 2):
                cv2.circle(tile, (int(x), int(y)), line_width, (255, 255, 0), -1)
        scale = side / max(tile.shape[:2])
        tile = cv2.resize(tile, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)[:side, :side]
        square = np.zeros((side + 16, side, 3), np.uint8)
        square[: tile.shape[0], : tile.shape[1]] = tile
        scores = " ".join(f"{r[14]:.2f}" for r in found[found[:, 14] >= min_score][:4])
        cv2.putText(square, f"{path.stem[:8]} {scores}", (2, side + 12), cv2.FONT_HERSHEY_SIMPLEX, 0.4, (255,) * 3, 1)
        tiles.append(square)
    tiles += [np.zeros_like(tiles[0])] * (-len(tiles) % columns)
    return np.vstack([np.hstack(tiles[i : i + columns]) for i in range(0, len(tiles), columns)])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("weights", type=Path)
    p.add_argument("--eval", type=Path, required=True)
    p.add_argument("--labels", type=Path, required=True)
    p.add_argument("--sets", type=lambda t: t.split(","), default=SETS, help="folders of EVAL")
    p.add_argument("--threshold", type=float, help="overrides the file's")
    p.add_argument("--turns", type=lambda t: [float(v) for v in t.split(",")], default=TURNS)
    p.add_argument("--quick", action="store_true", help="rotated pictures with the first method only")
    p.add_argument("--held-out", type=Path, metavar="PORTRAITS", help="the portraits' folder; measures the held-out ones")
    p.add_argument("--train-labels", type=Path, help="where the portraits' labels are")
    p.add_argument("--sheet", type=Path, help="pictures with a miss or a false face, as a PNG")
    p.add_argument("--json", type=Path)
    a = p.parse_args()
    torch.set_num_threads(1)
    model = load(a.weights)
    min_score = a.threshold if a.threshold is not None else threshold(a.weights)
    data, rows = Pictures(), {}
    for name in a.sets:
        data.read(a.eval / name, a.labels)
    if a.held_out:
        data.read(a.held_out, a.train_labels, HELD_OUT)

    def report(name: str, row: dict) -> None:
        rows[name] = row
        print(f"{name:34s}", "  ".join(f"{k} {v}" for k, v in row.items()), flush=True)

    for method in METHODS:
        results = data.detect_all(model, 0, method)
        for t in THRESHOLDS:
            report(f"{method}, threshold {t}", scored(results, t, a.sets))
        for name in dict.fromkeys(item[0] for item in data.items):
            report(f"{method}, {name}", scored(results, min_score, (name,)))
        report(f"{method}, faces over 24 px", scored(results, min_score, a.sets, min_side=24))
        if a.sheet and method == next(iter(METHODS)):
            parts = [(x, compare(x[4][x[4][:, 14] >= min_score], x[3])) for x in results]
            failures = [x for x, c in parts if c["missed"] or c["false"]]
            if failures:
                cv2.imwrite(str(a.sheet), draw(failures, min_score)[:, :, ::-1])
    rotated_sets = (*a.sets[:2], *([a.held_out.name] if a.held_out else ()))
    for degrees in (d for d in a.turns if d):
        for method in list(METHODS)[: 1 if a.quick else None]:
            results = data.detect_all(model, degrees, method, rotated_sets)
            report(f"{method}, turned {degrees:g}°", scored(results, min_score, a.sets))
            if a.held_out:
                report(f"{method}, turned {degrees:g}°, held out", scored(results, min_score, (a.held_out.name,)))
    if a.json:
        a.json.write_text(json.dumps({"threshold": min_score, "side": SIDE, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
