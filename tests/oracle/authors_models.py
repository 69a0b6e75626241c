"""Encoders that transformers has as code of their authors alone, as plain forward passes under the same names, for
make_models.py and make_rankers.py: jina-embeddings v2 and v3, with heads that score pairs of texts too, and
nomic-embed-text v2-moe. Like BERT, all have norms behind their blocks.

Sources: Jina Embeddings 2 (Guenther et al., 2023), ALiBi (Press et al., 2021); jina-embeddings-v3 (Sturua et al., 2024),
LoRA (Hu et al., 2021); Training Sparse Mixture of Experts Text Embedding Models (Nussbaum and Duderstadt, 2025).
"""

import math

import torch
from new_model import angles, rotate
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput


class AuthorsConfig(PretrainedConfig):
    """Settings under the names that BERT has for them; others stay as they are given."""

    def __init__(self, vocab_size=100, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
                 max_position_embeddings=64, type_vocab_size=2, initializer_range=0.02, layer_norm_eps=1e-12, **others):
        self.vocab_size, self.hidden_size, self.num_hidden_layers = vocab_size, hidden_size, num_hidden_layers
        self.num_attention_heads, self.intermediate_size = num_attention_heads, intermediate_size
        self.max_position_embeddings, self.type_vocab_size = max_position_embeddings, type_vocab_size
        self.initializer_range, self.layer_norm_eps = initializer_range, layer_norm_eps
        super().__init__(**others)


class JinaV2Config(AuthorsConfig):
    model_type, __init__ = "oracle-jina-v2", AuthorsConfig.__init__


class JinaV3Config(AuthorsConfig):
    model_type, __init__ = "oracle-jina-v3", AuthorsConfig.__init__


class NomicMoeConfig(AuthorsConfig):
    model_type, __init__ = "oracle-nomic-moe", AuthorsConfig.__init__


def slopes(heads):
    """Of ALiBi: those of a power of two of heads, then every other one of twice as many."""
    power = 2 ** math.floor(math.log2(heads))
    first = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    return first + [2 ** (-8 * (i + 1) / (2 * power)) for i in range(0, 2 * (heads - power), 2)]


def attend(qkv, heads, mask, by=None, bias=0):
    """Attention of q, k and v [texts, tokens, size], rotated by the angles `by` or with a bias of scores."""
    texts, tokens, size = qkv[0].shape
    q, k, v = (part.view(texts, tokens, heads, -1).transpose(1, 2) for part in qkv)
    if by is not None:
        q, k = rotate(q, by), rotate(k, by)
    scores = q @ k.transpose(-1, -2) / (size // heads) ** 0.5 + bias
    weights = scores.masked_fill(~mask[:, None, None, :], -torch.inf).softmax(-1)
    return (weights @ v).transpose(1, 2).reshape(texts, tokens, size)


def norm(config):
    return nn.LayerNorm(config.hidden_size, config.layer_norm_eps)


def module(**members):
    made = nn.Module()
    for name, member in members.items():
        setattr(made, name, member)
    return made


class AuthorsModel(PreTrainedModel):
    """Looks up tokens, and runs `layer` for each layer."""

    def embed(self, input_ids, types=None):
        types = torch.zeros_like(input_ids) if types is None else types
        return self.embeddings.word_embeddings(input_ids) + self.embeddings.token_type_embeddings(types)

    def make_embeddings(self, config):
        return module(word_embeddings=nn.Embedding(config.vocab_size, config.hidden_size),
                      token_type_embeddings=nn.Embedding(config.type_vocab_size, config.hidden_size))

    def get_input_embeddings(self):
        return self.embeddings.word_embeddings


# ---- jina-embeddings v2 ----------------------------------------------------------------------------------------------


class JinaV2Model(AuthorsModel):
    config_class = JinaV2Config

    def __init__(self, config):
        super().__init__(config)
        size, inner = config.hidden_size, config.intermediate_size

        def layer():
            attention = module(self=module(query=nn.Linear(size, size), key=nn.Linear(size, size), value=nn.Linear(size, size)),
                               output=module(dense=nn.Linear(size, size), LayerNorm=norm(config)))
            neurons = module(gated_layers=nn.Linear(size, 2 * inner, bias=False), wo=nn.Linear(inner, size),
                             layernorm=norm(config))
            return module(attention=attention, mlp=neurons)

        self.embeddings = self.make_embeddings(config)
        self.embeddings.LayerNorm = norm(config)
        self.encoder = module(layer=nn.ModuleList(layer() for _ in range(config.num_hidden_layers)))
        self.post_init()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, **_):
        heads, places = self.config.num_attention_heads, torch.arange(input_ids.shape[1])
        distances = (places[:, None] - places[None, :]).abs()
        bias = -torch.tensor(slopes(heads))[:, None, None] * distances
        x = self.embeddings.LayerNorm(self.embed(input_ids, token_type_ids))
        for layer in self.encoder.layer:
            own, output, neurons = layer.attention.self, layer.attention.output, layer.mlp
            context = attend([own.query(x), own.key(x), own.value(x)], heads, attention_mask.bool(), bias=bias)
            x = output.LayerNorm(x + output.dense(context))
            gate, up = neurons.gated_layers(x).chunk(2, -1)
            x = neurons.layernorm(x + neurons.wo(nn.functional.gelu(gate) * up))
        return BaseModelOutput(last_hidden_state=x)


# ---- models under the names of flash-attention's BERT ----------------------------------------------------------------


def run_flash(model, x, mask, mixer, base):
    """Layers of one matrix for queries, keys and values, and rotary positions."""
    config = model.config
    by = angles(config.hidden_size // config.num_attention_heads, base, x.shape[1])
    for layer in model.encoder.layers:
        own = getattr(layer, mixer)
        context = attend(own.Wqkv(x).chunk(3, -1), config.num_attention_heads, mask, by=by)
        x = layer.norm1(x + own.out_proj(context))
        x = layer.norm2(x + layer.mlp(x))
    return BaseModelOutput(last_hidden_state=x)


class Neurons(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x):
        return self.fc2(nn.functional.gelu(self.fc1(x)))


def flash_layer(config, mixer, neurons):
    size = config.hidden_size
    return module(**{mixer: module(Wqkv=nn.Linear(size, 3 * size), out_proj=nn.Linear(size, size))}, norm1=norm(config),
                  norm2=norm(config), mlp=neurons)


class JinaV3Model(AuthorsModel):
    """With config.task, the adapter of this task is merged into the weights after they were stored."""

    config_class = JinaV3Config

    def __init__(self, config):
        super().__init__(config)
        self.embeddings, self.emb_ln = self.make_embeddings(config), norm(config)
        self.encoder = module(layers=nn.ModuleList(flash_layer(config, "mixer", Neurons(config))
                                                   for _ in range(config.num_hidden_layers)))
        self.post_init()

    def forward(self, input_ids, attention_mask=None, **_):
        x = self.emb_ln(self.embed(input_ids))
        return run_flash(self, x, attention_mask.bool(), "mixer", self.config.rotary_emb_base)


class Experts(nn.Module):
    """Each token goes through the experts of its largest router outputs, whose shares stay as softmax made them."""

    def __init__(self, config):
        super().__init__()
        count, size, inner = config.num_experts, config.hidden_size, config.intermediate_size
        self.used = config.moe_top_k
        self.router = module(layer=nn.Linear(size, count, bias=False))
        self.experts = module(mlp=module(w1=nn.Parameter(torch.randn(count * inner, size) * config.initializer_range),
                                         w2=nn.Parameter(torch.randn(count * inner, size) * config.initializer_range)))
        self.experts.bias = nn.Parameter(torch.zeros(size))
        self.count = count

    def forward(self, x):
        shares = self.router.layer(x).softmax(-1)
        kept = torch.zeros_like(shares).scatter(-1, *reversed(shares.topk(self.used, -1)))
        w1, w2 = (w.view(self.count, -1, x.shape[-1]) for w in (self.experts.mlp.w1, self.experts.mlp.w2))
        neurons = nn.functional.gelu(torch.einsum("btd,eid->btei", x, w1))
        return torch.einsum("btei,eid,bte->btd", neurons, w2, kept) + self.experts.bias


class NomicMoeModel(AuthorsModel):
    config_class = NomicMoeConfig

    def __init__(self, config):
        super().__init__(config)
        self.embeddings, self.emb_ln = self.make_embeddings(config), norm(config)
        self.encoder = module(layers=nn.ModuleList(
            flash_layer(config, "attn", (Experts if i % config.moe_every_n_layers == 1 else Neurons)(config))
            for i in range(config.num_hidden_layers)))
        self.post_init()

    def forward(self, input_ids, attention_mask=None, **_):
        x = self.emb_ln(self.embed(input_ids))
        return run_flash(self, x, attention_mask.bool(), "attn", self.config.rotary_emb_base)


# ---- heads ------------------------------------------------------------------------------------------------------------


class JinaV2Ranker(PreTrainedModel):
    """BERT's head: a pooler and a score of the first token."""

    config_class = JinaV2Config

    def __init__(self, config):
        super().__init__(config)
        self.bert = JinaV2Model(config)
        self.bert.pooler = module(dense=nn.Linear(config.hidden_size, config.hidden_size))
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.post_init()

    def forward(self, **inputs):
        first = self.bert(**inputs).last_hidden_state[:, 0]
        return SequenceClassifierOutput(logits=self.classifier(self.bert.pooler.dense(first).tanh()))


class JinaV3Ranker(PreTrainedModel):
    """RoBERTa's head."""

    config_class = JinaV3Config

    def __init__(self, config):
        super().__init__(config)
        self.roberta, size = JinaV3Model(config), config.hidden_size
        self.classifier = module(dense=nn.Linear(size, size), out_proj=nn.Linear(size, 1))
        self.post_init()

    def forward(self, **inputs):
        first = self.roberta(**inputs).last_hidden_state[:, 0]
        return SequenceClassifierOutput(logits=self.classifier.out_proj(self.classifier.dense(first).tanh()))


for config, model in [(JinaV2Config, JinaV2Model), (JinaV3Config, JinaV3Model), (NomicMoeConfig, NomicMoeModel)]:
    AutoConfig.register(config.model_type, config)
    AutoModel.register(config, model)
for config, model in [(JinaV2Config, JinaV2Ranker), (JinaV3Config, JinaV3Ranker)]:
    AutoModelForSequenceClassification.register(config, model)
