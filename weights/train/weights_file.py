"""Writes weights files, safetensors in half precision, byte for byte as the Rust program does."""
import json
import struct
from pathlib import Path

import torch


def write(path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    """Writes `tensors` (half precision, in the order of the network's layers) and `metadata`.

    The order of the safetensors library's metadata varies from run to run, which would change the file's bytes.
    """
    header, values = {"__metadata__": metadata}, b""
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise SystemExit(f"{name}: does not fit half precision")
        start = len(values)
        values += tensor.numpy().tobytes()
        header[name] = {"dtype": "F16", "shape": list(tensor.shape), "data_offsets": [start, len(values)]}
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + values)
