# SPDX-License-Identifier: Apache-2.0
"""LFM2 whose tokens see all others, which makes embeddings (LFM2.5-Embedding). transformers has it from 5.14 on as
Lfm2BidirectionalModel; here it is its Lfm2Model without a causal mask, whose convolutions stand around each token."""

import torch
from transformers import Lfm2Model
from transformers.masking_utils import create_bidirectional_mask
from transformers.models.lfm2 import modeling_lfm2


def convolve(self, hidden_states, *args, **kwargs):
    b, c, x = self.in_proj(hidden_states).transpose(-1, -2).chunk(3, dim=-2)
    taps = self.conv.weight
    mixed = torch.nn.functional.conv1d(b * x, taps, padding=self.L_cache // 2, groups=taps.shape[0])
    return self.out_proj((c * mixed[..., : hidden_states.shape[1]]).transpose(-1, -2))


def see_all(config, inputs_embeds, attention_mask, **kwargs):
    return create_bidirectional_mask(config=config, inputs_embeds=inputs_embeds, attention_mask=attention_mask)


class Lfm2Attention(modeling_lfm2.Lfm2Attention):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.is_causal = False  # else attention without padding is causal, whatever the mask


class Lfm2BidirectionalModel(Lfm2Model):
    """The model that this module makes of every Lfm2Model in the process."""


modeling_lfm2.create_causal_mask = see_all
modeling_lfm2.Lfm2Attention = Lfm2Attention
modeling_lfm2.Lfm2ShortConv.forward = convolve
