#!/usr/bin/env python3
"""Asks YuNet where the faces are, once, so that training never runs it.

    python -m faces.label --net yunet_n_dynamic.onnx --out LABELS FOLDER...

A FOLDER holds pictures, or an `image/` folder that does; its labels go to LABELS/<folder>.json, which is skipped if it
is there. YuNet looks at every picture at several sizes, since it misses faces that are too small or too large; what it
finds at several of them is one face, with the best answer's box, landmarks and score.

The JSON: {"<file>": [[x, y, width, height, 5 × (x, y), score], ...]}, in shares of the picture's width and height.
Landmarks: the eye on the picture's left, the other eye, the nose, the mouth's corner on the left, the other corner.
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

SIDES = (320, 640)       # longest sides that YuNet is shown
LEAST = 0.3              # least score that is written down; what is not sure is ignored in training


class YuNet:
    def __init__(self, path: str):
        self.net = cv2.FaceDetectorYN.create(path, "", (320, 320), LEAST, 0.3, 200)

    def once(self, rgb: np.ndarray) -> np.ndarray:
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
        """The same in pixels of `rgb`, over all sizes and both directions."""
        h, w = rgb.shape[:2]
        rows = []
        for side in sides:
            scale = side / max(h, w)
            size = (max(1, round(w * scale)), max(1, round(h * scale)))
            how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
            small = cv2.resize(rgb, size, interpolation=how)
            ratio = np.array([w / size[0], h / size[1]], np.float32)
            for flip in (False, True)[: 1 + mirrored]:
                found = self.once(small[:, ::-1] if flip else small)
                if flip:
                    found = mirror(found, size[0])
                found[:, :14] *= np.tile(ratio, 7)
                rows.append(found)
        rows = np.concatenate(rows)
        return rows[suppress(rows[:, :4], rows[:, 14], 0.4)]


def mirror(rows: np.ndarray, width: float) -> np.ndarray:
    """Faces of a mirrored picture, in the picture that was mirrored."""
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
        known = given.get(f"{folder.name}/image/{path.name}")
        if known:
            labels[path.name] = [f["box"] + sum(f["landmarks"], []) + [f["score"]] for f in known]
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
    p.add_argument("--given", type=Path, help="labels of pictures that were asked about before, taken as they are")
    p.add_argument("--sides", type=lambda t: [int(v) for v in t.split(",")], default=SIDES)
    p.add_argument("--mirrored", action="store_true", help="look at the mirrored pictures too")
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
        sure = sum(row[14] >= 0.7 for rows in labels.values() for row in rows)
        print(f"{folder.name}: {len(labels)} pictures, {sure} faces of score 0.7 or more", flush=True)


if __name__ == "__main__":
    main()
