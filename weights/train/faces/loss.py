"""Which cells answer for a face, and what they are asked.

A face belongs to the levels of its size (the square root of its box's area), which overlap; the cells whose centre lies
within `RADIUS` cells of the face's centre, and in its box, are positive. Cells in regions where nobody knows ask nothing.
"""
import torch
import torch.nn.functional as F

from faces.model import STRIDES

SIZES = {8: (0.0, 48.0), 16: (32.0, 112.0), 32: (80.0, 1e9)}  # px; of the faces that a level answers for
RADIUS = 1.5                                                  # cells
INSIDE = 0.05                                                 # least distance from a box's edge, in its sides
BOX_WEIGHT, POINT_WEIGHT = 2.0, 10.0
POINT_BETA = 0.02  # of the face's size: below it the landmarks' loss is quadratic


def centres(height: int, width: int, stride: int, device=None) -> torch.Tensor:
    """[height · width, 2] of the cells' centres in pixels, row by row."""
    y, x = torch.meshgrid(torch.arange(height, device=device), torch.arange(width, device=device), indexing="ij")
    return (torch.stack([x, y], -1).reshape(-1, 2).float() + 0.5) * stride


def flatten(outputs: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The network's answers as [n, cells, 15], with the cells' centres [cells, 2] and strides [cells]."""
    rows = torch.cat([o.flatten(2).transpose(1, 2) for o in outputs], 1)
    at = torch.cat([centres(*o.shape[2:], s, o.device) for o, s in zip(outputs, STRIDES)])
    strides = torch.cat([torch.full((o.shape[2] * o.shape[3],), float(s), device=o.device)
                         for o, s in zip(outputs, STRIDES)])
    return rows, at, strides


def decode(rows: torch.Tensor, at: torch.Tensor, strides: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Boxes [..., 4] and landmarks [..., 5, 2] in pixels of rows [..., 15]."""
    reach = rows[..., 1:5].clamp(max=6).exp() * strides[..., None]
    boxes = torch.cat([at - reach[..., :2], at + reach[..., 2:]], -1)
    points = rows[..., 5:].unflatten(-1, (5, 2)) * strides[..., None, None] + at[..., None, :]
    return boxes, points


def assign(faces: torch.Tensor, at: torch.Tensor, strides: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """For each cell the index of the face it answers for, or -1; and whether it is not to be asked.

    faces [f, 15]: left, top, right, bottom, 5 × (x, y), and 1 for a face or 0 for a region to leave alone.
    """
    owner = torch.full((len(at),), -1, dtype=torch.long, device=at.device)
    ignored = torch.zeros(len(at), dtype=torch.bool, device=at.device)
    if not len(faces):
        return owner, ignored
    boxes, real = faces[:, :4], faces[:, 14] > 0.5
    sides = boxes[:, 2:] - boxes[:, :2]
    inner = torch.minimum(at[:, None] - boxes[None, :, :2], boxes[None, :, 2:] - at[:, None])
    within = (inner > 0).all(-1)
    ignored = (within & ~real).any(1)
    size = sides.prod(-1).sqrt()
    low = torch.tensor([SIZES[s][0] for s in STRIDES], device=at.device)
    high = torch.tensor([SIZES[s][1] for s in STRIDES], device=at.device)
    level = (strides.log2() - 3).round().long()
    fits = (size >= low[level][:, None]) & (size < high[level][:, None])
    off = (at[:, None] - (boxes[:, :2] + boxes[:, 2:]) / 2).abs().amax(-1) / strides[:, None]
    positive = (off < RADIUS) & fits & real & (inner > INSIDE * sides).all(-1)
    off = off.masked_fill(~positive, torch.inf)
    nearest = off.argmin(1)
    owner = torch.where(positive.any(1), nearest, owner)
    return owner, ignored & (owner < 0)


def overlaps(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """IoU and generalised IoU (Rezatofighi et al. 2019) of boxes [n, 4] with [n, 4]."""
    both = (torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp(min=0).prod(-1)
    either = (a[:, 2:] - a[:, :2]).prod(-1) + (b[:, 2:] - b[:, :2]).prod(-1) - both
    hull = (torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])).prod(-1)
    iou = both / either.clamp(min=1e-6)
    return iou, iou - (hull - either) / hull.clamp(min=1e-6)


def face_loss(outputs: list[torch.Tensor], faces: list[torch.Tensor]) -> tuple[torch.Tensor, dict[str, float]]:
    """Quality focal loss (Li et al. 2020) of the score, whose target is the IoU; GIoU; smooth L1 of the landmarks."""
    rows, at, strides = flatten(outputs)
    answers, truths, at_cells, of_stride = [], [], [], []
    target = torch.zeros(rows.shape[:2], device=rows.device)
    asked = torch.ones_like(target)
    spots = []
    for k, these in enumerate(faces):
        owner, ignored = assign(these, at, strides)
        asked[k][ignored] = 0
        cells = (owner >= 0).nonzero()[:, 0]
        spots.append((k, cells))
        answers.append(rows[k, cells])
        truths.append(these[owner[cells]])
        at_cells.append(at[cells])
        of_stride.append(strides[cells])
    answers, truths = torch.cat(answers), torch.cat(truths)
    count = max(1, len(answers))
    box_loss = point_loss = rows.sum() * 0
    mean_iou = 0.0
    if len(answers):
        boxes, points = decode(answers, torch.cat(at_cells), torch.cat(of_stride))
        iou, giou = overlaps(boxes, truths[:, :4])
        size = (truths[:, 2:4] - truths[:, :2]).prod(-1).sqrt()
        off = (points - truths[:, 4:14].unflatten(-1, (5, 2))) / size[:, None, None]
        box_loss = (1 - giou).sum() / count
        point_loss = F.smooth_l1_loss(off, torch.zeros_like(off), beta=POINT_BETA, reduction="sum") / (10 * count)
        mean_iou = float(iou.detach().mean())
        quality, start = iou.detach().clamp(0, 1), 0
        for k, cells in spots:
            target[k, cells] = quality[start : start + len(cells)]
            start += len(cells)
    logits = rows[..., 0]
    focus = (logits.sigmoid().detach() - target).abs().square()
    entropy = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    score_loss = (entropy * focus * asked).sum() / count * 2
    loss = score_loss + BOX_WEIGHT * box_loss + POINT_WEIGHT * point_loss
    return loss, {"score": float(score_loss.detach()), "box": float(box_loss.detach()),
                  "points": float(point_loss.detach()), "iou": mean_iou, "cells": len(answers) / len(faces)}
