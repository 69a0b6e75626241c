"""A tiny random model as a Hugging Face folder, held in memory so that options can change it before it is written."""

import json
import random
import string
import zlib

import torch
from safetensors.torch import save_file

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

# Texts on which settings of a tokenizer differ: case, accents, Chinese characters, added and special tokens, control
# characters, words and texts of every length.
TEXTS = [
    "the cat sat on the mat", "The Cat SAT on the Mat!", "", "naïve café 日本 1999", "日本", "É", "cafe\u0301 THE É è e",
    "[CLS] [MASK] x [SEP]", "a[MASK]b [mask] [UNK]", "newtok NEWTOK Newtok anewtok new tok", "Café! caf\u00e9newtok",
    "[NEW] [new] <new> a<new>b  <new> ", "the\tcat\u00a0sat\u200bon\x07the\ufffdmat", "ΑΣ ΟΔΟΣ straße İstanbul",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z " * 3, "abcdefghijklmnopqrstuvwxyz" * 5, "water: the cat sat",
    "query: the cat", "<s> the </s> cat <pad>", "\u2581the ##at at",
]


HIDDEN, HEADS, WIDE, LAYERS, POSITIONS = 32, 4, 64, 2, 40
SPARE = 4  # rows of the token embedding for tokens that options add

BERT_LAYER = {**{f"attention.self.{part}": (HIDDEN, HIDDEN) for part in ("query", "key", "value")},
              "attention.output.dense": (HIDDEN, HIDDEN), "attention.output.LayerNorm": (HIDDEN,),
              "intermediate.dense": (WIDE, HIDDEN), "output.dense": (HIDDEN, WIDE), "output.LayerNorm": (HIDDEN,)}
NOMIC_LAYER = {"attn.Wqkv": (3 * HIDDEN, HIDDEN), "attn.out_proj": (HIDDEN, HIDDEN), "mlp.fc11": (WIDE, HIDDEN),
               "mlp.fc12": (WIDE, HIDDEN), "mlp.fc2": (HIDDEN, WIDE), "norm1": (HIDDEN,), "norm2": (HIDDEN,)}


def tensor_shapes(kind, tokens):
    """Yields the name and shape of each tensor, as the model's files have them."""
    norm, prefix, layer = ("embeddings.LayerNorm", "encoder.layer", BERT_LAYER) if kind == "bert" else \
        ("emb_ln", "encoder.layers", NOMIC_LAYER)
    yield "embeddings.word_embeddings.weight", (tokens, HIDDEN)
    if kind == "bert":
        yield "embeddings.position_embeddings.weight", (POSITIONS, HIDDEN)
    yield "embeddings.token_type_embeddings.weight", (2, HIDDEN)
    parts = {norm: (HIDDEN,), **{f"{prefix}.{i}.{name}": shape for i in range(LAYERS) for name, shape in layer.items()}}
    for name, shape in parts.items():
        yield f"{name}.weight", shape
        if kind == "bert" or len(shape) == 1:
            yield f"{name}.bias", shape[:1]


def vocabulary():
    """Pieces of lower and upper case, with and without accents, so that each setting leads to other ids."""
    words = ["the", "cat", "sat", "on", "mat", "water", "query", "caf", "na", "new", "tok", "The", "Cat", "SAT", "café"]
    letters = [*string.ascii_letters, *"ασοδςΑΣ", *"éÉèï"]
    marks = [*"!:.,?[]0123456789日本ß<>/#"]
    pieces = ["##" + piece for piece in [*string.ascii_letters, *"éèïασςβß0123456789", "at", "ok", "ve"]]
    return list(dict.fromkeys([*SPECIAL, *words, *letters, *marks, *pieces, "▁", "##[x]", "[y]", "e\u0301"]))


def added_token(number, content, special=True, **flags):
    return {"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": not special, "special": special, **flags}


class Folder:
    """Files of a model: `json` by path, `text` by path, and the tensors of model.safetensors."""

    def __init__(self, kind, seed):
        self.kind = kind
        self.random = random.Random(seed)
        self.vocabulary = vocabulary()
        self.shards = 0  # files for the weights; 0: model.safetensors alone
        self.text = {}
        self.adapter = False  # whether a LoRA adapter's weights are written
        self.dense = {}  # tensors of the module Dense
        self.weights_name = "model.safetensors"
        self.index = None  # what model.safetensors.index.json says, if that is not derived
        self.prompts = []  # the names to compare with
        torch.manual_seed(zlib.crc32(str(seed).encode()))
        self.json = {"config.json": self.make_model(kind), "tokenizer.json": self.make_tokenizer(),
                     "tokenizer_config.json": {
                         "cls_token": "[CLS]", "do_lower_case": True, "mask_token": "[MASK]", "model_max_length": 32,
                         "pad_token": "[PAD]", "sep_token": "[SEP]", "strip_accents": None,
                         "tokenize_chinese_chars": True, "tokenizer_class": "BertTokenizer", "unk_token": "[UNK]"},
                     "modules.json": [
                         {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                         {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
                         {"idx": 2, "name": "2", "path": "2_Normalize",
                          "type": "sentence_transformers.models.Normalize"}],
                     "1_Pooling/config.json": {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True},
                     "sentence_bert_config.json": {"max_seq_length": 32, "do_lower_case": False},
                     "config_sentence_transformers.json": {"prompts": {}, "default_prompt_name": None}}

    def make_model(self, kind):
        """Makes tensors of ten times BERT's initial spread, so that errors show. Returns config.json."""
        self.tensors = {}
        for name, shape in tensor_shapes(kind, len(self.vocabulary) + SPARE):
            values = torch.randn(shape)
            is_norm = "norm" in name.lower() or "emb_ln" in name
            self.tensors[name] = 0.1 * values + (name.endswith("weight") if is_norm else 0) if len(shape) == 1 \
                else 0.2 * values
        sizes = {"vocab_size": len(self.vocabulary) + SPARE, "hidden_size": HIDDEN, "num_attention_heads": HEADS,
                 "intermediate_size": WIDE, "num_hidden_layers": LAYERS, "max_position_embeddings": POSITIONS,
                 "layer_norm_eps": 1e-12, "type_vocab_size": 2, "pad_token_id": 0}
        if kind == "bert":
            return {"model_type": "bert", "architectures": ["BertModel"], "hidden_act": "gelu", **sizes}
        return {"model_type": "nomic_bert", "architectures": ["NomicBertModel"], "hidden_act": "silu", **sizes,
                "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0}}

    def make_tokenizer(self):
        names = {name: i for i, name in enumerate(self.vocabulary)}
        template = {"single": [piece("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, piece("[SEP]")],
                    "pair": [piece("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, piece("[SEP]"),
                             {"Sequence": {"id": "B", "type_id": 1}}, piece("[SEP]", 1)]}
        return {"version": "1.0", "truncation": None, "padding": None,
                "added_tokens": [added_token(i, name) for i, name in enumerate(SPECIAL)],
                "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                               "strip_accents": None, "lowercase": True},
                "pre_tokenizer": {"type": "BertPreTokenizer"},
                "post_processor": {"type": "TemplateProcessing", **template, "special_tokens": {
                    name: {"id": name, "ids": [names[name]], "tokens": [name]} for name in ("[CLS]", "[SEP]")}},
                "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
                "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                          "max_input_chars_per_word": 100, "vocab": names}}

    def write(self, path):
        for name, value in self.json.items():
            if name == "adapter_config.json":
                value = {**value, "base_model_name_or_path": str(path)}
            write_text(path / name, json.dumps(value, ensure_ascii=False))
        for name, value in self.text.items():
            write_text(path / name, value)
        self.write_weights(path / self.weights_name)
        if self.adapter:
            name = "base_model.model.encoder.layer.0.attention.self.query.lora_{}.weight"
            save({name.format("A"): torch.randn(2, HIDDEN), name.format("B"): torch.randn(HIDDEN, 2)},
                 path / "adapter_model.safetensors")
        if self.dense:
            save(self.dense, path / "3_Dense" / "model.safetensors")

    def write_weights(self, file):
        names = sorted(self.tensors)
        if self.shards == 0:
            save(self.tensors, file)
        owner = {name: f"model-{1 + i % max(self.shards, 1):05}-of-{self.shards:05}.safetensors"
                 for i, name in enumerate(names)}
        for shard in dict.fromkeys(owner.values()) if self.shards else ():
            save({name: self.tensors[name] for name in names if owner[name] == shard}, file.with_name(shard))
        if self.shards or self.index:
            index = self.index or {"metadata": {}, "weight_map": owner}
            write_text(file.with_name("model.safetensors.index.json"), json.dumps(index))


def write_text(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8", newline="")


def save(tensors, file):
    """Writes tensors as safetensors, or as PyTorch's old format if the name ends with .bin."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".bin":
        torch.save(tensors, file)
    else:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, file, {"format": "pt"})


def piece(name, type_id=0):
    return {"SpecialToken": {"id": name, "type_id": type_id}}
