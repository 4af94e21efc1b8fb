#!/usr/bin/env python3
"""Records PyTorch's masks with the shipped weights, for tests/it/model/parity.rs.

    python tests/reference/fgnet/record.py

Needs torch, numpy and safetensors. Reads fgnet-384, guided-384 and edge-352 of weights/, runs the networks in
float32 on pictures that both languages draw with integers, and writes each mask as 384 x 384 little-endian u16 (probability
x 65535). Prints the probabilities of the kinds of outline, which the test states.
`--model FILE` also compares with the training definition of the network (a file with a class FGNet that can fold()).
"""
import argparse, importlib.util, pathlib
import numpy as np, torch, torch.nn.functional as F
from safetensors.numpy import load_file

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SIDE = 384


def formula():
    """A checkerboard under two ramps: no subject, so that much of the mask is neither 0 nor 1."""
    y, x = np.mgrid[0:SIDE, 0:SIDE].astype(np.int64)
    return np.stack([(x // 48 + y // 48) % 2 * 200 + 20, (x // 32) * 20, (y // 32) * 20], -1).astype(np.uint8)


def scene():
    """A figure (head, body, stripes) in front of a sky over a floor, with noise."""
    y, x = np.mgrid[0:SIDE, 0:SIDE].astype(np.int64)
    sky = np.stack([150 + y // 6, 180 + y // 8, 215 + y // 16], -1)
    floor = np.stack([110 + (x + y) % 16, 95 + (x + y) % 16, 80 + 0 * x], -1)
    rgb = np.where((y < 300)[..., None], sky, floor)
    body = (x - 200) ** 2 * 4 + (y - 270) ** 2 < 110 ** 2
    rgb = np.where(body[..., None], np.stack([60 + 70 * ((y // 12) % 2), 30 + 0 * x, 90 + 0 * x], -1), rgb)
    head = (x - 200) ** 2 + (y - 120) ** 2 < 48 ** 2
    rgb = np.where(head[..., None], np.stack([225 + 0 * x, 180 - (y - 120) // 4, 150 + 0 * x], -1), rgb)
    noise = (((y * SIDE + x) * 1103515245 + 12345) >> 16) % 9 - 4
    return np.clip(rgb + noise[..., None], 0, 255).astype(np.uint8)


def hints():
    """For `scene`: the body is the mask so far; a disc on the head, and a disc on the floor as background."""
    y, x = np.mgrid[0:SIDE, 0:SIDE].astype(np.int64)
    body = (x - 200) ** 2 * 4 + (y - 270) ** 2 < 110 ** 2
    return np.stack([body, (x - 200) ** 2 + (y - 120) ** 2 <= 25, (x - 60) ** 2 + (y - 330) ** 2 <= 25]).astype(np.float32)


STAGES = [(1, 16, 1, 1), (6, 24, 3, 2), (6, 48, 3, 2), (6, 88, 4, 2), (6, 120, 4, 1), (6, 208, 5, 2), (6, 352, 1, 1)]


@torch.no_grad()
def network(w, x, guide=None):
    def conv(name, x, stride=1, dilation=1, groups=1, act=None):
        k, b = w[name + '.weight'], w[name + '.bias']
        return (act or (lambda t: t))(F.conv2d(x, k, b, stride, dilation * (k.shape[2] // 2), dilation, groups))

    def refine(name, x, dilation=1):
        y = conv(f'{name}.dw.conv', x, 1, dilation, x.shape[1], F.relu)
        return F.relu(x + conv(f'{name}.pw.conv', y))

    up = lambda t: F.interpolate(t, scale_factor=2, mode='nearest')
    x = conv('enc.stem.conv', x, 2, act=F.relu6)
    features, index = [], 0
    for expansion, channels, blocks, stride in STAGES:
        for k in range(blocks):
            s, y, n = stride if k == 0 else 1, x, f'enc.blocks.{index}'
            if expansion != 1:
                y = conv(f'{n}.expand.conv', y, act=F.relu6)
            y = conv(f'{n}.dw.conv', y, s, 1, y.shape[1], F.relu6)
            y = conv(f'{n}.project.conv', y)
            x = x + y if s == 1 and x.shape[1] == channels else y
            if index == 3 and guide is not None:
                y = conv('guide4.0.conv', F.pixel_unshuffle(guide, 4), act=F.relu)
                x = x + conv('join4', conv('guide4.1.conv', y, act=F.relu))
            if index in (0, 3, 6, 14, 20):
                features.append(x)
            index += 1
    f1, f2, f3, f4, f5 = features
    if guide is not None:
        f1 = f1 + conv('join2', conv('guide2.conv', F.pixel_unshuffle(guide, 2), act=F.relu))
    p = conv('in5.conv', f5, act=F.relu)
    p = F.relu(p + conv('gp.conv', F.adaptive_avg_pool2d(p, 1)))
    for i, dilation in enumerate((1, 2, 4)):
        p = refine(f'ctx.{i}', p, dilation)
    q, k, v = (t.unflatten(1, (4, -1)).flatten(3) for t in conv('attention.qkv', p).chunk(3, 1))  # [1, heads, channels, positions]
    attended = v @ torch.softmax(k.transpose(2, 3) @ q / q.shape[2] ** 0.5, 2)
    p = p + conv('attention.project', attended.reshape(p.shape))
    p = F.relu(up(conv('top5.conv', p)) + conv('lat4.conv', f4))
    p = refine('d4.1', refine('d4.0', p), 2)
    p = F.relu(up(p) + conv('lat3.conv', f3))
    p = refine('d3.1', refine('d3.0', p))
    p = F.relu(up(conv('top3.conv', p)) + conv('lat2.conv', f2))
    p = conv('d2.1.conv', conv('d2.0.conv', p, act=F.relu), act=F.relu)
    p = F.relu(F.pixel_shuffle(conv('up2.conv', p), 2) + conv('lat1.conv', f1))
    p = conv('d1.conv', p, act=F.relu)
    return F.pixel_shuffle(conv('head', p), 2), f5.mean((2, 3))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument('--model', help='file with the training definition of the network, to compare with')
    a = arguments.parse_args()
    w, guided, kinds = (
        {k: torch.from_numpy(v.astype(np.float32)) for k, v in load_file(ROOT / f'weights/{name}.safetensors').items()}
        for name in ('fgnet-384', 'guided-384', 'edge-352'))
    trained = None
    if a.model:
        spec = importlib.util.spec_from_file_location('model', a.model)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        trained = module.FGNet().eval().fold()
        print(trained.load_state_dict(w, strict=False))
    for name, picture in (('formula', formula()), ('scene', scene())):
        x = torch.from_numpy(picture).permute(2, 0, 1)[None].float() / 127.5 - 1
        logits, means = network(w, x)
        outline = torch.softmax(means @ kinds['kinds.weight'][:, :, 0, 0].T + kinds['kinds.bias'], 1)
        print(name, 'kinds', [round(float(p), 5) for p in outline[0]])
        if trained is not None:
            with torch.no_grad():
                print(name, 'differs from the training definition by', float((trained(x) - logits).abs().max()))
        mask = torch.sigmoid(logits)[0, 0].numpy().astype(np.float64)
        print(name, 'picture sum', int(picture.astype(np.int64).sum()), 'mask mean', mask.mean(), 'min', mask.min(), 'max', mask.max(),
              'uncertain', ((mask > .05) & (mask < .95)).mean())
        np.round(mask * 65535).astype('<u2').tofile(HERE / f'{name}.u16')
    logits, _ = network(guided, x, torch.from_numpy(hints())[None])
    mask = torch.sigmoid(logits)[0, 0].numpy().astype(np.float64)
    print('guided mask mean', mask.mean(), 'head', mask[120, 200], 'floor', mask[330, 60])
    np.round(mask * 65535).astype('<u2').tofile(HERE / 'guided.u16')


main()
