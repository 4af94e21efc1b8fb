"""Training loss of fgnet: cross-entropy, soft IoU, gradient, L1 and background hinge terms, with deep supervision of four side outputs."""
import torch
import torch.nn.functional as F

SIDE_SHARES = (0.25, 0.2, 0.2, 0.3)  # outputs at 1/32, 1/16, 1/8, 1/4
HINGE_SHARE = 0.3
SURE_LOGIT = -3.0                    # background far from the subject has no hinge loss below it (a probability of .047)
EMPTY_BELOW = 0.002                  # of the area: below it the picture has no subject, and the IoU terms are left out


def edge_weight(target: torch.Tensor) -> torch.Tensor:
    """1 far from the mask's edges, up to 5 near them: edge pixels are few, and errors there are the most visible."""
    quarter = F.avg_pool2d(target, 4)
    near = F.avg_pool2d(quarter, 9, 1, 4, count_include_pad=False)
    near = F.interpolate(near, scale_factor=4, mode="bilinear")
    return 1 + 4 * (near - target).abs()


def background_hinge(logits, target, valid):
    """The mean excess of the logits over `SURE_LOGIT` in the background at least eight pixels from the subject.

    Cross-entropy's gradient on faint grey areas is small; the hinge's is constant.
    """
    near = F.max_pool2d(F.max_pool2d(target, 4), 5, 1, 2)
    far = F.interpolate((near < 0.02).to(target.dtype), scale_factor=4, mode="nearest") * valid
    return (F.relu(logits - SURE_LOGIT) * far).sum((1, 2, 3)) / far.sum((1, 2, 3)).clamp(min=1.0)


def soft_iou(p, target, weight=1.0, smooth=1.0):
    inter = (p * target * weight).sum((1, 2, 3))
    union = ((p + target - p * target) * weight).sum((1, 2, 3))
    return 1 - (inter + smooth) / (union + smooth)


def neighbour_differences(t):
    return t[..., 1:] - t[..., :-1], t[:, :, 1:] - t[:, :, :-1]


def neighbour_products(t):
    """Products of the pairs that `neighbour_differences` subtracts."""
    return t[..., 1:] * t[..., :-1], t[:, :, 1:] * t[:, :, :-1]


def mask_loss(logits, sides, target, valid, l1_share=1.0):
    """`target` in 0..1, soft; `valid` is 1 where the loss counts, else 0. Returns the loss and its parts for the log."""
    p = torch.sigmoid(logits)
    has_subject = (target * valid).mean((1, 2, 3)) > EMPTY_BELOW
    weight = edge_weight(target) * valid
    bce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    bce = (bce * weight).sum((1, 2, 3)) / weight.sum((1, 2, 3)).clamp(min=1.0)
    iou = soft_iou(p, target, weight) * has_subject
    pairs = zip(neighbour_differences(p - target), neighbour_products(valid))
    gradient = sum((a * b).abs().mean((1, 2, 3)) for a, b in pairs)
    l1 = ((p - target).abs() * valid).mean((1, 2, 3))
    hinge = background_hinge(logits, target, valid)
    total = bce + 0.7 * iou + 2.0 * gradient + l1_share * l1 + HINGE_SHARE * hinge
    for side, share in zip(sides, SIDE_SHARES):
        factor = target.shape[-1] // side.shape[-1]
        small, all_valid = F.avg_pool2d(target, factor), -F.max_pool2d(-valid, factor)
        side_bce = (F.binary_cross_entropy_with_logits(side, small, reduction="none") * all_valid).mean((1, 2, 3))
        shown = has_subject & ((small * all_valid).sum((1, 2, 3)) > 0.5)  # a small subject may have no wholly valid cell
        total = total + share * (side_bce + 0.5 * soft_iou(torch.sigmoid(side), small, all_valid, smooth=0.1) * shown)
    parts = {"bce": bce, "iou": iou, "l1": l1, "hinge": hinge}
    return total.mean(), {k: float(v.detach().mean()) for k, v in parts.items()}
