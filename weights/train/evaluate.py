#!/usr/bin/env python3
"""Evaluates masks at picture size: mean absolute error, IoU at 0.5, and boundary IoU.

    evaluate.py WEIGHTS... --eval ../shared/data/eval [--teacher TAUGHT_EVAL] [--json FILE] [--details FOLDER]

WEIGHTS are checkpoints, unfolded .safetensors, or exported (folded) files. TAUGHT_EVAL are the teacher's masks of the
evaluation sets, from `teach.py masks`. Masks are evaluated before matting; `backdrop eval` evaluates the whole pipeline.
`--details` writes the scores of every picture for `compare_eval.py`, one file for each of the WEIGHTS.
"""
import argparse
import csv
import json
from pathlib import Path

import cv2
import numpy as np
import torch

from data import masked_pairs, read_mask, read_rgb
from model import FGNet, load_weights

SETS = ("ecssd", "ccp", "product_composite", "product_white_iconic", "product_real", "matting")
BOUNDARY_WIDTH = 0.02  # of the picture's diagonal


def load(path: Path) -> FGNet:
    model, state = FGNet().eval(), load_weights(path)
    if "head.weight" in state and "enc.stem.bn.weight" not in state:  # folded: no normalisation, no side outputs
        missing = model.fold().load(state, strict=False)
        assert all(k.startswith("side.") for k in missing.missing_keys) and not missing.unexpected_keys, missing
        return model
    model.load(state)
    return model.fold()


def network_input(rgb: np.ndarray, side: int) -> torch.Tensor:
    """The picture stretched to a square of `side` pixels, as in the service: a batch of one."""
    interpolation = cv2.INTER_AREA if max(rgb.shape[:2]) > side else cv2.INTER_LINEAR
    x = torch.from_numpy(cv2.resize(rgb, (side, side), interpolation=interpolation)).permute(2, 0, 1)[None]
    return x.float().div(127.5).sub(1).contiguous(memory_format=torch.channels_last)


@torch.no_grad()
def predict(model: FGNet, rgb: np.ndarray, side: int = 384) -> np.ndarray:
    """The network's mask, `side` × `side`, for the whole picture."""
    return torch.sigmoid(model(network_input(rgb, side).to(next(model.parameters()).device)))[0, 0].cpu().numpy()


def boundary_band(mask: np.ndarray, width: int) -> np.ndarray:
    """The mask's pixels within `width` of its edge; the picture's border counts as an edge."""
    framed = cv2.copyMakeBorder(mask.astype(np.uint8), 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
    inner = cv2.erode(framed, np.ones((3, 3), np.uint8), iterations=width)[1:-1, 1:-1]
    return mask & ~inner.astype(bool)


def iou(a: np.ndarray, b: np.ndarray) -> float:
    return float((a & b).sum() / max(1, (a | b).sum()))


def score(mask: np.ndarray, truth: np.ndarray) -> tuple[float, float, float]:
    """MAE, IoU and boundary IoU. Both planes in 0..1; the mask is resized to the truth's size."""
    mask = np.clip(cv2.resize(mask, truth.shape[::-1], interpolation=cv2.INTER_LINEAR), 0, 1)
    width = max(1, round(BOUNDARY_WIDTH * float(np.hypot(*truth.shape))))
    ours, theirs = mask > 0.5, truth > 0.5
    boundary_iou = iou(boundary_band(ours, width), boundary_band(theirs, width))
    return float(np.abs(mask - truth).mean()), iou(ours, theirs), boundary_iou


def mean_scores(scores: list[tuple[float, float, float]]) -> dict:
    mae, mask_iou, boundary = (float(v) for v in np.mean(scores, axis=0))
    return {"n": len(scores), "mae": round(mae, 4), "iou": round(mask_iou, 4), "boundary_iou": round(boundary, 4)}


def truths(folder: Path, cap: int):
    for path, mask in list(masked_pairs(folder))[: cap or None]:
        yield path, read_rgb(path), read_mask(mask).astype(np.float32) / 255


def scores_of(model: FGNet, root: Path, sets=SETS, side: int = 384, cap: int = 0) -> dict[str, dict[str, tuple]]:
    """The scores of each picture of each set, by the picture's stem; of its first `cap` pictures if `cap` is not 0."""
    return {
        s: {path.stem: score(predict(model, rgb, side), truth) for path, rgb, truth in truths(root / s, cap)}
        for s in sets
        if (root / s).is_dir()
    }


def evaluate(model: FGNet, root: Path, sets=SETS, side: int = 384, cap: int = 0) -> dict:
    """Mean scores of each set."""
    return {s: mean_scores(list(scores.values())) for s, scores in scores_of(model, root, sets, side, cap).items()}


def write_details(scores: dict[str, dict[str, tuple]], path: Path) -> None:
    """The scores in the format of `backdrop eval --details`."""
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["set", "picture", "of", "mae", "iou", "boundary_iou"])
        rows.writerows([s, stem, "mask", *values] for s, pictures in scores.items() for stem, values in pictures.items())


def evaluate_masks(masks: Path, root: Path, sets=SETS) -> dict:
    """Mean scores of saved masks, each rescaled to 0..1 as U²-Netp's authors do."""
    out = {}
    for s in sets:
        scores = []
        for path, _, truth in truths(root / s, 0):
            mask = read_mask(masks / s / f"{path.stem}.png").astype(np.float32) / 255
            scores.append(score((mask - mask.min()) / (mask.max() - mask.min() + 1e-6), truth))
        out[s] = mean_scores(scores)
    return out


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("weights", type=Path, nargs="*")
    p.add_argument("--eval", type=Path, required=True)
    p.add_argument("--teacher", type=Path)
    p.add_argument("--side", type=int, default=384)
    p.add_argument("--sets", type=lambda t: t.split(","), default=SETS)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--json", type=Path)
    p.add_argument("--details", type=Path)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    rows = {}
    for w in a.weights:
        scores = scores_of(load(w), a.eval, a.sets, a.side)
        rows[str(w)] = {s: mean_scores(list(of_set.values())) for s, of_set in scores.items()}
        if a.details:
            a.details.mkdir(parents=True, exist_ok=True)
            write_details(scores, a.details / f"{w.stem}.csv")
    if a.teacher:
        rows["teacher"] = evaluate_masks(a.teacher, a.eval, a.sets)
    for name, sets in rows.items():
        for s, v in sets.items():
            numbers = f"mae {v['mae']:.4f}  iou {v['iou']:.4f}  boundary {v['boundary_iou']:.4f}"
            print(f"{Path(name).name:28s} {s:22s} {v['n']:4d}  {numbers}")
    if a.json:
        a.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
