"""Small pictures and a clip for the generated requests, encoded without a library."""
import functools
import struct
import zlib
from pathlib import Path


def png(width, height, pixel, channels):
    """A PNG of 8 bits a channel; `pixel(x, y)` gives the channels' bytes."""
    rows = b"".join(b"\0" + b"".join(bytes(pixel(x, y)) for x in range(width)) for y in range(height))

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", width, height, 8, {3: 2, 4: 6}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def coverage(x, y, width, height):
    """Coverage of a centred disc with a soft edge, 0 to 255."""
    distance = ((x + 0.5 - width / 2) ** 2 + (y + 0.5 - height / 2) ** 2) ** 0.5
    return max(0, min(255, round((height * 0.35 - distance + 0.5) * 255)))


@functools.cache
def cutout():
    """A picture with alpha, for which no network runs."""
    return png(30, 20, lambda x, y: (200, 60, 40, coverage(x, y, 30, 20)), 4)


@functools.cache
def drawn():
    """An opaque disc on a background, for the network."""

    def pixel(x, y):
        alpha = coverage(x, y, 96, 64)
        return [(subject * alpha + ground * (255 - alpha)) // 255 for subject, ground in zip((210, 50, 40), (170, 190, 200))]

    return png(96, 64, pixel, 3)


@functools.cache
def clip():
    """A GIF of three small frames of a moving disc, one second. Its LZW codes are 8 bits wide, so nothing is packed."""
    width, height, ground, subject, clear, end = 24, 16, 0, 1, 128, 129

    def frame(left):
        pixels = [subject if coverage(x - left, y, width, height) > 127 else ground for y in range(height) for x in range(width)]
        codes = b"".join(bytes([clear, *pixels[at:at + 100]]) for at in range(0, len(pixels), 100)) + bytes([end])
        blocks = b"".join(bytes([len(codes[at:at + 255])]) + codes[at:at + 255] for at in range(0, len(codes), 255))
        delay = b"\x21\xf9\x04\x04" + struct.pack("<H", 33) + b"\0\0"
        return delay + b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x07" + blocks + b"\0"

    colours = bytes([170, 190, 200, 210, 50, 40]) + bytes(3 * 126)
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0xF6, 0, 0) + colours
    return head + frame(-3) + frame(0) + frame(3) + b"\x3b"


def portrait():
    """The face of tests/photos/astronaut.jpg, small."""
    return Path(__file__).with_name("portrait.jpg").read_bytes()


# Sent beside `cutout`, which is most of what is sent.
PICTURES = {
    "drawn": drawn(),
    "flat": png(17, 9, lambda x, y: (90, 120, 90), 3),
    "one": png(1, 1, lambda x, y: (9, 9, 9, 128), 4),
    "truncated": cutout()[:60],
    "unsupported": b"GIF89a\x01\0\x01\0\0\0\0;",
}
