"""Makes `birefnet.onnx`: the operators of BiRefNet's published export, in a network of two stages with random weights, and
`birefnet.f32`, the mask that PyTorch computes for `picture()`.

As in github.com/ZhengPeng7/BiRefNet: a Swin encoder (shifted windows, relative positions, patch merging), a deformable convolution in
the decoder, which the author's recipe (`tutorials/BiRefNet_pth2onnx.ipynb`, opset 17, one fixed size) writes as gathers, pooled
context, bilinear enlargement, and logits at two sizes of which the last is the mask. Run with torch of
weights/train/requirements.txt and onnx of benches/peers/requirements.txt: python make_birefnet.py
"""

import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).parent
SIDE, WINDOW, HEADS, WIDTH = 64, 4, 2, 8


class Block(nn.Module):
    """Attention within windows, shifted by half a window or not, and a perceptron."""

    def __init__(self, width, side, shift):
        super().__init__()
        self.side, self.shift = side, shift
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.positions = nn.Parameter(torch.randn(HEADS, (2 * WINDOW - 1) ** 2))
        places = torch.cartesian_prod(torch.arange(WINDOW), torch.arange(WINDOW))
        steps = places[:, None] - places[None] + WINDOW - 1
        self.register_buffer("steps", steps[..., 0] * (2 * WINDOW - 1) + steps[..., 1])
        # Cells that the shift brought together do not see each other.
        parts = torch.zeros(side, side)
        if shift:
            parts[-WINDOW:-shift] += 1
            parts[-shift:] += 2
            parts[:, -WINDOW:-shift] += 3
            parts[:, -shift:] += 6
        parts = self.windows(parts[None, ..., None]).flatten(1)
        self.register_buffer("mask", (parts[:, None] != parts[:, :, None]).float() * -100)

    def windows(self, x):
        n, count = x.shape[0], self.side // WINDOW
        x = x.view(n, count, WINDOW, count, WINDOW, x.shape[-1])
        return x.permute(0, 1, 3, 2, 4, 5).reshape(n * count * count, WINDOW * WINDOW, x.shape[-1])

    def whole(self, x):
        count = self.side // WINDOW
        x = x.view(-1, count, count, WINDOW, WINDOW, x.shape[-1]).permute(0, 1, 3, 2, 4, 5)
        return x.reshape(-1, self.side, self.side, x.shape[-1])

    def attention(self, x):
        windows, cells, width = x.shape
        q, k, v = self.qkv(x).view(windows, cells, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        weights = q @ k.transpose(-2, -1) * (width // HEADS) ** -0.5
        weights = weights + self.positions[:, self.steps] + self.mask[:, None]
        return self.project((weights.softmax(-1) @ v).transpose(1, 2).reshape(windows, cells, width))

    def forward(self, x):
        shifted = torch.roll(self.norms[0](x), (-self.shift, -self.shift), (1, 2))
        attended = self.whole(self.attention(self.windows(shifted)))
        x = x + torch.roll(attended, (self.shift, self.shift), (1, 2))
        return x + self.mlp(self.norms[1](x))


class Deformable(nn.Module):
    """A modulated deformable convolution of 3 by 3 as gathers, as `deform_conv2d_onnx_exporter` writes it."""

    def __init__(self, width):
        super().__init__()
        self.offsets, self.gates = nn.Conv2d(width, 18, 3, padding=1), nn.Conv2d(width, 9, 3, padding=1)
        self.weights = nn.Parameter(torch.randn(width, width, 9) / (9 * width) ** 0.5)

    def forward(self, x):
        n, width, rows, columns = x.shape
        offsets = self.offsets(x).view(n, 9, 2, rows, columns)
        gates = 2 * torch.sigmoid(self.gates(x)).view(n, 1, 9, rows, columns)
        taps = torch.arange(9)
        y = offsets[:, :, 0] + (taps // 3 - 1).view(1, 9, 1, 1) + torch.arange(rows).view(1, 1, rows, 1)
        x_ = offsets[:, :, 1] + (taps % 3 - 1).view(1, 9, 1, 1) + torch.arange(columns).view(1, 1, 1, columns)
        top, left = torch.floor(y), torch.floor(x_)
        sampled = 0
        for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
            row, column = top + down, left + right
            share = (1 - (y - row).abs()) * (1 - (x_ - column).abs())
            inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
            index = row.clamp(0, rows - 1) * columns + column.clamp(0, columns - 1)
            index = index.to(torch.int64).reshape(n, 1, -1).expand(n, width, 9 * rows * columns)
            found = torch.gather(x.flatten(2), 2, index).view(n, width, 9, rows, columns)
            sampled = sampled + found * torch.where(inside, share, torch.zeros_like(share))[:, None]
        return torch.einsum("ncthw,oct->nohw", sampled * gates, self.weights)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.first = nn.Conv2d(3, WIDTH, 4, stride=4), nn.LayerNorm(WIDTH)
        side = SIDE // 4
        self.stages = nn.ModuleList(
            nn.Sequential(Block(WIDTH << s, side >> s, 0), Block(WIDTH << s, side >> s, WINDOW // 2)) for s in range(2)
        )
        self.merge, self.merged = nn.Linear(4 * WIDTH, 2 * WIDTH, bias=False), nn.LayerNorm(4 * WIDTH)
        self.deformable, self.normalised = Deformable(2 * WIDTH), nn.BatchNorm2d(2 * WIDTH)
        self.context, self.lateral = nn.Conv2d(2 * WIDTH, 2 * WIDTH, 1), nn.Conv2d(WIDTH, 2 * WIDTH, 1)
        self.early, self.late = nn.Conv2d(2 * WIDTH, 1, 1), nn.Conv2d(2 * WIDTH + 3, 1, 3, padding=1)

    def forward(self, picture):
        x = self.first(self.patches(picture).permute(0, 2, 3, 1))
        fine = self.stages[0](x)
        x = torch.cat([fine[:, 0::2, 0::2], fine[:, 1::2, 0::2], fine[:, 0::2, 1::2], fine[:, 1::2, 1::2]], -1)
        x = self.stages[1](self.merge(self.merged(x))).permute(0, 3, 1, 2)
        x = F.relu(self.normalised(self.deformable(x)))
        pooled = F.interpolate(self.context(F.adaptive_avg_pool2d(x, 1)), size=x.shape[2:], mode="bilinear", align_corners=True)
        x = F.interpolate(x + pooled, size=fine.shape[1:3], mode="bilinear", align_corners=True)
        x = x + self.lateral(fine.permute(0, 3, 1, 2))
        early = self.early(x)
        x = F.interpolate(x * torch.sigmoid(early), size=picture.shape[2:], mode="bilinear", align_corners=True)
        return early, self.late(torch.cat([x, picture], 1))


def picture():
    """A picture of the network's size, RGB: slopes, and a bright square."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    pixels = np.stack([3 * columns, 3 * rows, 255 - rows - columns], -1).astype(np.uint8)
    pixels[20:44, 24:48] = (230, 220, 60)
    return pixels


if __name__ == "__main__":
    torch.manual_seed(51)
    network = Network().eval()
    with torch.no_grad():
        for running in (network.normalised.running_mean, network.normalised.running_var):
            running.copy_(0.5 + torch.rand_like(running))
        # A mask from background to subject.
        network.late.weight.mul_(8)
        mean, deviation = (torch.tensor(of).view(3, 1, 1) for of in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
        x = ((torch.tensor(picture()).permute(2, 0, 1) / 255 - mean) / deviation)[None]
        torch.sigmoid(network(x)[-1]).numpy().astype("<f4").tofile(HERE / "birefnet.f32")
        names = {"input_names": ["input_image"], "output_names": ["early", "output_image"]}
        torch.onnx.export(network, (x,), HERE / "birefnet.onnx", opset_version=17, dynamo=False, **names)
