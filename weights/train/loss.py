"""What the network is asked to get right."""
import torch
import torch.nn.functional as F

SIDE_SHARES = (0.25, 0.2, 0.2, 0.3)  # outputs at 1/32, 1/16, 1/8, 1/4
EMPTY_BELOW = 0.002                  # of the area: a picture without a subject has no intersection to speak of


def edge_weight(g: torch.Tensor) -> torch.Tensor:
    """1 far from any edge of the mask, up to 5 near one: edges are few, and what people look at."""
    quarter = F.avg_pool2d(g, 4)
    near = F.avg_pool2d(quarter, 9, 1, 4, count_include_pad=False)
    near = F.interpolate(near, scale_factor=4, mode="bilinear")
    return 1 + 4 * (near - g).abs()


def soft_iou(p, g, w=1.0, smooth=1.0):
    inter = (p * g * w).sum((1, 2, 3))
    union = ((p + g - p * g) * w).sum((1, 2, 3))
    return 1 - (inter + smooth) / (union + smooth)


def steps(t):
    return t[..., 1:] - t[..., :-1], t[:, :, 1:] - t[:, :, :-1]


def both(t):
    """The product of the neighbours that `steps` takes the difference of."""
    return t[..., 1:] * t[..., :-1], t[:, :, 1:] * t[:, :, :-1]


def mask_loss(logits, sides, g, sure, l1_share=1.0):
    """`g` in 0..1, soft; `sure` is 1 where it is to be learned, and 0 elsewhere. Returns the loss, and its parts for the log."""
    p = torch.sigmoid(logits)
    some = (g * sure).mean((1, 2, 3)) > EMPTY_BELOW
    w = edge_weight(g) * sure
    cross = F.binary_cross_entropy_with_logits(logits, g, reduction="none")
    cross = (cross * w).sum((1, 2, 3)) / w.sum((1, 2, 3)).clamp(min=1.0)
    iou = soft_iou(p, g, w) * some
    gradient = sum((a * b).abs().mean((1, 2, 3)) for a, b in zip(steps(p - g), both(sure)))
    l1 = ((p - g).abs() * sure).mean((1, 2, 3))
    total = cross + 0.7 * iou + 2.0 * gradient + l1_share * l1
    for side, share in zip(sides, SIDE_SHARES):
        factor = g.shape[-1] // side.shape[-1]
        small, all_sure = F.avg_pool2d(g, factor), -F.max_pool2d(-sure, factor)
        q = (F.binary_cross_entropy_with_logits(side, small, reduction="none") * all_sure).mean((1, 2, 3))
        total = total + share * (q + 0.5 * soft_iou(torch.sigmoid(side), small, all_sure, smooth=0.1) * some)
    parts = {"bce": cross, "iou": iou, "l1": l1}
    return total.mean(), {k: float(v.detach().mean()) for k, v in parts.items()}
