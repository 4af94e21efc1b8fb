#!/usr/bin/env python3
"""Records PyTorch's outputs with the shipped weights of the retouching networks, for tests/it/model/retouch_*.rs.

    python tests/reference/retouch/record.py

Needs torch, numpy and safetensors; to be run again when the weights change. Runs the networks of weights/ in float32 on
pictures that both languages draw with integers (`wave`), and writes little-endian files:

    upscale-2.u16, upscale-4.u16    the enlarged picture, [40, 48, 3] and [80, 96, 3], value x 65535
    restore-256.f16                 the restoration of every third pixel of every third row, [86, 86, 3]
    face-8.f16, -16.f16, -32.f16    the cells of a picture of 96 x 64 pixels, [rows, columns, 15]
"""
import pathlib
import numpy as np, torch, torch.nn.functional as F
from safetensors.numpy import load_file

HERE = pathlib.Path(__file__).resolve().parent
WEIGHTS = HERE.parents[2] / 'weights'


def wave(width, height):
    """Slopes in every direction under a fine pattern, [height, width, 3], bytes."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing='ij')
    slope = lambda t: np.abs(t % 510 - 255)
    value = (slope(9 * x + 5 * y + 60 * c) + slope(4 * x + 11 * y + 90 * c)) // 2 + (13 * x * y + 7 * c) % 16
    return np.minimum(255, value).astype(np.uint8)


def tensor(picture):
    return torch.from_numpy(picture.astype(np.float32)).permute(2, 0, 1)[None]


class Network:
    def __init__(self, name):
        file = load_file(WEIGHTS / f'{name}.safetensors')
        self.tensors = {k: torch.from_numpy(v.astype(np.float32)) for k, v in file.items()}

    def conv(self, name, x, stride=1, depthwise=False):
        k, b = self.tensors[name + '.weight'], self.tensors[name + '.bias']
        return F.conv2d(x, k, b, stride, k.shape[2] // 2, groups=x.shape[1] if depthwise else 1)

    def pair(self, name, x):
        return F.relu(x + self.conv(f'{name}.b', F.relu(self.conv(f'{name}.a', x))))

    def has(self, name):
        return name + '.weight' in self.tensors


def keys(t):
    t = t.abs()
    near, far = (1.5 * t - 2.5) * t * t + 1, ((-0.5 * t + 2.5) * t - 4) * t + 2
    return torch.where(t <= 1, near, torch.where(t < 2, far, torch.zeros_like(t)))


def bicubic(x, factor):
    """Keys with a = -1/2, the grid of MATLAB's imresize, the border repeated."""
    def axis(extent):
        at = (torch.arange(extent * factor, dtype=torch.float64) + 0.5) / factor - 0.5
        matrix = torch.zeros(extent * factor, extent, dtype=torch.float64)
        for tap in range(-1, 3):
            source = at.floor() + tap
            matrix.scatter_add_(1, source.clamp(0, extent - 1).long()[:, None], keys(at - source)[:, None])
        return matrix.float()
    return axis(x.shape[2]) @ x @ axis(x.shape[3]).T


def upscale(factor):
    net, x = Network(f'upscale-{factor}'), tensor(wave(24, 20)) / 255
    # The picture's border goes on as far as the network sees, so that it never sees the zeros around a convolution.
    y = F.relu(net.conv('head', F.pad(x, (8, 8, 8, 8), mode='replicate')))
    for i in range(3):
        y = net.pair(f'body.{i}', y)
    tail = net.conv('tail', y)[..., 8:-8, 8:-8]
    return (F.pixel_shuffle(tail, factor) + bicubic(x, factor)).clamp(0, 1)


def restore():
    net, x = Network('restore-256'), tensor(wave(256, 256)) / 255
    up = lambda t: F.interpolate(t, scale_factor=2, mode='nearest')
    e1 = net.pair('enc1', F.relu(net.conv('down1', x, 2)))
    e2 = F.relu(net.conv('down2', e1, 2))
    for i in range(2):
        e2 = net.pair(f'enc2.{i}', e2)
    e3 = F.relu(net.conv('down3', e2, 2))
    for i in range(3):
        e3 = net.pair(f'enc3.{i}', e3)
    d2 = net.pair('dec2', F.relu(net.conv('lat2', e2) + up(net.conv('up3', e3))))
    d1 = net.pair('dec1', F.relu(net.conv('lat1', e1) + up(net.conv('up2', d2))))
    return F.pixel_shuffle(net.conv('out', d1), 2)


def face():
    net, x = Network('face-320'), tensor(wave(96, 64)) / 127.5 - 1
    up = lambda t: F.interpolate(t, scale_factor=2, mode='nearest')
    x = F.relu6(net.conv('stem', x, 2))
    strides, taps = (1, 2, 1, 2, 1, 1, 2, 1, 1, 2, 1), []
    for i, stride in enumerate(strides):
        n = f'blocks.{i}'
        y = F.relu6(net.conv(f'{n}.expand', x)) if net.has(f'{n}.expand') else x
        y = net.conv(f'{n}.project', F.relu6(net.conv(f'{n}.dw', y, stride, True)))
        x = x + y if x.shape == y.shape else y
        taps.append(x)
    p32 = F.relu(net.conv('lat32', taps[10]))
    p16 = F.relu(net.conv('lat16', taps[8]) + up(p32))
    p8 = F.relu(net.conv('lat8', taps[5]) + up(p16))
    for s, p in ((8, p8), (16, p16), (32, p32)):
        h = F.relu(p + net.conv(f'neck.{s}.pw', F.relu(net.conv(f'neck.{s}.dw', p, 1, True))))
        yield s, net.conv(f'head.{s}', h)


def write(name, answer, kind):
    values = answer[0].permute(1, 2, 0).numpy().astype(np.float64)
    print(name, values.shape, 'mean', values.mean(), 'min', values.min(), 'max', values.max())
    (np.round(values * 65535) if kind == '<u2' else values).astype(kind).tofile(HERE / name)


@torch.no_grad()
def main():
    for factor in (2, 4):
        write(f'upscale-{factor}.u16', upscale(factor), '<u2')
    write('restore-256.f16', restore()[..., ::3, ::3], '<f2')
    for stride, cells in face():
        write(f'face-{stride}.f16', cells, '<f2')


main()
