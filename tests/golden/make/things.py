"""The drawn subjects: goods, glass, furniture, plants, figures. Each is a list of parts, or a function that draws strands."""
import numpy as np
from PIL import Image, ImageDraw

from march import (F, Part, blended, box, capsule, cylinder, ellipsoid, less, moved, smooth, sphere, torus, turned, union)

WOOD, STEEL, BLACK, WHITE, CREAM = (0.32, 0.16, 0.07), (0.45, 0.46, 0.48), (0.02, 0.02, 0.022), (0.86, 0.86, 0.85), (0.8, 0.74, 0.62)
SKIN = (0.62, 0.36, 0.25)


def banded(bands, otherwise):
    """Colour by height: `bands` are (from, to, colour)."""

    def colour(p):
        out = np.broadcast_to(np.array(otherwise, F), p.shape).copy()
        for low, high, value in bands:
            out[(p[:, 1] >= low) & (p[:, 1] < high)] = value
        return out

    return colour


def grained(base, amount=0.25, scale=9.0):
    def colour(p):
        rings = np.sin(p[:, 0] * scale * 1.7 + np.sin(p[:, 1] * scale) * 1.3 + p[:, 2] * scale * 2.3)
        return np.array(base, F) * (1 + amount * rings[:, None]).astype(F)

    return colour


def stripes(one, other, across=5.0, axis=1):
    return lambda p: np.where((np.floor(p[:, axis] * across) % 2 == 0)[:, None], np.array(one, F), np.array(other, F))


def mug(colour=WHITE, inside=WHITE):
    body = less(cylinder((0, 0.62, 0), 0.5, 0.6, 0.05), cylinder((0, 0.8, 0), 0.43, 0.62, 0.05))
    return [Part(body, colour, 0.5), Part(less(torus((0.6, 0.62, 0), 0.27, 0.065, 2), cylinder((0, 0.6, 0), 0.46, 0.7)), colour, 0.5),
            Part(cylinder((0, 0.95, 0), 0.43, 0.02), inside, 0.2)]


def bottle(colour=(0.02, 0.13, 0.05), label=CREAM, cap=(0.5, 0.03, 0.03), tall=1.0):
    profile = smooth([(0.0, 0.36), (0.05, 0.4), (0.9, 0.4), (1.15, 0.36), (1.4, 0.16), (1.75, 0.13), (1.85, 0.13)])
    return [Part(turned([(y * tall, r) for y, r in profile]), banded([(0.28, 0.8, label), (0.52, 0.56, cap)], colour), 0.8),
            Part(cylinder((0, 1.85 * tall, 0), 0.15, 0.09, 0.02), cap, 0.5)]


def jar(colour=WHITE, lid=STEEL):
    return [Part(cylinder((0, 0.5, 0), 0.5, 0.5, 0.12), banded([(0.2, 0.75, (0.75, 0.3, 0.08))], colour), 0.6),
            Part(cylinder((0, 1.08, 0), 0.44, 0.1, 0.04), lid, 0.8)]


def vase(colour=(0.03, 0.12, 0.35)):
    profile = smooth([(0.0, 0.28), (0.1, 0.36), (0.55, 0.56), (1.0, 0.36), (1.35, 0.2), (1.6, 0.3)])
    return [Part(turned(profile), colour, 0.7)]


def carton(colour=(0.7, 0.42, 0.2), turn=0.6, at=(0, 0, 0), half=(0.55, 0.5, 0.4)):
    return [Part(box((at[0], half[1], at[2]), half, 0.02, turn), colour, 0.1),
            Part(box((at[0], half[1] * 2 + 0.004, at[2]), (half[0], 0.006, 0.06), 0.0, turn), CREAM, 0.2)]


def camera():
    return [Part(box((0, 0.5, 0), (0.75, 0.42, 0.28), 0.07), banded([(0.72, 1.0, STEEL)], BLACK), 0.4),
            Part(box((0, 0.98, 0), (0.22, 0.12, 0.22), 0.05), STEEL, 0.5),
            Part(union(less(moved(lathe([(0, 0.36), (0.5, 0.33), (0.52, 0.28)]), (0.05, 0.46, 0.25)), sphere((0.05, 0.46, 1.05), 0.33))), BLACK, 0.7),
            Part(cylinder((0.52, 0.98, 0), 0.1, 0.06, 0.02), STEEL, 0.8)]


def lathe(profile):
    """`turned`, lying along z."""
    shape = turned(profile)
    return lambda p: shape(p[:, [0, 2, 1]])


def shoe(colour=(0.5, 0.04, 0.05)):
    sole = blended(0.08, *(ellipsoid((x, 0.1, 0), (0.42, 0.11, r)) for x, r in ((-0.6, 0.25), (-0.2, 0.26), (0.25, 0.3), (0.6, 0.3))))
    upper = blended(0.16, ellipsoid((-0.55, 0.42, 0), (0.36, 0.42, 0.24)), ellipsoid((0, 0.34, 0), (0.5, 0.32, 0.25)),
                    ellipsoid((0.55, 0.26, 0), (0.4, 0.2, 0.27)))
    laces = [Part(capsule((0.0 + 0.13 * i, 0.66 - 0.09 * i, -0.16), (0.03 + 0.13 * i, 0.66 - 0.09 * i, 0.16), 0.028), WHITE, 0.1) for i in range(4)]
    return [Part(sole, WHITE, 0.2), Part(less(upper, ellipsoid((-0.6, 0.85, 0), (0.27, 0.32, 0.17))), colour, 0.25), *laces]


def chair(colour=WOOD, leg=0.035):
    legs = [capsule((x * 1.08, 0.03, z * 1.08), (x, 0.95, z), leg) for x in (-0.42, 0.42) for z in (-0.4, 0.4)]
    posts = [capsule((x, 0.95, -0.4), (x * 1.02, 1.95, -0.52), leg) for x in (-0.42, 0.42)]
    bars = [capsule((x, 1.0, -0.41), (x, 1.9, -0.51), leg * 0.55) for x in (-0.25, -0.08, 0.08, 0.25)]
    rails = [capsule((-0.43, 1.92, -0.52), (0.43, 1.92, -0.52), leg * 1.3), capsule((-0.43, 0.45, 0.4), (0.43, 0.45, 0.4), leg * 0.7),
             capsule((-0.44, 0.4, -0.41), (-0.44, 0.4, 0.41), leg * 0.7), capsule((0.44, 0.4, -0.41), (0.44, 0.4, 0.41), leg * 0.7)]
    return [Part(union(*legs, *posts, *bars, *rails), grained(colour), 0.3), Part(box((0, 0.97, 0), (0.5, 0.045, 0.46), 0.04), grained(colour), 0.3)]


def stool(colour=STEEL):
    legs = [capsule((np.cos(a) * 0.5, 0.02, np.sin(a) * 0.5), (np.cos(a) * 0.24, 1.3, np.sin(a) * 0.24), 0.025) for a in (0.5, 2.07, 3.64, 5.21)]
    return [Part(union(*legs, torus((0, 0.5, 0), 0.41, 0.02, 1)), colour, 0.8), Part(cylinder((0, 1.36, 0), 0.36, 0.07, 0.05), (0.35, 0.05, 0.04), 0.4)]


def lamp():
    shade = less(turned([(1.35, 0.55), (1.95, 0.3)]), turned([(1.3, 0.53), (2.0, 0.28)]))
    return [Part(shade, CREAM, 0.1), Part(union(capsule((0, 0.05, 0), (0, 1.7, 0), 0.03), cylinder((0, 0.04, 0), 0.34, 0.04, 0.02)), (0.5, 0.35, 0.12), 0.9)]


def bicycle(colour=(0.02, 0.2, 0.45)):
    back, front, crank, seat, head = (-0.95, 0.6, 0), (0.95, 0.6, 0), (-0.12, 0.55, 0), (-0.38, 1.35, 0), (0.68, 1.38, 0)
    wheels = [torus(c, 0.55, 0.042, 2) for c in (back, front)]
    spokes = [capsule(c, (c[0] + 0.53 * np.cos(a), c[1] + 0.53 * np.sin(a), 0), 0.007)
              for c in (back, front) for a in np.arange(0, 2 * np.pi, np.pi / 7)]
    tubes = [capsule(a, b, 0.035) for a, b in ((back, crank), (crank, seat), (seat, head), (crank, (0.72, 1.2, 0)), (back, (-0.33, 1.2, 0)), (front, (0.62, 1.5, 0)))]
    rest = [capsule((0.62, 1.5, -0.3), (0.62, 1.5, 0.3), 0.03), capsule((0.62, 1.5, 0.3), (0.5, 1.48, 0.33), 0.03),
            capsule((0.62, 1.5, -0.3), (0.5, 1.48, -0.33), 0.03), ellipsoid((-0.43, 1.42, 0), (0.2, 0.05, 0.1)), torus(crank, 0.13, 0.02, 2),
            capsule((-0.12, 0.55, 0.08), (0.02, 0.33, 0.1), 0.025), capsule((-0.12, 0.55, -0.08), (-0.26, 0.77, -0.1), 0.025)]
    return [Part(union(*wheels, *rest), BLACK, 0.3), Part(union(*spokes), STEEL, 0.6), Part(union(*tubes), colour, 0.7)]


def spectacles():
    rings = [torus((x, 0.42, 0.3), 0.36, 0.035, 2) for x in (-0.47, 0.47)]
    bars = [capsule((-0.12, 0.48, 0.3), (0.12, 0.48, 0.3), 0.03), capsule((-0.82, 0.5, 0.3), (-0.86, 0.42, -0.95), 0.028),
            capsule((0.82, 0.5, 0.3), (0.86, 0.42, -0.95), 0.028), capsule((0.86, 0.42, -0.95), (0.86, 0.2, -1.1), 0.028), capsule((-0.86, 0.42, -0.95), (-0.86, 0.2, -1.1), 0.028)]
    return [Part(union(*rings, *bars), (0.09, 0.03, 0.01), 0.7)]


def plant():
    rng = np.random.default_rng(11)
    stems, leaves = [], []
    for i in range(9):
        a, lean, tall = i * 2.4, rng.uniform(0.25, 0.75), rng.uniform(1.2, 2.1)
        tip = (np.cos(a) * lean, tall, np.sin(a) * lean)
        stems.append(capsule((0, 0.55, 0), tip, 0.022, 0.012))
        for k in (0.55, 0.78, 1.0):
            at = np.array([tip[0] * k, 0.55 + (tall - 0.55) * k, tip[2] * k])
            leaves.append(ellipsoid(at + np.array([np.cos(a + k * 3), 0.1, np.sin(a + k * 3)]) * 0.14, (0.17, 0.045, 0.12)))
    return [Part(turned([(0, 0.3), (0.55, 0.42)]), (0.5, 0.18, 0.08), 0.15), Part(cylinder((0, 0.53, 0), 0.36, 0.03), (0.05, 0.03, 0.02), 0),
            Part(union(*stems), (0.1, 0.22, 0.04), 0.2), Part(union(*leaves), (0.06, 0.28, 0.05), 0.35)]


def figure(shirt=(0.55, 0.08, 0.06), trousers=(0.04, 0.06, 0.16), at=(0, 0, 0), raised=True, scale=1.0):
    """A person, about 1.9 high."""
    s = lambda *v: tuple(np.array(v) * scale + np.array(at))
    legs = blended(0.05 * scale, capsule(s(-0.12, 0.95, 0), s(-0.2, 0.1, 0.02), 0.1 * scale, 0.075 * scale), capsule(s(0.12, 0.95, 0), s(0.22, 0.1, 0.06), 0.1 * scale, 0.075 * scale))
    torso = blended(0.09 * scale, ellipsoid(s(0, 1.28, 0), tuple(np.array((0.22, 0.36, 0.15)) * scale)), sphere(s(-0.2, 1.5, 0), 0.1 * scale), sphere(s(0.2, 1.5, 0), 0.1 * scale),
                    capsule(s(-0.22, 1.5, 0), s(-0.42, 1.15, 0.05), 0.07 * scale), capsule(s(0.22, 1.5, 0), s(0.45, 1.62, 0.05) if raised else s(0.38, 1.15, 0.05), 0.07 * scale))
    skin = blended(0.04 * scale, ellipsoid(s(0, 1.83, 0.01), tuple(np.array((0.115, 0.155, 0.13)) * scale)), capsule(s(0, 1.6, 0), s(0, 1.75, 0), 0.06 * scale),
                   capsule(s(-0.42, 1.15, 0.05), s(-0.36, 0.85, 0.12), 0.05 * scale), capsule(s(0.45, 1.62, 0.05), s(0.56, 1.98, 0.05), 0.05 * scale) if raised else capsule(s(0.38, 1.15, 0.05), s(0.36, 0.85, 0.12), 0.05 * scale))
    hair = less(ellipsoid(s(0, 1.88, -0.02), tuple(np.array((0.135, 0.15, 0.14)) * scale)), box(s(0, 1.72, 0.2), tuple(np.array((0.3, 0.14, 0.16)) * scale)))
    shoes = union(ellipsoid(s(-0.2, 0.06, 0.08), tuple(np.array((0.08, 0.07, 0.16)) * scale)), ellipsoid(s(0.22, 0.06, 0.12), tuple(np.array((0.08, 0.07, 0.16)) * scale)))
    return [Part(legs, trousers, 0.1), Part(torso, shirt, 0.1), Part(skin, SKIN, 0.2), Part(hair, (0.05, 0.025, 0.01), 0.3), Part(shoes, BLACK, 0.3)]


def fruit():
    dent = lambda x, z, r: less(ellipsoid((x, r * 0.95, z), (r, r * 0.95, r)), sphere((x, r * 2.15, z), r * 0.45))
    return [Part(dent(-0.7, 0.1, 0.5), (0.5, 0.03, 0.02), 0.5), Part(dent(0.35, 0.35, 0.46), (0.3, 0.42, 0.04), 0.5),
            Part(capsule((-0.7, 0.8, 0.1), (-0.64, 1.05, 0.1), 0.025), WOOD, 0.1), Part(capsule((0.35, 0.72, 0.35), (0.4, 0.95, 0.35), 0.025), WOOD, 0.1),
            Part(sphere((-0.1, 0.45, -0.65), 0.45), (0.75, 0.28, 0.02), 0.35),
            Part(blended(0.1, *(capsule((0.75 + 0.16 * i, 0.2 + 0.22 * abs(i) ** 1.5 / 3, 0.8 - 0.3 * i), (0.91 + 0.16 * i, 0.2 + 0.22 * abs(i + 1) ** 1.5 / 3, 0.5 - 0.3 * i), 0.17) for i in range(-1, 2))), (0.75, 0.55, 0.04), 0.3)]


def bust(shirt=(0.06, 0.16, 0.3), skin=SKIN):
    """Head and shoulders, with a face of simple parts, its eyes at about y = 1.62."""
    head = blended(0.12, ellipsoid((0, 1.62, 0), (0.44, 0.56, 0.5)), ellipsoid((0, 1.3, 0.1), (0.3, 0.3, 0.32)), capsule((0, 1.0, -0.08), (0, 1.3, -0.05), 0.24),
                   ellipsoid((0, 1.5, 0.52), (0.075, 0.12, 0.1)), ellipsoid((0, 1.77, 0.38), (0.33, 0.07, 0.12)))
    ears = union(ellipsoid((-0.45, 1.58, -0.02), (0.06, 0.13, 0.09)), ellipsoid((0.45, 1.58, -0.02), (0.06, 0.13, 0.09)))
    whites = union(sphere((-0.175, 1.645, 0.395), 0.082), sphere((0.175, 1.645, 0.395), 0.082))
    irises = union(sphere((-0.172, 1.645, 0.447), 0.042), sphere((0.172, 1.645, 0.447), 0.042))
    brows = union(*(capsule((s * 0.09, 1.775, 0.49), (s * 0.28, 1.775, 0.41), 0.022) for s in (-1, 1)))
    lips = ellipsoid((0, 1.27, 0.385), (0.125, 0.042, 0.05))
    hair = less(ellipsoid((0, 1.78, -0.08), (0.5, 0.52, 0.53)), box((0, 1.48, 0.45), (0.6, 0.42, 0.42), 0.1))
    shoulders = blended(0.2, capsule((-0.72, 0.55, -0.08), (0.72, 0.55, -0.08), 0.27), ellipsoid((0, 0.4, -0.05), (0.85, 0.62, 0.36)), capsule((0, 0.7, -0.08), (0, 1.0, -0.08), 0.24))
    return [Part(blended(0.03, head, ears), skin, 0.15), Part(whites, WHITE, 0.6), Part(irises, (0.03, 0.06, 0.08), 0.9), Part(brows, (0.04, 0.02, 0.01), 0.1),
            Part(lips, (0.45, 0.12, 0.1), 0.3), Part(hair, (0.07, 0.03, 0.012), 0.3), Part(shoulders, shirt, 0.05)]


def tumbler(tint=(0.75, 0.82, 0.85)):
    return [Part(less(turned([(0, 0.4), (1.5, 0.55)]), turned([(0.12, 0.35), (1.6, 0.5)])), tint, 1.0)]


def goblet(tint=(0.8, 0.8, 0.85)):
    bowl = turned(smooth([(0.95, 0.06), (1.05, 0.3), (1.4, 0.5), (1.8, 0.46), (2.05, 0.38)]))
    return [Part(blended(0.05, bowl, capsule((0, 0.05, 0), (0, 1.0, 0), 0.04), cylinder((0, 0.03, 0), 0.42, 0.03, 0.02)), tint, 1.0)]


def wine(tint=(0.3, 0.01, 0.03)):
    return [Part(turned(smooth([(0.99, 0.05), (1.07, 0.28), (1.38, 0.46), (1.55, 0.46)])), tint, 0.6)]


# ------------------------------------------------------------------------------------------------ strands


def strands(alpha, colour, seed, many, reach, width, where=None, fall=0.0, over=4):
    """Hair on a subject: colour [h, w, 3] premultiplied and alpha [h, w] of strands that grow out of its outline. `where`
    picks roots by (x, y) 0..1; `fall` bends strands downwards."""
    rng = np.random.default_rng(seed)
    h, w = alpha.shape
    gy, gx = np.gradient(np.asarray(Image.fromarray((alpha * 255).astype(np.uint8)).resize((w, h))).astype(float))
    inside = alpha > 0.5
    edge = inside & ~(np.roll(inside, 1, 0) & np.roll(inside, -1, 0) & np.roll(inside, 1, 1) & np.roll(inside, -1, 1))
    ys, xs = np.nonzero(edge)
    if where is not None:
        keep = where(xs / w, ys / h)
        ys, xs = ys[keep], xs[keep]
    coverage = Image.new('L', (w * over, h * over), 0)
    shade = Image.new('L', (w * over, h * over), 128)
    cover, tone = ImageDraw.Draw(coverage), ImageDraw.Draw(shade)
    centre = np.array([xs.mean(), ys.mean()])
    for _ in range(many):
        k = int(rng.integers(len(xs)))
        at = np.array([xs[k], ys[k]], float)
        out = np.arctan2(at[1] - centre[1], at[0] - centre[0]) + rng.normal(0, 0.45)
        at -= 3 * np.array([np.cos(out), np.sin(out)])
        step, points = reach * rng.uniform(0.4, 1.2) / 10, [at * over]
        for i in range(10):
            out += rng.normal(0, 0.09) + fall * np.sin(np.pi / 2 - out) * 0.12
            at = at + step * np.array([np.cos(out), np.sin(out)])
            points.append(at * over)
        thick = max(1, round(width * over * rng.uniform(0.5, 1.3)))
        line = [tuple(p) for p in points]
        cover.line(line, 255, thick, 'curve')
        tone.line(line, int(rng.integers(70, 186)), thick, 'curve')
    shrink = lambda image: np.asarray(image.resize((w, h), Image.BOX)).astype(np.float32) / 255
    a, t = shrink(coverage), shrink(shade)
    return np.clip(np.array(colour, np.float32) * (t * 2)[..., None], 0, 255) * a[..., None], a


def stacked(colour, alpha, above, share):
    """Strands (premultiplied) over a subject (premultiplied)."""
    return above + colour * (1 - share[..., None]), share + alpha * (1 - share)
