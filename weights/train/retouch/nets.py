"""The networks `Upscale` and `Restore`, layer for layer as in Rust. Tensors are [N, 3, H, W], encoded sRGB in 0..1.

Attribute names are the exported files' tensor names. `Upscale` needs no normalisation: the second convolution of every
residual block is initialised near zero. `Restore` is trained with batch normalisation, because without it the features
before its output die in the first hundred steps and the network remains an identity; `fold` merges it into the
convolutions, before the end of the training and before the export.
"""
import torch
import torch.nn.functional as F
from torch import nn

KEYS_A = -0.5  # parameter of the cubic kernel: as in MATLAB; third-order accurate (Keys, 1981)
SMALL_INIT = 0.1


class Conv(nn.Conv2d):
    """A size-preserving convolution (at stride 1), followed by batch normalisation until it is folded."""

    def __init__(self, inputs: int, outputs: int, side: int = 3, stride: int = 1, gain: float = 1.0,
                 normed: bool = False):
        super().__init__(inputs, outputs, side, stride, side // 2)
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")
        nn.init.zeros_(self.bias)
        self.norm = nn.BatchNorm2d(outputs, momentum=0.02) if normed else None
        (self.norm or self).weight.data.mul_(gain)

    def forward(self, x):
        y = super().forward(x)
        return y if self.norm is None else self.norm(y)

    @torch.no_grad()
    def fold(self) -> None:
        if self.norm is None:
            return
        scale = self.norm.weight * torch.rsqrt(self.norm.running_var + self.norm.eps)
        self.weight.mul_(scale[:, None, None, None])
        self.bias.copy_((self.bias - self.norm.running_mean) * scale + self.norm.bias)
        self.norm = None


def fold(net: nn.Module) -> None:
    """Merges every normalisation into its convolution, with its running statistics."""
    for module in net.modules():
        if isinstance(module, Conv):
            module.fold()


class ResidualBlock(nn.Module):
    def __init__(self, channels: int, normed: bool = False):
        super().__init__()
        self.a = Conv(channels, channels, normed=normed)
        self.b = Conv(channels, channels, gain=SMALL_INIT, normed=normed)

    def forward(self, x):
        return F.relu(x + self.b(F.relu(self.a(x))))


def cubic(x: torch.Tensor, a: float = KEYS_A) -> torch.Tensor:
    """The cubic kernel at distances x (Keys 1981); zero from 2 on."""
    x = x.abs()
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * (x**3 - 5 * x**2 + 8 * x - 4)
    return torch.where(x <= 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


def bicubic(x: torch.Tensor, factor: int) -> torch.Tensor:
    """Enlarges on MATLAB's grid: output pixel o lies at (o + 0.5) / factor - 0.5. The border is replicated."""
    phases = (torch.arange(factor, dtype=torch.float64) + 0.5) / factor - 0.5
    taps = cubic(phases[:, None] - torch.arange(-2, 3, dtype=torch.float64)).to(x)  # [factor, 5]
    planes = torch.einsum("ya,xb->yxab", taps, taps).reshape(factor * factor, 1, 5, 5)
    c = x.shape[1]
    padded = F.pad(x, (2, 2, 2, 2), mode="replicate")
    return F.pixel_shuffle(F.conv2d(padded, planes.repeat(c, 1, 1, 1), groups=c), factor)


class Upscale(nn.Module):
    """Super-resolution by `factor`: bicubic enlargement plus the network's residual. Not clamped."""

    architecture = "upscale"

    def __init__(self, factor: int, channels: int = 32, blocks: int = 3):
        super().__init__()
        self.factor = factor
        self.head = Conv(3, channels)
        self.body = nn.ModuleList(ResidualBlock(channels) for _ in range(blocks))
        self.tail = Conv(channels, 3 * factor * factor, gain=SMALL_INIT)

    @property
    def name(self) -> str:
        return f"upscale-{self.factor}"

    @property
    def metadata(self) -> dict[str, str]:
        return {"factor": str(self.factor)}

    def forward(self, rgb):
        x = F.relu(self.head(rgb))
        for block in self.body:
            x = block(x)
        return F.pixel_shuffle(self.tail(x), self.factor) + bicubic(rgb, self.factor)


class Restore(nn.Module):
    """Residual of a restored aligned face of 256x256. Not clamped. Sides must be multiples of eight."""

    architecture = "restore"
    name = "restore-256"
    metadata: dict[str, str] = {}

    def __init__(self):
        super().__init__()

        def conv(inputs, outputs, side=3, stride=1, gain=1.0):
            return Conv(inputs, outputs, side, stride, gain, normed=True)

        def res(channels):
            return ResidualBlock(channels, normed=True)

        self.down1, self.enc1 = conv(3, 32, stride=2), res(32)
        self.down2, self.enc2 = conv(32, 64, stride=2), nn.ModuleList(res(64) for _ in range(2))
        self.down3, self.enc3 = conv(64, 96, stride=2), nn.ModuleList(res(96) for _ in range(3))
        self.lat2, self.up3, self.dec2 = conv(64, 64, 1, gain=0.7), conv(96, 64, 1, gain=0.7), res(64)
        self.lat1, self.up2, self.dec1 = conv(32, 32, 1, gain=0.7), conv(64, 32, 1, gain=0.7), res(32)
        self.out = Conv(32, 12, gain=0.1 * SMALL_INIT)

    def forward(self, rgb):
        def upsample(x):
            return F.interpolate(x, scale_factor=2, mode="nearest")

        e1 = self.enc1(F.relu(self.down1(rgb)))
        e2 = F.relu(self.down2(e1))
        for block in self.enc2:
            e2 = block(e2)
        e3 = F.relu(self.down3(e2))
        for block in self.enc3:
            e3 = block(e3)
        d2 = self.dec2(F.relu(self.lat2(e2) + upsample(self.up3(e3))))
        d1 = self.dec1(F.relu(self.lat1(e1) + upsample(self.up2(d2))))
        return F.pixel_shuffle(self.out(d1), 2)


def network(name: str) -> nn.Module:
    """A new network by name: `upscale-2`, `upscale-4`, `restore-256`."""
    constructors = {"upscale-2": lambda: Upscale(2), "upscale-4": lambda: Upscale(4), "restore-256": Restore}
    return constructors[name]()


def load_state(net: nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    """Loads a state; folds the network first if the state is folded."""
    if not any(".norm." in name for name in tensors):
        fold(net)
    net.load_state_dict(tensors)
