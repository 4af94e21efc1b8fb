#!/usr/bin/env python3
"""Labels the faces of folders of pictures with YuNet, once, so that training does not run it.

    python -m faces.label --net yunet_n_dynamic.onnx --out LABELS FOLDER...

A FOLDER holds pictures, or an `image/` folder with pictures; its labels are written to LABELS/<folder>.json. A folder
whose file exists is skipped. YuNet runs at several sizes, since it misses faces that are too small or too large; of
overlapping detections the one with the highest score is kept.

The JSON: {"<file>": [[x, y, width, height, 5 × (x, y), score], ...]}, as fractions of the picture's width and height.
Landmarks: the eye on the picture's left, the other eye, the nose, the left corner of the mouth, the right corner.
"""
import argparse
import json
import sys
from pathlib import Path

import cv2
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
from data import pictures, read_rgb
from faces.boxes import MIRRORED, suppress

SIDES = (320, 640)  # longest sides of YuNet's input
MIN_SCORE = 0.3     # minimum score of a label; uncertain ones become ignored regions in training


class YuNet:
    def __init__(self, path: str):
        self.net = cv2.FaceDetectorYN.create(path, "", (320, 320), MIN_SCORE, 0.3, 200)

    def infer(self, rgb: np.ndarray) -> np.ndarray:
        """[n, 15] of one picture as it is: left, top, right, bottom, 5 × (x, y), score; in pixels."""
        h, w = rgb.shape[:2]
        self.net.setInputSize((w, h))
        _, found = self.net.detect(np.ascontiguousarray(rgb[:, :, ::-1]))
        if found is None:
            return np.zeros((0, 15), np.float32)
        found = found.copy()
        found[:, 2:4] += found[:, :2]
        return found

    def __call__(self, rgb: np.ndarray, sides=SIDES, mirrored: bool = False) -> np.ndarray:
        """The same in pixels of `rgb`, over all sizes and, with `mirrored`, the mirror image."""
        h, w = rgb.shape[:2]
        rows = []
        for side in sides:
            scale = side / max(h, w)
            size = (max(1, round(w * scale)), max(1, round(h * scale)))
            interpolation = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
            small = cv2.resize(rgb, size, interpolation=interpolation)
            ratio = np.array([w / size[0], h / size[1]], np.float32)
            for flip in (False, True)[: 1 + mirrored]:
                found = self.infer(small[:, ::-1] if flip else small)
                if flip:
                    found = mirror(found, size[0])
                found[:, :14] *= np.tile(ratio, 7)
                rows.append(found)
        rows = np.concatenate(rows)
        return rows[suppress(rows[:, :4], rows[:, 14], 0.4)]


def mirror(rows: np.ndarray, width: float) -> np.ndarray:
    """Maps faces of a mirrored picture back to the original one."""
    out = rows.copy()
    out[:, 0], out[:, 2] = width - rows[:, 2], width - rows[:, 0]
    points = rows[:, 4:14].reshape(-1, 5, 2)[:, MIRRORED].copy()
    points[..., 0] = width - points[..., 0]
    out[:, 4:14] = points.reshape(-1, 10)
    return out


def label(net: YuNet, folder: Path, given: dict, sides: list[int], mirrored: bool) -> dict[str, list]:
    inner = folder / "image"
    labels = {}
    for path in pictures(inner if inner.is_dir() else folder):
        existing = given.get(f"{folder.name}/image/{path.name}")
        if existing:
            labels[path.name] = [f["box"] + sum(f["landmarks"], []) + [f["score"]] for f in existing]
            continue
        rgb = read_rgb(path)
        h, w = rgb.shape[:2]
        rows = net(rgb, sides, mirrored)
        rows[:, 2:4] -= rows[:, :2]
        rows[:, :14] /= np.tile(np.array([w, h], np.float32), 7)
        labels[path.name] = [[round(float(v), 5) for v in row] for row in rows]
    return labels


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folders", type=Path, nargs="+")
    p.add_argument("--net", required=True, help="yunet_n_dynamic.onnx")
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--given", type=Path, help="existing labels, used unchanged for their pictures")
    p.add_argument("--sides", type=lambda t: [int(v) for v in t.split(",")], default=SIDES)
    p.add_argument("--mirrored", action="store_true", help="run on the mirrored pictures too")
    a = p.parse_args()
    given = json.loads(a.given.read_text()) if a.given else {}
    a.out.mkdir(parents=True, exist_ok=True)
    net = YuNet(a.net)
    for folder in a.folders:
        file = a.out / f"{folder.name}.json"
        if file.exists():
            continue
        labels = label(net, folder, given, a.sides, a.mirrored)
        file.write_text(json.dumps(labels, separators=(",", ":")))
        confident = sum(row[14] >= 0.7 for rows in labels.values() for row in rows)
        print(f"{folder.name}: {len(labels)} pictures, {confident} faces of score 0.7 or more", flush=True)


if __name__ == "__main__":
    main()
