"""Makes a model compute with the blocks of a file, and gives the blocks that it was trained to."""

import numpy as np
import torch
from torch.nn.utils import parametrize
from train_twin.folder import refuse_model

from .blocks import TYPES, Rounding, Settling
from .names import name_of, row_order

NOT_TRAINED = {"bert": ("token_embd.weight",)}  # a batch has few of an encoder's words
MOST_LEVELS_TO_SETTLE = 32


class Trained:
    """The tensors of a file that are trained, in the modules of a model that has the file's values: matrices in TYPES
    and vectors in F32. Others keep their values. The original's weights say to which other values
    those of matrices may settle."""

    def __init__(self, model, original, file):
        self.model, self.original, self.file = model, original, file
        model.requires_grad_(False)
        self.matrices, self.vectors = {}, {}
        for tensor in file.tensors:
            owner, _, kind = name_of(file, tensor).rpartition(".")
            module = model.get_submodule(owner)
            if tensor in NOT_TRAINED.get(file.architecture, ()):
                continue
            if file.kind(tensor) in TYPES:
                self.matrices[tensor] = module
                self.round(tensor, owner, module)
            elif file.kind(tensor) == "F32" and getattr(module, kind).dim() == 1:
                self.vectors[tensor] = getattr(module, kind).requires_grad_()
        if not self.matrices:
            refuse_model(file.path, "tensors", f"no matrix has one of the types that can be trained: {', '.join(TYPES)}")

    def round(self, tensor, name, module):
        """Lets the module, named so, compute with the values of blocks; the output too if it shares them."""
        order = row_order(self.file, tensor)
        scales, offsets = (part.view(len(order), -1)[order].view(-1, 1) for part in self.file.blocks(tensor))
        kind = self.file.kind(tensor)
        settles = len(TYPES[kind].levels) <= MOST_LEVELS_TO_SETTLE
        blocks = (Settling if settles else Rounding)(kind, scales, offsets).to(module.weight.device)
        weights, original = module.weight.detach(), module.weight.detach().clone()
        real = self.original.get_submodule(name).weight
        original[tuple(slice(length) for length in real.shape)] = real  # wisp quantize --pad-neurons adds neurons
        weights.copy_(blocks.start(original, weights))
        head = getattr(self.model, "lm_head", None)
        shares = head is not None and head is not module and head.weight is module.weight
        for owner in (module, head) if shares else (module,):
            owner.weight.requires_grad_()
            parametrize.register_parametrization(owner, "weight", blocks)

    def set_temperature(self, temperature):
        for module in self.model.modules():
            if isinstance(module, Settling):
                module.temperature = temperature

    def written(self):
        """Returns the bytes of all trained tensors, as the file has them."""
        made = {}
        for tensor, module in self.matrices.items():
            weight = module.parametrizations.weight
            made[tensor] = weight[0].write(weight.original)
        for tensor, values in self.vectors.items():
            made[tensor] = values.detach().cpu().numpy()
        return {tensor: self.in_file_order(tensor, values) for tensor, values in made.items()}

    def in_file_order(self, tensor, values):
        order = row_order(self.file, tensor).numpy()
        rows = values.reshape(len(order), -1)
        placed = np.empty_like(rows)
        placed[order] = rows
        return placed

    def describe(self):
        """Says what is trained, and the bits of a weight in all matrices of layers, as they are stored."""
        matrices = {name: tensor for name, tensor in self.file.tensors.items() if len(tensor.shape) == 2}
        layers = [tensor for name, tensor in matrices.items() if name.startswith("blk.")]
        bits = 8 * sum(int(tensor.n_bytes) for tensor in layers) / sum(int(tensor.n_elements) for tensor in layers)
        return (f"training {len(self.matrices)} of {len(matrices)} matrices and {len(self.vectors)} vectors; "
                f"layers have {bits:.3f} bits a weight")
