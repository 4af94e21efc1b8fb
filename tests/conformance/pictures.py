"""Small pictures, made without a library: what the generated requests carry."""
import functools
import struct
import zlib


def png(width, height, pixel, channels):
    """A PNG of 8 bits a channel; `pixel(x, y)` gives the channels' bytes."""
    rows = b"".join(b"\0" + b"".join(bytes(pixel(x, y)) for x in range(width)) for y in range(height))

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", width, height, 8, {3: 2, 4: 6}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def coverage(x, y, width, height):
    """Of a disc with a soft rim in the middle, 0 to 255."""
    distance = ((x + 0.5 - width / 2) ** 2 + (y + 0.5 - height / 2) ** 2) ** 0.5
    return max(0, min(255, round((height * 0.35 - distance + 0.5) * 255)))


@functools.cache
def cutout():
    """Cut out already, so that no network has to run: quick."""
    return png(30, 20, lambda x, y: (200, 60, 40, coverage(x, y, 30, 20)), 4)


@functools.cache
def drawn():
    """Opaque: a disc in front of a ground, for the network."""

    def pixel(x, y):
        alpha = coverage(x, y, 96, 64)
        return [(subject * alpha + ground * (255 - alpha)) // 255 for subject, ground in zip((210, 50, 40), (170, 190, 200))]

    return png(96, 64, pixel, 3)


# Beside `cutout`, which is most of what is sent.
PICTURES = {
    "drawn": drawn(),
    "flat": png(17, 9, lambda x, y: (90, 120, 90), 3),
    "one": png(1, 1, lambda x, y: (9, 9, 9, 128), 4),
    "truncated": cutout()[:60],
    "unsupported": b"GIF89a\x01\0\x01\0\0\0\0;",
}
