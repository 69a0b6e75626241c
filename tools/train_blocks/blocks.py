"""Weights in ggml's blocks of 32 (docs/formats.md), as values that training can move.

A block has a scale, for some types an offset, and 32 codes. Each code stands for a level, and a weight is
level * scale + offset. Scales and offsets are floats of 16 bits.

With few levels a code cannot follow a gradient in small steps. There each weight lies between two levels, and a
temperature, which falls during training, draws it to one of them, as in Nagel et al., "Up or Down? Adaptive Rounding
for Post-Training Quantization" (2020), here with the loss of the whole model.
"""

import numpy as np
import torch
from torch import nn

BLOCK = 32
LEAST_SCALE = 2.0 ** -14  # the least normal number of 16 bits

# Values of IQ4_NL's codes, as ggml defines them.
IQ4_NL_LEVELS = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


def as_stored(numbers):
    """Returns numbers as floats of 16 bits have them. The gradient is that of the identity."""
    return numbers + (numbers.detach().half().float() - numbers.detach())


def halves(raw):
    return raw.copy().view("<f2").astype(np.float32)


def bytes_of(numbers):
    return numbers.detach().numpy().astype("<f2").view(np.uint8)


def nibbles(codes):
    """Returns codes below 16 [n, 32] as 16 bytes each: the first half in the low bits."""
    return codes[:, :16] | codes[:, 16:] << 4


def fifth_bits(codes):
    """Returns the fifth bit of each code [n, 32] as 4 bytes."""
    return np.packbits(codes >> 4 & 1, axis=1, bitorder="little")


class BlockType:
    """One of ggml's types: its levels in ascending order, its bytes before the codes, and how codes are packed."""

    def __init__(self, levels, pack, offset=False):
        self.levels = torch.tensor(levels, dtype=torch.float32)
        self.pack, self.offset = pack, offset

    def read(self, raw):
        """Returns scales and offsets [n, 1] of blocks in a file [n, bytes]."""
        scales = torch.from_numpy(halves(raw[:, :2]))
        return scales, torch.from_numpy(halves(raw[:, 2:4])) if self.offset else torch.zeros_like(scales)

    def write(self, codes, scales, offsets):
        """Returns the bytes [n, bytes] of blocks with these codes [n, 32]."""
        codes = codes.numpy().astype(np.uint8)
        head = [bytes_of(scales), *([bytes_of(offsets)] if self.offset else [])]
        return np.concatenate([*head, *self.pack(codes)], axis=1)


TYPES = {
    "Q4_0": BlockType(range(-8, 8), lambda codes: [nibbles(codes)]),
    "Q4_1": BlockType(range(16), lambda codes: [nibbles(codes)], offset=True),
    "Q5_0": BlockType(range(-16, 16), lambda codes: [fifth_bits(codes), nibbles(codes & 15)]),
    "Q5_1": BlockType(range(32), lambda codes: [fifth_bits(codes), nibbles(codes & 15)], offset=True),
    "Q8_0": BlockType(range(-127, 128), lambda codes: [(codes.astype(np.int16) - 127).astype(np.int8).view(np.uint8)]),
    "IQ4_NL": BlockType(IQ4_NL_LEVELS, lambda codes: [nibbles(codes)]),
}


class Blocks(nn.Module):
    """Turns what is trained into the values of a matrix: what torch.nn.utils.parametrize calls a parametrization.
    Scales and offsets are trained as factors of, and in units of, the scales at the start."""

    def __init__(self, kind, scales, offsets):
        super().__init__()
        self.kind = TYPES[kind]
        # All-zero blocks have a scale of 0 in files.
        small = scales.abs() < LEAST_SCALE
        self.register_buffer("first_scales", torch.where(small, torch.full_like(scales, LEAST_SCALE), scales))
        self.register_buffer("first_offsets", offsets)
        self.register_buffer("levels", self.kind.levels, persistent=False)
        self.factors = nn.Parameter(torch.ones_like(scales))
        self.shifts = nn.Parameter(torch.zeros_like(scales), requires_grad=self.kind.offset)

    def scales(self):
        return as_stored(self.first_scales * self.factors.clamp(min=0.1))

    def offsets(self):
        return as_stored(self.first_offsets + self.shifts * self.first_scales)

    @torch.no_grad()
    def write(self, trained):
        """Returns the bytes of the file's tensor, row after row."""
        codes = self.codes(trained.reshape(-1, BLOCK))
        return self.kind.write(codes.cpu(), self.scales().cpu(), self.offsets().cpu())


def nearest(ratio, levels):
    """Returns the codes of the levels nearest to weights in units of their scale."""
    return torch.bucketize(ratio, (levels[1:] + levels[:-1]) / 2)


class Round(torch.autograd.Function):
    """The nearest values that blocks [n, 32] with these scales and offsets [n, 1] can have. Its gradient by weights is
    that of the identity between the outer levels, and else 0; those by scale and offset belong to the value that came
    out, with the weight's distance from a level kept in units of the scale."""

    @staticmethod
    def forward(ctx, weights, scales, offsets, levels):
        ratio = (weights - offsets) / scales
        rounded = levels[nearest(ratio, levels)]
        ctx.save_for_backward(ratio, rounded)
        ctx.least, ctx.most = float(levels[0]), float(levels[-1])
        return rounded * scales + offsets

    @staticmethod
    def backward(ctx, gradient):
        ratio, rounded = ctx.saved_tensors
        inside = (ratio >= ctx.least) & (ratio <= ctx.most)
        of_scales = (gradient * torch.where(inside, rounded - ratio, rounded)).sum(1, keepdim=True)
        of_offsets = gradient.masked_fill(inside, 0).sum(1, keepdim=True)
        return gradient * inside, of_scales, of_offsets, None


class Rounding(Blocks):
    """Trains real weights, of which the nearest values are computed with: for types with many levels."""

    def start(self, _original, values):
        """Returns what is trained, which has these values at first."""
        return values

    def forward(self, weights):
        blocks = weights.reshape(-1, BLOCK)
        return Round.apply(blocks, self.scales(), self.offsets(), self.levels).view(weights.shape)

    def codes(self, blocks):
        return nearest((blocks - self.offsets()) / self.scales(), self.levels)


class Settling(Blocks):
    """Trains where each weight lies between two levels. Its place is the sigmoid of PACE / temperature times the
    trained number, and at a temperature of 0 the upper level if that is positive, else the lower one."""

    # Places move faster than values of the same learning rate.
    PACE = 100
    NEAREST = 0.02  # the least distance from a level at the start: else no gradient would come through
    FARTHEST = 0.4  # the most from the level of the file's value

    def start(self, original, values):
        """Returns what is trained, which at a temperature of 0 has these values. The other of a weight's two levels is
        on the side where the original's weight is, and the place is that weight's as far as FARTHEST allows."""
        ratio, settled = ((weights.reshape(-1, BLOCK) - self.offsets()) / self.scales() for weights in (original, values))
        code = nearest(settled, self.levels)
        lower = torch.where(ratio < self.levels[code], code - 1, code).clamp(0, len(self.levels) - 2)
        self.register_buffer("lower", lower)
        least, most = self.levels[lower], self.levels[lower + 1]
        place = (ratio - least) / (most - least)
        place = torch.where(code > lower, place.clamp(1 - self.FARTHEST, 1 - self.NEAREST),
                            place.clamp(self.NEAREST, self.FARTHEST))
        self.temperature = 0
        return (torch.logit(place) / self.PACE).view(values.shape)

    def forward(self, trained):
        blocks = trained.reshape(-1, BLOCK)
        least, most = self.levels[self.lower], self.levels[self.lower + 1]
        place = torch.sigmoid(blocks * (self.PACE / self.temperature)) if self.temperature else (blocks > 0).float()
        return ((least + (most - least) * place) * self.scales() + self.offsets()).view(trained.shape)

    def codes(self, blocks):
        return self.lower + (blocks > 0)
