#!/usr/bin/env python3
"""Renders a training set (image/ and mask/) of household goods that stand on, lean on or are partly behind other things.

    goods.py --models urdf_models/models --walls BACKGROUNDS... --out SET --views 16

Needs LLVM's library for Mitsuba. Each folder of `--models` with a mesh and its texture is a subject, drawn
`--views` times; meshes without a texture, boxes and cylinders are props, which are not in the mask. The mask is the subject's share of
a pixel's samples. Light comes from a bright area above and from a picture of `--walls`; another is the wall behind, or the floor. A
picture depends on its subject's name and number alone, so that an interrupted run continues.
"""
import argparse
import math
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import mitsuba as mi
import numpy as np

from data import read_rgb, resize_to
from teach import pictures, write_pair

mi.set_variant("llvm_ad_rgb")
from mitsuba import ScalarTransform4f as T  # noqa: E402  (of the variant)

SIDE = 352                # pixels
SAMPLES = 36              # a pixel
NOISE = 5                 # of 255: what the denoising takes for noise of the sampling
LEAST = 0.04              # of the picture: the subject's visible area, else the picture is drawn anew
TEXTURE_SIDE = 1024       # pixels, at most
PLACES = ("alone", "on", "leans", "behind")


@dataclass
class Solid:
    """A mesh: vertices (n, 3), z upwards; texture coordinates (n, 2); the vertices of its triangles (3 * count)."""

    vertices: np.ndarray
    coordinates: np.ndarray
    faces: np.ndarray

    @property
    def low(self) -> np.ndarray:
        return self.vertices.min(0)

    @property
    def high(self) -> np.ndarray:
        return self.vertices.max(0)

    def turned(self, rotation: np.ndarray) -> "Solid":
        """Turned, its lowest vertex at height 0."""
        turned = self.vertices @ rotation.T
        return replace(self, vertices=turned - [0, 0, turned[:, 2].min()])

    def moved(self, x: float, y: float, z: float) -> "Solid":
        return replace(self, vertices=self.vertices + [x, y, z])

    def scaled(self, size) -> "Solid":
        return replace(self, vertices=self.vertices * size)

    def shape(self, surface: dict) -> mi.Mesh:
        properties = mi.Properties()
        properties["surface"] = mi.load_dict(surface)
        mesh = mi.Mesh("mesh", len(self.vertices), len(self.faces) // 3, has_vertex_texcoords=True, props=properties)
        parameters = mi.traverse(mesh)
        parameters["vertex_positions"] = self.vertices.astype(np.float32).ravel()
        parameters["vertex_texcoords"] = self.coordinates.astype(np.float32).ravel()
        parameters["faces"] = self.faces
        parameters.update()
        return mesh


def loaded(shape: dict) -> Solid:
    """A mesh of Mitsuba in units of its longest side, with its middle at the origin."""
    parameters = mi.traverse(mi.load_dict(shape))
    vertices = np.array(parameters["vertex_positions"]).reshape(-1, 3)
    low, high = vertices.min(0), vertices.max(0)
    coordinates = np.array(parameters["vertex_texcoords"]).reshape(-1, 2)
    return Solid((vertices - (low + high) / 2) / (high - low).max(), coordinates, np.array(parameters["faces"]))


def box(width: float, depth: float, height: float) -> Solid:
    return loaded({"type": "cube"}).moved(0, 0, 0.5).scaled([width, depth, height])


def cylinder(width: float, height: float) -> Solid:
    angles = np.linspace(0, 2 * math.pi, 65)
    ring = np.stack([np.cos(angles), np.sin(angles), np.zeros(65)], 1) * width / 2
    low, next_low, up = ring[:-1], ring[1:], np.array([0, 0, height])
    triangles = [low, next_low, next_low + up, low, next_low + up, low + up, low + up, next_low + up, low * 0 + up]
    vertices = np.stack(triangles, 1).reshape(-1, 3)
    return Solid(vertices, vertices[:, :2] + vertices[:, 2:] * [0.3, 0.7], np.arange(len(vertices), dtype=np.uint32))


def rotation(axis: str, degrees: float) -> np.ndarray:
    vector = {"x": (1, 0, 0), "y": (0, 1, 0), "z": (0, 0, 1)}[axis]
    return cv2.Rodrigues(np.array(vector, np.float64) * math.radians(degrees))[0]


def picture(path: Path) -> np.ndarray:
    """RGB in 0..1 (height, width, 3), at most `TEXTURE_SIDE`."""
    return resize_to(read_rgb(path), TEXTURE_SIDE).astype(np.float32) / 255


def bitmap(linear: np.ndarray) -> dict:
    # Plain colours are pictures of one pixel: another kind of texture would be another kernel to compile.
    return {"type": "bitmap", "bitmap": mi.Bitmap(linear.astype(np.float32)), "raw": True}


def material(rgb: np.ndarray, roughness: float) -> dict:
    surface = {"type": "principled", "base_color": bitmap(rgb ** 2.2), "roughness": roughness, "specular": 0.4}
    return {"type": "twosided", "surface": surface}


class Drawing:
    """The random choices of one picture. The camera looks along y."""

    def __init__(self, rng: np.random.Generator, props: list[Solid], walls: list[Path]):
        self.rng, self.props, self.walls = rng, props, walls

    def wall(self) -> np.ndarray:
        return picture(self.walls[self.rng.integers(len(self.walls))])

    def surface(self, pictured: float) -> dict:
        """A picture with this probability, else a colour: mostly pale or grey, sometimes strong."""
        if self.rng.random() < pictured:
            rgb = self.wall()
        else:
            saturation = self.rng.choice([0.06, 0.3, 0.8], p=[0.5, 0.3, 0.2])
            hsv = np.array([[[self.rng.uniform(0, 360), saturation, self.rng.uniform(0.15, 0.95)]]], np.float32)
            rgb = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)
        return material(rgb, self.rng.uniform(0.3, 0.9))

    def prop(self, width: float, height: float) -> Solid:
        """A box, a cylinder or a model of about this size, on the floor at the origin."""
        kind = self.rng.random()
        if kind < 0.3 and self.props:
            model = self.props[self.rng.integers(len(self.props))]
            return model.turned(rotation("z", self.rng.uniform(0, 360))).scaled(max(width, height))
        if kind < 0.7:
            return box(width * self.rng.uniform(0.8, 1.3), width * self.rng.uniform(0.8, 1.3), height)
        return cylinder(width, height)

    def arranged(self, model: Solid, place: str) -> tuple[Solid, list[Solid]]:
        """The subject in its place, and the props."""
        rng, props = self.rng, []
        turn = rotation("z", rng.uniform(0, 360)) @ rotation("x", rng.choice([0, 90, 180, 270], p=[0.7, 0.15, 0.05, 0.1]))
        subject = model.turned(turn)
        if place == "on":
            width = (subject.high - subject.low)[:2].max() * rng.uniform(0.9, 1.7)
            height = rng.uniform(0.05, 0.5)
            flat = box(width * rng.uniform(1, 1.4), width, height).turned(rotation("z", rng.uniform(-30, 30)))
            prop = flat if rng.random() < 0.6 else cylinder(width, height)
            middle = (subject.low + subject.high) / 2
            props.append(prop.moved(middle[0], middle[1], 0))
            subject = subject.moved(0, 0, height)
        elif place == "leans":
            subject = model.turned(rotation("z", rng.uniform(-25, 25)) @ rotation("x", -rng.uniform(8, 28)) @ turn)
            height = subject.high[2] * rng.uniform(0.6, 1.3)
            depth = rng.uniform(0.2, 0.8)
            touching = subject.vertices[subject.vertices[:, 2] < height][:, 1].max()
            props.append(box(rng.uniform(0.5, 2.5), depth, height).moved(rng.uniform(-0.3, 0.3), touching + depth / 2, 0))
        elif place == "behind":
            front = self.prop(rng.uniform(0.2, 0.6), subject.high[2] * rng.uniform(0.2, 0.6))
            side = rng.uniform(-0.6, 0.6) * (subject.high - subject.low)[0]
            gap = rng.choice([0, rng.uniform(0, 0.3)])
            props.append(front.moved(side, subject.low[1] - front.high[1] - gap, 0))
        for _ in range(rng.integers(0, 3)):  # farther away
            other = self.prop(rng.uniform(0.2, 0.8), rng.uniform(0.2, 1.0))
            aside = rng.choice([-1, 1]) * rng.uniform(0.5, 1.6)
            props.append(other.moved(aside, subject.high[1] - other.low[1] + rng.uniform(0, 1.5), 0))
        return subject, props

    def scene(self, model: Solid, texture: np.ndarray) -> dict:
        rng = self.rng
        subject, props = self.arranged(model, PLACES[rng.integers(len(PLACES))])
        middle, size = (subject.low + subject.high) / 2, (subject.high - subject.low).max()
        around = math.radians(rng.uniform(-25, 25))
        above = math.radians(rng.choice([rng.uniform(3, 25), rng.uniform(25, 60)], p=[0.7, 0.3]))
        away = np.array([math.sin(around) * math.cos(above), -math.cos(around) * math.cos(above), math.sin(above)])
        eye = middle + size * rng.uniform(2.2, 4.2) * away
        eye[2] = max(eye[2], 0.05)
        aim = middle + size * np.array([rng.uniform(-0.25, 0.25), 0, rng.uniform(-0.15, 0.2)])
        lamp = middle + size * np.array([rng.uniform(-2, 2), rng.uniform(-2.5, 0.5), rng.uniform(1.5, 3)])
        reach = rng.uniform(0.15, 1.2)
        radiance = rng.uniform(3, 12) * (0.6 / max(0.3, reach)) ** 2 * np.array([1, rng.uniform(0.85, 1), rng.uniform(0.7, 1)])
        behind = self.surface(0) if rng.random() < 0.4 else material(cv2.GaussianBlur(self.wall(), (0, 0), rng.choice([0.5, 6])), 0.9)
        sky = cv2.resize(self.wall(), (256, 128), interpolation=cv2.INTER_AREA) ** 2.2
        return {
            "type": "scene",
            "integrator": {"type": "path", "max_depth": 4},
            "camera": {
                "type": "thinlens", "fov": 32.0, "to_world": T().look_at(eye.tolist(), aim.tolist(), [0, 0, 1]),
                "aperture_radius": float(rng.choice([0.002, size * rng.uniform(0.02, 0.06)])),
                "focus_distance": float(np.linalg.norm(middle - eye)),
                "film": {"type": "hdrfilm", "width": SIDE, "height": SIDE, "pixel_format": "rgb", "rfilter": {"type": "box"}},
            },
            "sky": {"type": "envmap", "bitmap": mi.Bitmap(sky), "scale": float(rng.uniform(0.5, 1.4)),
                    "to_world": T().rotate([1, 0, 0], 90).rotate([0, 1, 0], float(rng.uniform(0, 360)))},
            "lamp": {"type": "rectangle", "to_world": T().look_at(lamp.tolist(), middle.tolist(), [0, 1, 0]).scale(float(size * reach)),
                     "emitter": {"type": "area", "radiance": bitmap(radiance.reshape(1, 1, 3))}},
            "floor": {"type": "rectangle", "to_world": T().scale(12), "surface": self.surface(0.35)},
            "wall": {"type": "rectangle", "surface": behind, "to_world": T().translate([0, float(subject.high[1] + rng.uniform(0.6, 4)), 0])
                     .rotate([1, 0, 0], 90).scale(float(rng.uniform(3, 6)))},
            "subject": subject.shape(material(texture, rng.uniform(0.25, 0.8))),
        } | {f"prop{number}": prop.shape(self.surface(0.4)) for number, prop in enumerate(props)}


def subject_mask(scene: mi.Scene, rng: np.random.Generator) -> np.ndarray:
    """The subject's share of the samples of each pixel (height, width), 0..1."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    film = np.stack([columns, rows], 2).reshape(-1, 1, 2) + rng.random((SIDE * SIDE, SAMPLES, 2))
    film, lens = (film / SIDE).reshape(-1, 2).astype(np.float32), rng.random((SIDE * SIDE * SAMPLES, 2), np.float32)
    rays, _ = scene.sensors()[0].sample_ray(0, 0.5, mi.Point2f(film.T), mi.Point2f(lens.T))
    found = scene.ray_intersect_preliminary(rays)
    subject = next(shape for shape in scene.shapes() if shape.id() == "subject")
    return np.array(found.is_valid() & (found.shape == mi.ShapePtr(subject))).reshape(SIDE, SIDE, SAMPLES).mean(2)


def render(rng: np.random.Generator, model: Solid, texture: np.ndarray, drawing: Drawing) -> tuple[np.ndarray, np.ndarray]:
    """A picture (uint8) and its mask (0..1)."""
    mask = np.zeros(1)
    while mask.mean() < LEAST:
        scene = mi.load_dict(drawing.scene(model, texture))
        mask = subject_mask(scene, rng)
    light = np.array(mi.render(scene, spp=SAMPLES, seed=int(rng.integers(1 << 31))))
    light *= rng.uniform(0.4, 0.65) / max(1e-3, np.percentile(light.mean(2), 80))  # the exposure
    rgb = np.round(np.clip(light, 0, 1) ** (1 / 2.2) * 255).astype(np.uint8)
    return cv2.fastNlMeansDenoisingColored(rgb, None, NOISE, NOISE, 5, 11), mask


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", type=Path, required=True)
    p.add_argument("--walls", type=Path, nargs="+", required=True)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--views", type=int, default=16)
    a = p.parse_args()
    subjects, props = [], []
    for folder in sorted(file.parent for file in a.models.glob("*/textured.obj")):
        # By faces: the normals of some files are no numbers.
        model = loaded({"type": "obj", "filename": str(folder / "textured.obj"), "face_normals": True})
        textures = [path for path in folder.iterdir() if path.suffix.lower() in (".jpg", ".png")]
        if textures:
            subjects.append((folder.name, model, picture(textures[0])))
        else:
            props.append(model)
    walls = [path for folder in a.walls for path in pictures(folder)]
    for view in range(a.views):
        for name, model, texture in subjects:
            stem = f"{name}_{view:02}"
            if (a.out / "mask" / f"{stem}.png").exists():
                continue
            rng = np.random.default_rng([zlib.crc32(name.encode()), view])
            write_pair(a.out, stem, *render(rng, model, texture, Drawing(rng, props, walls)))
    print(f"{a.out}: {len(subjects)} subjects, {len(props)} other models")


if __name__ == "__main__":
    main()
