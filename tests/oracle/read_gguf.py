"""Reads a GGUF for PyTorch."""

import sys
from pathlib import Path

import torch

REPO = Path(__file__).resolve().parents[2]
# The Python that has PyTorch need not have gguf; the one of tools/setup.py has it.
sys.path += [str(folder) for folder in (REPO / ".tools" / "python" / "lib").glob("python3*/site-packages")]

from gguf import GGUFReader, dequantize  # noqa: E402  (the path must be set first)


def read_model(file):
    """The metadata as a dictionary, and the tensors as PyTorch's, each dequantised to f32."""
    reader = GGUFReader(file)
    metadata = {name: field.contents() for name, field in reader.fields.items()}
    tensors = {tensor.name: torch.tensor(dequantize(tensor.data, tensor.tensor_type).reshape(
        tensor.shape[::-1].tolist())) for tensor in reader.tensors}
    return metadata, tensors
