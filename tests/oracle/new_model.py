"""NewModel, which gte-v1.5 and gte-multilingual are: transformers has it as code of the model's author alone, so this is
a plain forward pass under the same names, for make_models.py.

Source of the layers: mGTE (Zhang et al., 2024). NTK scales positions as vLLM's NTKScalingRotaryEmbedding does.
"""

import torch
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput


class NewConfig(PretrainedConfig):
    model_type = "new"

    def __init__(self, vocab_size=30528, hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
                 intermediate_size=3072, hidden_act="gelu", max_position_embeddings=8192, type_vocab_size=1,
                 initializer_range=0.02, layer_norm_type="layer_norm", layer_norm_eps=1e-12, pad_token_id=0,
                 position_embedding_type="rope", rope_theta=10000.0, rope_scaling=None, pack_qkv=True,
                 logn_attention_scale=False, **others):
        self.vocab_size, self.hidden_size, self.num_hidden_layers = vocab_size, hidden_size, num_hidden_layers
        self.num_attention_heads, self.intermediate_size = num_attention_heads, intermediate_size
        self.hidden_act, self.max_position_embeddings, self.type_vocab_size = hidden_act, max_position_embeddings, type_vocab_size
        self.initializer_range, self.layer_norm_type, self.layer_norm_eps = initializer_range, layer_norm_type, layer_norm_eps
        self.position_embedding_type, self.rope_theta, self.rope_scaling = position_embedding_type, rope_theta, rope_scaling
        self.pack_qkv, self.logn_attention_scale = pack_qkv, logn_attention_scale
        super().__init__(pad_token_id=pad_token_id, **others)


def angles(size, theta, tokens, scale=1.0):
    pairs = torch.arange(0, size, 2, dtype=torch.float64) / size
    frequencies = (theta * scale) ** -pairs / scale ** (2 / size)
    return torch.outer(torch.arange(tokens, dtype=torch.float64), frequencies).repeat(1, 2).float()


def rotate(x, by):
    first, second = x.chunk(2, -1)
    return x * by.cos() + torch.cat([-second, first], -1) * by.sin()


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.num_attention_heads
        self.qkv_proj = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x, by, mask):
        texts, tokens, size = x.shape
        q, k, v = (part.view(texts, tokens, self.heads, -1).transpose(1, 2) for part in self.qkv_proj(x).chunk(3, -1))
        scores = rotate(q, by) @ rotate(k, by).transpose(-1, -2) / (size // self.heads) ** 0.5
        weights = scores.masked_fill(~mask[:, None, None, :], -torch.inf).softmax(-1)
        return self.o_proj((weights @ v).transpose(1, 2).reshape(texts, tokens, size))


class Neurons(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.up_gate_proj = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x):
        up, gate = self.up_gate_proj(x).chunk(2, -1)
        return self.down_proj(nn.functional.gelu(gate) * up)


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention, self.mlp = Attention(config), Neurons(config)
        self.attn_ln = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.mlp_ln = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x, by, mask):
        x = self.attn_ln(x + self.attention(x, by, mask))
        return self.mlp_ln(x + self.mlp(x))


class NewModel(PreTrainedModel):
    config_class = NewConfig

    def __init__(self, config):
        super().__init__(config)
        self.embeddings, self.encoder = nn.Module(), nn.Module()
        self.embeddings.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        if config.type_vocab_size > 0:
            self.embeddings.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.embeddings.LayerNorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.encoder.layer = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.post_init()

    def get_input_embeddings(self):
        return self.embeddings.word_embeddings

    def forward(self, input_ids, attention_mask=None, **_):
        x = self.embeddings.word_embeddings(input_ids)
        if self.config.type_vocab_size > 0:
            x = x + self.embeddings.token_type_embeddings.weight[0]
        x = self.embeddings.LayerNorm(x)
        size = self.config.hidden_size // self.config.num_attention_heads
        scale = self.config.rope_parameters.get("factor", 1.0)  # where transformers 5 puts rope_scaling
        by, mask = angles(size, self.config.rope_theta, input_ids.shape[1], scale), attention_mask.bool()
        for layer in self.encoder.layer:
            x = layer(x, by, mask)
        return BaseModelOutput(last_hidden_state=x)


class NewForSequenceClassification(PreTrainedModel):
    """A pooler as BERT's, and scores of labels, as gte-multilingual-reranker has them."""

    config_class = NewConfig

    def __init__(self, config):
        super().__init__(config)
        self.new, size = NewModel(config), config.hidden_size
        self.new.pooler = nn.Module()
        self.new.pooler.dense = nn.Linear(size, size)
        self.classifier = nn.Linear(size, config.num_labels)
        self.post_init()

    def forward(self, **inputs):
        first = self.new(**inputs).last_hidden_state[:, 0]
        return SequenceClassifierOutput(logits=self.classifier(self.new.pooler.dense(first).tanh()))


AutoConfig.register("new", NewConfig)
AutoModel.register(NewConfig, NewModel)
AutoModelForSequenceClassification.register(NewConfig, NewForSequenceClassification)
