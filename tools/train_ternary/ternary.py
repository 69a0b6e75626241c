"""Linear layers whose weights are ternary, in blocks as those of BITNET_T158 (docs/formats.md)."""

import torch
from torch import nn
from torch.nn import functional

BLOCK = 256  # elements of a matrix, row after row; zeros fill the last block
LEAST_SCALE = 2.0 ** -14  # the least normal number of 16 bits


def blocks_of(weight):
    """Returns a matrix as [blocks, BLOCK]."""
    flat = weight.reshape(-1)
    return functional.pad(flat, (0, -len(flat) % BLOCK)).view(-1, BLOCK)


def best_scales(weight):
    """Returns the scale of each block [blocks, 1] with the least squared error of scale * round(weight / scale)."""
    blocks = blocks_of(weight)
    sizes = blocks.abs().sort(dim=1, descending=True)[0]
    sums = sizes.cumsum(1)
    counts = torch.arange(1, BLOCK + 1, dtype=blocks.dtype)
    # With the n largest weights at +-s and the rest at 0, the best s is their mean size; the error falls by n s^2.
    n = (sums.square() / counts).argmax(1, keepdim=True)
    return (sums.gather(1, n) / (n + 1)).clamp(min=LEAST_SCALE)


class Ternary(torch.autograd.Function):
    """scale * round(weight / scale), cut to -scale, 0 or scale. Its gradient by weights is that of the identity if
    a weight is not far beyond the scale; that by the scale is the rounding error's."""

    @staticmethod
    def forward(ctx, weight, scales):
        blocks = blocks_of(weight)
        ratio = blocks / scales
        codes = ratio.round().clamp_(-1, 1)
        ctx.save_for_backward(ratio, codes)
        ctx.shape = weight.shape
        return (codes * scales).view(-1)[:weight.numel()].view(weight.shape)

    @staticmethod
    def backward(ctx, gradient):
        ratio, codes = ctx.saved_tensors
        given = blocks_of(gradient)
        inside = ratio.abs() <= 1
        of_scales = (given * torch.where(inside, codes - ratio, codes)).sum(1, keepdim=True)
        return gradient, of_scales


class TernaryLinear(nn.Linear):
    """A linear layer that computes with ternary values of its weight. The scales have 16 bits in a file."""

    def __init__(self, linear):
        super().__init__(linear.in_features, linear.out_features, linear.bias is not None)
        self.weight, self.bias = linear.weight, linear.bias
        self.log_scales = nn.Parameter(best_scales(linear.weight.detach()).log())

    def scales(self):
        exact = self.log_scales.exp().clamp(min=LEAST_SCALE)
        return exact + (exact.detach().half().float() - exact.detach())

    def forward(self, given):
        return functional.linear(given, Ternary.apply(self.weight, self.scales()), self.bias)

    def exported(self):
        """Returns a weight from which `wisp quantize --type bitnet_t158` makes exactly the values that this layer
        computes with: in each block, the mean size is the scale."""
        with torch.no_grad():
            scales = self.scales()
            codes = (blocks_of(self.weight) / scales).round().clamp_(-1, 1)
            share = codes.abs().mean(1, keepdim=True).clamp(min=1 / BLOCK)
            made = codes * (scales / share)
            return made.view(-1)[:self.weight.numel()].view(self.weight.shape)
