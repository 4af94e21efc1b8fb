"""Generates one training sample: a square RGB picture, its alpha mask, and the region where the mask is valid.

All randomness comes from the generator that is passed in, so that sample number n of a seed is always the same one.
Pictures are float32 0..255, alpha is float32 0..1, cut-outs are premultiplied RGBA 0..255.
"""
import cv2
import numpy as np

import solids
import strands
from data import Photo, Sources, WeightedSources

MIN_SUBJECT_PIXELS = 400    # a smaller subject is not cut out
MAX_UNCERTAIN = 0.03        # of the subject's area; photos with more are not used for cut-outs
CLOSE_MARGIN = (0.04, 0.2)  # of the subject's longer side, on each side of its box
CUT_AWAY = (0.2, 0.6)       # of the subject's extent: what `truncating_box` leaves outside
CUT_DRAWS = 30              # photos drawn for a cut-out before another kind takes its place
FADED = (0.4, 0.9)          # opacity of the faded part of a subject
THUMBNAIL = (140, 300)      # sides of small product pictures, in pixels
SCENE_AREA = (0.05, 0.25)   # of the canvas: the subject of a composed scene
WHITE_FROM = 240            # a pixel whose darkest channel is above this is white background


def chance(rng, p: float) -> bool:
    return rng.random() < p


# ---------------------------------------------------------------------------------------------- geometry


def crop_box(rng, mask: np.ndarray, min_area: float, whole_picture: float, kept_share: float = 0.55):
    """A random box with `kept_share` of the subject; the whole picture with probability `whole_picture`."""
    h, w = mask.shape[:2]
    if chance(rng, whole_picture):
        return 0, 0, w, h
    sampled = mask[::4, ::4]
    total = float(sampled.sum()) + 1
    for _ in range(6):
        area = rng.uniform(min_area, 1) * h * w
        aspect = np.exp(rng.uniform(-0.3, 0.3)) * w / h
        cw, ch = min(w, int((area * aspect) ** 0.5)), min(h, int((area / aspect) ** 0.5))
        x, y = int(rng.integers(0, w - cw + 1)), int(rng.integers(0, h - ch + 1))
        if float(mask[y : y + ch : 4, x : x + cw : 4].sum()) > kept_share * total:
            return x, y, cw, ch
    return 0, 0, w, h


def subject_corners(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The corners (x, y) of the subject's bounding box, the second exclusive; None if the subject is too small."""
    rows, columns = np.where(mask > 127)
    if len(rows) < MIN_SUBJECT_PIXELS:
        return None
    return np.array([columns.min(), rows.min()]), np.array([columns.max(), rows.max()]) + 1


def clipped_box(mask: np.ndarray, low: np.ndarray, high: np.ndarray):
    """The box between two corners, clipped to the picture."""
    x0, y0 = np.maximum(low, 0).astype(int)
    x1, y1 = np.minimum(high, mask.shape[::-1]).astype(int)
    return x0, y0, max(32, x1 - x0), max(32, y1 - y0)


def frame_filling_box(rng, mask: np.ndarray):
    """The subject's bounding box with each side moved by -6 to 14 % inwards: an object that fills the frame."""
    if (corners := subject_corners(mask)) is None:
        return 0, 0, *mask.shape[::-1]
    low, high = corners
    inset = rng.uniform(-0.06, 0.14, (2, 2)) * (high - low)
    return clipped_box(mask, low + inset[0], high - inset[1])


def truncating_box(rng, mask: np.ndarray):
    """A box that truncates the subject on one side, mostly below: `CUT_AWAY` of its extent is outside."""
    if (corners := subject_corners(mask)) is None:
        return 0, 0, *mask.shape[::-1]
    low, high = corners
    margin = rng.uniform(-0.05, 0.5, (2, 2)) * (high - low)
    axis, side = [(1, 1), (1, 1), (0, 0), (0, 1), (1, 0)][int(rng.integers(5))]
    margin[side, axis] = -rng.uniform(*CUT_AWAY) * (high - low)[axis]
    return clipped_box(mask, low - margin[0], high + margin[1])


def close_box(rng, mask: np.ndarray):
    """The subject's bounding box with a margin: the crop of the `quality` mode's refinement pass."""
    if (corners := subject_corners(mask)) is None:
        return 0, 0, *mask.shape[::-1]
    low, high = corners
    margin = rng.uniform(*CLOSE_MARGIN, (2, 2)) * (high - low).max()
    return clipped_box(mask, low - margin[0], high + margin[1])


def to_square(rng, planes: list[np.ndarray], box, size: int, turn: float = 0.15) -> list[np.ndarray]:
    """Stretches the box to the canvas, as the service does with the picture; some rotated (`turn`), half mirrored."""
    x, y, w, h = box
    if chance(rng, turn):
        matrix = cv2.getRotationMatrix2D((x + w / 2, y + h / 2), rng.uniform(-12, 12), 1.0)
        stretch = np.array([[size / w, 0, -x * size / w], [0, size / h, -y * size / h], [0, 0, 1]])
        matrix = (stretch @ np.vstack([matrix, [0, 0, 1]]))[:2]
        out = [cv2.warpAffine(p, matrix, (size, size), borderMode=cv2.BORDER_REFLECT_101) for p in planes]
    else:
        interpolation = cv2.INTER_AREA if max(w, h) > size * 1.2 else cv2.INTER_LINEAR
        out = [cv2.resize(p[y : y + h, x : x + w], (size, size), interpolation=interpolation) for p in planes]
    return [p[:, ::-1] for p in out] if chance(rng, 0.5) else out


# ---------------------------------------------------------------------------------------------- colour and degradation


def colour_jitter(rng, rgb: np.ndarray, strength: float = 1.0) -> np.ndarray:
    """Random exposure, white balance, contrast, saturation and gamma."""
    if not chance(rng, 0.8):
        return rgb
    gain = (rng.uniform(0.88, 1.12, 3) * rng.uniform(0.7, 1.3)) ** strength
    contrast = rng.uniform(0.75, 1.3) ** strength
    mean = float(rgb.mean())
    rgb = (rgb * gain.astype(np.float32) - mean) * np.float32(contrast) + mean
    if chance(rng, 0.6):
        grey = rgb.mean(2, keepdims=True)
        rgb = grey + (rgb - grey) * np.float32(rng.uniform(0.5, 1.5))
    rgb = np.clip(rgb, 0, 255)
    if chance(rng, 0.3):
        rgb = 255 * np.power(rgb / 255, np.float32(rng.uniform(0.7, 1.45) ** strength))
    return rgb


def on_white(rgb: np.ndarray, alpha: np.ndarray) -> bool:
    """Whether most of the background is pure white."""
    ground = alpha < 0.004
    return bool(ground.mean() > 0.03 and np.median(rgb.min(2)[ground]) > 254)


def thumbnail(rng, rgb: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reduces a picture on pure white to a thumbnail and enlarges it again; all pixels that are not white become subject.

    On pure white every mixed pixel of an edge can be separated from the background, and in a picture of 200 px they are
    wider than a cell of the network's grid. The mask includes them; their coverage is computed by the matting.
    """
    size = rgb.shape[0]
    side = min(int(rng.integers(*THUMBNAIL)), size)
    rgb, alpha = (cv2.resize(plane, (side, side), interpolation=cv2.INTER_AREA) for plane in (rgb, alpha))
    visible = (alpha > 0.5) | (alpha > 0.02) & (rgb.min(2) < WHITE_FROM)
    alpha = cv2.GaussianBlur(visible.astype(np.float32), (0, 0), 0.7)
    return tuple(cv2.resize(plane, (size, size), interpolation=cv2.INTER_LINEAR) for plane in (rgb, alpha))


def degrade(rng, rgb: np.ndarray) -> np.ndarray:
    """Degradations by cameras and websites: grey, blur, noise, JPEG. Returns uint8."""
    if chance(rng, 0.06):
        rgb = np.repeat(rgb.mean(2, keepdims=True), 3, 2)
    if chance(rng, 0.12):
        rgb = cv2.GaussianBlur(rgb, (0, 0), rng.uniform(0.4, 1.4))
    if chance(rng, 0.10):
        rgb = rgb + rng.standard_normal(rgb.shape, np.float32) * np.float32(rng.uniform(2, 9))
    out = np.clip(rgb, 0, 255).astype(np.uint8)
    if chance(rng, 0.20):
        packed = cv2.imencode(".jpg", out, [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(35, 91))])[1]
        out = cv2.imdecode(packed, cv2.IMREAD_UNCHANGED)
    return np.ascontiguousarray(out)


# ---------------------------------------------------------------------------------------------- backgrounds


def plain_background(rng, size: int, colour: np.ndarray | None = None) -> np.ndarray:
    """Studio backgrounds: pure white, near white, any colour; with a gradient, a vignette, or the edge of a table."""
    kind = rng.random()
    if colour is None:
        if kind < 0.3:
            colour = np.full(3, 255.0)
            if chance(rng, 0.6):
                return np.full((size, size, 3), 255, np.float32)
        elif kind < 0.55:
            colour = rng.uniform(225, 255) + rng.uniform(-4, 4, 3)
        elif kind < 0.8:
            colour = rng.uniform(0, 255, 3)
        else:
            colour = rng.uniform(5, 240) + rng.uniform(-15, 15, 3)
    ground = np.empty((size, size, 3), np.float32)
    ground[:] = colour
    if chance(rng, 0.5):
        other = colour * rng.uniform(0.6, 1.1) + rng.uniform(-15, 15, 3)
        u = np.linspace(-1, 1, size, dtype=np.float32)
        shape = rng.random()
        if shape < 0.3:       # edge of a table, or a paper sweep
            ramp = np.clip((u[:, None] - rng.uniform(-0.3, 0.6)) * rng.uniform(1.5, 40), 0, 1) * np.ones((1, size))
        elif shape < 0.55:    # a vignette
            ramp = np.clip((u[None] ** 2 + u[:, None] ** 2) * 0.5, 0, 1)
        else:
            a = rng.uniform(0, 2 * np.pi)
            ramp = (u[None] * np.cos(a) + u[:, None] * np.sin(a)) / 2.8 + 0.5
        ramp = ramp[..., None].astype(np.float32)
        ground = ground * (1 - ramp) + other.astype(np.float32) * ramp
    if chance(rng, 0.4):
        ground += rng.standard_normal((size, size, 1), np.float32) * np.float32(rng.uniform(0.5, 6))
    return np.clip(ground, 0, 255)


def photo_background(rng, backgrounds: WeightedSources, size: int, blur: float) -> np.ndarray:
    _, photo = backgrounds.draw(rng)
    box = crop_box(rng, photo[..., 0], 0.15, 0.2, kept_share=0.0)
    ground = to_square(rng, [photo], box, size)[0].astype(np.float32)
    if chance(rng, blur):
        ground = cv2.GaussianBlur(ground, (0, 0), rng.uniform(1, 7) * size / 384)
    return ground


# ---------------------------------------------------------------------------------------------- subjects


def can_be_cut(photo: Photo) -> bool:
    """Whether the subject is large enough and at most `MAX_UNCERTAIN` of it is invalid."""
    area = (photo.mask > 127).sum()
    return area >= MIN_SUBJECT_PIXELS and (photo.valid is None or (photo.valid == 0).sum() <= MAX_UNCERTAIN * area)


def cut_out(rng, photo: Photo) -> np.ndarray:
    """A photo's subject as premultiplied RGBA, eroded by a pixel: the edge has the old background's colour."""
    (x0, y0), (x1, y1) = subject_corners(photo.mask)
    window = np.s_[y0:y1, x0:x1]
    alpha = cv2.erode(photo.mask[window], np.ones((3, 3), np.uint8))
    alpha = cv2.GaussianBlur(alpha, (0, 0), rng.uniform(0.5, 1.0))
    rgb = photo.rgb[window].astype(np.float32) * (alpha[..., None] / np.float32(255))
    return np.dstack([rgb, alpha.astype(np.float32)])


def place(rng, cut: np.ndarray, size: int, scale: float, centre: tuple[float, float] | None = None) -> np.ndarray:
    """The cut-out on the canvas, its longer side `scale` of the canvas, about `centre` (x, y in 0..1) or at a random place.

    At a random place it extends beyond the border by at most an eighth, about a centre by as much as that demands.
    """
    h, w = cut.shape[:2]
    factor = scale * size / max(h, w)
    if factor < 0.6:  # the affine map alone would alias
        smaller = (max(8, int(w * factor * 1.2)), max(8, int(h * factor * 1.2)))
        cut = cv2.resize(cut, smaller, interpolation=cv2.INTER_AREA)
        factor *= h / cut.shape[0]
        h, w = cut.shape[:2]
    angle = rng.uniform(-20, 20) if chance(rng, 0.5) else rng.uniform(-180, 180) if chance(rng, 0.12) else 0.0
    matrix = cv2.getRotationMatrix2D((w / 2, h / 2), angle, factor)
    matrix[0] *= np.exp(rng.uniform(-0.12, 0.12))
    wide = abs(matrix[0, 0]) * w + abs(matrix[0, 1]) * h
    high = abs(matrix[1, 0]) * w + abs(matrix[1, 1]) * h
    middle = matrix @ [w / 2, h / 2, 1]
    for axis, extent in ((0, wide), (1, high)):
        near = extent * 0.38  # up to an eighth of it may leave the frame
        target = rng.uniform(min(near, size / 2), max(size - near, size / 2)) if centre is None else centre[axis] * size
        matrix[axis, 2] += target - middle[axis]
    placed = cv2.warpAffine(cut, matrix, (size, size)).astype(np.float32)
    return placed[:, ::-1] if chance(rng, 0.5) else placed


def relight(rng, rgb: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Random relighting: a tint, and a linear falloff across the subject."""
    size = rgb.shape[0]
    rgb = rgb * (rng.uniform(0.8, 1.2, 3) * rng.uniform(0.7, 1.2)).astype(np.float32)
    if chance(rng, 0.4):
        u = np.linspace(-1, 1, size, dtype=np.float32)
        a, depth = rng.uniform(0, 2 * np.pi), rng.uniform(0.1, 0.4)
        falloff = depth * (u[None] * np.cos(a) + u[:, None] * np.sin(a))
        rgb = rgb * (1 + falloff[..., None].astype(np.float32))
    return np.clip(rgb, 0, 255 * alpha[..., None])


def with_shadow(rng, ground: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Adds the subject's shadows to the background: drop shadow, cast shadow on the floor, contact shadow.

    The mask excludes them: networks tend to include shadows in the subject.
    """
    size = alpha.shape[0]
    quarter = size // 4
    small = cv2.resize(alpha, (quarter, quarter), interpolation=cv2.INTER_AREA)
    rows = np.where(small.max(1) > 0.3)[0]
    if not len(rows):
        return ground
    shadow = np.zeros((quarter, quarter), np.float32)
    bottom, top = rows.max(), rows.min()
    if chance(rng, 0.5):   # drop shadow
        move = np.float32([[1, 0, rng.uniform(-0.08, 0.08) * quarter], [0, 1, rng.uniform(0, 0.1) * quarter]])
        soft = cv2.GaussianBlur(cv2.warpAffine(small, move, (quarter, quarter)), (0, 0), rng.uniform(0.006, 0.06) * quarter)
        shadow = np.maximum(shadow, rng.uniform(0.12, 0.6) * soft)
    if chance(rng, 0.4):   # cast shadow: the silhouette sheared and flattened about its lowest row
        flattening = rng.uniform(0.15, 0.5) * (1 if chance(rng, 0.8) else -1)
        lean = rng.uniform(-1.2, 1.2) * flattening
        if chance(rng, 0.3):  # a low light: long
            flattening, lean = rng.uniform(0.03, 0.2), rng.uniform(0.6, 2.5) * (1 if chance(rng, 0.5) else -1)
        move = np.float32([[1, -lean, lean * bottom], [0, flattening, bottom * (1 - flattening)]])
        soft = cv2.GaussianBlur(cv2.warpAffine(small, move, (quarter, quarter)), (0, 0), rng.uniform(0.002, 0.03) * quarter)
        shadow = np.maximum(shadow, rng.uniform(0.15, 0.9) * soft)
    if chance(rng, 0.6):   # contact shadow: a flat dark ellipse under the lowest row
        contact = small[max(top, bottom - max(2, (bottom - top) // 8)) : bottom + 1].max(0)
        columns = np.where(contact > 0.3)[0]
        if len(columns):
            spot = np.zeros((quarter, quarter), np.uint8)
            half = max(2, int((columns.max() - columns.min()) / 2 * rng.uniform(0.9, 1.25)))
            drop = int(rng.uniform(0, 0.06) * quarter) if chance(rng, 0.3) else 0  # floating products
            centre = (int(columns.mean()), int(min(quarter - 1, bottom + drop)))
            cv2.ellipse(spot, centre, (half, max(1, int(half * rng.uniform(0.04, 0.2)))), 0, 0, 360, 255, -1)
            soft = cv2.GaussianBlur(spot, (0, 0), rng.uniform(0.005, 0.03) * quarter).astype(np.float32) / 255
            shadow = np.maximum(shadow, rng.uniform(0.3, 0.85) * soft)
    shadow = cv2.resize(shadow, (size, size), interpolation=cv2.INTER_LINEAR)[..., None]
    tint = rng.uniform(0, 40, 3).astype(np.float32)
    return ground * (1 - shadow) + tint * shadow


def with_light_wrap(rng, rgb: np.ndarray, alpha: np.ndarray, ground: np.ndarray) -> np.ndarray:
    """Light wrap: blends the blurred background into the subject's edge; alpha is unchanged."""
    size = alpha.shape[0]
    quarter = size // 4
    sigma = rng.uniform(0.004, 0.02) * size
    light = cv2.resize(ground, (quarter, quarter), interpolation=cv2.INTER_AREA)
    light = cv2.GaussianBlur(light, (0, 0), max(0.5, sigma / 2))
    light = cv2.resize(light, (size, size), interpolation=cv2.INTER_LINEAR)
    near = 1 - cv2.GaussianBlur(alpha, (0, 0), sigma)
    share = (rng.uniform(0.2, 0.8) * np.clip(near, 0, 1) * alpha)[..., None]
    return rgb * (1 - share) + light * share * alpha[..., None]


def faded_opacity(rng, size: int) -> np.ndarray:
    """Opacity over the canvas: 1 on one side of a random line, a value of `FADED` on the other, with a ramp of random width between."""
    u = np.linspace(-1, 1, size, dtype=np.float32)
    angle = rng.uniform(0, 2 * np.pi)
    distance = u[None] * np.cos(angle) + u[:, None] * np.sin(angle) - rng.uniform(-0.4, 0.4)
    side = np.clip(distance / rng.uniform(0.02, 0.6) + 0.5, 0, 1)
    return (1 - side * (1 - rng.uniform(*FADED))).astype(np.float32)


def scale_of_area(cut: np.ndarray, area: float) -> float:
    """The `scale` of `place` at which the cut-out covers `area` of the canvas; at most 0.9."""
    covered = float(cut[..., 3].sum()) / 255 / max(cut.shape[:2]) ** 2
    return min(0.9, (area / max(covered, 1e-3)) ** 0.5)


# ---------------------------------------------------------------------------------------------- samples


class Composer:
    """Draws samples from the sources in the proportions of the mix."""

    def __init__(self, sources: Sources):
        self.mix = sources.mix
        self.photos = WeightedSources(sources.photos)
        self.cut_sources = WeightedSources(sources.photos, "cut")
        self.cutouts = WeightedSources(sources.cutouts)
        self.backgrounds = WeightedSources(sources.backgrounds)
        kinds = self.mix["kinds"]
        total = kinds["photo"] + kinds["composite"] + kinds["scene"] + kinds["negative"]
        self.photo_until = kinds["photo"] / total
        self.composite_until = self.photo_until + kinds["composite"] / total
        self.scene_until = self.composite_until + kinds["scene"] / total

    def sample(self, rng, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """uint8 picture (size, size, 3), uint8 mask (size, size), and 255 where the mask is valid, else 0."""
        kind = rng.random()
        strength, is_scene, valid = 1.0, False, np.full((size, size), 255, np.uint8)
        if kind < self.photo_until:
            rgb, alpha, valid = self.photo(rng, size)
        elif kind < self.composite_until:
            near_tone = chance(rng, self.mix["composite"]["near_tone"])
            rgb, alpha = self.composite(rng, size, near_tone)
            strength = 0.3 if near_tone else 1.0  # a stronger change would clip white products on white to one colour
        elif is_scene := kind < self.scene_until:
            rgb, alpha = self.scene(rng, size)
        else:
            rgb, alpha = self.negative(rng, size), np.zeros((size, size), np.float32)
        if not is_scene and chance(rng, self.mix["thumbnail"]["share"]) and on_white(rgb, alpha):
            rgb, alpha = thumbnail(rng, rgb, alpha)
        else:
            rgb = colour_jitter(rng, rgb, strength)
        return degrade(rng, rgb), np.ascontiguousarray(np.round(alpha * 255).astype(np.uint8)), valid

    def photo(self, rng, size: int):
        options = self.mix["photo"]
        source, photo = self.photos.draw(rng)
        photo = photo.read()
        planes = [photo.rgb, photo.mask, np.full_like(photo.mask, 255) if photo.valid is None else photo.valid]
        if photo.teacher_mask is not None:
            planes.append(cv2.resize(photo.teacher_mask, photo.mask.shape[::-1], interpolation=cv2.INTER_LINEAR))
        kind = rng.random()
        if source.options.get("scene") and kind > options["scene_close"]:  # as small among its surroundings as it is
            box = crop_box(rng, photo.mask, 0.5, 0.6)
        elif kind < options["cut"]:
            box = truncating_box(rng, photo.mask)
        elif kind < options["cut"] + options["close"]:
            box = close_box(rng, photo.mask)
        elif kind < options["cut"] + options["close"] + options["frame_filling"]:
            box = frame_filling_box(rng, photo.mask)
        else:
            box = crop_box(rng, photo.mask, 0.35, 0.35)
        planes = to_square(rng, planes, box, size)
        alpha = planes[1].astype(np.float32) / 255
        if photo.teacher_mask is not None:
            share = options["teacher"]
            alpha = (1 - share) * alpha + share * planes[3].astype(np.float32) / 255
        return planes[0].astype(np.float32), alpha, np.where(planes[2] == 255, 255, 0).astype(np.uint8)

    def negative(self, rng, size: int) -> np.ndarray:
        if chance(rng, 0.25) or not self.backgrounds:
            return plain_background(rng, size)
        return photo_background(rng, self.backgrounds, size, 0.15)

    def composite(self, rng, size: int, near_tone: bool):
        options = self.mix["composite"]
        tone = None
        if chance(rng, options["white"]):
            tone = rng.uniform(215, 252) if near_tone else None
            ground = np.full((size, size, 3), 255, np.float32)
        elif near_tone:  # mostly light, as shop photos are
            tone = rng.uniform(215, 252) if chance(rng, 0.75) else rng.uniform(18, 60)
            ground_tone = float(np.clip(tone + rng.uniform(-14, 14) + (10 if tone > 128 else -10), 4, 255))
            ground = plain_background(rng, size, ground_tone + rng.uniform(-4, 4, 3))
        elif chance(rng, options["plain"]) or not self.backgrounds:
            ground = plain_background(rng, size)
        else:
            ground = photo_background(rng, self.backgrounds, size, options["depth"])
        picture, alpha = ground, np.zeros((size, size), np.float32)
        count = int(rng.integers(2, 4)) if chance(rng, options["several"]) else 1
        for _ in range(count):
            scale = 1.05 * rng.uniform(0.12, 1) ** 0.6 if count == 1 else rng.uniform(0.3, 0.6)
            rgb, a = self.subject(rng, size, scale, tone)
            if chance(rng, 0.6) and not near_tone:
                rgb = relight(rng, rgb, a)
            lit = self.over(rng, rgb, a, picture)
            if chance(rng, options["faded"]):
                opacity = faded_opacity(rng, size)[..., None]
                lit = picture * (1 - opacity) + lit * opacity
            picture = lit
            alpha = alpha * (1 - a) + a
        return picture, alpha

    def over(self, rng, rgb: np.ndarray, a: np.ndarray, picture: np.ndarray) -> np.ndarray:
        """The picture with a subject (premultiplied colour, alpha) over it, some with shadow and light wrap."""
        options = self.mix["composite"]
        if chance(rng, options["shadow"]):
            picture = with_shadow(rng, picture, a)
        if chance(rng, options["wrap"]):
            rgb = with_light_wrap(rng, rgb, a, picture)
        return picture * (1 - a[..., None]) + rgb

    def scene(self, rng, size: int):
        """A small subject, mostly off centre, in front of one to four distractors, which are not in the mask.

        Of the things that are sharp and wholly in the frame the subject is the largest: a distractor is much smaller,
        truncated by the frame, or defocused.
        """
        ground = photo_background(rng, self.backgrounds, size, 0.35) if self.backgrounds else plain_background(rng, size)
        cut, area = self.cut(rng, size), rng.uniform(*SCENE_AREA)
        for _ in range(int(rng.integers(1, 5))):
            ground = self.with_distractor(rng, ground, area)
        placed = place(rng, cut, size, scale_of_area(cut, area), tuple(rng.uniform(0.22, 0.78, 2)))
        alpha = placed[..., 3] / 255
        rgb = relight(rng, placed[..., :3], alpha) if chance(rng, 0.6) else placed[..., :3]
        return self.over(rng, rgb, alpha, ground), alpha

    def with_distractor(self, rng, ground: np.ndarray, area: float) -> np.ndarray:
        """The background with one distractor for a subject of `area` of the canvas."""
        size = ground.shape[0]
        cut = self.cut(rng, size)
        is_small, is_truncated, is_defocused = np.arange(3) == rng.integers(3)
        area *= rng.uniform(0.04, 0.3) if is_small else rng.uniform(0.3, 1.0)
        centre = rng.uniform(0.05, 0.95, 2)
        if is_truncated:  # its centre is near the frame
            centre[int(rng.integers(2))] = rng.uniform(-0.04, 0.04) + rng.integers(2)
        placed = place(rng, cut, size, scale_of_area(cut, area), tuple(centre))
        if is_defocused:
            placed = cv2.GaussianBlur(placed, (0, 0), rng.uniform(3, 8) * size / 384)
        alpha = placed[..., 3] / 255
        rgb = relight(rng, placed[..., :3], alpha) if chance(rng, 0.6) else placed[..., :3]
        return self.over(rng, rgb, alpha, ground)

    def cut(self, rng, size: int) -> np.ndarray:
        """A cut-out of a photo, an RGBA file, or a synthetic product."""
        if chance(rng, self.mix["composite"]["solid"]) or not (self.cutouts or self.cut_sources):
            return solids.solid(rng, max(128, int(size * 0.75)), rng.uniform(10, 255, 3).astype(np.float32))
        return self.cut_from_file(rng)

    def cut_from_file(self, rng) -> np.ndarray:
        """A cut-out of a photo or an RGBA file; photos are drawn until one's subject can be cut out."""
        if self.cutouts and (chance(rng, 0.38) or not self.cut_sources):
            return self.cutouts.draw(rng)[1].astype(np.float32)
        for _ in range(CUT_DRAWS):
            photo = self.cut_sources.draw(rng)[1].read()
            if can_be_cut(photo):
                return cut_out(rng, photo)
        return self.cutouts.draw(rng)[1].astype(np.float32) if self.cutouts else solids.solid(rng, 288, rng.uniform(10, 255, 3).astype(np.float32))

    def subject(self, rng, size: int, scale: float, tone: float | None):
        """A subject on the canvas: premultiplied colour and alpha; with a mean grey near `tone` unless that is None."""
        options = self.mix["composite"]
        kind = rng.random()
        if kind < options["wires"]:
            a = strands.wires(rng, size)
            colour = rng.uniform(0, 255, 3) if tone is None else tone + rng.uniform(-25, 10, 3)
            return np.clip(colour, 0, 255).astype(np.float32) * a[..., None], a
        if kind < options["wires"] + options["solid"] or not (self.cutouts or self.cut_sources):
            colour = rng.uniform(10, 255, 3) if tone is None else tone + rng.uniform(-25, 12, 3)
            cut = solids.solid(rng, max(128, int(size * 0.75)), np.clip(colour, 2, 255).astype(np.float32))
            tone = None
        else:
            cut = self.cut_from_file(rng)
        if chance(rng, options["holes"]):
            kept = strands.holes(rng, np.ascontiguousarray(cut[..., 3]) / 255)
            cut = cut * (kept * 255 / np.maximum(cut[..., 3], 1e-3))[..., None].clip(0, 1)
        placed = place(rng, cut, size, scale)
        rgb, a = placed[..., :3], placed[..., 3] / 255
        if tone is not None:
            rgb = self.match_tone(rng, rgb, a, tone)
        if chance(rng, options["hair"]):
            grown = strands.hair(rng, np.ascontiguousarray(a))
            mean = rgb.sum((0, 1)) / max(a.sum(), 1)
            colour = np.clip(mean * rng.uniform(0.6, 1.2), 0, 255).astype(np.float32)
            rgb = rgb + colour * (grown * (1 - a))[..., None]
            a = a + grown * (1 - a)
        return np.clip(rgb, 0, 255), np.clip(a, 0, 1)

    @staticmethod
    def match_tone(rng, rgb, a, tone: float):
        """Shifts the subject towards the grey value `tone`, with reduced contrast and saturation."""
        grey = rgb.mean(2, keepdims=True)
        mean = float(grey.sum() / max(a.sum(), 1))
        kept_share, saturation = rng.uniform(0.15, 0.7), rng.uniform(0, 0.6)
        desaturated = grey + (rgb - grey) * np.float32(saturation)
        contrast = (desaturated - mean * a[..., None]) * np.float32(kept_share)
        return np.clip(contrast + np.float32(tone - rng.uniform(0, 18)) * a[..., None], 0, 255 * a[..., None])
