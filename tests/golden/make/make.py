#!/usr/bin/env python3
"""Makes the golden pictures, their exact alpha where they are drawn, and the manifest.

    pip install numpy==2.4.6 pillow==13.0.0 pillow-heif==1.8.1 scikit-image==0.26.0
    python make.py SCIPY_1_9_WHEEL_UNPACKED [NAME...]

Photos come from the packages scikit-image (its data folder; terms in `skimage/data/_fetchers.py`) and SciPy 1.9
(`scipy/misc/face.dat`; terms in `scipy/misc/_common.py`), and only those that are in the public domain or under CC0. All
others are drawn here, from fixed seeds. Another version of numpy or of an encoder may change bytes; expectations then
have to be recorded again. With names only those pictures are made.
"""
import bz2
import io
import sys
import zlib
from pathlib import Path

import numpy as np
import skimage
from PIL import Image, ImageFilter

import things as T
from march import over_ground, render

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / 'pictures'
TRUTH = HERE.parent / 'truth'
DATA = Path(skimage.__file__).parent / 'data'
FIXTURES = HERE.parent.parent / 'fixtures' / 'codec'
DRAWN = ('drawn by tests/golden/make', 'as the project')
PICTURES = {}


def picture(name, category):
    def add(make):
        PICTURES[name] = (category, make)
        return make

    return add


# ------------------------------------------------------------------------------------------------ files


def photo(name):
    return Image.open(DATA / name).convert('RGB')


def scaled(image, longest=320):
    image = image.copy()
    image.thumbnail((longest, longest), Image.LANCZOS)
    return image


def of(array):
    return Image.fromarray(np.clip(array + 0.5, 0, 255).astype(np.uint8))


def save(image, name, quality=88, **more):
    path = OUT / name
    if path.suffix in ('.jpg', '.webp', '.heic'):
        more.setdefault('quality', quality)
    if path.suffix == '.png':
        more['optimize'] = True
    if path.suffix == '.heic':
        import pillow_heif
        pillow_heif.register_heif_opener()
    image.save(path, **more)


def truth(name, alpha):
    of(alpha * 255).save(TRUTH / f'{Path(name).stem}.png', optimize=True)


def drawn(name, colour, alpha, ground, shade=1.0, how=lambda image: image, grain=1.6, **more):
    """Composes a subject onto a background with camera noise; writes its alpha."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    rgb = over_ground(colour, alpha, np.broadcast_to(shade, (*alpha.shape, 1)), ground)
    rgb = rgb + rng.normal(0, grain, (*alpha.shape, 1)) + rng.normal(0, grain / 2, rgb.shape)
    save(how(of(rgb)), name, **more)
    truth(name, alpha)
    return DRAWN


# ------------------------------------------------------------------------------------------------ grounds


def flat(size, top, bottom=None):
    w, h = size
    ramp = np.linspace(0, 1, h, dtype=np.float32)[:, None, None]
    top, bottom = np.array(top, np.float32), np.array(top if bottom is None else bottom, np.float32)
    return np.broadcast_to(top * (1 - ramp) + bottom * ramp, (h, w, 3)).copy()


def texture(name, size, tint, blur=0.0, crop=1.0):
    w, h = size
    source = Image.open(DATA / name).convert('L')
    side = int(min(source.size) * crop)
    source = source.crop((0, 0, side, min(side * h // w, source.height))).resize(size, Image.LANCZOS)
    if blur:
        source = source.filter(ImageFilter.GaussianBlur(blur))
    grey = np.asarray(source, np.float32)[..., None] / 128
    return np.clip(grey * np.array(tint, np.float32), 0, 255)


def table(size, blur=3.0):
    """The wooden table of the coffee photo, out of focus."""
    wood = photo('coffee.png').crop((395, 5, 595, 150)).resize(size, Image.LANCZOS)
    return np.asarray(wood.filter(ImageFilter.GaussianBlur(blur)), np.float32)


def room(floor, wall, ground):
    """A floor in front of a wall, as rendered by `render`."""
    return floor * ground + wall * (1 - ground)


NEAR = dict(eye=(0.7, 1.7, 4.2), view=0.3)


# ------------------------------------------------------------------------------------------------ portraits


@picture('portrait-astronaut.jpg', 'portrait')
def _(name):
    save(scaled(photo('astronaut.png').crop((50, 0, 450, 450))), name)
    return 'NASA, Eileen Collins (scikit-image data, astronaut)', 'public domain'


@picture('portrait-small.jpg', 'portrait')
def _(name):
    face = photo('astronaut.png').crop((150, 0, 310, 200)).resize((112, 140), Image.LANCZOS)
    save(face.filter(ImageFilter.GaussianBlur(0.8)), name, quality=55)
    return 'NASA, Eileen Collins (scikit-image data, astronaut)', 'public domain'


@picture('portrait-turned.jpg', 'orientation')
def _(name):
    image = scaled(photo('astronaut.png').crop((80, 0, 400, 400)), 260)
    exif = Image.Exif()
    exif[0x0112] = 6
    save(image.transpose(Image.ROTATE_90), name, exif=exif)
    return 'NASA, Eileen Collins (scikit-image data, astronaut)', 'public domain'


def head(size, **more):
    more = {**dict(eye=(0.25, 1.5, 4.2), aim=(0, 1.22, 0), view=0.3, floor=False, sun=1.9), **more}
    return render(T.bust(**{k: more.pop(k) for k in ('shirt', 'skin') if k in more}), size, **more)


def above(x, y):
    return y < 0.45


@picture('portrait-drawn.jpg', 'portrait')
def _(name):
    colour, alpha, _, _ = head((260, 320))
    return drawn(name, colour, alpha, flat((260, 320), (176, 182, 190), (140, 146, 156)))


@picture('hair-curls.jpg', 'hair')
def _(name):
    colour, alpha, _, _ = head((300, 320), skin=(0.42, 0.2, 0.12), shirt=(0.5, 0.42, 0.1), view=0.36)
    curls = T.strands(alpha, (62, 36, 22), 5, 900, 46, 0.8, above, fall=0.5)
    return drawn(name, *T.stacked(colour, alpha, *curls), table((300, 320), 6))


@picture('hair-green.jpg', 'hair')
def _(name):
    colour, alpha, _, _ = head((300, 320), shirt=(0.35, 0.05, 0.08), view=0.36)
    hair = T.strands(alpha, (150, 104, 58), 6, 520, 70, 0.7, above, fall=1.6)
    return drawn(name, *T.stacked(colour, alpha, *hair), flat((300, 320), (38, 178, 74), (30, 160, 62)))


# ------------------------------------------------------------------------------------------------ fur


@picture('fur-chelsea.jpg', 'fur')
def _(name):
    save(scaled(photo('chelsea.png')), name)
    return 'Stefan van der Walt, Chelsea the cat (scikit-image data, chelsea)', 'CC0 1.0'


@picture('fur-raccoon.jpg', 'fur')
def _(name):
    pixels = np.frombuffer(bz2.decompress((SCIPY / 'scipy/misc/face.dat').read_bytes()), np.uint8)
    save(scaled(Image.fromarray(pixels.reshape(768, 1024, 3))), name)
    return 'raccoon-procyon-lotor.jpg of public-domain-image.com (SciPy 1.9, misc.face)', 'public domain'


@picture('fur-toy.jpg', 'fur')
def _(name):
    size = (320, 300)
    fur = lambda x, z, y, r: T.ellipsoid((x, y, z), (r, r * 0.95, r))
    body = T.blended(0.15, fur(0, 0, 0.55, 0.55), fur(0, 0.1, 1.35, 0.42), fur(-0.33, 0, 1.72, 0.15), fur(0.33, 0, 1.72, 0.15),
                     fur(-0.42, 0.4, 0.2, 0.22), fur(0.42, 0.4, 0.2, 0.22), fur(-0.55, 0.2, 0.75, 0.18), fur(0.55, 0.2, 0.75, 0.18))
    eyes = T.union(T.sphere((-0.16, 1.42, 0.49), 0.055), T.sphere((0.16, 1.42, 0.49), 0.055), T.ellipsoid((0, 1.28, 0.54), (0.08, 0.055, 0.05)))
    parts = [T.Part(body, T.grained((0.42, 0.22, 0.09), 0.2, 30), 0.02), T.Part(eyes, T.BLACK, 0.9)]
    colour, alpha, shade, ground = render(parts, size, eye=(0.5, 1.6, 4.2), aim=(0, 0.92, 0), view=0.29)
    strands = T.strands(alpha, (158, 112, 66), 7, 2600, 15, 0.45)
    colour, alpha = T.stacked(colour, alpha, *strands)
    back = room(flat(size, (150, 140, 128)), texture('brick.png', size, (170, 110, 90), 2.5), ground)
    return drawn(name, colour, alpha, back, shade)


@picture('fur-horse.jpg', 'fur')
def _(name):
    size = (320, 264)
    mask = Image.open(DATA / 'horse.png').convert('L').resize((size[0] * 3, size[1] * 3), Image.LANCZOS)
    inside = np.asarray(mask, np.float32) < 128
    alpha = inside.reshape(size[1], 3, size[0], 3).mean((1, 3)).astype(np.float32)
    deep = np.asarray(of(alpha * 255).filter(ImageFilter.GaussianBlur(9)), np.float32) / 255
    y, x = np.mgrid[: size[1], : size[0]] / 264.0
    light = 0.35 + 0.75 * np.clip(deep - 0.25, 0, 1) + 0.25 * (0.5 - y) + 0.05 * np.sin(x * 60) * np.sin(y * 47)
    colour = light[..., None] * np.array((128, 74, 42), np.float32) * alpha[..., None]
    mane = T.strands(alpha, (52, 32, 22), 8, 420, 26, 0.6, lambda x, y: (x > 0.52) & (x < 0.86) & (y < 0.42) & (x + 1.1 * y > 0.8), fall=-0.4)
    tail = T.strands(alpha, (52, 32, 22), 9, 260, 34, 0.6, lambda x, y: (x < 0.14) & (y > 0.25), fall=2.0)
    colour, alpha = T.stacked(*T.stacked(colour, alpha, *mane), *tail)
    sky, grass = flat(size, (150, 186, 224), (214, 226, 234)), texture('grass.png', size, (88, 124, 52), 0.8, 0.7)
    line = (np.arange(size[1]) > 150)[:, None, None]
    return (drawn(name, colour, alpha, np.where(line, grass, sky)) and
            ('silhouette by Andreas Preuss (scikit-image data, horse), drawn over', 'CC0 1.0'))


# ------------------------------------------------------------------------------------------------ goods


@picture('goods-coffee.jpg', 'goods')
def _(name):
    save(scaled(photo('coffee.png')), name)
    return 'Rachel Michetti, Pikolo Espresso Bar (scikit-image data, coffee)', 'CC0 1.0'


def goods(name, parts, size, floor, wall, how=lambda image: image, grain=1.6, file=None, **view):
    colour, alpha, shade, ground = render(parts, size, **{**NEAR, **view})
    wall = flat(size, wall) if not isinstance(wall, np.ndarray) else wall
    floor = flat(size, floor) if not isinstance(floor, np.ndarray) else floor
    return drawn(name, colour, alpha, room(floor, wall, ground), shade, how, grain, **(file or {}))


@picture('goods-camera.jpg', 'goods')
def _(name):
    return goods(name, T.camera(), (320, 240), table((320, 240)), table((320, 240), 9) * 0.5, eye=(1.2, 1.6, 3.6), aim=(0, 0.5, 0), view=0.23)


@picture('goods-shoe.jpg', 'goods')
def _(name):
    return goods(name, T.shoe(), (320, 240), (226, 228, 230), (226, 228, 230), eye=(1.0, 1.3, 4.0), aim=(0, 0.3, 0), view=0.24)


@picture('goods-bottle.jpg', 'goods')
def _(name):
    return goods(name, T.bottle(), (220, 320), (196, 190, 180), (168, 172, 178), aim=(0, 0.95, 0))


@picture('goods-lamp.jpg', 'goods')
def _(name):
    return goods(name, T.lamp(), (240, 320), (122, 96, 74), (92, 112, 118), aim=(0, 0.95, 0), view=0.33)


@picture('goods-jar.webp', 'format')
def _(name):
    return goods(name, T.jar(), (260, 280), (120, 150, 160), (150, 176, 184), aim=(0, 0.58, 0), view=0.2)


# ------------------------------------------------------------------------------------------------ white on white


WHITE = (255, 255, 255)


@picture('white-mug.jpg', 'white')
def _(name):
    return goods(name, T.mug(), (300, 260), WHITE, WHITE, grain=0.5, aim=(0.12, 0.58, 0), view=0.22, eye=(0.4, 1.5, 4.2))


@picture('white-carton.png', 'white')
def _(name):
    return goods(name, T.carton((0.8, 0.8, 0.79)), (280, 260), WHITE, WHITE, grain=0.0, aim=(0, 0.48, 0), view=0.23)


@picture('white-vase.jpg', 'white')
def _(name):
    return goods(name, T.vase((0.84, 0.83, 0.8)), (240, 320), (246, 246, 244), (250, 250, 249), grain=0.8, aim=(0, 0.8, 0), view=0.27)


@picture('white-chair.jpg', 'white')
def _(name):
    return goods(name, T.chair((0.7, 0.69, 0.67), 0.04), (260, 320), WHITE, WHITE, grain=0.5, eye=(2.0, 2.0, 4.2), aim=(0, 0.98, 0), view=0.29)


# ------------------------------------------------------------------------------------------------ glass


def glassware(name, parts, size, ground, inside=(), **view):
    view = {**dict(eye=(0.3, 1.6, 4.2), aim=(0, 0.95, 0), view=0.31), **view}
    colour, alpha, _, _ = render(parts, size, glass=True, **view)
    if inside:
        c, a, _, _ = render(inside, size, floor=False, **view)
        colour, alpha = T.stacked(c, a, colour, alpha)
    return drawn(name, colour, alpha, ground)


@picture('glass-tumbler.jpg', 'glass')
def _(name):
    return glassware(name, T.tumbler(), (240, 300), texture('brick.png', (240, 300), (150, 96, 78), 2.0), aim=(0, 0.72, 0), view=0.25)


@picture('glass-wine.jpg', 'glass')
def _(name):
    return glassware(name, T.goblet(), (240, 320), table((240, 320), 8) * 0.55, T.wine(), aim=(0, 1.02, 0))


@picture('glass-green.jpg', 'glass')
def _(name):
    return glassware(name, T.goblet(), (220, 300), flat((220, 300), (44, 186, 80), (34, 168, 66)), T.wine((0.75, 0.55, 0.15)), aim=(0, 1.02, 0))


@picture('glass-bottle.jpg', 'glass')
def _(name):
    return glassware(name, [part for part in T.bottle((0.35, 0.6, 0.45))[:1]], (220, 320), flat((220, 320), (94, 110, 122), (30, 36, 42)), [T.bottle()[1]])


@picture('glass-leaf.png', 'glass')
def _(name):
    w, h = size = (280, 220)
    y, x = np.mgrid[: h * 3, : w * 3].astype(np.float32) / 3
    u = ((x - 30) * 0.9 + (y - h / 2) * 0.12) / (w - 60)
    v = (y - h / 2) - 12 * np.sin(u * 3)
    half = 78 * np.maximum(np.sin(np.pi * np.clip(u, 0, 1)), 0) ** 0.8
    inside = (np.abs(v) < half) & (u > 0) & (u < 1)
    veins = np.exp(-(v / 1.6) ** 2) + 0.6 * np.exp(-((((u * 9 - np.abs(v) / 26) % 1) - 0.5) / 0.07) ** 2)
    cover = inside * np.clip(0.5 + 0.4 * veins, 0, 0.92)
    colour = np.stack([96 + 70 * veins, 150 - 10 * veins, 60 + 40 * veins], -1) * cover[..., None]
    small = lambda p: p.reshape(h, 3, w, 3, -1).mean((1, 3))
    return drawn(name, small(colour), small(cover)[..., 0], flat(size, (210, 200, 220), (120, 130, 170)))


# ------------------------------------------------------------------------------------------------ thin


@picture('thin-chair.jpg', 'thin')
def _(name):
    size = (260, 320)
    return goods(name, T.chair(leg=0.024), size, (170, 166, 158), (206, 208, 204), eye=(2.0, 2.0, 4.2), aim=(0, 0.98, 0), view=0.29)


@picture('thin-bicycle.jpg', 'thin')
def _(name):
    size = (320, 240)
    wall = texture('brick.png', size, (186, 168, 156), 1.0)
    return goods(name, T.bicycle(), size, texture('gravel.png', size, (136, 132, 126), 1.2), wall, eye=(0.9, 1.2, 4.6), aim=(0, 0.76, 0), view=0.28)


@picture('thin-plant.jpg', 'thin')
def _(name):
    return goods(name, T.plant(), (240, 320), (178, 150, 122), (222, 214, 198), aim=(0, 1.08, 0), view=0.33)


@picture('thin-spectacles.jpg', 'thin')
def _(name):
    return goods(name, T.spectacles(), (320, 220), (200, 204, 210), (200, 204, 210), eye=(0.8, 1.6, 4.0), aim=(0, 0.3, -0.2), view=0.2)


@picture('thin-stool.png', 'thin')
def _(name):
    return goods(name, T.stool(), (220, 280), (96, 100, 104), (128, 132, 138), aim=(0, 0.72, 0), view=0.23, eye=(0.9, 1.9, 4.2))


# ------------------------------------------------------------------------------------------------ shadows, scenes, several, none


@picture('shadow-vase.jpg', 'shadow')
def _(name):
    return goods(name, T.vase((0.55, 0.2, 0.06)), (320, 260), (236, 224, 200), (228, 218, 198), light=(-0.95, 0.5, 0.25), sun=3.0, sky=0.5, softness=30.0,
                 eye=(0.2, 2.0, 4.2), aim=(0.35, 0.72, 0), view=0.26)


@picture('shadow-figure.jpg', 'shadow')
def _(name):
    size = (300, 300)
    return goods(name, T.figure(), size, texture('gravel.png', size, (196, 190, 180), 0.8), (206, 214, 222), light=(0.8, 0.6, 0.5), sun=3.0, sky=0.5, softness=25.0,
                 eye=(0.3, 2.3, 4.6), aim=(-0.2, 0.9, 0), view=0.3)


@picture('scene-figure.jpg', 'scene')
def _(name):
    size = (400, 280)
    grass = texture('grass.png', size, (96, 130, 58), 0.7)
    return goods(name, T.figure(shirt=(0.7, 0.5, 0.03)), size, grass, flat(size, (128, 172, 220), (226, 234, 240)), eye=(2.6, 1.5, 11), aim=(1.6, 1.5, 0), view=0.3, light=(0.5, 0.8, 0.5))


@picture('scene-ball.jpg', 'scene')
def _(name):
    size = (360, 240)
    ball = [T.Part(T.sphere((0, 0.35, 0), 0.35), T.stripes((0.65, 0.05, 0.03), (0.85, 0.85, 0.8), 7.0, 0), 0.5)]
    return goods(name, ball, size, texture('grass.png', size, (84, 120, 50), 0.6), texture('brick.png', size, (168, 120, 100), 1.5), eye=(0.5, 1.4, 6.5), aim=(-0.9, 0.6, 0), view=0.28)


@picture('scene-rocket.jpg', 'scene')
def _(name):
    save(scaled(photo('rocket.jpg'), 360), name)
    return 'SpaceX, Falcon 9 with DSCOVR (scikit-image data, rocket)', 'public domain'


@picture('several-fruit.jpg', 'several')
def _(name):
    return goods(name, T.fruit(), (320, 240), table((320, 240), 4), table((320, 240), 9) * 0.8, eye=(0.4, 2.6, 4.4), aim=(0.05, 0.3, 0), view=0.3)


@picture('several-people.jpg', 'several')
def _(name):
    people = [*T.figure(at=(-0.65, 0, 0)), *T.figure((0.05, 0.25, 0.12), (0.2, 0.18, 0.15), (0.45, 0, 0.2), False), *T.figure((0.6, 0.5, 0.3), (0.05, 0.05, 0.05), (1.25, 0, -0.1), False, 0.7)]
    return goods(name, people, (340, 280), (160, 158, 154), (190, 200, 206), eye=(0.5, 1.7, 5.4), aim=(0.3, 0.95, 0), view=0.27)


@picture('none-grass.jpg', 'none')
def _(name):
    save(of(texture('grass.png', (280, 210), (92, 126, 56), 0.0, 0.8)), name, quality=80)
    return 'linolafett, Grass 01 (scikit-image data, grass), coloured', 'CC0 1.0'


@picture('none-sky.png', 'none')
def _(name):
    save(of(flat((240, 160), (120, 164, 218), (222, 232, 240))), name)
    return DRAWN


# ------------------------------------------------------------------------------------------------ grey, formats, transparent, lines


@picture('grey-photographer.jpg', 'grey')
def _(name):
    save(scaled(photo('camera.png'), 300).convert('L'), name)
    return 'Lav Varshney (scikit-image data, camera)', 'CC0 1.0'


@picture('grey-vase.png', 'grey')
def _(name):
    return goods(name, T.vase(), (200, 260), (110, 110, 110), (150, 150, 150), how=lambda image: image.convert('L'), aim=(0, 0.8, 0), view=0.27)


@picture('cmyk-carton.jpg', 'format')
def _(name):
    return goods(name, T.carton(), (260, 220), (190, 200, 180), (206, 212, 200), how=lambda image: image.convert('CMYK'), aim=(0, 0.5, 0), view=0.24)


@picture('profile-coffee.jpg', 'format')
def _(name):
    profile = Image.open(FIXTURES / 'display_p3.jpg').info['icc_profile']
    save(scaled(photo('coffee.png').crop((90, 0, 490, 400)), 260), name, icc_profile=profile)
    return 'Rachel Michetti, Pikolo Espresso Bar (scikit-image data, coffee), read as Display P3', 'CC0 1.0'


@picture('heic-shoe.heic', 'format')
def _(name):
    return goods(name, T.shoe((0.03, 0.1, 0.3)), (280, 200), (190, 186, 180), (206, 202, 196), eye=(-1.2, 1.4, 4.0), aim=(0, 0.3, 0), view=0.26, file=dict(quality=80))


def cutout(colour, alpha):
    straight = np.where(alpha[..., None] > 0, colour / np.maximum(alpha[..., None], 1e-6), 0)
    return of(np.concatenate([straight, alpha[..., None] * 255], -1))


@picture('transparent-plant.png', 'transparent')
def _(name):
    colour, alpha, _, _ = render(T.plant(), (200, 260), **{**NEAR, 'aim': (0, 1.08, 0), 'view': 0.33})
    save(cutout(colour, alpha), name)
    truth(name, alpha)
    return DRAWN


@picture('transparent-bottle.webp', 'transparent')
def _(name):
    colour, alpha, shade, _ = render(T.bottle(), (180, 260), **{**NEAR, 'aim': (0, 0.95, 0)})
    dark = (1 - alpha) * (1 - shade[..., 0]) * 0.7
    save(cutout(colour, alpha + dark), name, lossless=True)
    truth(name, alpha + dark)
    return DRAWN


@picture('transparent-grey.png', 'transparent')
def _(name):
    colour, alpha, _, _ = render(T.mug(), (200, 180), **{**NEAR, 'aim': (0.12, 0.58, 0), 'view': 0.2})
    save(cutout(colour, alpha).convert('LA'), name)
    truth(name, alpha)
    return DRAWN


def line(length):
    at = np.arange(length) / length
    inside = ((at > 0.3) & (at < 0.65))[:, None]
    return np.where(inside, np.array((200, 60, 40.0)), np.array((60, 90, 120.0)) + 60 * at[:, None])


@picture('line-wide.png', 'line')
def _(name):
    save(of(line(320)[None]), name)
    return DRAWN


@picture('line-tall.png', 'line')
def _(name):
    save(of(line(240)[:, None]), name)
    return DRAWN


def main():
    only = sys.argv[2:]
    OUT.mkdir(exist_ok=True)
    TRUTH.mkdir(exist_ok=True)
    made = {name: make(name) for name, (_, make) in PICTURES.items() if not only or name in only}
    if only:
        return
    with io.open(HERE.parent / 'manifest.toml', 'w', newline='\n') as out:
        out.write('# The golden pictures: what each is for, where it comes from, and its terms. Written by make/make.py.\n')
        for name, (category, _) in sorted(PICTURES.items()):
            origin, licence = made[name]
            out.write(f'\n[[picture]]\nname = "{name}"\ncategory = "{category}"\norigin = "{origin}"\nlicence = "{licence}"\n')


if __name__ == '__main__':
    SCIPY = Path(sys.argv[1])
    main()
