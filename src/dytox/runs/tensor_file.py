"""Tensors as the bytes of a safetensors file, piece by piece: nothing is copied, equal tensors, equal bytes.

The library's own writer copies everything twice and puts the metadata in random order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def encode_tensors(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> Iterator[memoryview]:
    """The file's pieces: length of the header, header (JSON), then the tensors, widest type first."""
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))} if metadata else {}
    end = 0
    for name in names:
        start, end = end, end + tensors[name].numel() * tensors[name].element_size()
        header[name] = {
            "dtype": _NAMES[tensors[name].dtype],
            "shape": list(tensors[name].shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the tensors start at a multiple of 8
    yield memoryview(len(text).to_bytes(8, "little") + text)
    for name in names:
        flat = tensors[name].detach().cpu().contiguous().reshape(-1)
        yield flat.view(torch.uint8).numpy().data


def decode_tensors(data: bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a file; ValueError for bytes that are none."""
    try:
        tensors = safetensors.torch.load(data)
    except (SafetensorError, KeyError, RuntimeError) as error:
        raise ValueError("not a whole safetensors file") from error
    length = int.from_bytes(data[:8], "little")
    return tensors, json.loads(data[8 : 8 + length]).get("__metadata__") or {}
