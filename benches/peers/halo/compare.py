#!/usr/bin/env python3
"""Measures the residue of a red background on cutouts' edges, for Backdrop and rembg. See README.md."""
import argparse
import json
import os
import shutil
import subprocess
from pathlib import Path

import cv2
import numpy as np
from PIL import Image
from rembg.bg import alpha_matting_cutout, decontaminate_cutout, naive_cutout

from scenes import scenes

ROOT = Path(__file__).resolve().parents[3]
RED = np.array([200, 20, 25]) / 255
BACKGROUNDS = {"blue": (20, 40, 200), "white": (255, 255, 255), "black": (0, 0, 0)}
GRID = 384
# rembg's own defaults: remove(alpha_matting_foreground_threshold, .._background_threshold, .._erode_size).
DEFAULTS = (240, 10, 10)
COMPETITORS = {
    "ours": "Backdrop, closed form, soft",
    "rembg": "rembg with alpha matting",
    "decontaminated": "rembg, mask with unmixed colours",
    "naive": "rembg, mask only",
}
CROP, ZOOM = 48, 4


def to_linear(v):
    return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)


def to_encoded(v):
    v = np.clip(v, 0, 1)
    return np.where(v <= 0.0031308, v * 12.92, 1.055 * v ** (1 / 2.4) - 0.055)


SPACES = {
    # Light is additive: a half-covered pixel is the mean of two amounts of light.
    "linear": (to_linear, to_encoded),
    # As most matting sets were composited, and as matting assumes.
    "encoded": (lambda v: v, lambda v: np.clip(v, 0, 1)),
}


def composite(colours, alpha, background, space):
    decode, encode = SPACES[space]
    alpha = alpha[..., None]
    return encode(alpha * decode(colours) + (1 - alpha) * decode(np.asarray(background, np.float64)))


def eight_bits(v):
    return (np.clip(v, 0, 1) * 255 + 0.5).astype(np.uint8)


def simulated_mask(alpha, seed):
    """Simulates a network's mask from the truth: on a grid of GRID cells, thin parts attenuated, outlines blurred and
    displaced, 0 or 1 away from the edge. The blur (1.5 cells), the slope (8) and the middle (0.45) were fitted to the
    masks of Backdrop's bundled network for the evaluation photos, within five cells of their edges."""
    grid = cv2.resize(alpha, (GRID, GRID), interpolation=cv2.INTER_AREA)
    opened = cv2.morphologyEx(grid, cv2.MORPH_OPEN, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (3, 3)))
    grid = (grid + opened) / 2
    random = np.random.default_rng(seed)
    displacement = [cv2.GaussianBlur(random.normal(0, 1, (GRID, GRID)), (0, 0), 12) for _ in range(2)]
    y, x = np.mgrid[:GRID, :GRID]
    moved = [(at + 0.5 * step / step.std()).astype(np.float32) for at, step in zip((x, y), displacement)]
    grid = cv2.remap(grid, moved[0], moved[1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    grid = cv2.GaussianBlur(grid, (0, 0), 1.5)
    sigmoid = lambda value: 1 / (1 + np.exp(-8 * (value - 0.45)))
    return eight_bits((sigmoid(grid) - sigmoid(0)) / (sigmoid(1) - sigmoid(0)))


def edge_region(alpha):
    partial = ((alpha > 0) & (alpha < 1)).astype(np.uint8)
    # Where coverage steps from 0 to 1 between two pixels, both belong to the edge.
    step = cv2.dilate(alpha, np.ones((2, 2))) - cv2.erode(alpha, np.ones((2, 2))) >= 1
    return cv2.dilate(partial | step.astype(np.uint8), np.ones((5, 5), np.uint8)).astype(bool)


def rembg_cutout(competitor, image, mask):
    image, mask = Image.fromarray(image), Image.fromarray(mask)
    # As rembg's sessions resize a network's mask.
    mask = mask.resize(image.size, Image.Resampling.LANCZOS)
    if competitor == "rembg":
        return alpha_matting_cutout(image, mask, *DEFAULTS)
    if competitor == "decontaminated":
        return decontaminate_cutout(image, mask)
    return naive_cutout(image, mask)


def summarize(errors, red, alpha_error):
    worst = np.concatenate([e.max(-1) for e in errors])
    return {
        "mean": float(np.mean([e.mean() for e in errors])),
        "p99_9": float(np.percentile(worst, 99.9)),
        "max": float(worst.max()),
        "red": float(np.mean([r.mean() for r in red])),
        "alpha": float(alpha_error.mean()),
    }


def edge_errors(truth, cutout, space):
    """Errors in 255ths of the encoded values, inside the edge region, over all backgrounds."""
    colours, alpha = truth
    edge = edge_region(alpha)
    cutout = cutout.astype(np.float64) / 255
    errors, red = [], []
    for background in BACKGROUNDS.values():
        background = np.array(background) / 255
        expected = eight_bits(composite(colours, alpha, background, space)).astype(float)
        actual = eight_bits(composite(cutout[..., :3], cutout[..., 3], background, space)).astype(float)
        difference = (actual - expected)[edge]
        errors.append(np.abs(difference))
        # Excess of red beyond the error that green or blue have too.
        red.append(np.maximum(difference[:, 0] - np.maximum(difference[:, 1], difference[:, 2]), 0))
    return summarize(errors, red, np.abs(cutout[..., 3] - alpha)[edge] * 255)


def run_ours(folder):
    # With the features of the build that is there: others would build everything anew.
    command = ["cargo", "bench", "--locked", "--profile", "release", *os.environ.get("FEATURES", "").split(), "--bench", "halo"]
    subprocess.run([*command, "--", str(folder.resolve())], cwd=ROOT, check=True)


def cut_all(all_scenes, space, folder):
    for part in ("image", "mask", "ours"):
        shutil.rmtree(folder / part, ignore_errors=True)
        (folder / part).mkdir(parents=True)
    inputs = {}
    for seed, (name, colours, alpha) in enumerate(all_scenes):
        inputs[name] = eight_bits(composite(colours, alpha, RED, space)), simulated_mask(alpha, seed)
        Image.fromarray(inputs[name][0]).save(folder / "image" / f"{name}.png")
        Image.fromarray(inputs[name][1]).save(folder / "mask" / f"{name}.png")
    run_ours(folder)
    for competitor in COMPETITORS:
        (folder / competitor).mkdir(exist_ok=True)
        if competitor != "ours":
            for name, (image, mask) in inputs.items():
                rembg_cutout(competitor, image, mask).save(folder / competitor / f"{name}.png")


def densest_window(values):
    """The corner of the CROP window with the largest sum."""
    sums = cv2.boxFilter(values, -1, (CROP, CROP), normalize=False, anchor=(0, 0), borderType=cv2.BORDER_CONSTANT)
    sums = sums[: values.shape[0] - CROP + 1, : values.shape[1] - CROP + 1]
    return np.unravel_index(np.argmax(sums), sums.shape)


def contact_sheet(all_scenes, space, folder):
    """A row for each scene, at Backdrop's largest error: the source, then per background truth, ours, rembg, mask only."""
    rows = []
    for name, colours, alpha in all_scenes:
        load = lambda part: np.asarray(Image.open(folder / part / f"{name}.png"), np.float64) / 255
        cutouts = [load(part) for part in ("ours", "rembg", "naive")]
        cutouts = [np.dstack([colours, alpha])] + cutouts
        views = [[composite(c[..., :3], c[..., 3], np.array(b) / 255, space) for c in cutouts] for b in BACKGROUNDS.values()]
        wrong = sum(np.abs(view[1] - view[0]).sum(-1) for view in views)
        y, x = densest_window(wrong)
        tiles = [load("image")[y : y + CROP, x : x + CROP]]
        tiles += [tile[y : y + CROP, x : x + CROP] for view in views for tile in view]
        tiles = [np.kron(eight_bits(tile), np.ones((ZOOM, ZOOM, 1), np.uint8)) for tile in tiles]
        row = np.hstack([np.pad(tile, ((2, 2), (2, 2), (0, 0)), constant_values=128) for tile in tiles])
        title = np.full((20, row.shape[1], 3), 245, np.uint8)
        cv2.putText(title, f"{name}: red | blue, white, black: truth, ours, rembg, mask only", (6, 14),
                    cv2.FONT_HERSHEY_SIMPLEX, 0.45, (20, 20, 20), 1, cv2.LINE_AA)
        rows += [title, row]
    Image.fromarray(np.vstack(rows)).save(folder / "contact-sheet.png")


def table(results, space):
    lines = [f"## {space.capitalize()} light" if space == "linear" else "## Encoded values", ""]
    lines += ["| scene | " + " | ".join(f"{c} mean · p99.9 · max · red · alpha" for c in COMPETITORS) + " |"]
    lines += ["|---" * (len(COMPETITORS) + 1) + "|"]
    cell = lambda f: f"{f['mean']:.2f} · {f['p99_9']:.0f} · {f['max']:.0f} · {f['red']:.2f} · {f['alpha']:.2f}"
    for name, row in results.items():
        lines.append(f"| {name} | " + " | ".join(cell(row[c]) for c in COMPETITORS) + " |")
    mean = {c: {k: float(np.mean([row[c][k] for row in results.values()])) for k in row_keys(results)} for c in COMPETITORS}
    lines.append("| **mean of all** | " + " | ".join(f"**{cell(mean[c])}**" for c in COMPETITORS) + " |")
    better = sum(row["ours"]["mean"] < row["rembg"]["mean"] for row in results.values())
    lines += ["", f"Mean edge error under rembg's on {better} of {len(results)} scenes.", ""]
    return lines, mean


def row_keys(results):
    return next(iter(results.values()))["ours"].keys()


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("output", type=Path, help="folder for pictures, results.json, results.md, contact sheets")
    arguments.add_argument("--data", type=Path, help="evaluation data: matting/ and product_composite/, each image/ and mask/")
    arguments.add_argument("--rgba", type=Path, nargs="*", default=[], help="folders of RGBA files with exact alpha")
    arguments.add_argument("--take", type=int, default=10, help="how many of each such folder")
    arguments.add_argument("--space", choices=[*SPACES, "both"], default="both")
    arguments.add_argument("--reuse", action="store_true", help="reuse rembg's cutouts of an earlier run")
    chosen = arguments.parse_args()
    all_scenes = scenes(chosen.data, chosen.rgba, chosen.take)
    report, lines = {}, ["# Halo: error on the edge of a cutout put on blue, white and black", ""]
    for space in SPACES if chosen.space == "both" else [chosen.space]:
        folder = chosen.output / space
        if chosen.reuse:
            run_ours(folder)
        else:
            cut_all(all_scenes, space, folder)
        results = {}
        for name, colours, alpha in all_scenes:
            load = lambda part: np.asarray(Image.open(folder / part / f"{name}.png"))
            results[name] = {part: edge_errors((colours, alpha), load(part), space) for part in COMPETITORS}
        contact_sheet(all_scenes, space, folder)
        text, mean = table(results, space)
        lines += text
        report[space] = {"scenes": results, "mean": mean}
    (chosen.output / "results.json").write_text(json.dumps(report, indent=1))
    (chosen.output / "results.md").write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
