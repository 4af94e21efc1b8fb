"""The face detection network, `face`: inverted residuals, a three-level feature pyramid, one head per level.

The Rust kernels are written for exactly these layers; attribute names are the file's tensor names.

In: RGB in encoded sRGB, `x / 127.5 - 1`, [n, 3, H, W], H and W multiples of 32.
Out: for each stride of `STRIDES` [n, 15, H/stride, W/stride]: 0 the logit, 1..5 the logarithms of the distances to left,
top, right and bottom from the cell's centre, 5..15 the landmarks (x, y) from there, all in units of the stride.
"""
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).parent.parent))
from model import ConvBN

STRIDES = (8, 16, 32)
OUTPUTS = 15
WIDTH = 48  # channels of the pyramid
# in, hidden (0: no expansion), out, stride
BLOCKS = ((16, 0, 16, 1), (16, 64, 24, 2), (24, 96, 24, 1), (24, 96, 40, 2), (40, 160, 40, 1), (40, 160, 40, 1),
          (40, 160, 64, 2), (64, 192, 64, 1), (64, 192, 64, 1), (64, 192, 96, 2), (96, 288, 96, 1))
TAPS = {5: 8, 8: 16, 10: 32}  # index of the block: stride of its output
PRIOR = 0.01                  # initial score of a cell


class InvertedResidual(nn.Module):
    def __init__(self, inputs: int, hidden: int, outputs: int, stride: int):
        super().__init__()
        self.expand = ConvBN(inputs, hidden) if hidden else None
        hidden = hidden or inputs
        self.dw = ConvBN(hidden, hidden, 3, stride, hidden)
        self.project = ConvBN(hidden, outputs, act=None)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x):
        y = x if self.expand is None else self.expand(x)
        if self.dw.conv.stride[0] == 2 and y.dtype == torch.bfloat16:
            with torch.autocast(y.device.type, enabled=False):  # the CPU's backward pass is 4 to 17 times faster than in bf16
                y = self.dw(y.float())
        else:
            y = self.dw(y)
        y = self.project(y)
        return x + y if self.residual else y


class Neck(nn.Module):
    def __init__(self):
        super().__init__()
        self.dw = ConvBN(WIDTH, WIDTH, 3, 1, WIDTH, "relu")
        self.pw = ConvBN(WIDTH, WIDTH, act=None)

    def forward(self, p):
        return F.relu(p + self.pw(self.dw(p)))


class FaceNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = ConvBN(3, 16, 3, 2)
        self.blocks = nn.ModuleList(InvertedResidual(*b) for b in BLOCKS)
        self.lat8, self.lat16, self.lat32 = (ConvBN(c, WIDTH, act=None) for c in (40, 64, 96))
        self.neck = nn.ModuleDict({str(s): Neck() for s in STRIDES})
        self.head = nn.ModuleDict({str(s): nn.Conv2d(WIDTH, OUTPUTS, 1) for s in STRIDES})
        for head in self.head.values():
            nn.init.normal_(head.weight, std=0.01)
            nn.init.zeros_(head.bias)
            nn.init.constant_(head.bias[:1], -float(torch.log(torch.tensor(1 / PRIOR - 1))))

    def forward(self, x) -> list[torch.Tensor]:
        def up(t):
            return F.interpolate(t, scale_factor=2, mode="nearest")

        x, taps = self.stem(x), {}
        for k, block in enumerate(self.blocks):
            x = block(x)
            if k in TAPS:
                taps[TAPS[k]] = x
        p32 = F.relu(self.lat32(taps[32]))
        p16 = F.relu(self.lat16(taps[16]) + up(p32))
        p8 = F.relu(self.lat8(taps[8]) + up(p16))
        return [self.head[str(s)](self.neck[str(s)](p)) for s, p in zip(STRIDES, (p8, p16, p32))]

    def fold(self):
        for module in list(self.modules()):
            if isinstance(module, ConvBN):
                module.fold()
        return self


def multiply_adds(side: int = 320) -> int:
    """Multiply-adds for one picture of side × side."""
    total = 0

    def count(module, _, output):
        nonlocal total
        total += module.weight[0].numel() * output.numel()

    model = FaceNet().eval().fold()
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(count)
    with torch.no_grad():
        model(torch.zeros(1, 3, side, side))
    return total
