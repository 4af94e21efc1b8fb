"""The networks, layer for layer as the Rust kernels read them. Tensors are [N, 3, H, W], encoded sRGB in 0..1.

Their tensors are named as the exported files' are. There is no normalisation to fold: the second convolution of every
residual block starts near zero, which keeps eight blocks in a row tame.
"""
import torch
import torch.nn.functional as F
from torch import nn

KEYS = -0.5  # the free constant of the cubic kernel: MATLAB's, and the one of third order (Keys, 1981)
SMALL_START = 0.1


def conv(inputs: int, outputs: int, side: int = 3, stride: int = 1, gain: float = 1.0) -> nn.Conv2d:
    layer = nn.Conv2d(inputs, outputs, side, stride, side // 2)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    layer.weight.data.mul_(gain)
    nn.init.zeros_(layer.bias)
    return layer


class Res(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.a = conv(channels, channels)
        self.b = conv(channels, channels, gain=SMALL_START)

    def forward(self, x):
        return F.relu(x + self.b(F.relu(self.a(x))))


def cubic(x: torch.Tensor, a: float = KEYS) -> torch.Tensor:
    """The cubic kernel at distances x (Keys 1981); it ends at 2."""
    x = x.abs()
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * (x**3 - 5 * x**2 + 8 * x - 4)
    return torch.where(x <= 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


def bicubic(x: torch.Tensor, factor: int) -> torch.Tensor:
    """Enlarges on MATLAB's grid: output pixel o lies at (o + 0.5) / factor - 0.5. Outside, the border's pixel."""
    phases = (torch.arange(factor, dtype=torch.float64) + 0.5) / factor - 0.5
    taps = cubic(phases[:, None] - torch.arange(-2, 3, dtype=torch.float64)).to(x)  # [factor, 5]
    planes = torch.einsum("ya,xb->yxab", taps, taps).reshape(factor * factor, 1, 5, 5)
    c = x.shape[1]
    padded = F.pad(x, (2, 2, 2, 2), mode="replicate")
    return F.pixel_shuffle(F.conv2d(padded, planes.repeat(c, 1, 1, 1), groups=c), factor)


class Upscale(nn.Module):
    """What bicubic enlargement misses: the output is that enlargement plus what the network adds. Not clamped."""

    architecture = "upscale"

    def __init__(self, factor: int, channels: int = 32, blocks: int = 3):
        super().__init__()
        self.factor = factor
        self.head = conv(3, channels)
        self.body = nn.ModuleList(Res(channels) for _ in range(blocks))
        self.tail = conv(channels, 3 * factor * factor, gain=SMALL_START)

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
    """What to add to an aligned face of 256x256. Not clamped. Sides must be multiples of eight."""

    architecture = "restore"
    name = "restore-256"
    metadata: dict[str, str] = {}

    def __init__(self):
        super().__init__()
        self.down1, self.enc1 = conv(3, 32, stride=2), Res(32)
        self.down2, self.enc2 = conv(32, 64, stride=2), nn.ModuleList(Res(64) for _ in range(2))
        self.down3, self.enc3 = conv(64, 96, stride=2), nn.ModuleList(Res(96) for _ in range(3))
        self.lat2, self.up3, self.dec2 = conv(64, 64, 1, gain=0.7), conv(96, 64, 1, gain=0.7), Res(64)
        self.lat1, self.up2, self.dec1 = conv(32, 32, 1, gain=0.7), conv(64, 32, 1, gain=0.7), Res(32)
        # From nothing: a network that first has to unlearn its answers kills its last features doing so.
        self.out = conv(32, 12, gain=0.0)

    def forward(self, rgb):
        def twice(x):
            return F.interpolate(x, scale_factor=2, mode="nearest")

        e1 = self.enc1(F.relu(self.down1(rgb)))
        e2 = F.relu(self.down2(e1))
        for block in self.enc2:
            e2 = block(e2)
        e3 = F.relu(self.down3(e2))
        for block in self.enc3:
            e3 = block(e3)
        d2 = self.dec2(F.relu(self.lat2(e2) + twice(self.up3(e3))))
        d1 = self.dec1(F.relu(self.lat1(e1) + twice(self.up2(d2))))
        return F.pixel_shuffle(self.out(d1), 2)


def network(name: str) -> nn.Module:
    """By the name of its file: `upscale-2`, `upscale-4`, `restore-256`."""
    made = {"upscale-2": lambda: Upscale(2), "upscale-4": lambda: Upscale(4), "restore-256": Restore}
    return made[name]()
