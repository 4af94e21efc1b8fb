"""Pictures whose cutout is known exactly: name, foreground colours and alpha.

Rendered ones (fixed seeds, drawn at eight times the size and averaged, so their alpha is true coverage) need nothing.
The others come from a folder of evaluation data, where there is one: `matting` (photos with soft mattes) and
`product_composite` (products with exact alpha), and from folders of RGBA files.
"""
from pathlib import Path

import cv2
import numpy as np
from PIL import Image
from pymatting import estimate_foreground_cf

FINE = 8
SIDES = (480, 960)


class Canvas:
    """Draws on a square of `side` pixels; positions and sizes are given for one of 480."""

    def __init__(self, side):
        self.side, self.scale = side, side / 480

    def colours(self, low, high, angle, seed, grain=4.0):
        """Smooth colours [side, side, 3] in 0..=1 with a little grain, as a lens would give."""
        y, x = np.mgrid[:self.side, :self.side] / self.side
        along = np.clip((x - 0.5) * np.cos(angle) + (y - 0.5) * np.sin(angle) + 0.5, 0, 1)[..., None]
        noise = np.random.default_rng(seed).normal(0, grain / 255, (self.side, self.side, 1))
        return np.clip(np.array(low) / 255 * (1 - along) + np.array(high) / 255 * along + noise, 0, 1)

    def covered(self, draw, *arguments):
        """Coverage [side, side] of what `draw` paints in white on a canvas FINE times as large."""
        canvas = np.zeros((self.side * FINE, self.side * FINE), np.uint8)
        draw(canvas, *arguments)
        return canvas.reshape(self.side, FINE, self.side, FINE).mean((1, 3)) / 255

    def at(self, *values):
        return tuple(int(round(value * self.scale * FINE)) for value in values)

    def disc(self, canvas):
        cv2.circle(canvas, self.at(240.3, 236.7), *self.at(150.4), 255, -1)

    def comb(self, canvas):
        """Teeth 1.5 to 10 pixels wide, slanted so that no edge is on the grid."""
        cv2.rectangle(canvas, self.at(60, 250), self.at(420, 400), 255, -1)
        x = 66.0
        for tooth in range(18):
            width = 1.5 + tooth * 0.5
            corners = [(x, 255), (x + 12, 90), (x + 12 + width, 90), (x + width, 255)]
            cv2.fillPoly(canvas, [np.array([self.at(*corner) for corner in corners])], 255)
            x += width + 13.5

    def strands(self, canvas, seed, count, longest):
        """A head of hair: strands that leave it, dense near it, each 0.7 to 2.4 pixels wide whatever the picture's size."""
        random = np.random.default_rng(seed)
        head = 120
        cv2.circle(canvas, self.at(240, 250), *self.at(head), 255, -1)
        for _ in range(int(count * self.scale)):
            angle = random.uniform(0, 2 * np.pi)
            at = np.array([240.0, 250.0]) + (head - 8) * np.array([np.cos(angle), np.sin(angle)])
            length, bend, width = 8 + longest * random.beta(1, 3), random.normal(0, 0.012), random.uniform(0.7, 2.4)
            angle += random.normal(0, 0.35)
            points = [at]
            for _ in range(int(length / 3)):
                angle += bend * 3
                at = at + 3 * np.array([np.cos(angle), np.sin(angle)])
                points.append(at)
            line = (np.array(points) * self.scale * FINE).round().astype(np.int32)
            cv2.polylines(canvas, [line], False, 255, max(1, int(width * FINE)))

    def defocused(self):
        """A disc out of focus: a ramp of 24 pixels."""
        y, x = np.mgrid[:self.side, :self.side] / self.scale
        t = np.clip((140 - np.hypot(x - 240, y - 240)) / 24 + 0.5, 0, 1)
        return t * t * (3 - 2 * t)


def rendered(side):
    c = Canvas(side)
    yield "disc", c.colours((30, 90, 170), (90, 170, 220), 0.6, 1), c.covered(c.disc)
    yield "disc-white", c.colours((225, 225, 220), (250, 250, 250), 1.1, 2), c.covered(c.disc)
    yield "disc-skin", c.colours((190, 130, 100), (235, 190, 165), 1.1, 3), c.covered(c.disc)
    yield "comb", c.colours((40, 60, 45), (90, 140, 80), 0.3, 4), c.covered(c.comb)
    yield "hair-dark", c.colours((25, 18, 15), (70, 50, 40), 1.5, 5), c.covered(c.strands, 11, 500, 80)
    yield "hair-blond", c.colours((170, 140, 80), (225, 200, 150), 1.5, 6), c.covered(c.strands, 12, 500, 60)
    yield "fur-grey", c.colours((120, 120, 125), (180, 180, 185), 0.2, 7), c.covered(c.strands, 13, 900, 30)
    yield "defocused", c.colours((40, 110, 60), (120, 190, 120), 0.9, 8), c.defocused()


def unmixed(image, alpha):
    """The colours behind a photo's matte, by closed form: with them the composite is exact by construction."""
    return np.clip(estimate_foreground_cf(image, alpha), 0, 1)


def samples(path, mode):
    return np.asarray(Image.open(path).convert(mode), np.float64) / 255


def of_evaluation(folder):
    for group in ("matting", "product_composite"):
        for mask in sorted((folder / group / "mask").glob("*.png")):
            image = next((folder / group / "image").glob(mask.stem + ".*"))
            alpha = samples(mask, "L")
            yield f"{group}-{mask.stem}", unmixed(samples(image, "RGB"), alpha), alpha


def of_rgba(folder):
    for path in sorted(folder.glob("*.png")):
        picture = samples(path, "RGBA")
        colours, alpha = picture[..., :3], picture[..., 3]
        # Room around the subject, which these files cut tight.
        room = [(40, 40), (40, 40)]
        yield f"{folder.name}-{path.stem}", np.pad(colours, room + [(0, 0)], mode="edge"), np.pad(alpha, room)


def scenes(data, rgba, take):
    """All of them, the rendered ones in two sizes; of each folder of RGBA files every n-th, so that about `take` remain."""
    found = [(f"{name}-{side}", *rest) for side in SIDES for name, *rest in rendered(side)]
    if data is not None:
        found += of_evaluation(Path(data))
    for folder in map(Path, rgba):
        every = max(1, len(list(folder.glob("*.png"))) // take)
        found += list(of_rgba(folder))[::every][:take]
    return found
