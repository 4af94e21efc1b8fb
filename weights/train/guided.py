#!/usr/bin/env python3
"""Trains the guided network: a crop of a picture, the mask so far and clicks in, a better mask of the crop out.

    guided.py --data ../shared/data --objects OBJECTS --masks MASKS --init fgnet-unfolded.safetensors --out RUN --steps 20000 ...

The options are those of `train.py`, and `--resume` continues a run in the same way.

The network is fgnet with three more planes: the mask so far, discs at clicks on the subject, and discs at clicks on the background (RITM:
Sofiiuk, Petrov and Konushin, 2022). The planes are added to the encoder's features at 1/4 and to the decoder's input at 1/2 through layers
that start at zero (ControlNet: Zhang, Rao and Agrawala, 2023), so that training begins with the masks of `--init`.

A sample is a whole picture, a crop to the subject or a part of the outline. Its mask so far is from `--masks` (of the network whose
masks are to be improved), or the true mask made worse (CascadePSP: Cheng et al., 2020), or empty. Clicks are placed in wrong regions, the
largest first; a large wrong region without one has no loss. In a part of the steps one to three masks of the network itself, with one more
click each, come first.

`--objects` has photos and maps of classes (`objects_of`): a set of their parts is the subject, another set the mask so far, and
each part in only one of the two gets a click. So a click adds or removes the thing that it lies on and no other.
"""
import argparse
import sys
from pathlib import Path

import cv2
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
from compose import Composer, chance, close_box, colour_jitter, crop_box, degrade, on_white, thumbnail, to_square
from data import MAX_SIDE, masked_pairs, read_mask, read_rgb, resize_to
from evaluate import load, network_input, predict, score, truths
from model import FGNet, GuidedNet
from train import Run, arguments
from voc_scenes import classes_of

RADIUS = 5 / 384      # of a click's disc, in sides of the crop
MOST_CLICKS = 5
OBJECT_AREA = 0.004   # of the photo: smaller components are no objects
WRONG_PIXELS = 30     # a smaller wrong region gets no click in training
UNCLICKED = 0.03      # of the subject's area: a larger wrong region without a click has no loss in a sample with clicks
MARGIN = 0.15         # of the longer side of the box of mask and clicks, on each side: the crop when it is used
WHOLE = 0.6           # of the picture: a larger crop is the whole picture
WHITE = 0.4           # of the composites, in the place of the mix's: on white the network moves edges that were right, if it saw few
SMALL = 0.5           # of the picture: a subject whose box covers less gets a second pass
OWN_LABELS = {"coco_groups"}  # sets whose masks are the network's own: its mask as the mask so far would teach to copy


# ---------------------------------------------------------------------------------------------- clicks


def largest(wrong: np.ndarray, least: int):
    """The largest region of `wrong` (bool): its area, its box's corner, and its pixels in the box; None below `least` pixels."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(wrong.astype(np.uint8), connectivity=4)
    if count < 2:
        return None
    k = 1 + int(stats[1:, cv2.CC_STAT_AREA].argmax())
    x, y, w, h, area = (int(v) for v in stats[k])
    return (area, (x, y), labels[y : y + h, x : x + w] == k) if area >= least else None


def innermost(region: np.ndarray, corner: tuple[int, int], rng=None, used=None) -> tuple[int, int] | None:
    """The innermost pixel (x, y) of a region, or a random one of its inner half; `used` pixels (bool, of the picture) are edges."""
    x0, y0 = corner
    h, w = region.shape
    free = region if used is None else region & ~used[y0 : y0 + h, x0 : x0 + w]
    if not free.any():
        return None
    depth = cv2.distanceTransform(np.pad(free.astype(np.uint8), 1), cv2.DIST_L2, 3)[1:-1, 1:-1]
    if rng is None:
        y, x = np.unravel_index(int(depth.argmax()), depth.shape)
    else:
        rows, columns = np.where(depth >= 0.5 * depth.max())
        k = int(rng.integers(len(rows)))
        y, x = rows[k], columns[k]
    return int(x0 + x), int(y0 + y)


def click(pixels: np.ndarray, rng=None) -> tuple[int, int] | None:
    """A click on the largest region of `pixels` (bool)."""
    found = largest(pixels, WRONG_PIXELS)
    return found and innermost(found[2], found[1], rng)


def next_click(so_far: np.ndarray, truth: np.ndarray, valid: np.ndarray, rng=None, used=None, least: int = WRONG_PIXELS):
    """The click in the largest wrong region, missing or superfluous, and whether it is on the subject; None if there is none.

    All planes are in 0..1 or bool. As `src/cli/eval/clicks.rs`.
    """
    found = []
    for on_subject, a, b in ((True, truth, so_far), (False, so_far, truth)):
        region = largest((a > 0.5) & ~(b > 0.5) & (valid > 0.5), least)
        if region is not None:
            found.append((region[0], on_subject, region))
    if not found:
        return None
    _, on_subject, (_, corner, region) = max(found, key=lambda f: f[:2])
    at = innermost(region, corner, rng, used)
    return None if at is None else (at, on_subject)


def merged(before: np.ndarray, after: np.ndarray, at: tuple[int, int]) -> np.ndarray:
    """`after` where it changed the region about the click or edges, `before` elsewhere (progressive merge: Chen et al., FocalClick, 2022).

    Both are masks in 0..1. Solid regions of pixels that changed sides and that the click does not touch are taken back.
    """
    flipped = ((before > 0.5) != (after > 0.5)).astype(np.uint8)
    _, parts = cv2.connectedComponents(flipped)
    radius, (x, y) = max(3, round(RADIUS * max(before.shape))), at
    near = np.unique(parts[max(0, y - radius) : y + radius + 1, max(0, x - radius) : x + radius + 1])
    width = max(3, round(0.01 * max(before.shape))) | 1
    solid = np.unique(parts[cv2.erode(flipped, np.ones((width, width), np.uint8)) > 0])
    undone = np.setdiff1d(np.setdiff1d(solid, near), [0])
    if not len(undone):
        return after
    return np.where(cv2.dilate(np.isin(parts, undone).astype(np.uint8), np.ones((5, 5), np.uint8)) > 0, before, after)


def without_unclicked(so_far: np.ndarray, truth: np.ndarray, valid: np.ndarray, discs: np.ndarray) -> np.ndarray:
    """`valid` (uint8) without the solid wrong regions that have no click: nothing says that they are to change, nor that they are not."""
    wrong = (((so_far > 0.5) != (truth > 0.5)) & (valid > 127)).astype(np.uint8)
    solid = cv2.morphologyEx(wrong, cv2.MORPH_OPEN, np.ones((5, 5), np.uint8))
    count, parts, stats, _ = cv2.connectedComponentsWithStats(solid)
    least = UNCLICKED * max(1, int((truth > 0.5).sum()))
    clicked = np.unique(parts[discs])
    unclicked = [k for k in range(1, count) if stats[k, cv2.CC_STAT_AREA] > least and k not in clicked]
    if not unclicked:
        return valid
    region = cv2.dilate(np.isin(parts, unclicked).astype(np.uint8), np.ones((9, 9), np.uint8))
    return np.where(region > 0, 0, valid).astype(np.uint8)


def draw(planes: np.ndarray, at: tuple[int, int], on_subject: bool) -> None:
    """Draws a click's disc into the planes (3, height, width), the mask so far first."""
    cv2.circle(planes[1 if on_subject else 2], at, max(2, round(RADIUS * max(planes.shape[1:]))), 255, -1)


# ---------------------------------------------------------------------------------------------- masks made worse


def noise(rng, size: int, cells: int) -> np.ndarray:
    """Smooth noise in -1..1, `cells` across."""
    return cv2.resize(rng.uniform(-1, 1, (cells, cells)).astype(np.float32), (size, size), interpolation=cv2.INTER_CUBIC)


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """The soft IoU of two masks in 0..1."""
    return float(np.minimum(a, b).sum() / max(1.0, float(np.maximum(a, b).sum())))


def at_side(plane: np.ndarray, side: int, change) -> np.ndarray:
    """`change` of the plane (float32 0..1) at side × side pixels, at the plane's size."""
    small = cv2.resize(plane, (side, side), interpolation=cv2.INTER_AREA)
    return cv2.resize(change(small), plane.shape[::-1], interpolation=cv2.INTER_LINEAR)


def worse(rng, mask: np.ndarray, kinds=(0, 1, 2, 3, 4)) -> np.ndarray:
    """A mask (float32 0..1, square) with one to three mistakes: its outline moved, a part lost, a hole, something added, softer."""
    size = mask.shape[0]
    rows, columns = np.where(mask > 0.5)
    if not len(rows):
        return mask
    extent = max(8.0, float(min(np.ptp(rows), np.ptp(columns))))
    for kind in rng.choice(kinds, min(len(kinds), int(rng.integers(1, 4))), replace=False):
        if kind == 0:    # the outline in waves, wider or narrower
            inside = mask > 0.5
            depth = cv2.distanceTransform(inside.astype(np.uint8), cv2.DIST_L2, 3)
            depth -= cv2.distanceTransform((~inside).astype(np.uint8), cv2.DIST_L2, 3)
            wave = noise(rng, size, int(rng.integers(4, 24))) * rng.uniform(0.01, 0.12) * extent
            mask = np.clip((depth + wave + rng.normal() * 0.025 * extent) / 3 + 0.5, 0, 1).astype(np.float32)
        elif kind == 1:  # a part lost
            k = int(rng.integers(len(rows)))
            angle, u = rng.uniform(0, 2 * np.pi), np.arange(size, dtype=np.float32)
            side = (u[None] - columns[k]) * np.cos(angle) + (u[:, None] - rows[k]) * np.sin(angle) + noise(rng, size, 6) * 0.1 * extent
            lost = side > 0
            if (mask * lost).sum() > 0.5 * mask.sum():
                lost = ~lost
            mask = mask * ~lost
        elif kind == 2:  # a hole
            k = int(rng.integers(len(rows)))
            spot = np.zeros((size, size), np.uint8)
            axes = (max(2, int(extent * rng.uniform(0.05, 0.3))), max(2, int(extent * rng.uniform(0.05, 0.3))))
            cv2.ellipse(spot, (int(columns[k]), int(rows[k])), axes, rng.uniform(0, 180), 0, 360, 1, -1)
            mask = mask * (1 - cv2.GaussianBlur(spot.astype(np.float32), (0, 0), 2))
        elif kind == 3:  # something beside it added
            k = int(rng.integers(len(rows)))
            at = (int(columns[k] + rng.normal() * 0.4 * extent), int(rows[k] + rng.normal() * 0.4 * extent))
            spot = np.zeros((size, size), np.uint8)
            axes = (max(2, int(extent * rng.uniform(0.08, 0.4))), max(2, int(extent * rng.uniform(0.08, 0.4))))
            cv2.ellipse(spot, at, axes, rng.uniform(0, 180), 0, 360, 1, -1)
            mask = np.maximum(mask, cv2.GaussianBlur(spot.astype(np.float32), (0, 0), 2) * rng.uniform(0.5, 1))
        else:            # as a mask of a smaller picture, or unsure
            mask = cv2.GaussianBlur(mask, (0, 0), rng.uniform(1, 8)) * rng.uniform(0.7, 1)
    return np.ascontiguousarray(mask, np.float32)


# ---------------------------------------------------------------------------------------------- samples


def objects_of(path: Path, rgb: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels (uint8, 0 = none) of the objects of a class map for its photo, and its void contours (bool)."""
    found, void = classes_of(cv2.imread(str(path)))
    labels, count = np.zeros(void.shape, np.uint8), 0
    for pixels in found.values():
        joined = cv2.morphologyEx(pixels.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((9, 9), np.uint8))
        parts, components, stats, _ = cv2.connectedComponentsWithStats(joined)
        for k in range(1, parts):
            if stats[k, cv2.CC_STAT_AREA] > OBJECT_AREA * void.size and count < 20:
                count += 1
                labels[(components == k) & pixels] = count
    edges = cv2.morphologyEx(labels, cv2.MORPH_GRADIENT, np.ones((9, 9), np.uint8)) > 0
    size = rgb.shape[1::-1]
    wide = cv2.resize((void | edges).astype(np.uint8), size, interpolation=cv2.INTER_NEAREST).astype(bool)
    return cv2.resize(labels, size, interpolation=cv2.INTER_NEAREST), wide


def crop_of(mask: np.ndarray, clicks: list, margin: float = MARGIN, whole: float = WHOLE) -> tuple[int, int, int, int]:
    """The box (x, y, width, height) of mask (0..1) and clicks on the subject, and of the last click, with a margin.

    It is the whole picture if that is most of it, and where the last click adds something beside the mask, of unknown size.
    """
    h, w = mask.shape
    rows, columns = np.where(mask > 0.5)
    if not len(rows):
        return 0, 0, w, h
    x0, y0, x1, y1 = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
    for (x, y), on_subject in [c for c in clicks[:-1] if c[1]] + clicks[-1:]:
        if on_subject and (x, y) == tuple(clicks[-1][0]) and not (x0 <= x < x1 and y0 <= y < y1):
            return 0, 0, w, h
        x0, y0, x1, y1 = min(x0, x), min(y0, y), max(x1, x + 1), max(y1, y + 1)
    margin = margin * max(x1 - x0, y1 - y0) + 8
    x0, y0 = max(0, int(x0 - margin)), max(0, int(y0 - margin))
    x1, y1 = min(w, int(x1 + margin) + 1), min(h, int(y1 + margin) + 1)
    return (0, 0, w, h) if (x1 - x0) * (y1 - y0) > whole * w * h else (x0, y0, x1 - x0, y1 - y0)


def random_crop_of(rng, mask: np.ndarray, clicks: list) -> tuple[int, int, int, int]:
    """As `crop_of`, with other margins."""
    return crop_of(mask, clicks, rng.uniform(0.05, 0.4), rng.uniform(0.5, 0.95))


def outline_box(rng, mask: np.ndarray):
    """A part of the picture about a point of the outline: a quarter to six tenths of the longer side."""
    h, w = mask.shape
    inside = (mask > 127).astype(np.uint8)
    rows, columns = np.where(cv2.morphologyEx(inside, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8)) > 0)
    if not len(rows):
        return 0, 0, w, h
    k, side = int(rng.integers(len(rows))), int(rng.uniform(0.25, 0.6) * max(h, w))
    side = max(96, side)
    cw, ch = min(side, w), min(side, h)
    x = int(np.clip(columns[k] - rng.uniform(0.2, 0.8) * cw, 0, w - cw))
    y = int(np.clip(rows[k] - rng.uniform(0.2, 0.8) * ch, 0, h - ch))
    return x, y, cw, ch


class GuidedComposer(Composer):
    def __init__(self, sources, objects: list[tuple[Path, Path]], object_share: float, masks: list[Path], object_set: str):
        super().__init__(sources)
        self.mix = {**self.mix, "composite": {**self.mix["composite"], "white": WHITE}}
        self.objects, self.object_share, self.masks, self.object_set = objects, object_share, masks, object_set

    def sample(self, rng, size: int):
        """As `Composer.sample`, and the planes (3, size, size), uint8."""
        kind = rng.random()
        if kind < self.object_share:
            draw_sample = self.of_objects
        else:
            draw_sample = self.of_photo if chance(rng, 0.65) else self.of_composite
        rgb, mask, valid, so_far, clicks = draw_sample(rng, size)
        planes = np.zeros((3, size, size), np.uint8)
        planes[0] = np.round(np.clip(so_far, 0, 1) * 255)
        for at, on_subject in clicks:
            draw(planes, at, on_subject)
        if clicks:
            valid = without_unclicked(so_far, mask, valid, planes[1:].any(0))
        return degrade(rng, rgb), np.ascontiguousarray(np.round(np.clip(mask, 0, 1) * 255).astype(np.uint8)), valid, planes

    def own_mask(self, rng, name: str, stem: str) -> np.ndarray | None:
        """The network's mask of a whole photo, or a coarser one by a smaller picture: on photos that it was trained on its own is too good."""
        files = [folder / name / f"{stem}.png" for folder in self.masks]
        file = files[int(rng.integers(len(files)))]
        return read_mask(file) if file.exists() else None

    def of_objects(self, rng, size: int):
        several = chance(rng, 0.8)
        for _ in range(30):
            photo, file = self.objects[int(rng.integers(len(self.objects)))]
            rgb = resize_to(read_rgb(photo), MAX_SIDE)
            labels, void = objects_of(file, rgb)
            present = [k for k in range(1, int(labels.max()) + 1) if (labels == k).sum() > 4 * WRONG_PIXELS]
            if len(present) > several:
                break
        changed = set(rng.permutation(present)[: int(rng.integers(1, 3))].tolist()) if present and chance(rng, 0.85) else set()
        own = self.own_mask(rng, self.object_set, photo.stem) if chance(rng, 0.5) else None
        if own is not None:
            so_far = cv2.resize(own, rgb.shape[1::-1], interpolation=cv2.INTER_LINEAR).astype(np.float32) / 255
            covered = {k: float((so_far[labels == k] > 0.5).mean()) for k in present}
            before = [k for k in present if covered[k] > (rng.uniform(0.1, 0.9) if k in changed else 0.5)]
            wanted = [k for k in present if (k in before) != (k in changed)]
            unsure = [k for k in present if k not in changed and 0.1 < covered[k] < 0.9]
            void |= np.isin(labels, unsure) | ((so_far > 0.5) & (labels == 0))  # wrong, and nobody clicked there
        else:
            wanted = [k for k in present if len(present) == 1 or chance(rng, 0.5)]
            before = [k for k in present if (k in wanted) != (k in changed)]
            so_far = np.isin(labels, before).astype(np.float32)
            if chance(rng, 0.7):
                so_far = at_side(so_far, size, lambda plane: worse(rng, plane, kinds=(0, 4)))
        clicks = []
        for k in present:  # also clicks from before, which still hold
            if (k in changed or chance(rng, 0.15)) and (at := click(labels == k, rng)) is not None:
                clicks.append((at, k in wanted))
        clicks.sort(key=lambda c: labels[c[0][1], c[0][0]] in changed)
        mask = np.isin(labels, wanted).astype(np.float32)
        box = random_crop_of(rng, so_far, clicks) if chance(rng, 0.8) else crop_box(rng, (labels > 0).astype(np.uint8) * 255, 0.4, 0.4)
        x, y, w, h = box
        window, mirrored = np.s_[y : y + h, x : x + w], chance(rng, 0.5)
        interpolation = cv2.INTER_AREA if max(w, h) > size * 1.2 else cv2.INTER_LINEAR
        planes = [cv2.resize(plane[window], (size, size), interpolation=how) for plane, how in
                  ((rgb, interpolation), (mask, interpolation), (so_far, interpolation), (void.astype(np.uint8), cv2.INTER_NEAREST))]
        seen = [(((cx - x + 0.5) * size / w, (cy - y + 0.5) * size / h), on) for (cx, cy), on in clicks
                if x <= cx < x + w and y <= cy < y + h]
        if mirrored:
            planes = [np.ascontiguousarray(plane[:, ::-1]) for plane in planes]
        seen = [((int(size - 1 - cx if mirrored else cx), int(cy)), on) for (cx, cy), on in seen]
        rgb, mask, so_far, void = planes
        rgb = colour_jitter(rng, rgb.astype(np.float32), 0.7)
        return rgb, mask, np.where(void > 0, 0, 255).astype(np.uint8), so_far, seen

    def of_photo(self, rng, size: int):
        source, file = self.photos.draw(rng)
        photo = file.read()
        shape = photo.mask.shape[::-1]
        valid = np.full_like(photo.mask, 255) if photo.valid is None else photo.valid
        ours = None if source.name in OWN_LABELS else self.own_mask(rng, source.name, file.path.stem)
        ours = None if ours is None else cv2.resize(ours, shape, interpolation=cv2.INTER_LINEAR)
        clean = np.where(valid == 255, photo.mask, 0 if ours is None else ours).astype(np.uint8)  # grey is no subject
        own = ours is not None and chance(rng, 0.6)
        if own and overlap(ours / 255, clean / 255) > 0.95:
            own = chance(rng, 0.5)
        if own:
            start = ours
        elif chance(rng, 0.85):
            start = np.round(at_side(clean.astype(np.float32) / 255, size, lambda plane: worse(rng, plane)) * 255).astype(np.uint8)
        else:
            start = np.zeros_like(clean)
        kind = rng.random()
        if kind < 0.65:
            first = next_click(start / 255, clean / 255, valid / 255, rng)
            box = random_crop_of(rng, start / 255, [first] if first and chance(rng, 0.6) else [])
        elif kind < 0.9:
            box = close_box(rng, clean)
        else:
            box = outline_box(rng, clean)
        rgb, mask, valid, start = to_square(rng, [photo.rgb, photo.mask, valid, start], box, size)
        mask, start = mask.astype(np.float32) / 255, start.astype(np.float32) / 255
        valid = np.where(valid == 255, 255, 0).astype(np.uint8)
        clicks = self.clicks(rng, mask, valid, start, 0.5 if own else 0.4)
        rgb = colour_jitter(rng, rgb.astype(np.float32), 0.7)
        return rgb, mask, valid, start, clicks

    def of_composite(self, rng, size: int):
        near_tone = chance(rng, 0.2)
        rgb, mask = self.scene(rng, size) if chance(rng, 0.3) else self.composite(rng, size, near_tone)
        if on_white(rgb, mask) and chance(rng, self.mix["thumbnail"]["share"]):
            rgb, mask = thumbnail(rng, rgb, mask)
        else:
            rgb = colour_jitter(rng, rgb, 0.3 if near_tone else 0.7)
        start = worse(rng, mask) if chance(rng, 0.85) else np.zeros_like(mask)
        kind = rng.random()
        if kind < 0.4:
            box = random_crop_of(rng, start, [])
        elif kind < 0.5:
            box = outline_box(rng, np.round(mask * 255).astype(np.uint8))
        else:
            box = (0, 0, size, size)
        rgb, mask, start = to_square(rng, [np.clip(rgb, 0, 255), mask, start], box, size)
        valid = np.full((size, size), 255, np.uint8)
        return rgb, mask, valid, start, self.clicks(rng, mask, valid, start, 0.4)

    @staticmethod
    def clicks(rng, mask, valid, start, none: float) -> list:
        """Clicks in wrong regions, the largest first; none with probability `none`."""
        rest = 1 - none
        count = int(rng.choice([0, 1, 2, 3, 5], p=[none, 0.5 * rest, 0.25 * rest, 0.17 * rest, 0.08 * rest]))
        if overlap(start, mask) < 0.5 and mask.mean() > 0.01:
            count = max(1, count)  # without a click nothing says what the subject is
        clicks, shown = [], start.copy()
        radius = max(8, round(0.06 * len(mask)))
        for _ in range(count):
            found = next_click(shown, mask, valid / 255, rng)
            if found is None:
                break
            clicks.append(found)
            (x, y), _ = found
            spot = np.s_[max(0, y - radius) : y + radius, max(0, x - radius) : x + radius]
            shown[spot] = mask[spot]  # the next click lies elsewhere
        return clicks


# ---------------------------------------------------------------------------------------------- use and evaluation


@torch.no_grad()
def better(net: GuidedNet, rgb: np.ndarray, mask: np.ndarray, clicks: list, side: int = 384) -> np.ndarray:
    """The mask (0..1) of the picture after one pass over the crop of mask and clicks."""
    x, y, w, h = crop_of(mask, clicks)
    window = np.s_[y : y + h, x : x + w]
    interpolation = cv2.INTER_AREA if max(w, h) > side else cv2.INTER_LINEAR
    planes = np.zeros((3, side, side), np.uint8)
    planes[0] = np.round(cv2.resize(mask[window], (side, side), interpolation=interpolation) * 255)
    for (cx, cy), on_subject in clicks:
        draw(planes, (int((cx - x + 0.5) * side / w), int((cy - y + 0.5) * side / h)), on_subject)
    guide = torch.from_numpy(planes)[None].float().div(255)
    out = torch.sigmoid(net(network_input(rgb[window], side), guide))[0, 0].numpy()
    result = mask.copy()
    result[window] = cv2.resize(out, (w, h), interpolation=cv2.INTER_LINEAR)
    return merged(mask, result, clicks[-1][0]) if clicks else result


def second_pass(base: FGNet, rgb: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The plain network again on the subject's box, averaged with the first mask: about what the service does without this network."""
    x, y, w, h = crop_of(mask, [], 0.12, SMALL)
    result, window = mask.copy(), np.s_[y : y + h, x : x + w]
    again = cv2.resize(predict(base, np.ascontiguousarray(rgb[window])), (w, h), interpolation=cv2.INTER_LINEAR)
    result[window] = (result[window] + again) / 2
    return result


def simulated(net: GuidedNet, base: FGNet, rgb: np.ndarray, truth: np.ndarray) -> list[tuple[float, float, float]]:
    """Scores (MAE, IoU, boundary IoU) of the base's mask, its second pass, the guided pass without a click, and after 1 to
    `MOST_CLICKS` clicks on that. Both passes leave masks of large subjects as they are."""
    start = cv2.resize(predict(base, rgb), truth.shape[::-1], interpolation=cv2.INTER_LINEAR)
    is_small = crop_of(start, [], 0.12, SMALL)[2:] != start.shape[::-1]
    again, mask = (second_pass(base, rgb, start), better(net, rgb, start, [])) if is_small else (start, start)
    scores = [score(start, truth), score(again, truth), score(mask, truth)]
    clicks, used = [], np.zeros((3, *truth.shape), np.uint8)
    for _ in range(MOST_CLICKS):
        found = next_click(mask, truth, np.ones_like(truth), used=used[1:].any(0), least=1)
        if found is not None:
            clicks.append(found)
            draw(used, *found)
            mask = better(net, rgb, mask, clicks)
        scores.append(score(mask, truth))
    return scores


def other_objects(net: GuidedNet, base: FGNet, photo: Path, file: Path) -> tuple[float, float] | None:
    """After a click on the smaller of a photo's objects: the share of it that has changed sides, and the share of the other objects
    that has."""
    rgb = read_rgb(photo)
    labels, _ = objects_of(file, rgb)
    sizes = {k: int((labels == k).sum()) for k in range(1, int(labels.max()) + 1)}
    sizes = {k: n for k, n in sizes.items() if n > 4 * WRONG_PIXELS}
    if len(sizes) < 2:
        return None
    start = cv2.resize(predict(base, rgb), rgb.shape[1::-1], interpolation=cv2.INTER_LINEAR)
    k = min(sizes, key=sizes.get)
    was = (start[labels == k] > 0.5).mean() > 0.5
    at = click(labels == k)
    after = better(net, rgb, start, [(at, not was)])
    others = (labels > 0) & (labels != k)
    flipped = (start > 0.5) != (after > 0.5)
    return float(((after > 0.5) != was)[labels == k].mean()), float(flipped[others].mean())


class GuidedRun(Run):
    def composer(self):
        a = self.a
        objects = [(photo, a.maps / f"{photo.stem}.png") for photo, _ in masked_pairs(a.objects) if (a.maps / f"{photo.stem}.png").exists()]
        print(f"{len(objects)} photos with maps of classes", flush=True)
        return GuidedComposer(self.sources, objects, a.object_share, a.masks, a.objects.name)

    def network(self):
        return GuidedNet()

    def train_batch(self, rgb, mask, valid, planes):
        rng = np.random.default_rng([self.a.seed, self.step])
        if rng.random() < self.a.rounds:
            planes, valid = self.own_rounds(rng, rgb, mask, valid, planes)
        return super().train_batch(rgb, mask, valid, planes.float().div(255))

    def own_rounds(self, rng, rgb, mask, valid, planes):
        """The planes after one to three passes of the network, with its mask as the mask so far and a further click after each; half of the
        samples without clicks stay as they are."""
        self.model.eval()
        truth, valid, planes = mask.numpy() / 255, valid.numpy().copy(), planes.numpy().copy()
        whole = valid.copy()
        kept = [not one[1:].any() and chance(rng, 0.5) for one in planes]
        x = rgb.permute(0, 3, 1, 2).float().div(127.5).sub(1).contiguous(memory_format=torch.channels_last)
        newest = [None] * len(planes)
        for _ in range(int(rng.choice([1, 2, 3], p=[0.6, 0.25, 0.15]))):
            with torch.no_grad(), self.autocast():
                found = torch.sigmoid(self.model(x, torch.from_numpy(planes).float().div(255)).float())[:, 0].numpy()
            for k, now in enumerate(found):
                if kept[k]:
                    continue
                if newest[k] is not None:
                    now = merged(planes[k, 0] / 255, now, newest[k])
                planes[k, 0] = np.round(now * 255)
                one = next_click(now, truth[k], whole[k] / 255, rng, planes[k, 1:].any(0))
                if one is not None:
                    newest[k] = one[0]
                    draw(planes[k], *one)
        for k in range(len(planes)):
            if not kept[k]:
                valid[k] = without_unclicked(planes[k, 0] / 255, truth[k], whole[k], planes[k, 1:].any(0))
        return torch.from_numpy(planes), torch.from_numpy(valid)

    def measure(self, cap: int) -> dict:
        net = GuidedNet()
        net.load_state_dict(self.average.state)
        net.eval().fold()
        base = load(Path(self.a.base))
        out, stride = {}, 4 if cap else 1
        for s in ("scenes", "ecssd", "voc_animals", "product_real", "product_composite", "product_white_iconic", "matting"):
            scores = np.array([simulated(net, base, rgb, truth) for _, rgb, truth in list(truths(self.a.eval / s, 0))[::stride]])
            falls = (scores[:, 3:, 1] < scores[:, 2:-1, 1] - 0.005).mean(0)
            out[s] = {"iou": rounded(scores[:, :, 1].mean(0)), "boundary_iou": rounded(scores[:, :, 2].mean(0)), "falls": rounded(falls)}
            print("  ", s, out[s], flush=True)
        found = [other_objects(net, base, photo, self.a.maps / f"{photo.stem}.png") for photo, _ in
                 list(masked_pairs(self.a.eval / "voc_animals"))[::stride] if (self.a.maps / f"{photo.stem}.png").exists()]
        out["objects"] = rounded(np.mean([f for f in found if f], axis=0))
        print("   objects: clicked, others", out["objects"], flush=True)
        self.log(eval=out)
        return out


def rounded(values) -> list[float]:
    return [round(float(v), 4) for v in np.atleast_1d(values)]


def options(argv=None):
    p = argparse.ArgumentParser(add_help=False)
    p.add_argument("--objects", type=Path, required=True)
    p.add_argument("--maps", type=Path, required=True)
    p.add_argument("--masks", type=Path, action="append", required=True, help="folders of masks to be improved: FOLDER/<set>/<stem>.png")
    p.add_argument("--base", required=True, help="the exported network whose masks are made better, for the evaluation")
    p.add_argument("--object-share", type=float, default=0.3)
    p.add_argument("--rounds", type=float, default=0.4, help="share of the steps with the network's own mask as the mask so far")
    own, rest = p.parse_known_args(argv)
    a = arguments(rest)
    a.__dict__.update(own.__dict__)
    return a


if __name__ == "__main__":
    GuidedRun(options()).train()
