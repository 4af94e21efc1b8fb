#!/usr/bin/env python3
"""Makes the pictures of docs/guiding.md from tests/photos.

    python -m venv target/guiding && target/guiding/bin/pip install pillow==13.0.0
    target/guiding/bin/python docs/guiding/make.py target/release/backdrop

Each picture is a row of three: what is sent (the photo with the box, the points or the mask drawn over it), the cutout without
it, and the cutout with it.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter

HERE = Path(__file__).resolve().parent
PHOTOS = HERE.parents[1] / "tests" / "photos"
HEIGHT = 240
BLUE, RED = (30, 110, 255), (230, 30, 60)


def cutout(binary, photo, fields, mask=None):
    """The photo's cutout with these fields, as the command line makes it."""
    with tempfile.TemporaryDirectory() as folder:
        fields = list(fields)
        if mask is not None:
            mask.save(Path(folder, "mask.png"))
            fields.append(f"mask_file={folder}/mask.png")
        arguments = [argument for field in fields for argument in ("--set", field)]
        subprocess.run([binary, "remove", photo, "-o", f"{folder}/cutout.png", *arguments], check=True, capture_output=True)
        return Image.open(f"{folder}/cutout.png").convert("RGBA")


def on_squares(picture):
    """A cutout on the chequered ground of editors."""
    ground = Image.new("RGBA", picture.size, "white")
    draw = ImageDraw.Draw(ground)
    for y in range(0, picture.height, 16):
        for x in range(y // 16 % 2 * 16, picture.width, 32):
            draw.rectangle([x, y, x + 15, y + 15], fill=(206, 206, 206))
    ground.alpha_composite(picture)
    return ground


def strokes(size, *lines):
    """A transparent mask with strokes: (grey, width, points)."""
    mask = Image.new("RGBA", size)
    draw = ImageDraw.Draw(mask)
    for grey, width, points in lines:
        draw.line(points, fill=(grey, grey, grey, 255), width=width, joint="curve")
        for x, y in points:
            draw.ellipse([x - width / 2, y - width / 2, x + width / 2, y + width / 2], fill=(grey, grey, grey, 255))
    return mask


def ellipses(size, *boxes, ground=0, grey=255):
    mask = Image.new("L", size, ground)
    for box in boxes:
        ImageDraw.Draw(mask).ellipse(box, fill=grey)
    return mask


def trimap_of(alpha, band):
    """Black and white where a cutout is certain, grey in a band around its edge."""
    sure = alpha.filter(ImageFilter.MinFilter(band)).point(lambda value: 255 if value > 250 else 0)
    ever = alpha.filter(ImageFilter.MaxFilter(band)).point(lambda value: 128 if value > 5 else 0)
    return Image.composite(sure, ever, sure)


def marked(photo, box=None, points=(), not_points=(), mask=None):
    """The photo with what is sent beside it."""
    picture = Image.open(photo).convert("RGBA")
    if mask is not None and mask.mode == "L":
        picture = Image.blend(picture, mask.convert("RGBA"), 0.6)
    elif mask is not None:
        picture.alpha_composite(mask)
    draw = ImageDraw.Draw(picture)
    if box:
        draw.rectangle(box, outline=BLUE, width=4)
    for colour, places in ((BLUE, points), (RED, not_points)):
        for x, y in places:
            draw.ellipse([x - 8, y - 8, x + 8, y + 8], fill=colour, outline="white", width=3)
    return picture


def pictures(binary):
    """The name of each picture, its photo, the fields, and what is drawn."""
    astronaut, cat, coffee = (PHOTOS / name for name in ("astronaut.jpg", "chelsea.png", "coffee.jpg"))
    helmet = [(318, 400), (390, 372), (460, 410), (440, 480), (340, 480), (390, 430)]
    hint = strokes((512, 512), (255, 26, helmet), (255, 16, [(430, 60), (440, 200)]))
    cup = ellipses((600, 400), (174, 18, 406, 186), (186, 60, 396, 232))
    band = trimap_of(cutout(binary, cat, []).getchannel("A"), 41)
    yield "box", astronaut, ["box=345,0,475,300"], {"box": (345, 0, 475, 300)}
    yield "point", astronaut, ["point=390,440"], {"points": [(390, 440)]}
    yield ("not_point", astronaut, ["not_point=200,330;250,120", "point=430,120"],
           {"not_points": [(200, 330), (250, 120)], "points": [(430, 120)]})
    yield "hint", astronaut, ["mask_mode=hint"], {"mask": hint}
    yield "replace", coffee, [], {"mask": cup}
    yield "trimap", cat, ["mask_mode=trimap"], {"mask": band}


def main():
    binary = sys.argv[1]
    for name, photo, fields, drawn in pictures(binary):
        row = [marked(photo, **drawn), on_squares(cutout(binary, photo, [])),
               on_squares(cutout(binary, photo, fields, drawn.get("mask")))]
        row = [part.resize((round(part.width * HEIGHT / part.height), HEIGHT), Image.LANCZOS) for part in row]
        sheet = Image.new("RGB", (sum(part.width for part in row) + 8 * (len(row) - 1), HEIGHT), "white")
        left = 0
        for part in row:
            sheet.paste(part.convert("RGB"), (left, 0))
            left += part.width + 8
        sheet.save(HERE / f"{name}.jpg", quality=82, optimize=True)
        print(f"{name}.jpg: {', '.join(fields) or 'mask_file'}", (HERE / f"{name}.jpg").stat().st_size)


if __name__ == "__main__":
    main()
