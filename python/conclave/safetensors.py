"""Reads named float32 tensors from the bytes of a file in the safetensors format."""

from __future__ import annotations

import json
from typing import Dict

import numpy as np

from .errors import ConclaveError

_MOST_HEADER = 100 << 20  # bytes, as the format has it


def tensors(raw: bytes, name: str) -> Dict[str, np.ndarray]:
    """Read all tensors; name is that of the file, for errors."""
    try:
        size = int.from_bytes(raw[:8], "little")
        if len(raw) < 8 or size > min(_MOST_HEADER, len(raw) - 8):
            raise ValueError("the header is longer than the file")
        header = json.loads(raw[8 : 8 + size].decode("utf-8"))
        data, out = raw[8 + size :], {}
        for key, tensor in header.items():
            if key == "__metadata__":
                continue
            start, end = tensor["data_offsets"]
            if tensor["dtype"] != "F32" or not 0 <= start <= end <= len(data):
                raise ValueError(f"tensor {key} is not float32, or beyond the file's end")
            out[key] = np.frombuffer(data[start:end], "<f4").reshape(tensor["shape"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConclaveError(f"{name} is damaged ({error}); copy the model folder again") from None
    return out
