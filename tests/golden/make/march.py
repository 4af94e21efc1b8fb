"""Sphere tracing of signed distance functions: products, furniture and figures with soft shadows and exact alpha.

`render` returns the objects' colour (sRGB 0..255, premultiplied by coverage), their coverage 0..1, and the share of light
that reaches the floor and the wall behind them, so that the objects can be put before anything. Distances follow
https://iquilezles.org/articles/distfunctions; soft shadows and ambient occlusion as there. All arithmetic is float32.
"""
import numpy as np

F = np.float32


def vec(*v):
    return np.array(v, F)


def length(v):
    return np.sqrt((v * v).sum(-1))


def normalised(v):
    return v / np.maximum(length(v)[..., None], F(1e-9))


# ------------------------------------------------------------------------------------------------ shapes: p [n, 3] -> [n]


def sphere(centre, radius):
    c = vec(*centre)
    return lambda p: length(p - c) - F(radius)


def ellipsoid(centre, radii):
    c, r = vec(*centre), vec(*radii)

    def distance(p):
        q = p - c
        k0, k1 = length(q / r), length(q / (r * r))
        return k0 * (k0 - 1) / np.maximum(k1, F(1e-6))

    return distance


def box(centre, half, rounding=0.0, turn=0.0):
    c, h, r = vec(*centre), vec(*half) - F(rounding), F(rounding)
    cos, sin = F(np.cos(turn)), F(np.sin(turn))

    def distance(p):
        q = p - c
        if turn:
            q = np.stack([q[:, 0] * cos - q[:, 2] * sin, q[:, 1], q[:, 0] * sin + q[:, 2] * cos], -1)
        q = np.abs(q) - h
        return length(np.maximum(q, 0)) + np.minimum(q.max(-1), 0) - r

    return distance


def capsule(a, b, radius, to=None):
    """A round bar from `a` to `b`; `to` is the radius at `b` (a taper, slightly inexact)."""
    a, b = vec(*a), vec(*b)
    ab, r0, r1 = b - a, F(radius), F(radius if to is None else to)

    def distance(p):
        h = np.clip(((p - a) @ ab) / (ab @ ab), 0, 1)
        return length(p - a - h[:, None] * ab) - (r0 + (r1 - r0) * h)

    return distance


def cylinder(centre, radius, half, rounding=0.0):
    c, r, h, e = vec(*centre), F(radius - rounding), F(half - rounding), F(rounding)

    def distance(p):
        q = p - c
        d = np.stack([np.hypot(q[:, 0], q[:, 2]) - r, np.abs(q[:, 1]) - h], -1)
        return np.minimum(d.max(-1), 0) + length(np.maximum(d, 0)) - e

    return distance


def torus(centre, radius, thickness, axis):
    """A ring around `axis` (0 x, 1 y, 2 z)."""
    c, a, b = vec(*centre), F(radius), F(thickness)
    others = [i for i in range(3) if i != axis]

    def distance(p):
        q = p - c
        return np.hypot(np.hypot(q[:, others[0]], q[:, others[1]]) - a, q[:, axis]) - b

    return distance


def turned(profile, slack=0.6):
    """A body of revolution around y: `profile` lists (y, radius) from below; `slack` scales the inexact distance."""
    ys, rs = (np.array(v, F) for v in zip(*profile))
    low, high = ys[0], ys[-1]

    def distance(p):
        r = np.hypot(p[:, 0], p[:, 2]) - np.interp(p[:, 1], ys, rs).astype(F)
        cap = np.maximum(low - p[:, 1], p[:, 1] - high)
        inside = np.minimum(np.maximum(r, cap), 0)
        return (inside + np.hypot(np.maximum(r, 0), np.maximum(cap, 0))) * F(slack)

    return distance


def smooth(profile, many=80):
    """A profile through the given points without corners (Catmull-Rom)."""
    points = np.array([profile[0], *profile, profile[-1]], float)
    out = []
    for i in range(1, len(points) - 2):
        p0, p1, p2, p3 = points[i - 1 : i + 3]
        for t in np.linspace(0, 1, many // (len(points) - 3), endpoint=False):
            out.append(0.5 * (2 * p1 + (p2 - p0) * t + (2 * p0 - 5 * p1 + 4 * p2 - p3) * t**2 + (3 * p1 - p0 - 3 * p2 + p3) * t**3))
    out.append(points[-1])
    ordered = sorted((float(y), max(0.0, float(r))) for y, r in out)
    return ordered


def moved(shape, by, turn=0.0):
    b = vec(*by)
    cos, sin = F(np.cos(turn)), F(np.sin(turn))

    def distance(p):
        q = p - b
        return shape(np.stack([q[:, 0] * cos - q[:, 2] * sin, q[:, 1], q[:, 0] * sin + q[:, 2] * cos], -1))

    return distance


def less(a, b):
    return lambda p: np.maximum(a(p), -b(p))


def union(*shapes):
    return lambda p: np.minimum.reduce([shape(p) for shape in shapes])


def blended(k, *shapes):
    """Union with soft seams of width `k`."""

    def distance(p):
        d = shapes[0](p)
        for shape in shapes[1:]:
            e = shape(p)
            h = np.clip(0.5 + 0.5 * (e - d) / F(k), 0, 1)
            d = e + (d - e) * h - F(k) * h * (1 - h)
        return d.astype(F)

    return distance


# ------------------------------------------------------------------------------------------------ light


class Part:
    """A shape with its colour: three numbers 0..1 (linear light), or a function of points. `gloss` 0..1."""

    def __init__(self, shape, colour, gloss=0.3):
        self.shape, self.colour, self.gloss = shape, colour, gloss

    def at(self, p):
        return self.colour(p) if callable(self.colour) else np.broadcast_to(vec(*self.colour), p.shape)


def encoded(light):
    light = np.clip(light, 0, 1)
    return np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055) * 255


def trace(distance, origins, directions, far, steps=110):
    """Distance along each ray to the surface; `far` without a surface."""
    t = np.full(len(origins), 0.05, F)
    alive = np.arange(len(origins))
    for _ in range(steps):
        d = distance(origins[alive] + t[alive, None] * directions[alive])
        t[alive] += d
        alive = alive[(d > 0.0006) & (t[alive] < far)]
        if not len(alive):
            break
    t[alive] = np.where(distance(origins[alive] + t[alive, None] * directions[alive]) < 0.01, t[alive], far)
    return np.minimum(t, F(far))


def lit(distance, points, towards, softness=7.0, far=7.0):
    """Share of a broad light that reaches each point, 0..1."""
    share = np.ones(len(points), F)
    t = np.full(len(points), 0.02, F)
    alive = np.arange(len(points))
    for _ in range(48):
        d = distance(points[alive] + t[alive, None] * towards)
        share[alive] = np.minimum(share[alive], F(softness) * d / t[alive])
        t[alive] += np.clip(d, 0.015, 0.25)
        alive = alive[(share[alive] > 0.005) & (t[alive] < far)]
        if not len(alive):
            break
    share = np.clip(share, 0, 1)
    return share * share * (3 - 2 * share)


def occlusion(distance, points, normals):
    shade = np.zeros(len(points), F)
    for i in range(1, 5):
        step = F(0.07 * i)
        shade += (step - np.minimum(distance(points + normals * step), step)) * F(0.75**i)
    return np.clip(1 - 1.9 * shade, 0.15, 1)


def normals_of(distance, p):
    e = F(0.0015)
    offsets = np.array([[1, -1, -1], [-1, -1, 1], [-1, 1, -1], [1, 1, 1]], F)
    return normalised(sum(o * distance(p + e * o)[:, None] for o in offsets))


def render(parts, size, eye=(0, 1.6, 5.2), aim=(0, 0.9, 0), view=0.62, light=(-0.55, 0.85, 0.6), sun=2.1, sky=0.75,
           over=3, floor=True, glass=False, softness=7.0):
    """`parts` stand on y = 0. Returns colour [h, w, 3], alpha [h, w], shade [h, w, 1] (light that reaches the floor), and the
    share of pixels that are floor. `glass`: coverage follows Fresnel instead of being whole."""
    width, height = size
    distance = union(*(part.shape for part in parts))
    eye, aim, towards = vec(*eye), vec(*aim), normalised(vec(*light))
    forward = normalised(aim - eye)
    right = normalised(np.cross(forward, vec(0, 1, 0)))
    up = np.cross(right, forward)
    w, h = width * over, height * over
    x = ((np.arange(w, dtype=F) + F(0.5)) / w * 2 - 1) * F(view) * F(max(1, width / height))
    y = (1 - (np.arange(h, dtype=F) + F(0.5)) / h * 2) * F(view) * F(max(1, height / width))
    directions = normalised(forward + x[None, :, None] * right + y[:, None, None] * up).reshape(-1, 3).astype(F)
    origins = np.broadcast_to(eye, directions.shape)
    far = F(30)
    t = trace(distance, origins, directions, far)
    down = np.where(directions[:, 1] < -1e-4, -eye[1] / directions[:, 1], far).astype(F)
    hit = (t < far) & ((t < down + 1e-3) | (not floor))

    colour = np.zeros((len(t), 3), F)
    alpha = hit.astype(F)
    at = np.flatnonzero(hit)
    p = origins[at] + t[at, None] * directions[at]
    n = normals_of(distance, p)
    which = np.argmin(np.stack([part.shape(p) for part in parts]), 0)
    base, gloss = np.zeros_like(p), np.zeros(len(p), F)
    for i, part in enumerate(parts):
        mine = which == i
        if mine.any():
            base[mine], gloss[mine] = part.at(p[mine]), part.gloss
    seen = lit(distance, p + n * F(0.01), towards)
    open_ = occlusion(distance, p, n)
    facing = np.clip(n @ towards, 0, 1) * seen
    bounce = np.clip(0.5 - 0.5 * n[:, 1], 0, 1) * F(0.25)
    half = normalised(towards - directions[at])
    shine = np.clip((n * half).sum(-1), 0, 1) ** (20 + 200 * gloss) * gloss * seen
    fresnel = (1 - np.clip(-(n * directions[at]).sum(-1), 0, 1)) ** 4
    # A softbox next to the camera: a bright stripe in mirroring surfaces.
    mirrored = directions[at] - 2 * (n * directions[at]).sum(-1)[:, None] * n
    stripe = np.exp(-((mirrored[:, 0] + 0.75) / 0.12) ** 2) * (np.abs(mirrored[:, 1]) < 0.55) * gloss * F(0.35)
    ambient = (F(sky) * (0.6 + 0.4 * n[:, 1]) + bounce) * open_
    light_ = F(sun) * facing + ambient
    value = base * light_[:, None] / F(np.pi) * F(1.7) + (shine * 1.6 + stripe + gloss * fresnel * 0.35)[:, None]
    if glass:
        body = np.clip(0.10 + 0.95 * fresnel**0.55 + shine * 1.5 + stripe * 1.8, 0, 0.97)
        alpha[at] = body
        value = base * (0.35 + 0.5 * ambient[:, None]) + (shine * 2 + stripe * 1.5 + fresnel * 0.55)[:, None]
    colour[at] = encoded(value) * alpha[at, None]

    shade = np.ones(len(t), F)
    ground = np.flatnonzero((down < far) & ~hit) if floor and not glass else np.zeros(0, int)
    if len(ground):
        q = origins[ground] + down[ground, None] * directions[ground]
        full = F(sun) * towards[1] + F(sky)
        seen = lit(distance, q + vec(0, 0.004, 0), towards, softness)
        open_ = occlusion(distance, q, np.broadcast_to(vec(0, 1, 0), q.shape))
        shade[ground] = (F(sun) * towards[1] * seen + F(sky) * open_) / full
    is_floor = (down < far).astype(F)

    def small(plane):
        return plane.reshape(height, over, width, over, -1).mean((1, 3))

    return small(colour), small(alpha)[..., 0], small(shade), small(is_floor)


def over_ground(colour, alpha, shade, ground):
    """The objects on `ground` [h, w, 3] 0..255, which `shade` darkens in linear light (approximated by a power)."""
    return colour + (1 - alpha[..., None]) * ground * shade ** (1 / 2.2)
