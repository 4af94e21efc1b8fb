"""Test scenes with exact foreground colours and alpha: rendered, from evaluation data, from RGBA files.

Rendered scenes (fixed seeds, drawn at eight times the size and averaged, so that alpha is coverage) need no data. The
others come from a folder of evaluation data, `matting` (photos with soft mattes) and `product_composite` (products with
exact alpha), and from folders of RGBA files.
"""
from pathlib import Path

import cv2
import numpy as np
from PIL import Image
from pymatting import estimate_foreground_cf

SUPERSAMPLING = 8
SIDES = (480, 960)


class Canvas:
    """Draws on a square of `side` pixels; positions and sizes are given for one of 480."""

    def __init__(self, side):
        self.side, self.scale = side, side / 480

    def colours(self, low, high, angle, seed, grain=4.0):
        """A smooth gradient [side, side, 3] in 0..=1 with grain."""
        y, x = np.mgrid[:self.side, :self.side] / self.side
        along = np.clip((x - 0.5) * np.cos(angle) + (y - 0.5) * np.sin(angle) + 0.5, 0, 1)[..., None]
        noise = np.random.default_rng(seed).normal(0, grain / 255, (self.side, self.side, 1))
        return np.clip(np.array(low) / 255 * (1 - along) + np.array(high) / 255 * along + noise, 0, 1)

    def coverage(self, draw, *arguments):
        """Coverage [side, side] of what `draw` paints in white on a canvas SUPERSAMPLING times as large."""
        canvas = np.zeros((self.side * SUPERSAMPLING, self.side * SUPERSAMPLING), np.uint8)
        draw(canvas, *arguments)
        return canvas.reshape(self.side, SUPERSAMPLING, self.side, SUPERSAMPLING).mean((1, 3)) / 255

    def at(self, *values):
        return tuple(int(round(value * self.scale * SUPERSAMPLING)) for value in values)

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
        """A disc with hair: strands, denser near the disc, 0.7 to 2.4 pixels wide at every picture size."""
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
            line = (np.array(points) * self.scale * SUPERSAMPLING).round().astype(np.int32)
            cv2.polylines(canvas, [line], False, 255, max(1, int(width * SUPERSAMPLING)))

    def defocused(self):
        """A defocused disc: a ramp of 24 pixels."""
        y, x = np.mgrid[:self.side, :self.side] / self.scale
        t = np.clip((140 - np.hypot(x - 240, y - 240)) / 24 + 0.5, 0, 1)
        return t * t * (3 - 2 * t)


def rendered_scenes(side):
    c = Canvas(side)
    yield "disc", c.colours((30, 90, 170), (90, 170, 220), 0.6, 1), c.coverage(c.disc)
    yield "disc-white", c.colours((225, 225, 220), (250, 250, 250), 1.1, 2), c.coverage(c.disc)
    yield "disc-skin", c.colours((190, 130, 100), (235, 190, 165), 1.1, 3), c.coverage(c.disc)
    yield "comb", c.colours((40, 60, 45), (90, 140, 80), 0.3, 4), c.coverage(c.comb)
    yield "hair-dark", c.colours((25, 18, 15), (70, 50, 40), 1.5, 5), c.coverage(c.strands, 11, 500, 80)
    yield "hair-blond", c.colours((170, 140, 80), (225, 200, 150), 1.5, 6), c.coverage(c.strands, 12, 500, 60)
    yield "fur-grey", c.colours((120, 120, 125), (180, 180, 185), 0.2, 7), c.coverage(c.strands, 13, 900, 30)
    yield "defocused", c.colours((40, 110, 60), (120, 190, 120), 0.9, 8), c.defocused()


def foreground_colours(image, alpha):
    """Closed-form foreground colours of a photo's matte; composites of them are exact by construction."""
    return np.clip(estimate_foreground_cf(image, alpha), 0, 1)


def read_image(path, mode):
    return np.asarray(Image.open(path).convert(mode), np.float64) / 255


def evaluation_scenes(folder):
    for group in ("matting", "product_composite"):
        for mask in sorted((folder / group / "mask").glob("*.png")):
            image = next((folder / group / "image").glob(mask.stem + ".*"))
            alpha = read_image(mask, "L")
            yield f"{group}-{mask.stem}", foreground_colours(read_image(image, "RGB"), alpha), alpha


def rgba_scenes(folder):
    for path in sorted(folder.glob("*.png")):
        picture = read_image(path, "RGBA")
        colours, alpha = picture[..., :3], picture[..., 3]
        # A margin around the subject, which these files crop tightly.
        padding = [(40, 40), (40, 40)]
        yield f"{folder.name}-{path.stem}", np.pad(colours, padding + [(0, 0)], mode="edge"), np.pad(alpha, padding)


def scenes(data, rgba, take):
    """All scenes, the rendered ones in two sizes; at most `take` evenly spaced files of each RGBA folder."""
    found = [(f"{name}-{side}", *rest) for side in SIDES for name, *rest in rendered_scenes(side)]
    if data is not None:
        found += evaluation_scenes(Path(data))
    for folder in map(Path, rgba):
        every = max(1, len(list(folder.glob("*.png"))) // take)
        found += list(rgba_scenes(folder))[::every][:take]
    return found
