#!/usr/bin/env python3
"""Writes <record>.v<N>.hex beside each <record>.v<N>.json that has none yet, and checks those that are there.

An encoder of its own for postcard (https://postcard.jamesmunns.com/wire-format), so that the bytes are not merely what
the program happens to write: varint numbers, signed ones in zigzag, text and lists after their length, options and
booleans as one byte, a variant as its index. The layouts below are the records of src/store/records/, field by field.
"""

import json
import pathlib
import sys

PLANS = ["free", "paid", "plus"]
MODELS = ["standard", "quality"]
JOB_STATES = ["queued", "processing", "done", "failed"]


def number(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def signed(value):
    return number(value << 1 if value >= 0 else ~value << 1 | 1)


def text(value):
    return number(len(value.encode())) + value.encode()


def flag(value):
    return bytes([value])


def plan(value):
    return number(PLANS.index(value))


def model(value):
    return number(MODELS.index(value))


def job_state(value):
    return number(JOB_STATES.index(value))


def array(value):
    return bytes(value)


def optional(kind):
    return lambda value: b"\0" if value is None else b"\1" + kind(value)


def items(kind):
    return lambda value: number(len(value)) + b"".join(map(kind, value))


def pair(value):
    return text(value[0]) + text(value[1])


def fields_of(layout):
    """A record in a record: its fields, one after the other."""

    def of(value):
        assert list(value) == list(layout), list(value)
        return b"".join(kind(value[name]) for name, kind in layout.items())

    return of


KEY_V1 = {"id": text, "account": text, "label": text, "test": flag, "created_at": signed, "revoked_at": optional(signed)}
JOB_RESULT = {
    "object": optional(text), "bytes": number, "frames": number, "rate_frames": number, "rate_seconds": number,
    "expires_at": signed,
}
JOB_ERROR = {"code": text, "message": text}
WEBHOOK = {"url": text, "base": text, "attempts": number, "next_at": optional(signed)}
PREVIOUS_SECRET = {"hash": array, "until": signed}
KEY_V2 = KEY_V1 | {"last_used_at": optional(signed)}
ACCOUNT_V1 = {"name": text, "plan": plan, "created_at": signed}
ACCOUNT_V2 = ACCOUNT_V1 | {"generates": flag}

REQUEST_V1 = {"fingerprint": array, "images": number, "at": signed}

RECORDS = {
    "account": [ACCOUNT_V1, ACCOUNT_V2, ACCOUNT_V2 | {"model": optional(model)}],
    "key": [
        KEY_V1,
        KEY_V2,
        KEY_V2 | {
            "expires_at": optional(signed), "images_per_month": optional(number), "scopes": items(text),
            "previous": optional(fields_of(PREVIOUS_SECRET)),
        },
    ],
    "key_day": [{"images": number, "milliseconds": number, "microdollars": number}],
    "preset": [
        {
            "id": text, "account": text, "name": text, "endpoint": optional(text), "params": text,
            "created_at": signed, "updated_at": signed,
        }
    ],
    "usage": [{"images": number, "microdollars": number}],
    "request": [REQUEST_V1, REQUEST_V1 | {"pictures": items(optional(array))}],
    "job": [
        {
            "id": text, "key_id": text, "account": text, "test": flag, "state": job_state, "progress": flag,
            "fields": items(pair), "format": text, "name": optional(text), "fingerprint": array, "unit_price": number,
            "month": number, "reserved": number, "created_at": signed, "place": signed, "updated_at": signed,
            "expires_at": signed, "result": optional(fields_of(JOB_RESULT)), "warnings": items(text),
            "error": optional(fields_of(JOB_ERROR)), "webhook": optional(fields_of(WEBHOOK)),
        }
    ],
}


def encode(record, version, fields):
    layout = RECORDS[record][version - 1]
    assert list(fields) == list(layout), f"{record} {version}: {list(fields)}"
    return number(version - 1) + b"".join(layout[name](value) for name, value in fields.items())


def main():
    wrong = []
    for path in sorted(pathlib.Path(__file__).parent.glob("*.json")):
        record, version = path.stem.split(".v")
        content = json.loads(path.read_text())
        expected = encode(record, int(version), content[f"V{version}"]).hex() + "\n"
        golden = path.with_suffix(".hex")
        if not golden.exists():
            golden.write_text(expected)
        elif golden.read_text() != expected:
            wrong.append(golden.name)
    sys.exit(f"not what the JSON says: {wrong}" if wrong else 0)


if __name__ == "__main__":
    main()
