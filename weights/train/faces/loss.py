"""Assigns the network's cells to faces, decodes boxes and landmarks, and computes the detection loss.

A face is assigned to the pyramid levels of its size (the square root of its box's area), whose ranges overlap. Cells whose
centre is within `RADIUS` cells of the face's centre, and in its box, are positive. Cells in ignored regions have no loss.
"""
import torch
import torch.nn.functional as F

from faces.model import STRIDES

LEVEL_SIZES = {8: (0.0, 48.0), 16: (32.0, 112.0), 32: (80.0, 1e9)}  # px; range of face sizes of each level
RADIUS = 1.5                                                        # cells
MIN_INSET = 0.05                                                    # minimum distance from the box's edges, in its sides
BOX_WEIGHT, POINT_WEIGHT = 2.0, 10.0
POINT_BETA = 0.02  # relative to the face's size: below it the landmark loss is quadratic


def centres(height: int, width: int, stride: int, device=None) -> torch.Tensor:
    """[height · width, 2] of the cells' centres in pixels, row by row."""
    y, x = torch.meshgrid(torch.arange(height, device=device), torch.arange(width, device=device), indexing="ij")
    return (torch.stack([x, y], -1).reshape(-1, 2).float() + 0.5) * stride


def flatten(outputs: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The network's outputs as [n, cells, 15], with the cells' centres [cells, 2] and strides [cells]."""
    rows = torch.cat([o.flatten(2).transpose(1, 2) for o in outputs], 1)
    cell_centres = torch.cat([centres(*o.shape[2:], s, o.device) for o, s in zip(outputs, STRIDES)])
    strides = torch.cat([torch.full((o.shape[2] * o.shape[3],), float(s), device=o.device)
                         for o, s in zip(outputs, STRIDES)])
    return rows, cell_centres, strides


def decode(rows: torch.Tensor, cell_centres: torch.Tensor, strides: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Boxes [..., 4] and landmarks [..., 5, 2] in pixels of rows [..., 15]."""
    reach = rows[..., 1:5].clamp(max=6).exp() * strides[..., None]
    boxes = torch.cat([cell_centres - reach[..., :2], cell_centres + reach[..., 2:]], -1)
    points = rows[..., 5:].unflatten(-1, (5, 2)) * strides[..., None, None] + cell_centres[..., None, :]
    return boxes, points


def assign(faces: torch.Tensor, cell_centres: torch.Tensor, strides: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """For each cell the index of its face, or -1; and whether its score has no loss.

    faces [f, 15]: left, top, right, bottom, 5 × (x, y), and 1 for a face or 0 for an ignored region.
    """
    owner = torch.full((len(cell_centres),), -1, dtype=torch.long, device=cell_centres.device)
    ignored = torch.zeros(len(cell_centres), dtype=torch.bool, device=cell_centres.device)
    if not len(faces):
        return owner, ignored
    boxes, real = faces[:, :4], faces[:, 14] > 0.5
    sides = boxes[:, 2:] - boxes[:, :2]
    inner = torch.minimum(cell_centres[:, None] - boxes[None, :, :2], boxes[None, :, 2:] - cell_centres[:, None])
    within = (inner > 0).all(-1)
    ignored = (within & ~real).any(1)
    size = sides.prod(-1).sqrt()
    low = torch.tensor([LEVEL_SIZES[s][0] for s in STRIDES], device=cell_centres.device)
    high = torch.tensor([LEVEL_SIZES[s][1] for s in STRIDES], device=cell_centres.device)
    level = (strides.log2() - 3).round().long()
    fits = (size >= low[level][:, None]) & (size < high[level][:, None])
    off = (cell_centres[:, None] - (boxes[:, :2] + boxes[:, 2:]) / 2).abs().amax(-1) / strides[:, None]
    positive = (off < RADIUS) & fits & real & (inner > MIN_INSET * sides).all(-1)
    off = off.masked_fill(~positive, torch.inf)
    nearest = off.argmin(1)
    owner = torch.where(positive.any(1), nearest, owner)
    return owner, ignored & (owner < 0)


def overlaps(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """IoU and generalised IoU (Rezatofighi et al. 2019) of boxes [n, 4] with [n, 4]."""
    intersection = (torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp(min=0).prod(-1)
    union = (a[:, 2:] - a[:, :2]).prod(-1) + (b[:, 2:] - b[:, :2]).prod(-1) - intersection
    hull = (torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])).prod(-1)
    iou = intersection / union.clamp(min=1e-6)
    return iou, iou - (hull - union) / hull.clamp(min=1e-6)


def face_loss(outputs: list[torch.Tensor], faces: list[torch.Tensor]) -> tuple[torch.Tensor, dict[str, float]]:
    """Quality focal loss (Li et al. 2020) of the score, whose target is the IoU; GIoU; smooth L1 of the landmarks."""
    rows, cell_centres, strides = flatten(outputs)
    predictions, matched_faces, positive_centres, positive_strides = [], [], [], []
    target = torch.zeros(rows.shape[:2], device=rows.device)
    counted = torch.ones_like(target)
    positives = []
    for k, picture_faces in enumerate(faces):
        owner, ignored = assign(picture_faces, cell_centres, strides)
        counted[k][ignored] = 0
        cells = (owner >= 0).nonzero()[:, 0]
        positives.append((k, cells))
        predictions.append(rows[k, cells])
        matched_faces.append(picture_faces[owner[cells]])
        positive_centres.append(cell_centres[cells])
        positive_strides.append(strides[cells])
    predictions, matched_faces = torch.cat(predictions), torch.cat(matched_faces)
    count = max(1, len(predictions))
    box_loss = point_loss = rows.sum() * 0
    mean_iou = 0.0
    if len(predictions):
        boxes, points = decode(predictions, torch.cat(positive_centres), torch.cat(positive_strides))
        iou, giou = overlaps(boxes, matched_faces[:, :4])
        size = (matched_faces[:, 2:4] - matched_faces[:, :2]).prod(-1).sqrt()
        off = (points - matched_faces[:, 4:14].unflatten(-1, (5, 2))) / size[:, None, None]
        box_loss = (1 - giou).sum() / count
        point_loss = F.smooth_l1_loss(off, torch.zeros_like(off), beta=POINT_BETA, reduction="sum") / (10 * count)
        mean_iou = float(iou.detach().mean())
        quality, start = iou.detach().clamp(0, 1), 0
        for k, cells in positives:
            target[k, cells] = quality[start : start + len(cells)]
            start += len(cells)
    logits = rows[..., 0]
    focus = (logits.sigmoid().detach() - target).abs().square()
    entropy = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    score_loss = (entropy * focus * counted).sum() / count * 2
    loss = score_loss + BOX_WEIGHT * box_loss + POINT_WEIGHT * point_loss
    return loss, {"score": float(score_loss.detach()), "box": float(box_loss.detach()),
                  "points": float(point_loss.detach()), "iou": mean_iou, "cells": len(predictions) / len(faces)}
