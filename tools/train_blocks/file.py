"""Reads GGUF files, and writes one with other values in its tensors."""

import shutil

import numpy as np
import torch
from gguf import GGUFReader, dequantize
from train_twin.folder import EXIT_MODEL, Refusal, refuse_model
from train_twin.output import appearing

from .blocks import TYPES


class ModelFile:
    """A GGUF file: `keys` as a dictionary, and `tensors`, the gguf package's descriptions by name."""

    def __init__(self, path):
        self.path = path
        try:
            reader = GGUFReader(path)
            self.keys = {name: field.contents() for name, field in reader.fields.items()}
        except OSError as error:
            raise Refusal(EXIT_MODEL, f"{path}: {error.strerror}") from error
        except Exception as error:  # the library raises many types
            raise Refusal(EXIT_MODEL, f"{path}: not a GGUF file: {error}") from error
        if "craftsman.bitnet.version" in self.keys:
            refuse_model(path, "craftsman.bitnet.version", "files with BITNET_T158 cannot be trained")
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.architecture = self.keys.get("general.architecture")

    def kind(self, name):
        return self.tensors[name].tensor_type.name

    def values(self, name):
        """Returns a tensor in f32, in PyTorch's order of dimensions."""
        tensor = self.tensors[name]
        try:
            values = dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError as error:
            refuse_model(self.path, name, f"{self.kind(name)} cannot be read: {error}")
        return torch.from_numpy(np.array(values, dtype=np.float32)).reshape(tensor.shape[::-1].tolist())

    def blocks(self, name):
        """Returns the scales and offsets [blocks, 1] of a tensor of one of TYPES."""
        data = self.tensors[name].data
        size = data.size * 32 // int(self.tensors[name].n_elements)
        return TYPES[self.kind(name)].read(np.asarray(data).reshape(-1, size))

    def key(self, name, kinds=(int, float), default=None):
        """Returns a number of this architecture."""
        whole = f"{self.architecture}.{name}"
        value = self.keys.get(whole, default)
        if isinstance(value, bool) or not isinstance(value, kinds):
            refuse_model(self.path, whole, f"{value}: a number belongs here")
        return value

    def write(self, out, replaced):
        """Writes the file anew, with `replaced` as the bytes of some tensors."""
        with appearing(out) as temporary:
            shutil.copyfile(self.path, temporary)
            with open(temporary, "r+b") as target:
                for name, made in replaced.items():
                    if made.nbytes != self.tensors[name].n_bytes:
                        raise AssertionError(f"{name}: {made.nbytes} bytes")
                    target.seek(self.tensors[name].data_offset)
                    target.write(made.tobytes())
