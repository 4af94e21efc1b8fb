"""The network, fgnet: a MobileNetV2-1.0 encoder and a light feature pyramid.

The Rust side has kernels written for exactly these layers (`src/model/weights/architecture.rs` lists the tensors), so
the attribute names below are the file's tensor names, and changing a layer here means changing it there.

In: RGB, the whole picture stretched to a square whose side is a multiple of 32, `x / 127.5 - 1`.
Out: one logit per pixel.
"""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class ConvBN(nn.Module):
    """Convolution, batch normalisation, activation; after `fold` one convolution with a bias, and the activation."""

    def __init__(self, inputs, outputs, kernel=1, stride=1, groups=1, act="relu6", dilation=1):
        super().__init__()
        pad = dilation * (kernel // 2)
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, pad, dilation, groups, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.03)
        self.act = act

    def forward(self, x):
        y = self.bn(self.convolved(x))
        if self.act == "relu6":
            return F.relu6(y, inplace=True)
        return F.relu(y, inplace=True) if self.act == "relu" else y

    def convolved(self, x):
        c = self.conv
        if not self.training or c.groups == 1 or c.stride[0] == 1:
            return c(x)
        # The same numbers, every second of them dropped: on a CPU the gradient of a strided depthwise convolution takes
        # ten times that of a dense one (a quarter of a training step, measured).
        return F.avg_pool2d(F.conv2d(x, c.weight, None, 1, c.padding, c.dilation, c.groups), 1, c.stride)

    @torch.no_grad()
    def fold(self):
        if isinstance(self.bn, nn.Identity):
            return
        scale = self.bn.weight * torch.rsqrt(self.bn.running_var + self.bn.eps)
        old = self.conv
        self.conv = nn.Conv2d(old.in_channels, old.out_channels, old.kernel_size, old.stride, old.padding,
                              old.dilation, old.groups, bias=True)
        self.conv.weight.copy_(old.weight * scale[:, None, None, None])
        self.conv.bias.copy_(self.bn.bias - self.bn.running_mean * scale)
        self.bn = nn.Identity()


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        hidden = inputs * expansion
        self.expand = ConvBN(inputs, hidden) if expansion != 1 else None
        self.dw = ConvBN(hidden, hidden, 3, stride, hidden)
        self.project = ConvBN(hidden, outputs, act=None)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x):
        y = self.project(self.dw(x if self.expand is None else self.expand(x)))
        return x + y if self.residual else y


class Encoder(nn.Module):
    # expansion, channels, repeats, stride of the first
    STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    TAPS = (0, 2, 5, 12, 16)  # 16 channels at 1/2, 24 at 1/4, 32 at 1/8, 96 at 1/16, 320 at 1/32

    def __init__(self):
        super().__init__()
        self.stem = ConvBN(3, 32, 3, 2)
        blocks, channels = [], 32
        for expansion, outputs, repeats, stride in self.STAGES:
            for k in range(repeats):
                blocks.append(InvertedResidual(channels, outputs, stride if k == 0 else 1, expansion))
                channels = outputs
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x):
        x, taps = self.stem(x), []
        for k, block in enumerate(self.blocks):
            x = block(x)
            if k in self.TAPS:
                taps.append(x)
        return taps

    def convs(self):
        yield self.stem
        for block in self.blocks:
            yield from (c for c in (block.expand, block.dw, block.project) if c is not None)


class Separable(nn.Module):
    """Residual: x + pointwise(relu(depthwise 3x3(x))), then relu."""

    def __init__(self, channels, dilation=1):
        super().__init__()
        self.dw = ConvBN(channels, channels, 3, 1, channels, "relu", dilation)
        self.pw = ConvBN(channels, channels, act=None)

    def forward(self, x):
        return F.relu(x + self.pw(self.dw(x)))


class FGNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = Encoder()
        self.in5 = ConvBN(320, 128, act="relu")
        self.gp = ConvBN(128, 128, act=None)  # what the whole picture is about, added to every position
        self.ctx = nn.Sequential(Separable(128, 1), Separable(128, 2), Separable(128, 4))
        self.top5, self.lat4 = ConvBN(128, 64, act=None), ConvBN(96, 64, act=None)
        self.d4 = nn.Sequential(Separable(64), Separable(64, 2))
        self.top4, self.lat3 = nn.Identity(), ConvBN(32, 64, act=None)
        self.d3 = nn.Sequential(Separable(64), Separable(64))
        self.top3, self.lat2 = ConvBN(64, 32, act=None), ConvBN(24, 32, act=None)
        self.d2 = nn.Sequential(ConvBN(32, 32, 3, act="relu"), ConvBN(32, 32, 3, act="relu"))
        self.up2, self.lat1 = ConvBN(32, 64, act=None), ConvBN(16, 16, act=None)
        self.d1 = ConvBN(16, 16, 3, act="relu")
        self.head = nn.Conv2d(16, 4, 3, padding=1)
        self.side = nn.ModuleList([nn.Conv2d(c, 1, 1) for c in (128, 64, 64, 32)])  # for training only

    def forward(self, x, sides=False):
        def up(t):
            return F.interpolate(t, scale_factor=2, mode="nearest")

        f1, f2, f3, f4, f5 = self.enc(x)
        p5 = self.in5(f5)
        p5 = self.ctx(F.relu(p5 + self.gp(F.adaptive_avg_pool2d(p5, 1))))
        p4 = self.d4(F.relu(up(self.top5(p5)) + self.lat4(f4)))
        p3 = self.d3(F.relu(up(self.top4(p4)) + self.lat3(f3)))
        p2 = self.d2(F.relu(up(self.top3(p3)) + self.lat2(f2)))
        p1 = self.d1(F.relu(F.pixel_shuffle(self.up2(p2), 2) + self.lat1(f1)))
        y = F.pixel_shuffle(self.head(p1), 2)
        return (y, [m(p) for m, p in zip(self.side, (p5, p4, p3, p2))]) if sides else y

    def fold(self):
        for module in list(self.modules()):
            if isinstance(module, ConvBN):
                module.fold()
        return self


def load_weights(path) -> dict[str, torch.Tensor]:
    """The unfolded weights of a .safetensors file or of a checkpoint (its average), in single precision."""
    if str(path).endswith(".safetensors"):
        from safetensors.torch import load_file

        state = load_file(str(path))
    else:
        state = torch.load(path, map_location="cpu", weights_only=True)
        state = state.get("ema", state)
    return {k: v.float() if v.dtype.is_floating_point else v for k, v in state.items()}


def average(states: list[dict[str, torch.Tensor]], shares: list[float]) -> dict[str, torch.Tensor]:
    """Weights averaged tensor by tensor, for networks that came from one and the same start."""
    total = sum(shares)
    return {
        k: sum(s[k] * (w / total) for s, w in zip(states, shares)) if v.dtype.is_floating_point else v
        for k, v in states[0].items()
    }


@torch.no_grad()
def start_from_imagenet(model: FGNet, npz: str, pictures: torch.Tensor) -> None:
    """Takes over the encoder of `mnv2_imagenet_dequant_folded.npz`, with its batch normalisation un-folded.

    Its rows range from 0.1 to 56, on which Adam's steps would be badly scaled. So every convolution gets rows of unit
    scale, and a batch normalisation whose statistics are those of `pictures` (N,3,H,W in [-1,1]): the same function.
    """
    file = np.load(npz)
    names = sorted(file.files)
    kernels = iter(k for k in names if file[k].ndim == 4 and file[k].shape != (1, 224, 224, 3))
    wanted = {}
    for conv in model.enc.convs():
        name = next(kernels)
        weight, bias = file[name], torch.from_numpy(file[names[names.index(name) + 1]].copy()).float()
        weight = weight.transpose(3, 0, 1, 2) if conv.conv.groups > 1 else weight.transpose(0, 3, 1, 2)
        weight = torch.from_numpy(weight.copy()).float()
        unit = 1 / (weight.flatten(1).pow(2).mean(1).sqrt().clamp_min(1e-4) * weight[0].numel() ** 0.5)
        conv.conv.weight.copy_(weight * unit[:, None, None, None])
        conv.bn.running_mean.zero_()
        conv.bn.running_var.fill_(1 - conv.bn.eps)
        conv.bn.weight.copy_(1 / unit)
        conv.bn.bias.copy_(bias)
        wanted[conv] = (unit, bias)

    def measure(conv):
        unit, bias = wanted[conv]

        def hook(_module, _inputs, raw):
            variance = torch.maximum(raw.var((0, 2, 3)), (1e-3 * unit) ** 2).clamp_min(1e-5)
            mean = raw.mean((0, 2, 3))
            conv.bn.running_mean.copy_(mean)
            conv.bn.running_var.copy_(variance)
            conv.bn.weight.copy_((variance + conv.bn.eps).sqrt() / unit)
            conv.bn.bias.copy_(bias + mean / unit)

        return conv.conv.register_forward_hook(hook)

    model.eval()
    hooks = [measure(conv) for conv in model.enc.convs()]
    model.enc(pictures)
    for hook in hooks:
        hook.remove()
