"""Backdrop cuts subjects out of photos: on this machine, or over HTTP.

    from backdrop import remove

    cutout = remove(picture)        # bytes or a path gives the bytes of a PNG; a PIL image an RGBA image; an array an RGBA array

`remove` and `Session` have the command `backdrop` work, as a child process that is started once: no daemon, no key, no port.
`Client` calls a daemon:

    import backdrop

    with backdrop.Client(key="bd_live_…", url="http://127.0.0.1:8080") as client:
        cutout = client.remove("photo.jpg", edge="hard")
        cutout.save("cutout.png")
        print(cutout.box, cutout.uncertainty, cutout.cost)

`AsyncClient` has the methods of `Client` as coroutines, on asyncio. Fields have the names and values of the HTTP API (`/docs` of the
daemon). Requests are repeated after lost connections, 408, 429 and 5xx, with an `Idempotency-Key`, so that none is billed
twice; every failure is a `BackdropError`.
"""
from __future__ import annotations

import asyncio
import atexit
import base64
import collections
import contextlib
import datetime
import email.utils
import hashlib
import hmac
import io
import itertools
import json
import numbers
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import uuid
import weakref
import zipfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, Required, Self, TypeAlias, TypedDict, TypeVar, Unpack, cast, overload

import httpx
from tqdm import tqdm

if TYPE_CHECKING:
    import numpy as np
    import PIL.Image

__version__ = "0.1.0"

File: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes]"
"""A path, bytes, or an open binary file, which is read from its start. One that cannot seek is copied to a temporary file."""

Picture: TypeAlias = "File"
"""A `File`, or a public https address as `str`, which the daemon or the child process fetches."""

BoxField: TypeAlias = "str | tuple[float, float, float, float]"
"""Left, top, right and bottom: numbers in pixels, or text such as `10%,20%,60%,90%`."""

PointsField: TypeAlias = "str | tuple[float, float] | Sequence[str | tuple[float, float]]"
"""One point or several: `(x, y)` in pixels, or text such as `50%,40%`."""

_T = TypeVar("_T")


class BackdropError(Exception):
    """Any failure of this module."""


class ApiError(BackdropError):
    """A refusal by the daemon or the child process. Codes of the contract have a class each, such as `NoSubjectDetectedError`.

    A reply that is not the daemon's own (of a proxy, say) has the code `http_STATUS`.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {message}" + (f" ({request_id})" if request_id else ""))
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        """The invalid field, where it is one field."""
        self.reason = reason
        """Finer than the code, where it is known: see `Reason`."""
        self.request_id = request_id
        self.retry_after = retry_after
        """Seconds after which another attempt is worthwhile, where the daemon says so."""


class ConnectionFailedError(BackdropError):
    """No reply: the daemon was not reached, or the connection was lost."""


class TimedOutError(ConnectionFailedError):
    """No reply in time."""


class ProcessFailedError(BackdropError):
    """The child process did not start, or ended before it replied. The next call starts another one."""


class JobFailedError(BackdropError):
    """A job ended with an error; `code` is one of the contract, or `cancelled`."""

    def __init__(self, document: JobDocument) -> None:
        error = document.get("error", {"code": "internal_error", "message": "the job failed"})
        super().__init__(f"{error['code']}: {error['message']} ({document['job_id']})")
        self.code = error["code"]
        self.message = error["message"]
        self.document = document


class WaitTimeoutError(BackdropError):
    """A job was not over in the time that was given to `wait`; it goes on."""


class WebhookError(BackdropError):
    """A webhook that is not signed with the account's secret, is too old, or is malformed."""


class Box(NamedTuple):
    """A rectangle in pixels of the result."""

    left: int
    top: int
    width: int
    height: int


def _box(text: str | None) -> Box | None:
    return Box(*map(int, text.split(","))) if text and text != "none" else None


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)


@dataclass(frozen=True, repr=False)
class ImageResult:
    """A finished picture. `bytes(image)` is the file."""

    data: bytes
    """The file."""
    headers: Mapping[str, str]
    """The reply's headers, with names in lower case."""

    def __bytes__(self) -> bytes:
        return self.data

    def __repr__(self) -> str:
        return f"<ImageResult {self.format} {self.width}×{self.height}, {len(self.data)} bytes>"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the file, in the format that it has, whatever the suffix of `path` is."""
        Path(path).write_bytes(self.data)
        return Path(path)

    @property
    def content_type(self) -> str:
        """The media type, such as `image/png`."""
        return self.headers.get("content-type", "")

    @property
    def format(self) -> str:
        """`png`, `webp` or `jpg`, which is also the file's usual suffix."""
        return self.content_type.removeprefix("image/").replace("jpeg", "jpg")

    @property
    def width(self) -> int:
        """Width in pixels."""
        return int(self.headers.get("x-service-width", 0))

    @property
    def height(self) -> int:
        """Height in pixels."""
        return int(self.headers.get("x-service-height", 0))

    @property
    def box(self) -> Box | None:
        """The subject in the result; None where the endpoint cuts nothing out."""
        return _box(self.headers.get("x-service-foreground"))

    @property
    def face(self) -> Box | None:
        """The face in the result, of `headshot` and `face_restore`; None without one."""
        return _box(self.headers.get("x-service-face"))

    @property
    def uncertainty(self) -> float | None:
        """Estimated probability that the cutout is bad, 0 to 1; None where the endpoint cuts nothing out."""
        return _number(self.headers.get("x-service-uncertainty"))

    @property
    def edge(self) -> str | None:
        """The edge that was chosen with `edge="auto"`: `soft` or `hard`; None without it."""
        return self.headers.get("x-service-edge")

    @property
    def warnings(self) -> list[str]:
        """What may not be expected of the picture, a sentence each."""
        # A list of strings (RFC 9651), which in brackets is JSON.
        return list(json.loads(f"[{self.headers.get('x-service-warnings', '')}]"))

    @property
    def cost(self) -> float:
        """The billed price in US dollars."""
        return float(self.headers.get("x-service-cost", 0))

    @property
    def model(self) -> str:
        """Name and version of the network."""
        return self.headers.get("x-service-model", "")

    @property
    def backdrop_model(self) -> str | None:
        """What made the backdrop of `replace_bg_ai`."""
        return self.headers.get("x-service-backdrop-model")

    @property
    def prompt_words(self) -> str | None:
        """The words of the prompt that the built-in generator recognized, percent-encoded; `none` without one."""
        return self.headers.get("x-service-prompt-words")

    @property
    def request_id(self) -> str:
        """Names the request in the daemon's log."""
        return self.headers.get("x-request-id", "")

    @property
    def latency_ms(self) -> int:
        """Milliseconds from the last byte of the request to the first of the reply."""
        return int(self.headers.get("x-service-latency", 0))

    @property
    def timings(self) -> dict[str, float]:
        """Milliseconds by stage."""
        stages = re.findall(r"([\w-]+);dur=([0-9.]+)", self.headers.get("server-timing", ""))
        return {name: float(duration) for name, duration in stages}

    @property
    def quota_remaining(self) -> int | None:
        """Images left this month; None where there is no quota."""
        left = self.headers.get("x-quota-remaining")
        return None if left is None else int(left)


@dataclass(frozen=True)
class BatchRow:
    """One picture of `remove_batch` or `remove_batch_url`."""

    document: RowDocument
    """What the daemon says about it."""
    data: bytes | None = field(repr=False)
    """The file; None for a picture that failed."""

    @property
    def index(self) -> int:
        """Position in the request, from 0."""
        return self.document["index"]

    @property
    def box(self) -> Box | None:
        """The subject in the result."""
        box = self.document.get("box")
        return None if box is None else Box(box["left"], box["top"], box["width"], box["height"])

    @property
    def error(self) -> ApiError | None:
        """Why the picture failed; None where it did not."""
        error = self.document.get("error")
        if error is None:
            return None
        kind = _ERRORS.get(error["code"], ApiError)
        return kind(self.document["status"], error["code"], error["message"], reason=error.get("reason"))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the file; raises `error` for a picture that failed."""
        if self.data is None:
            raise self.error or BackdropError("the row has no picture")
        Path(path).write_bytes(self.data)
        return Path(path)


@dataclass(frozen=True)
class Batch:
    """The reply to `remove_batch` or `remove_batch_url`: a row for each picture, in the order of the request."""

    rows: list[BatchRow]
    request_id: str

    def __iter__(self) -> Iterator[BatchRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Outcome:
    """One picture of `batch`: either `image` or `error`."""

    index: int
    """Position in the input, from 0."""
    picture: Picture
    """The input."""
    image: ImageResult | None
    error: BackdropError | OSError | None


class _JobState:
    """The state of a job when it was last asked for."""

    def __init__(self, document: JobDocument) -> None:
        self.document = document

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.status} {self.progress} %>"

    @property
    def id(self) -> str:
        """Names the job in `job(id)`."""
        return self.document["job_id"]

    @property
    def status(self) -> Literal["queued", "processing", "done", "error"]:
        """`queued`, `processing`, then `done` or `error`."""
        return self.document["status"]

    @property
    def progress(self) -> int:
        """Percent."""
        return self.document["progress"]

    @property
    def format(self) -> str | None:
        """Format of the result; None of a bulk run."""
        return self.document.get("format")

    @property
    def bulk(self) -> JobDocumentBulk | None:
        """Places, counts, expected end and summary of a bulk run; None of a clip."""
        return self.document.get("bulk")

    @property
    def result_url(self) -> str | None:
        """Address of a clip's result, readable without a key for an hour; None before it is done and after that."""
        return self.document.get("result_url")

    @property
    def output_seconds(self) -> float | None:
        """The billed duration; None before the job is done."""
        return self.document.get("output_seconds")

    @property
    def warnings(self) -> list[str]:
        """A sentence each."""
        return self.document.get("warnings", [])

    @property
    def error(self) -> JobFailedError | None:
        """Why the job failed; None where it did not."""
        return JobFailedError(self.document) if self.status == "error" else None


def verify_webhook(
    body: bytes | str, headers: Mapping[str, str], secret: str, *, tolerance: float = 300.0, now: float | None = None
) -> JobDocument:
    """The job of a webhook whose signature (Standard Webhooks, `v1`) is valid; raises `WebhookError` for any other.

    `body` is what was received, unparsed; `secret` the `webhook_secret` of `account()`; `tolerance` the age in seconds, in
    either direction, beyond which a webhook is refused. The same `webhook-id` may come more than once.
    """
    raw = body.encode() if isinstance(body, str) else body
    lower = {name.lower(): value for name, value in headers.items()}
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        if not key:
            # It would verify what anybody signs.
            raise ValueError("it is empty")
    except ValueError as error:
        raise ValueError("the secret is not in the notation of Standard Webhooks (whsec_…)") from error
    try:
        message_id, timestamp, signatures = (lower[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
        sent = int(timestamp)
    except (KeyError, ValueError) as error:
        raise WebhookError("webhook-id, webhook-timestamp or webhook-signature is missing or malformed") from error
    if abs((time.time() if now is None else now) - sent) > tolerance:
        raise WebhookError(f"the webhook was signed at {timestamp}, more than {tolerance:g} seconds from now")
    signed = message_id.encode() + b"." + timestamp.encode() + b"." + raw
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    given = [value for version, _, value in (one.partition(",") for one in signatures.split()) if version == "v1"]
    if not any([hmac.compare_digest(expected, value.encode()) for value in given]):
        raise WebhookError("the signature is not valid")
    try:
        return cast("JobDocument", json.loads(raw))
    except ValueError as error:
        raise WebhookError("the body is not JSON") from error


# ---- Generated from schemas/openapi.yaml by clients/generate.py; do not edit ----

ErrorCode = Literal[
    "invalid_parameter",
    "invalid_image",
    "invalid_endpoint",
    "unauthorized",
    "payment_required",
    "forbidden",
    "not_found",
    "method_not_allowed",
    "request_timeout",
    "conflict",
    "idempotency_conflict",
    "payload_too_large",
    "output_too_large",
    "unsupported_media_type",
    "no_subject_detected",
    "no_face_detected",
    "fetch_failed",
    "rate_limit_exceeded",
    "headers_too_large",
    "internal_error",
    "upstream_failed",
    "unavailable",
]
Reason = Literal[
    "address",
    "timeout",
    "tls",
    "status",
    "quota_exhausted",
    "plan_required",
    "out_of_scope",
]
_CONTRACT_VERSION = "0.1.0"

# Method, path, and whether it takes an Idempotency-Key.
_OPERATIONS: dict[str, tuple[str, str, bool]] = {
    "remove": ("POST", "/remove", True),
    "removeUrl": ("POST", "/remove-url", True),
    "removeBatch": ("POST", "/remove-batch", True),
    "removeBatchUrl": ("POST", "/remove-batch-url", True),
    "mask": ("POST", "/mask", True),
    "replaceBg": ("POST", "/replace-bg", True),
    "replaceBgAi": ("POST", "/replace-bg-ai", True),
    "studioShot": ("POST", "/studio-shot", True),
    "smartCrop": ("POST", "/smart-crop", True),
    "shadow": ("POST", "/shadow", True),
    "sticker": ("POST", "/sticker", True),
    "headshot": ("POST", "/headshot", True),
    "faceRestore": ("POST", "/face-restore", True),
    "upscale": ("POST", "/upscale", True),
    "videoRemove": ("POST", "/video/remove", True),
    "estimate": ("POST", "/estimate", False),
    "listPresets": ("GET", "/presets", False),
    "savePreset": ("POST", "/presets", False),
    "deletePreset": ("DELETE", "/presets", False),
    "bulk": ("POST", "/bulk", True),
    "listJobs": ("GET", "/jobs", False),
    "job": ("GET", "/jobs/{job_id}", False),
    "changeJob": ("PATCH", "/jobs/{job_id}", False),
    "deleteJob": ("DELETE", "/jobs/{job_id}", False),
    "models": ("GET", "/models", False),
    "account": ("GET", "/account", False),
    "usage": ("GET", "/usage", False),
    "result": ("GET", "/results/{object}", False),
    "openapi": ("GET", "/openapi.yaml", False),
    "openapiJson": ("GET", "/openapi.json", False),
    "docs": ("GET", "/docs", False),
}


class SharedFields(TypedDict, total=False):
    """Fields of every endpoint of pictures."""
    detect: Literal["standard", "high_recall"] | None
    """Try `high_recall` if faint parts are missing."""
    decontaminate: bool | None
    """Removes background that was kept near the edge, by the picture's own colours. Helps least where subject
    and background are alike, as white on white, and may remove dark undersides of thick products.
    """
    engine: Literal["product-v1"] | None
    """`product-v1` is for flat, opaque products: it segments the subject and its edge again at a higher
    resolution, closes holes that do not show background, and makes the edge hard, whatever `edge` is.
    Slower, and unsuitable for hair, fur and glass. Without it the default pipeline runs.
    """
    segmentation_model: str | None
    """The model that cuts out, by a name of `GET /models`, with or without its version. The header
    `x-service-model` is an alternative. Without either the account's model cuts out.
    """
    compression: Literal["fast", "default", "best"] | None
    """Effort spent on a smaller PNG; the pixels do not change: `fast`, `default`, or `best`, which takes
    several times the CPU time of `default`; photos get up to a tenth smaller, pictures with repeated
    patterns several times. Ignored by JPEG and WebP.
    """
    max_dim: int | None
    """Shrinks to this size, in pixels of the longest side. To enlarge, set `width`."""
    width: int | None
    """Exact width in pixels; alone it keeps the aspect ratio, with `height` it makes an exact box."""
    height: int | None
    """Exact height in pixels; alone it keeps the aspect ratio."""
    preset: str | None
    """A saved preset, by its id or name; fields that are sent override stored ones."""
    keep_alpha: bool | None
    """Keeps the alpha of an input that already has real transparency (alpha below 128 in a 200th of its pixels)
    as its matte; with `false` the input is put on white and cut out anew.
    """
    mask_url: str | None
    """Public https address of a mask, instead of the part `mask_file`. A mask has the size of the upright
    picture, and is one of JPEG, PNG, WebP or HEIC.
    """
    mask_mode: Literal["replace", "trimap", "hint"] | None
    """How the mask is used. `replace` (the default): used instead of the network's mask, grey from background
    (black) to subject (white), or its alpha channel where it has real transparency; matting refines its
    edge. `trimap`: black is background, white is subject, and matting solves everything between. `hint`:
    white strokes keep, black ones remove, and grey or transparent leaves it to the network.
    """
    box: BoxField | None
    """Box around the subject, as left, top, right and bottom in pixels or percent of the upright picture. The
    network segments this part alone, and everything outside is background.
    """
    point: PointsField | None
    """A pixel of the subject, as `x,y` in pixels or percent of the upright picture; may be repeated. It adds
    the object at that point to the subject.
    """
    not_point: PointsField | None
    """A pixel of the background, written like `point`. It removes the object at that point and keeps the
    subject.
    """


class RemoveFields(SharedFields, total=False):
    """Fields of `/remove`."""
    mask_file: File | None
    """A mask of the picture, as `file`, of the size of the upright picture; `mask_mode` says how it is used. In
    place of `mask_url`.
    """
    format: Literal["png", "webp"] | None
    """Format of the result; both have alpha."""
    matting: Literal["closed-form", "none"] | None
    """`closed-form`: fine edges. `none`: faster, rougher."""
    edge: Literal["soft", "hard", "auto"] | None
    """`soft` keeps partial transparency (hair, fur); `hard` makes every pixel opaque or transparent (products).
    `auto` selects it by the subject's outline, which the network classifies: the edge of `engine=product-v1`
    for an opaque, sharp outline, else `soft`. Glass is often taken for opaque. `x-service-edge` in the reply
    with a single picture says which.
    """
    channels: Literal["rgba", "alpha"] | None
    """`rgba` is the cutout, `alpha` its matte as 8-bit grey."""
    quality: int | None
    """JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG."""
    despill: bool | float | None
    """Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0
    to 100.
    """
    watermark: str | None
    """Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide.
    A matte has none.
    """
    watermark_opacity: float | None
    """Opacity of the watermark."""


class RemoveUrlFields(SharedFields, total=False):
    """Fields of `/remove-url`."""
    format: Literal["png", "webp"] | None
    """Format of the result; both have alpha."""
    matting: Literal["closed-form", "none"] | None
    """`closed-form`: fine edges. `none`: faster, rougher."""
    edge: Literal["soft", "hard", "auto"] | None
    """`soft` keeps partial transparency (hair, fur); `hard` makes every pixel opaque or transparent (products).
    `auto` selects it by the subject's outline, which the network classifies: the edge of `engine=product-v1`
    for an opaque, sharp outline, else `soft`. Glass is often taken for opaque. `x-service-edge` in the reply
    with a single picture says which.
    """
    channels: Literal["rgba", "alpha"] | None
    """`rgba` is the cutout, `alpha` its matte as 8-bit grey."""
    quality: int | None
    """JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG."""
    despill: bool | float | None
    """Removes green and blue spill of the old background from the edge: a strength from 0 to 100, `true` or
    `false`.
    """
    watermark: str | None
    """Text that is drawn in the lower right corner. A matte has none. An address in a preset is the picture's,
    as at the other endpoints.
    """
    watermark_opacity: float | None
    """Opacity of the watermark."""


class RemoveBatchFields(SharedFields, total=False):
    """Fields of `/remove-batch`."""
    format: Literal["png", "webp"] | None
    """Format of the result; both have alpha."""
    matting: Literal["closed-form", "none"] | None
    """`closed-form`: fine edges. `none`: faster, rougher."""
    edge: Literal["soft", "hard", "auto"] | None
    """`soft` keeps partial transparency (hair, fur); `hard` makes every pixel opaque or transparent (products).
    `auto` selects it by the subject's outline, which the network classifies: the edge of `engine=product-v1`
    for an opaque, sharp outline, else `soft`. Glass is often taken for opaque. `x-service-edge` in the reply
    with a single picture says which.
    """
    channels: Literal["rgba", "alpha"] | None
    """`rgba` is the cutout, `alpha` its matte as 8-bit grey."""
    quality: int | None
    """JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG."""
    despill: bool | float | None
    """Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0
    to 100.
    """
    watermark: str | None
    """Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide.
    A matte has none.
    """
    watermark_opacity: float | None
    """Opacity of the watermark."""


class RemoveBatchUrlFields(SharedFields, total=False):
    """Fields of `/remove-batch-url`."""
    format: Literal["png", "webp"] | None
    """Format of the result; both have alpha."""
    matting: Literal["closed-form", "none"] | None
    """`closed-form`: fine edges. `none`: faster, rougher."""
    edge: Literal["soft", "hard", "auto"] | None
    """`soft` keeps partial transparency (hair, fur); `hard` makes every pixel opaque or transparent (products).
    `auto` selects it by the subject's outline, which the network classifies: the edge of `engine=product-v1`
    for an opaque, sharp outline, else `soft`. Glass is often taken for opaque. `x-service-edge` in the reply
    with a single picture says which.
    """
    channels: Literal["rgba", "alpha"] | None
    """`rgba` is the cutout, `alpha` its matte as 8-bit grey."""
    quality: int | None
    """JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG."""
    despill: bool | float | None
    """Removes green and blue spill of the old background from the edge: a strength from 0 to 100, `true` or
    `false`.
    """
    watermark: str | None
    """Text that is drawn in the lower right corner. A matte has none. An address in a preset is the picture's,
    as at the other endpoints.
    """
    watermark_opacity: float | None
    """Opacity of the watermark."""


class MaskFields(SharedFields, total=False):
    """Fields of `/mask`."""
    mask_file: File | None
    """A mask of the picture, as `file`, of the size of the upright picture; `mask_mode` says how it is used. In
    place of `mask_url`.
    """
    format: Literal["png", "webp"] | None
    """Format of the result."""
    matting: Literal["closed-form", "none"] | None
    """`closed-form`: fine edges. `none`: faster, rougher."""
    edge: Literal["soft", "hard", "auto"] | None
    """`soft` keeps partial coverage (hair, fur); `hard` makes every pixel foreground or background (products).
    `auto` selects it by the subject's outline, which the network classifies: the edge of `engine=product-v1`
    for an opaque, sharp outline, else `soft`. Glass is often taken for opaque. `x-service-edge` in the reply
    with a single picture says which.
    """
    channels: Literal["alpha"] | None
    """Always `alpha`: the matte."""
    stage: Literal["matte", "mask"] | None
    """`matte` is the coverage of each pixel, as /remove has it; `mask` the clean mask before matting, to be
    shown, painted over and sent back as `mask_file`.
    """
    quality: int | None
    """JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG."""
    despill: bool | float | None
    """Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0
    to 100.
    """
    watermark: str | None
    """Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide.
    A matte has none.
    """
    watermark_opacity: float | None
    """Opacity of the watermark."""


class ReplaceBgFields(SharedFields, total=False):
    """Fields of `/replace-bg`."""
    bg_file: File | None
    """The new background, as `file`; overrides `bg_url` and `bg_color`."""
    mask_file: File | None
    """A mask of the picture, as `file`, of the size of the upright picture; `mask_mode` says how it is used. In
    place of `mask_url`.
    """
    bg_url: str | None
    """Address of a background picture; used when there is no `bg_file`."""
    bg_color: str | None
    """Colour of the background; used when there is no picture, and behind one that does not fill the frame or
    has transparency.
    """
    fit: Literal["cover", "contain", "stretch"] | None
    """How a background picture fills the frame: `cover` crops it, `contain` shows all of it, `stretch` distorts
    it.
    """
    format: Literal["png", "webp", "jpg"] | None
    """Format of the result. With a background picture the default is `jpg`."""
    channels: Literal["rgba"] | None
    """Always `rgba`: the picture."""
    quality: int | None
    """JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG."""
    despill: bool | float | None
    """Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0
    to 100.
    """
    watermark: str | None
    """Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide.
    A matte has none.
    """
    watermark_opacity: float | None
    """Opacity of the watermark."""


class ReplaceBgAiFields(SharedFields, total=False):
    """Fields of `/replace-bg-ai`."""
    mask_file: File | None
    """A mask of the picture, as `file`, of the size of the upright picture; `mask_mode` says how it is used. In
    place of `mask_url`.
    """
    prompt: Required[str]
    """What the backdrop shows, in words. Required, here or in the preset."""
    model: Literal["auto", "famA-image-2.5-sunburst", "famA-image-2.5-flare", "famB-image-2.6", "famB-image-2.6-flash", "famB-image-2.5-pro", "famB-image-2.5", "famB-image-2.5-flash", "famB-image-2e", "famA-image-2", "famC-2-pro", "famC-2-flex", "famC-1-kontext-pro", "famD-famE"] | None
    """The model that generates the backdrop: `auto` is the first model that is configured for the account, or
    the built-in generator without one; an id selects exactly that model.
    """
    format: Literal["png", "webp", "jpg"] | None
    """Format of the result; it is always opaque."""
    channels: Literal["rgba"] | None
    """Always `rgba`: the picture."""
    quality: int | None
    """JPEG and WebP quality; the default is 92 for JPEG and 80 for WebP. Ignored by PNG."""
    despill: bool | int | None
    """How much green and blue spill of the old background is removed from the edge: 0 is off, 100 (or `true`)
    all of it. The default applies on every plan; sending the field needs the Plus plan.
    """
    watermark: str | None
    """Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide."""
    watermark_opacity: float | None
    """Opacity of the watermark."""


class StudioShotFields(SharedFields, total=False):
    """Fields of `/studio-shot`."""
    mask_file: File | None
    """A mask of the picture, as `file`, of the size of the upright picture; `mask_mode` says how it is used. In
    place of `mask_url`.
    """
    bg_color: str | None
    """Colour of the background."""
    padding: int | str | None
    """Padding on each side of the subject: pixels of the result, or a percentage of its side."""
    shadow: bool | None
    """Adds a soft shadow below the subject."""
    bg_blur: bool | int | None
    """Blur strength, 2 to 100; keeps the photo's own background. `true` and 1 mean 50."""
    transparent: bool | None
    """Keeps the background transparent; `bg_color`, `bg_blur` and `shadow` then have no effect, and a `jpg`
    becomes a PNG.
    """
    aspect: str | None
    """Aspect ratio of the result, width to height. Default: the ratio of `width` and `height` if both are sent."""
    anchor: Literal["center", "auto"] | None
    """Placement of a subject that the photo's border cuts off: `center` has padding on all sides; `auto` puts
    each cut side against the same border of the canvas, without padding there. Where opposite sides are cut,
    both touch if the aspect ratio allows it, else the side with the longer cut.
    """
    enhance: bool | None
    """Raises brightness and saturation of the subject slightly."""
    enhance_strength: float | None
    """Strength of `enhance`, when it is on."""
    format: Literal["png", "webp", "jpg"] | None
    """Format of the result."""
    channels: Literal["rgba"] | None
    """Always `rgba`: the picture."""
    quality: int | None
    """JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG."""
    despill: bool | float | None
    """Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0
    to 100.
    """
    watermark: str | None
    """Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide.
    A matte has none.
    """
    watermark_opacity: float | None
    """Opacity of the watermark."""


class SmartCropFields(SharedFields, total=False):
    """Fields of `/smart-crop`."""
    mask_file: File | None
    """A mask of the picture, as `file`, of the size of the upright picture; `mask_mode` says how it is used. In
    place of `mask_url`.
    """
    padding: int | None
    """Padding around the subject in pixels of the source, within the picture. With `aspect` it is equal on
    opposite sides, within the picture on the farther side.
    """
    aspect: str | None
    """Aspect ratio of the result, width to height. The crop grows to it with the subject in its middle. The
    area beyond the picture takes the colour of the nearest edge pixel, or is transparent where the input is
    a cutout. Default: the ratio of `width` and `height` if both are sent.
    """
    format: Literal["png", "webp"] | None
    """Format of the result."""
    channels: Literal["rgba"] | None
    """Always `rgba`: the picture."""
    quality: int | None
    """JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG."""
    despill: bool | float | None
    """Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0
    to 100.
    """
    watermark: str | None
    """Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide.
    A matte has none.
    """
    watermark_opacity: float | None
    """Opacity of the watermark."""


class ShadowFields(SharedFields, total=False):
    """Fields of `/shadow`."""
    mask_file: File | None
    """A mask of the picture, as `file`, of the size of the upright picture; `mask_mode` says how it is used. In
    place of `mask_url`.
    """
    angle: int | None
    """Direction in which the shadow falls, in degrees: 0 to the right, 90 downwards."""
    blur: int | None
    """Blur radius of the shadow in pixels: twice the standard deviation (σ) of its Gaussian, as the blur radius
    of a CSS `box-shadow`. 20 is a σ of 10 pixels.
    """
    opacity: float | None
    """Opacity of the shadow. It is mixed with the background in encoded (sRGB) values: 0.4 of black on white is
    153.
    """
    color: str | None
    """Colour of the shadow."""
    offset: int | None
    """Distance of the shadow from the subject in pixels."""
    anchor: Literal["center", "auto"] | None
    """Canvas of a subject that the photo's border cuts off: with `center` it grows wherever the shadow leaves
    it; with `auto` it ends at each border of the photo that cuts the subject off.
    """
    bg_color: str | None
    """Colour of the background."""
    format: Literal["png", "webp", "jpg"] | None
    """Format of the result; `jpg` needs an opaque `bg_color`."""
    channels: Literal["rgba"] | None
    """Always `rgba`: the picture."""
    quality: int | None
    """JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG."""
    despill: bool | float | None
    """Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0
    to 100.
    """
    watermark: str | None
    """Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide.
    A matte has none.
    """
    watermark_opacity: float | None
    """Opacity of the watermark."""


class StickerFields(SharedFields, total=False):
    """Fields of `/sticker`."""
    mask_file: File | None
    """A mask of the picture, as `file`, of the size of the upright picture; `mask_mode` says how it is used. In
    place of `mask_url`.
    """
    stroke_width: int | None
    """Width of the outline in pixels of the source. 0 draws no outline; the result then equals `/remove` unless
    `padding` is sent.
    """
    stroke_color: str | None
    """Colour of the outline."""
    padding: int | None
    """Transparent padding around the outlined subject in pixels of the source."""
    anchor: Literal["center", "auto"] | None
    """Placement of a subject that the photo's border cuts off: `center` has outline and padding on all sides;
    `auto` puts each cut side against the same border of the canvas, without outline and padding there. Where
    opposite sides are cut, both touch if `width` and `height` allow it, else the side with the longer cut.
    """
    format: Literal["png", "webp"] | None
    """Format of the result."""
    channels: Literal["rgba"] | None
    """Always `rgba`: the picture."""
    quality: int | None
    """JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG."""
    despill: bool | float | None
    """Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0
    to 100.
    """
    watermark: str | None
    """Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide.
    A matte has none.
    """
    watermark_opacity: float | None
    """Opacity of the watermark."""


class HeadshotFields(SharedFields, total=False):
    """Fields of `/headshot`."""
    mask_file: File | None
    """A mask of the picture, as `file`, of the size of the upright picture; `mask_mode` says how it is used. In
    place of `mask_url`.
    """
    bg_color: str | None
    """Colour of the background."""
    restore_face: bool | None
    """Restores the face (sharper, less noise)."""
    aspect: str | None
    """Aspect ratio of the result, width to height. Default: the ratio of `width` and `height` if both are sent."""
    format: Literal["png", "webp", "jpg"] | None
    """Format of the result."""
    channels: Literal["rgba"] | None
    """Always `rgba`: the picture."""
    quality: int | None
    """JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG."""
    despill: bool | float | None
    """Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0
    to 100.
    """
    watermark: str | None
    """Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide.
    A matte has none.
    """
    watermark_opacity: float | None
    """Opacity of the watermark."""


class FaceRestoreFields(SharedFields, total=False):
    """Fields of `/face-restore`."""
    scale: Literal[1, 2, 4] | None
    """Factor of enlargement in width and height; faces are restored in the enlarged picture."""
    strength: float | None
    """Weight of the restored face: 0 keeps the original, 1 is full restoration."""
    format: Literal["png", "webp", "jpg"] | None
    """Format of the result; `jpg` needs a picture without transparency."""
    channels: Literal["rgba"] | None
    """Always `rgba`: the picture."""
    quality: int | None
    """JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG."""
    despill: bool | float | None
    """Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0
    to 100.
    """
    watermark: str | None
    """Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide.
    A matte has none.
    """
    watermark_opacity: float | None
    """Opacity of the watermark."""


class UpscaleFields(SharedFields, total=False):
    """Fields of `/upscale`."""
    scale: Literal[2, 4] | None
    """Factor of enlargement in width and height; neither side of the result exceeds 8192 pixels."""
    format: Literal["png", "webp", "jpg"] | None
    """Format of the result; `jpg` needs a picture without transparency."""
    channels: Literal["rgba"] | None
    """Always `rgba`: the picture."""
    quality: int | None
    """JPEG and WebP quality; a WebP of 100 is lossless. Ignored by PNG."""
    despill: bool | float | None
    """Removes green and blue spill of the old background from the edge: `true`, `false`, or a strength from 0
    to 100.
    """
    watermark: str | None
    """Address of a picture (PNG with alpha) that is drawn in the lower right corner, a fifth of the width wide.
    A matte has none.
    """
    watermark_opacity: float | None
    """Opacity of the watermark."""


class VideoRemoveFields(TypedDict, total=False):
    """Fields of `/video/remove`."""
    format: Literal["webm", "mov", "mp4", "png_sequence", "gif", "webp"] | None
    """Format of the result: `webm` is VP9 with alpha, `mov` ProRes 4444, `png_sequence` a ZIP archive of PNG
    files. `mp4` has no alpha and needs `bg_color` or `channels=alpha`; the alpha of `gif` is binary.
    """
    channels: Literal["rgba", "alpha"] | None
    """`rgba` is the cutout, `alpha` its matte in grey, which takes no `bg_color`."""
    bg_color: str | None
    """Colour behind the subject; without it the result is transparent."""
    smoothing: int | None
    """Strength of temporal smoothing between the masks of neighbouring frames: 0 processes each frame by
    itself.
    """
    keep_alpha: bool | None
    """A clip that already has real transparency keeps it as its matte."""
    audio: bool | None
    """Keeps the sound, where the format has an audio track: webm, mov and mp4."""
    segmentation_model: str | None
    """The model that cuts out all frames, by a name of `GET /models`, with or without its version. The header
    `x-service-model` is an alternative. Without either the account's model cuts out. The built-in network
    runs once for each frame.
    """
    webhook_url: str | None
    """Public https address that receives a webhook when the job ends, signed as in Standard Webhooks."""


class EstimateFields(TypedDict, total=False):
    endpoint: Required[str]
    """Path of the endpoint, such as `/remove`."""
    scale: Literal[2, 4] | None
    """`scale` of /upscale."""
    stroke_width: int | None
    """`stroke_width` of /sticker."""
    width: int | None
    """`width` of the result: above 4096×4096 pixels it costs more."""
    height: int | None
    """`height` of the result."""
    count: int | None
    """Number of images."""
    seconds: float | None
    """Duration of the resulting video."""


class PresetFields(TypedDict, total=False):
    id: str | None
    """Id of the preset to overwrite."""
    name: Required[str]
    """Unique in the account."""
    endpoint: str | None
    """Path of the endpoint that the preset is for."""
    params: dict[str, Any] | None
    """Fields of that endpoint; at most 16 KB."""


class BulkFields(TypedDict, total=False):
    endpoint: str | None
    """Path of the endpoint that is called with each picture."""
    params: dict[str, Any] | None
    """Fields of that endpoint, as in a preset."""
    preset: str | None
    """A preset, by its id or name; `params` take precedence."""
    include: list[str] | None
    """Globs of the keys to process instead of all pictures; one with a slash matches the key below `from`, one
    without the file name.
    """
    exclude: list[str] | None
    """Globs of the keys to exclude."""
    output: str | None
    """Keys of the results below `to`, at most 1,024 bytes; placeholders are {dir}, {stem}, {name} and {ext}."""
    limit: int | None
    """Maximum number of pictures to process."""
    report: str | None
    """URL of the report, `.jsonl`, in an allowed place; by default an object in `to`. What it has as done is
    not processed again.
    """


_JobDocumentBulkKeywords = TypedDict("_JobDocumentBulkKeywords", {"from": Required[str]}, total=False)


class JobDocumentBulk(_JobDocumentBulkKeywords, total=False):
    to: Required[str]
    """Place of the results."""
    report: Required[str]
    """The report, JSON Lines; complete when the job is over. A CSV is beside it."""
    listed: Required[bool]
    """Whether `objects` is the number of all objects, and not of those listed so far."""
    objects: Required[int]
    """Objects to process."""
    done: Required[int]
    """Objects that are finished, without the failed ones."""
    failed: Required[int]
    """Objects without a result; while the run goes on, of the chunks that are done."""
    state: Literal["running", "paused", "cancelled"]
    """Until the job is over. A cancelled run is over once its report is written."""
    estimated_end: str
    """While objects are processed."""
    summary: dict[str, Any]
    """Totals of a run that has ended, as `backdrop bulk --json` prints them: `done`, `skipped`, `failed`,
    `failures` by code, `passed_over`, `bytes_in`, `bytes_out`, `seconds`, `stopped`, `report`.
    """


class JobDocumentError(TypedDict, total=False):
    code: Required[str]
    """A code of `ErrorCode`, or `cancelled`."""
    message: Required[str]


class JobDocument(TypedDict, total=False):
    job_id: Required[str]
    status: Required[Literal["queued", "processing", "done", "error"]]
    """`queued`, `processing`, then `done` or `error`; it only ever returns to `queued`, when the service
    restarts or another machine continues it.
    """
    progress: Required[int]
    """Percent, never decreasing while it runs on one machine; 100 when the job is `done`."""
    created_at: Required[str]
    updated_at: Required[str]
    """Time of the last change of its status."""
    expires_at: Required[str]
    """Time at which the job is deleted."""
    format: Literal["webm", "mov", "mp4", "png_sequence", "gif", "webp"]
    """Of a clip."""
    bulk: JobDocumentBulk
    """A bulk run, of a job from /bulk."""
    result_url: str
    """Address of the result, readable without a key; for an hour, when the job is `done`."""
    result_expires_at: str
    """Time at which the result is deleted; when the job is `done`."""
    result_expired: Literal[True]
    """In place of `result_url` after the result was deleted."""
    output_seconds: float
    """Exact duration of the result, which was billed; when the job is `done`."""
    size_bytes: int
    """Size of the result."""
    warnings: list[str]
    """Warnings for the caller, a sentence each; only where there are any."""
    error: JobDocumentError
    """The reason for the failure, when the job is `error`."""


class SavedPreset(TypedDict, total=False):
    id: Required[str]
    name: Required[str]
    endpoint: Required[str | None]
    params: Required[dict[str, Any]]
    created_at: Required[str]
    updated_at: Required[str]


class RowDocumentBox(TypedDict, total=False):
    left: Required[int]
    top: Required[int]
    width: Required[int]
    height: Required[int]


class RowDocumentError(TypedDict, total=False):
    code: Required[ErrorCode]
    message: Required[str]
    reason: Reason
    """With `payment_required`: the quota of the plan or of the key is used up, or the plan lacks the field or
    endpoint. With `forbidden`: `out_of_scope` where the scopes of the key exclude the endpoint. With
    `fetch_failed`: the host of the URL has no public address that can be reached, took too long, failed the
    TLS handshake, or did not answer with a file. More detail is not disclosed.
    """


class RowDocument(TypedDict, total=False):
    index: Required[int]
    """Index of the picture in the request, from 0."""
    url: str
    """The address as it was sent."""
    filename: str | None
    """The file name of the form part."""
    success: Required[bool]
    status: Required[int]
    """HTTP status of a request with this picture alone."""
    format: Literal["png", "webp"]
    width: int
    height: int
    size_bytes: int
    """Size of the file, before base64."""
    foreground: str
    """The subject in the result: left,top,width,height."""
    file: str
    """In an archive: the name of the picture's file."""
    cost: float
    """Price in US dollars, as x-service-cost; 0 for a failed row and for one that was billed before."""
    uncertainty: float
    """As x-service-uncertainty."""
    box: RowDocumentBox
    """The subject in the result, in pixels."""
    warnings: list[str]
    """As x-service-warnings, a sentence each; only where there are any."""
    data_base64: str
    """The file as base64. Absent from the `results.json` of an archive."""
    error: RowDocumentError


class BatchDocumentError(TypedDict, total=False):
    code: Required[Literal["fetch_failed"]]
    message: Required[str]
    reason: Reason
    """With `payment_required`: the quota of the plan or of the key is used up, or the plan lacks the field or
    endpoint. With `forbidden`: `out_of_scope` where the scopes of the key exclude the endpoint. With
    `fetch_failed`: the host of the URL has no public address that can be reached, took too long, failed the
    TLS handshake, or did not answer with a file. More detail is not disclosed.
    """


class BatchDocument(TypedDict, total=False):
    count: Required[int]
    """Number of pictures that were sent."""
    format: Required[Literal["png", "webp"]]
    """Format of all results."""
    results: Required[list[RowDocument]]
    """A row for each picture, in the order in which they were sent."""
    succeeded: Required[int]
    failed: Required[int]
    request_id: Required[str]
    """The same as the header `x-request-id`."""
    error: BatchDocumentError
    """Only where no picture could be fetched. `reason` is present where all rows have the same."""


class ErrorDocumentError(TypedDict, total=False):
    code: Required[ErrorCode]
    message: Required[str]
    """One sentence, such as: invalid `edge`: "fuzzy" (expected soft, hard or auto)."""
    param: str
    """The invalid field, where it is one field."""
    reason: Reason
    """With `payment_required`: the quota of the plan or of the key is used up, or the plan lacks the field or
    endpoint. With `forbidden`: `out_of_scope` where the scopes of the key exclude the endpoint. With
    `fetch_failed`: the host of the URL has no public address that can be reached, took too long, failed the
    TLS handshake, or did not answer with a file. More detail is not disclosed.
    """


class ErrorDocument(TypedDict, total=False):
    error: Required[ErrorDocumentError]
    request_id: Required[str]
    """The same as the header `x-request-id`."""


class Estimate(TypedDict, total=False):
    endpoint: Required[str]
    estimated_cost_usd: Required[float]
    unit_price_usd: Required[float]
    units: Required[float]
    unit: Required[Literal["image", "second"]]
    currency: Required[Literal["USD"]]


class Model(TypedDict, total=False):
    name: Required[str]
    """Name and version; requests may name it without the version."""
    type: Required[str]
    """Family of the network."""
    parameters: Required[int]
    licence: Required[str]
    commercial_use: Required[bool | None]
    """Whether the licence allows it; null where that is disputed or unknown."""
    device: Required[str]
    """What the network runs on; empty until the built-in one was loaded once."""
    loaded: Required[bool]
    """Whether it is in memory."""
    is_default: Required[bool]
    """Whether it is the account's."""


class Models(TypedDict, total=False):
    models: Required[list[Model]]


class AccountRate(TypedDict, total=False):
    limit: int
    remaining: int
    reset_seconds: int


class Account(TypedDict, total=False):
    account: Required[str]
    key_id: Required[str]
    plan: Required[Literal["free", "paid", "plus"]]
    model: Required[str]
    """Name and version of the model that cuts out by default."""
    test: Required[bool]
    """Whether the key is a sandbox key."""
    used: Required[int]
    """Images billed this calendar month (UTC)."""
    quota: Required[int | None]
    """Images per month of the plan."""
    remaining: Required[int | None]
    resets_at: Required[str]
    """Start of the next month."""
    cost_usd: Required[float]
    """Price of the images billed this month, in US dollars."""
    webhook_secret: str
    """Secret that signs the account's webhooks, in the notation of Standard Webhooks. Only for keys that may
    make clips or bulk runs.
    """
    rate: Required[AccountRate]


class UsageRowKey(TypedDict, total=False):
    id: Required[str]
    name: Required[str | None]


class UsageRow(TypedDict, total=False):
    date: Required[str]
    key: Required[UsageRowKey]
    images: Required[int]
    seconds: Required[float]
    cost_usd: Required[float]


class UsageTotal(TypedDict, total=False):
    images: Required[int]
    seconds: Required[float]
    cost_usd: Required[float]


class Usage(TypedDict, total=False):
    usage: Required[list[UsageRow]]
    total: Required[UsageTotal]
    request_id: Required[str]


class InvalidParameterError(ApiError):
    """`invalid_parameter`, status 400."""


class InvalidImageError(ApiError):
    """`invalid_image`, status 400."""


class InvalidEndpointError(ApiError):
    """`invalid_endpoint`, status 400."""


class UnauthorizedError(ApiError):
    """`unauthorized`, status 401."""


class PaymentRequiredError(ApiError):
    """`payment_required`, status 402."""


class ForbiddenError(ApiError):
    """`forbidden`, status 403."""


class NotFoundError(ApiError):
    """`not_found`, status 404."""


class MethodNotAllowedError(ApiError):
    """`method_not_allowed`, status 405."""


class RequestTimeoutError(ApiError):
    """`request_timeout`, status 408."""


class ConflictError(ApiError):
    """`conflict`, status 409."""


class IdempotencyConflictError(ApiError):
    """`idempotency_conflict`, status 409."""


class PayloadTooLargeError(ApiError):
    """`payload_too_large`, status 413."""


class OutputTooLargeError(ApiError):
    """`output_too_large`, status 413."""


class UnsupportedMediaTypeError(ApiError):
    """`unsupported_media_type`, status 415."""


class NoSubjectDetectedError(ApiError):
    """`no_subject_detected`, status 422."""


class NoFaceDetectedError(ApiError):
    """`no_face_detected`, status 422."""


class FetchFailedError(ApiError):
    """`fetch_failed`, status 424."""


class RateLimitExceededError(ApiError):
    """`rate_limit_exceeded`, status 429."""


class HeadersTooLargeError(ApiError):
    """`headers_too_large`, status 431."""


class InternalError(ApiError):
    """`internal_error`, status 500."""


class UpstreamFailedError(ApiError):
    """`upstream_failed`, status 502."""


class UnavailableError(ApiError):
    """`unavailable`, status 503."""


_ERRORS: dict[str, type[ApiError]] = {
    "invalid_parameter": InvalidParameterError,
    "invalid_image": InvalidImageError,
    "invalid_endpoint": InvalidEndpointError,
    "unauthorized": UnauthorizedError,
    "payment_required": PaymentRequiredError,
    "forbidden": ForbiddenError,
    "not_found": NotFoundError,
    "method_not_allowed": MethodNotAllowedError,
    "request_timeout": RequestTimeoutError,
    "conflict": ConflictError,
    "idempotency_conflict": IdempotencyConflictError,
    "payload_too_large": PayloadTooLargeError,
    "output_too_large": OutputTooLargeError,
    "unsupported_media_type": UnsupportedMediaTypeError,
    "no_subject_detected": NoSubjectDetectedError,
    "no_face_detected": NoFaceDetectedError,
    "fetch_failed": FetchFailedError,
    "rate_limit_exceeded": RateLimitExceededError,
    "headers_too_large": HeadersTooLargeError,
    "internal_error": InternalError,
    "upstream_failed": UpstreamFailedError,
    "unavailable": UnavailableError,
}


class _PictureMethods:
    """The endpoints that answer one picture."""

    def _picture(self, operation: str, picture: Picture, fields: Mapping[str, Any], **call: Any) -> ImageResult:
        raise NotImplementedError

    def remove(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[RemoveFields],
    ) -> ImageResult:
        """Cuts the subject out of a picture. `POST /remove`"""
        return self._picture(
            "remove", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    def remove_url(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[RemoveUrlFields],
    ) -> ImageResult:
        """Fetches a picture and cuts its subject out. `POST /remove-url`"""
        return self._picture(
            "removeUrl", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    def mask(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[MaskFields],
    ) -> ImageResult:
        """Answers the matte of a picture's subject, or its mask before matting, as 8-bit grey. `POST /mask`"""
        return self._picture(
            "mask", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    def replace_bg(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[ReplaceBgFields],
    ) -> ImageResult:
        """Puts the subject on a colour or another picture. `POST /replace-bg`"""
        return self._picture(
            "replaceBg", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    def replace_bg_ai(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[ReplaceBgAiFields],
    ) -> ImageResult:
        """Puts the subject on a backdrop that is generated from a prompt. `POST /replace-bg-ai`"""
        return self._picture(
            "replaceBgAi", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    def studio_shot(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[StudioShotFields],
    ) -> ImageResult:
        """Centres the subject on a plain canvas with a soft shadow. `POST /studio-shot`"""
        return self._picture(
            "studioShot", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    def smart_crop(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[SmartCropFields],
    ) -> ImageResult:
        """Crops a picture to its subject. `POST /smart-crop`"""
        return self._picture(
            "smartCrop", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    def shadow(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[ShadowFields],
    ) -> ImageResult:
        """Cuts the subject out and adds a drop shadow. `POST /shadow`"""
        return self._picture(
            "shadow", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    def sticker(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[StickerFields],
    ) -> ImageResult:
        """Cuts the subject out and draws an outline around it. `POST /sticker`"""
        return self._picture(
            "sticker", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    def headshot(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[HeadshotFields],
    ) -> ImageResult:
        """Makes a portrait: head and shoulders on a plain background, the face restored. `POST /headshot`"""
        return self._picture(
            "headshot", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    def face_restore(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[FaceRestoreFields],
    ) -> ImageResult:
        """Restores the faces in a picture (sharper, less noise). `POST /face-restore`"""
        return self._picture(
            "faceRestore", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    def upscale(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[UpscaleFields],
    ) -> ImageResult:
        """Enlarges a picture by a factor of two or four (super-resolution). `POST /upscale`"""
        return self._picture(
            "upscale", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )


class _AsyncPictureMethods:
    """The endpoints that answer one picture."""

    async def _picture(self, operation: str, picture: Picture, fields: Mapping[str, Any], **call: Any) -> ImageResult:
        raise NotImplementedError

    async def remove(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[RemoveFields],
    ) -> ImageResult:
        """Cuts the subject out of a picture. `POST /remove`"""
        return await self._picture(
            "remove", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    async def remove_url(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[RemoveUrlFields],
    ) -> ImageResult:
        """Fetches a picture and cuts its subject out. `POST /remove-url`"""
        return await self._picture(
            "removeUrl", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    async def mask(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[MaskFields],
    ) -> ImageResult:
        """Answers the matte of a picture's subject, or its mask before matting, as 8-bit grey. `POST /mask`"""
        return await self._picture(
            "mask", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    async def replace_bg(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[ReplaceBgFields],
    ) -> ImageResult:
        """Puts the subject on a colour or another picture. `POST /replace-bg`"""
        return await self._picture(
            "replaceBg", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    async def replace_bg_ai(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[ReplaceBgAiFields],
    ) -> ImageResult:
        """Puts the subject on a backdrop that is generated from a prompt. `POST /replace-bg-ai`"""
        return await self._picture(
            "replaceBgAi", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    async def studio_shot(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[StudioShotFields],
    ) -> ImageResult:
        """Centres the subject on a plain canvas with a soft shadow. `POST /studio-shot`"""
        return await self._picture(
            "studioShot", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    async def smart_crop(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[SmartCropFields],
    ) -> ImageResult:
        """Crops a picture to its subject. `POST /smart-crop`"""
        return await self._picture(
            "smartCrop", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    async def shadow(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[ShadowFields],
    ) -> ImageResult:
        """Cuts the subject out and adds a drop shadow. `POST /shadow`"""
        return await self._picture(
            "shadow", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    async def sticker(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[StickerFields],
    ) -> ImageResult:
        """Cuts the subject out and draws an outline around it. `POST /sticker`"""
        return await self._picture(
            "sticker", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    async def headshot(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[HeadshotFields],
    ) -> ImageResult:
        """Makes a portrait: head and shoulders on a plain background, the face restored. `POST /headshot`"""
        return await self._picture(
            "headshot", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    async def face_restore(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[FaceRestoreFields],
    ) -> ImageResult:
        """Restores the faces in a picture (sharper, less noise). `POST /face-restore`"""
        return await self._picture(
            "faceRestore", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )

    async def upscale(
        self,
        picture: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[UpscaleFields],
    ) -> ImageResult:
        """Enlarges a picture by a factor of two or four (super-resolution). `POST /upscale`"""
        return await self._picture(
            "upscale", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout
        )


# ---- End of the generated section ----


# ---- Requests and retries, without I/O: both clients drive the same steps ----

_RETRIED = {408, 429, 500, 502, 503, 504}
# Refused before anything was done, so that a repetition does nothing twice.
_NOT_BEGUN = {429, 503}
_BACKOFF, _MAX_BACKOFF = 0.5, 8.0
_POLL = 2.0


@dataclass(frozen=True)
class _Send:
    """Sends a request and reads the whole reply."""

    request: httpx.Request


@dataclass
class _Fetch:
    """Sends a request and writes the reply's body to `sink`, which has `received` bytes of it already."""

    request: httpx.Request
    sink: IO[bytes]
    received: int
    etag: str | None = None
    """Of the reply, also where its body is interrupted."""

    def begin(self, response: httpx.Response) -> None:
        """Puts the sink where the reply's body belongs."""
        self.etag = response.headers.get("etag")
        rest = response.headers.get("content-range", "").startswith(f"bytes {self.received}-")
        self.sink.seek(self.received if response.status_code == 206 and rest else 0)
        self.sink.truncate()


@dataclass(frozen=True)
class _Pause:
    seconds: float


_Steps = Generator[_Send | _Fetch | _Pause, Any, _T]


@dataclass
class _Call:
    """A request that may be built more than once."""

    operation: str
    path: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    json: Any = None
    form: dict[str, str | list[str]] = field(default_factory=dict)
    files: list[tuple[str, File]] = field(default_factory=list)
    timeout: float | None = None
    repeatable: bool = False


def _is_address(picture: Picture) -> bool:
    return isinstance(picture, str) and re.match(r"https?://", picture, re.IGNORECASE) is not None


def _value(name: str, value: Any) -> Any:
    """The value of a field as the API writes it: corners and points as text, the rest as it is."""
    if name == "box" and not isinstance(value, str):
        return ",".join(map(str, value))
    if name in ("point", "not_point"):
        one = isinstance(value, str) or all(isinstance(part, numbers.Real) for part in value)
        return [part if isinstance(part, str) else ",".join(map(str, part)) for part in ([value] if one else value)]
    return value


def _sent(fields: Mapping[str, Any], pictures: Sequence[tuple[str, Picture]]) -> tuple[dict[str, Any], list[tuple[str, File]]]:
    """The fields of a request, and its files."""
    sent = {name: _value(name, value) for name, value in fields.items() if value is not None}
    files: list[tuple[str, File]] = []
    for name in [name for name in sent if name.endswith("_file")]:
        if _is_address(sent[name]):
            raise ValueError(f"`{name}` takes a file; an address goes into `{name.removesuffix('_file')}_url`")
        files.append((name, sent.pop(name)))
    for name, picture in pictures:
        if _is_address(picture) and name == "file":
            sent["url"] = picture
        else:
            # Last, so that invalid fields are refused before the file is sent.
            files.append((name, picture))
    return sent, files


def _text(value: Any) -> str | list[str]:
    """The value of a field in a form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return [str(part) for part in value] if isinstance(value, list) else str(value)


def _opened(source: File, files: contextlib.ExitStack) -> tuple[str, IO[bytes] | bytes, str]:
    """Name, content and type of a part; what it opens is closed with `files`."""
    kind = "application/octet-stream"
    if isinstance(source, bytes | bytearray | memoryview):
        return "picture", bytes(source), kind
    if isinstance(source, str | os.PathLike):
        return Path(source).name, files.enter_context(open(source, "rb")), kind
    name = getattr(source, "name", None)
    name = Path(name).name if isinstance(name, str) else "picture"
    return name, source, kind


def _has_length_of_descriptor(source: IO[bytes]) -> bool:
    """Whether a file is as long as httpx takes it to be: one that decompresses (`gzip.open`) is longer than
    its descriptor's file.
    """
    try:
        descriptor = source.fileno()
    except (AttributeError, OSError):
        # httpx seeks the end then.
        return True
    position = source.tell()
    length = source.seek(0, os.SEEK_END)
    source.seek(position)
    return length == os.fstat(descriptor).st_size


def _seekable(source: File, files: contextlib.ExitStack) -> File:
    """A copy of a file that cannot be read twice or has another length than its descriptor's, else `source`."""
    if isinstance(source, str | os.PathLike | bytes | bytearray | memoryview):
        return source
    if source.seekable():
        if _has_length_of_descriptor(source):
            return source
        source.seek(0)
    copy = files.enter_context(tempfile.TemporaryFile())
    while piece := source.read(1 << 16):
        copy.write(piece)
    return copy


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds of `Retry-After`, which is a number or a date."""
    text = response.headers.get("retry-after")
    if text is None:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None


def _refusal(response: httpx.Response) -> ApiError:
    retry_after = _retry_after(response)
    request_id = response.headers.get("x-request-id")
    try:
        document = response.json()
        error = document["error"]
        code, message, request_id = str(error["code"]), str(error["message"]), document.get("request_id", request_id)
    except (ValueError, KeyError, TypeError):
        message = response.reason_phrase or "no reason was given"
        return ApiError(response.status_code, f"http_{response.status_code}", message, request_id=request_id, retry_after=retry_after)
    return _ERRORS.get(code, ApiError)(
        response.status_code, code, message, param=error.get("param"), reason=error.get("reason"),
        request_id=request_id, retry_after=retry_after,
    )


def _lost(error: httpx.RequestError) -> ConnectionFailedError:
    kind = TimedOutError if isinstance(error, httpx.TimeoutException) else ConnectionFailedError
    failure = kind(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    failure.__cause__ = error
    return failure


def _to_json(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError as error:
        raise BackdropError(f"the reply is not JSON: {response.text[:80]!r}") from error


def _to_image(response: httpx.Response) -> ImageResult:
    return ImageResult(response.content, dict(response.headers))


def _to_batch(response: httpx.Response) -> Batch:
    request_id = response.headers.get("x-request-id", "")
    if response.headers.get("content-type", "").startswith("application/zip"):
        with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
            rows = json.loads(archive.read("results.json"))["results"]
            return Batch([BatchRow(row, archive.read(row["file"]) if "file" in row else None) for row in rows], request_id)
    rows = _to_json(response)["results"]
    return Batch([BatchRow(row, base64.b64decode(row["data_base64"]) if "data_base64" in row else None) for row in rows], request_id)


class _Core:
    """Builds requests and decides what follows from replies."""

    def __init__(
        self, builder: httpx.Client | httpx.AsyncClient, key: str | None, url: str | None, timeout: float, retries: int,
        max_wait: float,
    ) -> None:
        key = key or os.environ.get("BACKDROP_KEY")
        if not key:
            raise ValueError("there is no API key: pass `key`, or set BACKDROP_KEY")
        self._key = key
        self.url = (url or os.environ.get("BACKDROP_URL") or "http://127.0.0.1:8080").rstrip("/")
        self._builder = builder
        self._timeout, self._retries, self._max_wait = timeout, retries, max_wait

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    def _limits(self, timeout: float | None) -> httpx.Timeout:
        return httpx.Timeout(self._timeout if timeout is None else timeout, connect=10.0)

    def _build(self, call: _Call, sources: list[tuple[str, File]], files: contextlib.ExitStack) -> httpx.Request:
        method, path, _ = _OPERATIONS[call.operation]
        headers = {"authorization": f"Bearer {self._key}", "user-agent": f"backdrop-python/{__version__}", **call.headers}
        return self._builder.build_request(
            method, self.url + path.format(**call.path), headers=headers, params=call.query or None, json=call.json,
            data=call.form or None, files=[(name, _opened(source, files)) for name, source in sources] or None,
            timeout=self._limits(call.timeout),
        )

    def _backoff(self, attempts: int) -> float:
        return min(_MAX_BACKOFF, _BACKOFF * 2.0**attempts) * random.uniform(0.5, 1.0)

    def _steps(self, call: _Call, read: Callable[[httpx.Response], _T]) -> _Steps[_T]:
        """Sends `call` until it succeeds, fails with an error that is not retried, or reaches a limit.

        A 429 with `Retry-After` counts against `max_wait` alone, all others against `retries` too.
        """
        attempts, waited = 0, 0.0
        with contextlib.ExitStack() as lasting:
            sources = [(name, _seekable(source, lasting)) for name, source in call.files]
            while True:
                with contextlib.ExitStack() as files:
                    try:
                        response: httpx.Response = yield _Send(self._build(call, sources, files))
                    except httpx.RequestError as error:
                        failure: BackdropError = _lost(error)
                        retry_after = None
                        unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
                        worthwhile = call.repeatable or unsent
                    else:
                        if response.is_success or (response.status_code == 424 and _has_rows(response)):
                            return read(response)
                        refusal = _refusal(response)
                        failure, retry_after = refusal, refusal.retry_after
                        worthwhile = refusal.status in _RETRIED and (call.repeatable or refusal.status in _NOT_BEGUN)
                paced = isinstance(failure, ApiError) and failure.status == 429 and retry_after is not None
                if not worthwhile or (attempts >= self._retries and not paced):
                    raise failure
                pause = max(retry_after or 0.0, self._backoff(0 if paced else attempts))
                if waited + pause > self._max_wait:
                    raise failure
                attempts += not paced
                waited += pause
                yield _Pause(pause)

    def _call(self, operation: str, **parts: Any) -> _Call:
        method, _, takes_key = _OPERATIONS[operation]
        call = _Call(operation, **parts)
        call.repeatable = call.repeatable or takes_key or method == "GET"
        return call

    def _of_pictures(
        self, operation: str, fields: Mapping[str, Any], service_model: str | None, idempotency_key: str | None,
        timeout: float | None, pictures: Sequence[tuple[str, Picture]],
    ) -> _Call:
        """A call with pictures: as a form, or as JSON where all that is sent are addresses."""
        sent, files = _sent(fields, pictures)
        headers = {"idempotency-key": idempotency_key or f"py-{uuid.uuid4()}"}
        if service_model is not None:
            headers["x-service-model"] = service_model
        body: dict[str, Any] = {"form": {name: _text(value) for name, value in sent.items()}, "files": files} if files else {"json": sent}
        return self._call(operation, headers=headers, timeout=timeout, **body)

    def _picture_steps(
        self, operation: str, picture: Picture, fields: Mapping[str, Any], *, service_model: str | None,
        idempotency_key: str | None, timeout: float | None,
    ) -> _Steps[ImageResult]:
        call = self._of_pictures(operation, fields, service_model, idempotency_key, timeout, [("file", picture)])
        return self._steps(call, _to_image)

    def _batch_steps(
        self, pictures: Sequence[File], fields: Mapping[str, Any], service_model: str | None, idempotency_key: str | None,
        timeout: float | None,
    ) -> _Steps[Batch]:
        call = self._of_pictures(
            "removeBatch", fields, service_model, idempotency_key, timeout, [("files", picture) for picture in pictures]
        )
        call.headers["accept"] = "application/zip, application/json;q=0.5"
        return self._steps(call, _to_batch)

    def _batch_url_steps(
        self, urls: Sequence[str], fields: Mapping[str, Any], service_model: str | None, idempotency_key: str | None,
        timeout: float | None,
    ) -> _Steps[Batch]:
        call = self._of_pictures("removeBatchUrl", {**fields, "urls": list(urls)}, service_model, idempotency_key, timeout, [])
        call.headers["accept"] = "application/zip, application/json;q=0.5"
        return self._steps(call, _to_batch)

    def _video_steps(
        self, clip: Picture, fields: Mapping[str, Any], service_model: str | None, idempotency_key: str | None,
        timeout: float | None,
    ) -> _Steps[JobDocument]:
        call = self._of_pictures("videoRemove", fields, service_model, idempotency_key, timeout, [("file", clip)])
        return self._steps(call, _to_json)

    def _bulk_steps(
        self, source: str, destination: str, fields: Mapping[str, Any], service_model: str | None, idempotency_key: str | None,
        timeout: float | None,
    ) -> _Steps[JobDocument]:
        sent = {"from": source, "to": destination, **fields}
        return self._steps(self._of_pictures("bulk", sent, service_model, idempotency_key, timeout, []), _to_json)

    def _estimate_steps(self, fields: Mapping[str, Any]) -> _Steps[Estimate]:
        sent = {name: value for name, value in fields.items() if value is not None}
        return self._steps(self._call("estimate", json=sent, repeatable=True), _to_json)

    def _save_preset_steps(self, fields: Mapping[str, Any]) -> _Steps[SavedPreset]:
        sent = {name: value for name, value in fields.items() if value is not None}
        # With an id the same preset is overwritten with the same content.
        return self._steps(self._call("savePreset", json=sent, repeatable="id" in sent), _to_json)

    def _delete_preset_steps(self, preset_id: str) -> _Steps[None]:
        return self._steps(self._call("deletePreset", query={"id": preset_id}), lambda _: None)

    def _pages(self, operation: str, member: str) -> _Steps[list[Any]]:
        rows: list[Any] = []
        query: dict[str, str] = {}
        while True:
            page = yield from self._steps(self._call(operation, query=query), _to_json)
            rows += page[member]
            if "next_cursor" not in page:
                return rows
            query = {"cursor": page["next_cursor"]}

    def _job_steps(self, job_id: str) -> _Steps[JobDocument]:
        return self._steps(self._call("job", path={"job_id": job_id}), _to_json)

    def _change_job_steps(self, job_id: str, state: Literal["paused", "running"]) -> _Steps[JobDocument]:
        # The state is set, not toggled.
        return self._steps(self._call("changeJob", path={"job_id": job_id}, json={"state": state}, repeatable=True), _to_json)

    def _delete_job_steps(self, job_id: str) -> _Steps[None]:
        return self._steps(self._call("deleteJob", path={"job_id": job_id}), lambda _: None)

    def _wait_steps(
        self, job: _JobState, timeout: float | None, on_progress: Callable[[int], None] | None
    ) -> _Steps[None]:
        until = None if timeout is None else time.monotonic() + timeout
        call = self._call("job", path={"job_id": job.id})
        while True:
            job.document, pause = yield from self._steps(call, lambda reply: (_to_json(reply), _retry_after(reply)))
            if on_progress is not None:
                on_progress(job.progress)
            if job.status == "done":
                return
            if job.error is not None:
                raise job.error
            seconds = _POLL if pause is None else max(pause, 0.1)
            if until is not None and time.monotonic() + seconds > until:
                raise WaitTimeoutError(f"job {job.id} is {job.status} after {timeout:g} seconds")
            yield _Pause(seconds)

    def _usage_steps(self, first: datetime.date | str | None, last: datetime.date | str | None) -> _Steps[Usage]:
        days = {"from": first, "to": last}
        days = {name: day.date() if isinstance(day, datetime.datetime) else day for name, day in days.items()}
        query = {name: str(day) for name, day in days.items() if day is not None}
        return self._steps(self._call("usage", query=query), _to_json)

    def _text_steps(self, operation: str) -> _Steps[str]:
        return self._steps(self._call(operation), lambda response: response.text)

    def _models_steps(self) -> _Steps[Models]:
        return self._steps(self._call("models"), _to_json)

    def _account_steps(self) -> _Steps[Account]:
        return self._steps(self._call("account"), _to_json)

    def _contract_steps(self) -> _Steps[dict[str, Any]]:
        return self._steps(self._call("openapiJson"), _to_json)

    def _download_steps(self, address: str, sink: IO[bytes]) -> _Steps[None]:
        """Downloads a result, which needs no key; after a lost connection the rest is asked for."""
        attempts, etag = 0, None
        while True:
            received = sink.tell() if etag else 0
            # The bytes as they are, so that a range of them means what it says.
            headers = {"user-agent": f"backdrop-python/{__version__}", "accept-encoding": "identity"}
            if received and etag:
                headers |= {"range": f"bytes={received}-", "if-range": etag}
            url = httpx.URL(self.url + "/").join(address)
            step = _Fetch(self._builder.build_request("GET", url, headers=headers, timeout=self._limits(None)), sink, received)
            try:
                response: httpx.Response = yield step
            except httpx.RequestError as error:
                failure: BackdropError = _lost(error)
                etag = step.etag or etag
            else:
                if response.is_success:
                    return
                failure = _refusal(response)
                if response.status_code not in _RETRIED:
                    raise failure
            # Attempts are counted anew wherever some of the file came.
            attempts = 0 if sink.tell() > received else attempts + 1
            if attempts > self._retries:
                raise failure
            yield _Pause(self._backoff(attempts))


def _has_rows(response: httpx.Response) -> bool:
    """Whether a 424 is a batch in which no picture could be fetched, with the error of each."""
    try:
        return "results" in response.json()
    except (ValueError, TypeError):
        return False


@contextlib.contextmanager
def _replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file beside `path` that takes its place at the end, so that no part of a result stands there."""
    part = Path(path).with_name(Path(path).name + ".part")
    try:
        with open(part, "wb") as sink:
            yield sink
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _bar(pictures: Iterable[Picture], progress: bool) -> tqdm[Any]:
    total = len(pictures) if isinstance(pictures, Sized) else None
    return tqdm(total=total, unit="picture", disable=not progress)


class Job(_JobState):
    """A clip or a bulk run that is processed, or was."""

    def __init__(self, client: Client, document: JobDocument) -> None:
        super().__init__(document)
        self._client = client

    def refresh(self) -> Self:
        """Asks for its state."""
        self.document = self._client._run(self._client._job_steps(self.id))
        return self

    def wait(self, timeout: float | None = None, *, on_progress: Callable[[int], None] | None = None) -> Self:
        """Polls until it is done, at most for `timeout` seconds; `on_progress` receives percents.

        Raises `JobFailedError` where the job fails and `WaitTimeoutError` where it is not over in time.
        """
        self._client._run(self._client._wait_steps(self, timeout, on_progress))
        return self

    def pause(self) -> Self:
        """Pauses a bulk run: pictures in progress are finished, and no others are started."""
        self.document = self._client._run(self._client._change_job_steps(self.id, "paused"))
        return self

    def resume(self) -> Self:
        """Resumes a paused bulk run."""
        self.document = self._client._run(self._client._change_job_steps(self.id, "running"))
        return self

    def delete(self) -> None:
        """Cancels it; where it is over, deletes it with its result. The results and the report of a bulk run are kept."""
        self._client._run(self._client._delete_job_steps(self.id))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Downloads the result of a clip to a file."""
        return self._client.download(_result_of(self), path)


class AsyncJob(_JobState):
    """A clip or a bulk run that is processed, or was."""

    def __init__(self, client: AsyncClient, document: JobDocument) -> None:
        super().__init__(document)
        self._client = client

    async def refresh(self) -> Self:
        """As `Job.refresh`."""
        self.document = await self._client._run(self._client._job_steps(self.id))
        return self

    async def wait(self, timeout: float | None = None, *, on_progress: Callable[[int], None] | None = None) -> Self:
        """As `Job.wait`."""
        await self._client._run(self._client._wait_steps(self, timeout, on_progress))
        return self

    async def pause(self) -> Self:
        """As `Job.pause`."""
        self.document = await self._client._run(self._client._change_job_steps(self.id, "paused"))
        return self

    async def resume(self) -> Self:
        """As `Job.resume`."""
        self.document = await self._client._run(self._client._change_job_steps(self.id, "running"))
        return self

    async def delete(self) -> None:
        """As `Job.delete`."""
        await self._client._run(self._client._delete_job_steps(self.id))

    async def save(self, path: str | os.PathLike[str]) -> Path:
        """As `Job.save`."""
        return await self._client.download(_result_of(self), path)


def _result_of(job: _JobState) -> str:
    if job.bulk is not None:
        raise BackdropError(f"job {job.id} is a bulk run: its results are in {job.bulk['to']}")
    if job.result_url is None:
        raise BackdropError(f"job {job.id} has no result: it is {'expired' if job.document.get('result_expired') else job.status}")
    return job.result_url


class _Pictures(_PictureMethods):
    """The endpoints, and any number of pictures."""

    def batch(
        self,
        pictures: Iterable[Picture],
        operation: Callable[[Picture], ImageResult] | None = None,
        *,
        concurrency: int = 4,
        progress: bool = False,
    ) -> Generator[Outcome, None, None]:
        """Sends any number of pictures, `concurrency` at a time, and yields each as it is finished.

        `operation` is `remove` by default; `lambda photo: client.studio_shot(photo, aspect="4:5")` is another. A picture that
        fails does not end the batch. `progress` draws a bar on standard error. Leaving the loop sends no further pictures.
        """

        def one(index: int, picture: Picture) -> Outcome:
            try:
                return Outcome(index, picture, (operation or self.remove)(picture), None)
            except (BackdropError, OSError) as error:
                return Outcome(index, picture, None, error)

        source = enumerate(pictures)
        running: set[Future[Outcome]] = set()
        with _bar(pictures, progress) as bar, ThreadPoolExecutor(concurrency) as pool:
            failed = 0
            while True:
                for index, picture in source:
                    running.add(pool.submit(one, index, picture))
                    if len(running) >= concurrency:
                        break
                if not running:
                    return
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    outcome = future.result()
                    failed += outcome.error is not None
                    bar.set_postfix(failed=failed, refresh=False)
                    bar.update()
                    yield outcome


class Client(_Core, _Pictures):
    """Calls a daemon and waits for its replies. Threads may share one.

    `key` is else `BACKDROP_KEY`, `url` else `BACKDROP_URL`, else http://127.0.0.1:8080. `timeout` is in seconds, for each
    read and write of the connection; `retries` how often a call is repeated; `max_wait` the seconds that a call may spend on
    pauses between attempts. `http` replaces the connection pool, for proxies or certificates.
    """

    def __init__(
        self,
        key: str | None = None,
        url: str | None = None,
        *,
        timeout: float = 120.0,
        retries: int = 4,
        max_wait: float = 120.0,
        http: httpx.Client | None = None,
    ) -> None:
        self._http = http or httpx.Client()
        super().__init__(self._http, key, url, timeout, retries, max_wait)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def _do(self, step: _Send | _Fetch | _Pause) -> httpx.Response | None:
        if isinstance(step, _Pause):
            time.sleep(step.seconds)
            return None
        if isinstance(step, _Send):
            return self._http.send(step.request)
        response = self._http.send(step.request, stream=True)
        try:
            if response.is_success:
                step.begin(response)
                for piece in response.iter_bytes():
                    step.sink.write(piece)
            else:
                response.read()
        finally:
            response.close()
        return response

    def _run(self, steps: _Steps[_T]) -> _T:
        try:
            step = next(steps)
            while True:
                try:
                    answer = self._do(step)
                except httpx.RequestError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as stop:
            return cast("_T", stop.value)
        finally:
            steps.close()

    def _picture(self, operation: str, picture: Picture, fields: Mapping[str, Any], **call: Any) -> ImageResult:
        return self._run(self._picture_steps(operation, picture, fields, **call))

    def remove_batch(
        self,
        pictures: Sequence[File],
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[RemoveBatchFields],
    ) -> Batch:
        """Cuts the subjects out of up to ten files in one request; a file that fails is a row. `POST /remove-batch`"""
        return self._run(self._batch_steps(pictures, fields, service_model, idempotency_key, timeout))

    def remove_batch_url(
        self,
        urls: Sequence[str],
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[RemoveBatchUrlFields],
    ) -> Batch:
        """The same for addresses, also where none could be fetched. `POST /remove-batch-url`"""
        return self._run(self._batch_url_steps(urls, fields, service_model, idempotency_key, timeout))

    def video_remove(
        self,
        clip: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[VideoRemoveFields],
    ) -> Job:
        """Cuts the subject out of a clip, as a job to `wait` for. `POST /video/remove`"""
        return Job(self, self._run(self._video_steps(clip, fields, service_model, idempotency_key, timeout)))

    def bulk(
        self,
        source: str,
        destination: str,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[BulkFields],
    ) -> Job:
        """Processes the pictures of a place in object storage, such as `s3://shop/photos`, into another one, as a job to `wait`
        for. They are `from` and `to` of the API; the operator has to allow both. `POST /bulk`
        """
        return Job(self, self._run(self._bulk_steps(source, destination, fields, service_model, idempotency_key, timeout)))

    def jobs(self) -> list[Job]:
        """The jobs of this key, newest first. `GET /jobs`"""
        return [Job(self, document) for document in self._run(self._pages("listJobs", "jobs"))]

    def job(self, job_id: str) -> Job:
        """A job by its id. `GET /jobs/{job_id}`"""
        return Job(self, self._run(self._job_steps(job_id)))

    def download(self, result_url: str, path: str | os.PathLike[str]) -> Path:
        """Downloads the result of a job to a file, piece by piece. `GET /results/{object}`"""
        with _replacing(path) as sink:
            self._run(self._download_steps(result_url, sink))
        return Path(path)

    def estimate(self, **fields: Unpack[EstimateFields]) -> Estimate:
        """What a call would cost. `POST /estimate`"""
        return self._run(self._estimate_steps(fields))

    def presets(self) -> list[SavedPreset]:
        """The account's presets. `GET /presets`"""
        return self._run(self._pages("listPresets", "presets"))

    def save_preset(self, **fields: Unpack[PresetFields]) -> SavedPreset:
        """Saves a preset; with an `id`, overwrites that one. `POST /presets`"""
        return self._run(self._save_preset_steps(fields))

    def delete_preset(self, preset_id: str) -> None:
        """Deletes a preset. `DELETE /presets`"""
        self._run(self._delete_preset_steps(preset_id))

    def models(self) -> Models:
        """The models that cut out, the account's default first. `GET /models`"""
        return self._run(self._models_steps())

    def account(self) -> Account:
        """Plan, quota and rate. `GET /account`"""
        return self._run(self._account_steps())

    def usage(self, first: datetime.date | str | None = None, last: datetime.date | str | None = None) -> Usage:
        """Use by key and day, from the day `first` to the day `last` (UTC). `GET /usage`"""
        return self._run(self._usage_steps(first, last))

    def openapi(self) -> dict[str, Any]:
        """The contract of the daemon. `GET /openapi.json`"""
        return self._run(self._contract_steps())

    def openapi_yaml(self) -> str:
        """The contract as YAML. `GET /openapi.yaml`"""
        return self._run(self._text_steps("openapi"))

    def docs(self) -> str:
        """The reference as an HTML page. `GET /docs`"""
        return self._run(self._text_steps("docs"))


class AsyncClient(_Core, _AsyncPictureMethods):
    """`Client` with coroutines, on asyncio. Cancelling a task closes its connection, which stops the work in the daemon."""

    def __init__(
        self,
        key: str | None = None,
        url: str | None = None,
        *,
        timeout: float = 120.0,
        retries: int = 4,
        max_wait: float = 120.0,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._http = http or httpx.AsyncClient()
        super().__init__(self._http, key, url, timeout, retries, max_wait)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def _do(self, step: _Send | _Fetch | _Pause) -> httpx.Response | None:
        if isinstance(step, _Pause):
            await asyncio.sleep(step.seconds)
            return None
        if isinstance(step, _Send):
            return await self._http.send(step.request)
        response = await self._http.send(step.request, stream=True)
        try:
            if response.is_success:
                step.begin(response)
                async for piece in response.aiter_bytes():
                    step.sink.write(piece)
            else:
                await response.aread()
        finally:
            await response.aclose()
        return response

    async def _run(self, steps: _Steps[_T]) -> _T:
        try:
            step = next(steps)
            while True:
                try:
                    answer = await self._do(step)
                except httpx.RequestError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as stop:
            return cast("_T", stop.value)
        finally:
            steps.close()

    async def _picture(self, operation: str, picture: Picture, fields: Mapping[str, Any], **call: Any) -> ImageResult:
        return await self._run(self._picture_steps(operation, picture, fields, **call))

    async def remove_batch(
        self,
        pictures: Sequence[File],
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[RemoveBatchFields],
    ) -> Batch:
        """Cuts the subjects out of up to ten files in one request; a file that fails is a row. `POST /remove-batch`"""
        return await self._run(self._batch_steps(pictures, fields, service_model, idempotency_key, timeout))

    async def remove_batch_url(
        self,
        urls: Sequence[str],
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[RemoveBatchUrlFields],
    ) -> Batch:
        """The same for addresses, also where none could be fetched. `POST /remove-batch-url`"""
        return await self._run(self._batch_url_steps(urls, fields, service_model, idempotency_key, timeout))

    async def batch(
        self,
        pictures: Iterable[Picture],
        operation: Callable[[Picture], Awaitable[ImageResult]] | None = None,
        *,
        concurrency: int = 4,
        progress: bool = False,
    ) -> AsyncGenerator[Outcome, None]:
        """As `Client.batch`. Leaving the loop early: close the iterator (`contextlib.aclosing`) to cancel what is under way."""

        async def one(index: int, picture: Picture) -> Outcome:
            try:
                return Outcome(index, picture, await (operation or self.remove)(picture), None)
            except (BackdropError, OSError) as error:
                return Outcome(index, picture, None, error)

        source = enumerate(pictures)
        running: set[asyncio.Task[Outcome]] = set()
        try:
            with _bar(pictures, progress) as bar:
                failed = 0
                while True:
                    for index, picture in source:
                        running.add(asyncio.create_task(one(index, picture)))
                        if len(running) >= concurrency:
                            break
                    if not running:
                        return
                    finished, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    for task in finished:
                        outcome = task.result()
                        failed += outcome.error is not None
                        bar.set_postfix(failed=failed, refresh=False)
                        bar.update()
                        yield outcome
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def video_remove(
        self,
        clip: Picture,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[VideoRemoveFields],
    ) -> AsyncJob:
        """Cuts the subject out of a clip, as a job to `wait` for. `POST /video/remove`"""
        return AsyncJob(self, await self._run(self._video_steps(clip, fields, service_model, idempotency_key, timeout)))

    async def bulk(
        self,
        source: str,
        destination: str,
        *,
        service_model: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[BulkFields],
    ) -> AsyncJob:
        """Processes the pictures of a place in object storage, such as `s3://shop/photos`, into another one, as a job to `wait`
        for. They are `from` and `to` of the API; the operator has to allow both. `POST /bulk`
        """
        return AsyncJob(self, await self._run(self._bulk_steps(source, destination, fields, service_model, idempotency_key, timeout)))

    async def jobs(self) -> list[AsyncJob]:
        """The jobs of this key, newest first. `GET /jobs`"""
        return [AsyncJob(self, document) for document in await self._run(self._pages("listJobs", "jobs"))]

    async def job(self, job_id: str) -> AsyncJob:
        """A job by its id. `GET /jobs/{job_id}`"""
        return AsyncJob(self, await self._run(self._job_steps(job_id)))

    async def download(self, result_url: str, path: str | os.PathLike[str]) -> Path:
        """Downloads the result of a job to a file, piece by piece. `GET /results/{object}`"""
        with _replacing(path) as sink:
            await self._run(self._download_steps(result_url, sink))
        return Path(path)

    async def estimate(self, **fields: Unpack[EstimateFields]) -> Estimate:
        """What a call would cost. `POST /estimate`"""
        return await self._run(self._estimate_steps(fields))

    async def presets(self) -> list[SavedPreset]:
        """The account's presets. `GET /presets`"""
        return await self._run(self._pages("listPresets", "presets"))

    async def save_preset(self, **fields: Unpack[PresetFields]) -> SavedPreset:
        """Saves a preset; with an `id`, overwrites that one. `POST /presets`"""
        return await self._run(self._save_preset_steps(fields))

    async def delete_preset(self, preset_id: str) -> None:
        """Deletes a preset. `DELETE /presets`"""
        await self._run(self._delete_preset_steps(preset_id))

    async def models(self) -> Models:
        """The models that cut out, the account's default first. `GET /models`"""
        return await self._run(self._models_steps())

    async def account(self) -> Account:
        """Plan, quota and rate. `GET /account`"""
        return await self._run(self._account_steps())

    async def usage(self, first: datetime.date | str | None = None, last: datetime.date | str | None = None) -> Usage:
        """Use by key and day, from the day `first` to the day `last` (UTC). `GET /usage`"""
        return await self._run(self._usage_steps(first, last))

    async def openapi(self) -> dict[str, Any]:
        """The contract of the daemon. `GET /openapi.json`"""
        return await self._run(self._contract_steps())

    async def openapi_yaml(self) -> str:
        """The contract as YAML. `GET /openapi.yaml`"""
        return await self._run(self._text_steps("openapi"))

    async def docs(self) -> str:
        """The reference as an HTML page. `GET /docs`"""
        return await self._run(self._text_steps("docs"))


# ---- Without a daemon: a child process of the command ----


def _command() -> str:
    """The command `backdrop` of this package's wheel, else the one on PATH."""
    folders = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user"), str(Path(__file__).parents[1] / "bin")]
    found = shutil.which("backdrop", path=os.pathsep.join(folders)) or shutil.which("backdrop")
    if found is None:
        raise ProcessFailedError("the command `backdrop` is missing: install Backdrop's wheel, which has it, or put it on PATH")
    return found


class _Process:
    """A child process, and a thread that hands its replies to the futures of their requests."""

    def __init__(self, options: Sequence[str]) -> None:
        command, messages = _command(), tempfile.TemporaryFile()
        # A process group, so that Ctrl-C does not end it: the end of its input does.
        group: Any = {"creationflags": 0x200} if os.name == "nt" else {"process_group": 0}
        try:
            self._popen = subprocess.Popen(
                [command, "pipe", *options], bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=messages, **group,
            )
        except OSError as error:
            messages.close()
            raise ProcessFailedError(f"{command} cannot be started: {error}") from error
        self._ids = itertools.count()
        self._writing = threading.Lock()
        self._waiting: dict[int, Future[httpx.Response]] = {}
        self.failure: str | None = None
        """Why no further request is answered."""
        self._reader = threading.Thread(target=self._read_replies, args=(messages,), name="backdrop", daemon=True)
        self._reader.start()

    def request(self, head: dict[str, Any], files: Sequence[bytes]) -> Future[httpx.Response]:
        """Sends a request; while others fill the pipe, it waits."""
        number, future = next(self._ids), Future[httpx.Response]()
        text = json.dumps({"id": number, **head}).encode()
        self._waiting[number] = future
        try:
            self._writing.acquire()
        except BaseException:
            # Ctrl-C before the first byte: the process and the requests of other threads go on.
            self._waiting.pop(number, None)
            raise
        try:
            for part in (struct.pack("<I", len(text)) + text, *files):
                self._write(memoryview(part))
        except (OSError, ValueError):
            # The process has ended, of which its reader tells the waiting ones.
            self._popen.kill()
        except BaseException:
            # The request was cut off (Ctrl-C), and no other could follow it.
            self._popen.kill()
            raise
        finally:
            self._writing.release()
        if self.failure is not None:
            self._fail_waiting(self.failure)
        return future

    def _fail_waiting(self, failure: str) -> None:
        for number in list(self._waiting):
            if future := self._waiting.pop(number, None):
                future.set_exception(ProcessFailedError(failure))

    def _write(self, part: memoryview) -> None:
        assert self._popen.stdin
        while part:
            part = part[self._popen.stdin.write(part):]

    def _read(self, length: int) -> bytearray:
        assert self._popen.stdout
        data = bytearray(length)
        rest = memoryview(data)
        while rest:
            read = self._popen.stdout.readinto(rest)  # type: ignore[attr-defined]
            if not read:
                raise EOFError
            rest = rest[read:]
        return data

    def _read_replies(self, messages: IO[bytes]) -> None:
        try:
            while True:
                head = json.loads(self._read(struct.unpack("<I", self._read(4))[0]))
                body = bytes(self._read(head["length"]))
                if future := self._waiting.pop(head["id"], None):
                    future.set_result(httpx.Response(head["status"], headers=head["headers"], content=body))
        except EOFError:
            pass
        except Exception:
            # It is another program, whose output is no reply.
            self._popen.kill()
        status = self._popen.wait()
        with messages:
            messages.seek(0)
            text = messages.read().decode(errors="replace").strip()[-2000:]
        self.failure = f"the process `backdrop pipe` ended with the status {status}" + (f": {text}" if text else "")
        self._fail_waiting(self.failure)
        assert self._popen.stdout
        self._popen.stdout.close()
        with self._writing:
            self.abandon()

    def close(self) -> None:
        """Ends it after the requests in progress; after ten seconds at once."""
        if self._writing.acquire(timeout=10):
            self.abandon()
            self._writing.release()
            self._reader.join(10)
        if self._reader.is_alive():
            self._popen.kill()
            self._reader.join()

    def abandon(self, after_fork: bool = False) -> None:
        """Closes its input, at whose end it ends; after a fork, this process's copies of input and output."""
        if self._popen.stdin:
            self._popen.stdin.close()
        if after_fork and self._popen.stdout:
            self._popen.stdout.close()


class Session(_Pictures):
    """Cuts out on this machine, without a daemon: a child process of the command `backdrop`, which loads the network once.

    It has the endpoints of `Client`, and `batch`; `remove(picture, session=…)` takes it too. The process starts with the first
    call and ends with `close`, with the `with` block, or with the program; after it ended, the next call starts another one.
    Threads may share a session; after a fork the child starts another process.

    `model` is `standard`, `quality`, `fast` or the name of an added model, `device` is `cpu`, `gpu` or part of a GPU's name, and
    `jobs` the number of pictures in progress at a time. Defaults come from the command's configuration (`BACKDROP_…`).
    """

    def __init__(self, model: str | None = None, *, device: str | None = None, jobs: int | None = None) -> None:
        options = {"--model": model, "--device": device, "--jobs": jobs}
        self._options = [str(part) for option in options.items() if option[1] is not None for part in option]
        self._lock = threading.Lock()
        self._process: _Process | None = None
        _sessions.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if process := self._process:
            process.abandon()

    def close(self) -> None:
        """Ends the process, after the pictures in progress."""
        with self._lock:
            process, self._process = self._process, None
        if process:
            process.close()

    def _running(self) -> _Process:
        with self._lock:
            if self._process is None or self._process.failure is not None:
                self._process = _Process(self._options)
            return self._process

    def _picture(self, operation: str, picture: Picture, fields: Mapping[str, Any], **call: Any) -> ImageResult:
        sent, files = _sent(fields, [("file", picture)])
        if call["service_model"] is not None:
            sent["segmentation_model"] = call["service_model"]
        contents = [(name, _content(source)) for name, source in files]
        head: dict[str, Any] = {"endpoint": _OPERATIONS[operation][1].removeprefix("/"), "url": sent.pop("url", None)}
        texts = ((name, _text(value)) for name, value in sent.items())
        head["fields"] = [(name, text) for name, value in texts for text in ([value] if isinstance(value, str) else value)]
        head["files"] = [(name, len(content)) for name, content in contents]
        process = self._running()
        try:
            response = process.request(head, [content for _, content in contents]).result(call["timeout"])
        except TimeoutError:
            raise TimedOutError(f"no reply within {call['timeout']} s") from None
        if response.is_success:
            return _to_image(response)
        raise _refusal(response)


def _content(source: File) -> bytes:
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    if isinstance(source, str | os.PathLike):
        return Path(source).read_bytes()
    if source.seekable():
        source.seek(0)
    return source.read()


_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _after_fork() -> None:
    """The processes are the parent's; none of its threads and locks is here."""
    for session in _sessions:
        process, session._process, session._lock = session._process, None, threading.Lock()
        if process:
            process.abandon(after_fork=True)


@atexit.register
def _close_sessions() -> None:
    for session in list(_sessions):
        session.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

_session = Session()


class RemoveOptions(RemoveFields, total=False):
    """Fields of `/remove`, fields of a background, and the options of rembg's `remove`."""

    session: Session | None
    """The process of `Session` or `new_session`; one for the whole program by default."""
    bg_color: str | None
    """A colour behind the subject, such as `white` or `#RRGGBB`."""
    bg_file: File | None
    """A picture behind the subject."""
    bg_url: str | None
    """The address of a picture behind the subject."""
    bgcolor: tuple[int, int, int, int] | None
    """`bg_color` as red, green, blue and alpha, each from 0 to 255."""
    only_mask: bool
    """Return the matte, as grey."""
    alpha_matting: bool | None
    """False leaves the mask unmatted: `matting="none"`. Edges are matted by default."""
    alpha_matting_foreground_threshold: int
    """Without effect: the unknown band follows from the mask."""
    alpha_matting_background_threshold: int
    """Without effect, as above."""
    alpha_matting_erode_size: int
    """Without effect, as above."""
    post_process_mask: bool
    """Without effect: masks are always cleaned."""


_Image: TypeAlias = "PIL.Image.Image"
_Array: TypeAlias = "np.ndarray[Any, Any]"
_UNUSED = ("alpha_matting_foreground_threshold", "alpha_matting_background_threshold", "alpha_matting_erode_size", "post_process_mask")


@overload
def remove(data: _Image, *, force_return_bytes: Literal[False] = False, **options: Unpack[RemoveOptions]) -> _Image: ...
@overload
def remove(data: _Array, *, force_return_bytes: Literal[False] = False, **options: Unpack[RemoveOptions]) -> _Array: ...
@overload
def remove(data: Picture, *, force_return_bytes: bool = False, **options: Unpack[RemoveOptions]) -> bytes: ...
@overload
def remove(data: _Image | _Array, *, force_return_bytes: Literal[True], **options: Unpack[RemoveOptions]) -> bytes: ...
def remove(data: Any, *, force_return_bytes: bool = False, **options: Unpack[RemoveOptions]) -> Any:
    """Cuts the subject out of a picture on this machine, as `remove` of rembg does.

    Bytes, a path or an open file give the bytes of a PNG; a PIL image gives an RGBA image; a numpy array of H×W, H×W×3 or H×W×4
    bytes gives one of H×W×4 (needs Pillow). With `only_mask` images are grey and arrays H×W.
    """
    fields: dict[str, Any] = dict(options)
    session = fields.pop("session", None) or _session
    fields.setdefault("format", "png")
    for name in _UNUSED:
        fields.pop(name, None)
    if fields.pop("alpha_matting", None) is False:
        fields.setdefault("matting", "none")
    color = fields.pop("bgcolor", None)
    if fields.pop("only_mask", False):
        fields["channels"] = "alpha"
    elif color is not None:
        fields["bg_color"] = "#" + bytes(color).hex()
    operation = "replaceBg" if fields.keys() & {"bg_color", "bg_file", "bg_url"} else "remove"
    is_array = _is_instance(data, "numpy", "ndarray")
    is_image = _is_instance(data, "PIL.Image", "Image")
    if is_array or is_image:
        data = _png(data, is_array)
        if not force_return_bytes and fields["format"] == "png":
            fields.setdefault("compression", "fast")
    elif not isinstance(data, str | os.PathLike | bytes | bytearray | memoryview) and not hasattr(data, "read"):
        raise TypeError(f"expected bytes, a path, a file, a PIL image or a numpy array, not {type(data).__name__}")
    result = session._picture(operation, data, fields, service_model=None, timeout=None).data
    if force_return_bytes or not (is_array or is_image):
        return result
    import PIL.Image

    image: PIL.Image.Image = PIL.Image.open(io.BytesIO(result))
    image = image.copy() if image.mode == "L" else image.convert("RGBA")
    return sys.modules["numpy"].array(image) if is_array else image


def _is_instance(value: object, module: str, name: str) -> bool:
    """Whether it is of a class of a module, which is loaded then."""
    return module in sys.modules and isinstance(value, getattr(sys.modules[module], name))


def _png(picture: Any, is_array: bool) -> bytes:
    """A PIL image or an array, uncompressed where that has less than 100 MB."""
    from PIL import Image, ImageOps

    image = Image.fromarray(picture) if is_array else ImageOps.exif_transpose(picture)
    if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        image = image.convert("RGB")
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=0 if image.width * image.height < 25_000_000 else 1)
    return file.getvalue()


@overload
def remove_many(
    pictures: Iterable[_Image], *, concurrency: int | None = None, **options: Unpack[RemoveOptions],
) -> Generator[_Image, None, None]: ...
@overload
def remove_many(
    pictures: Iterable[_Array], *, concurrency: int | None = None, **options: Unpack[RemoveOptions],
) -> Generator[_Array, None, None]: ...
@overload
def remove_many(
    pictures: Iterable[Picture], *, concurrency: int | None = None, **options: Unpack[RemoveOptions],
) -> Generator[bytes, None, None]: ...
def remove_many(
    pictures: Iterable[Any], *, concurrency: int | None = None, **options: Unpack[RemoveOptions],
) -> Generator[Any, None, None]:
    """`remove` of any number of pictures in their order, several at a time; `concurrency` is the number of processors and one more.

    Pictures are read ahead as far as they are in progress. A picture that fails raises its error and ends it; `Session.batch` goes on.
    """
    concurrency = concurrency or (os.cpu_count() or 1) + 1
    running: collections.deque[Future[Any]] = collections.deque()
    pool = ThreadPoolExecutor(concurrency)
    try:
        for picture in pictures:
            running.append(pool.submit(lambda picture: remove(picture, **options), picture))
            if len(running) > concurrency:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


# Models of rembg in whose place the built-in network is.
_REMBG_MODELS = {"u2net", "u2netp", "u2net_human_seg", "silueta", "sam"}


def new_session(model_name: str = "u2net", *, sess_opts: object = None, providers: object = None) -> Session:
    """A session as rembg makes them: `u2net`, `u2netp`, `u2net_human_seg`, `silueta` and `sam` are the built-in network; other names are
    models of `Session`. `sess_opts` and `providers`, the options of ONNX Runtime, are without effect.
    """
    return Session(None if model_name in _REMBG_MODELS else model_name)
