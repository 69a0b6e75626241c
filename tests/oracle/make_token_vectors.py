#!/usr/bin/env python3
"""Writes tests/data/models/colbert-*: tiny random ColBERTs in the layouts that are published, with the vectors of tokens and
the scores that sentence-transformers' MultiVectorEncoder makes of texts.

Needs torch, transformers, sentence-transformers; the result is committed, so tests need none of them.
"""

import json
import shutil
import sys

from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / ".tools" / "sentence")]

import torch
from sentence_transformers import MultiVectorEncoder
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.base.modules.dense import Dense
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from transformers import (BertConfig, BertModel, BertTokenizerFast, ModernBertConfig, ModernBertModel, XLMRobertaConfig,
                          XLMRobertaModel)

from make_models import OUT, TEXTS, trained_tokenizer, vocabulary

SIZES = {"hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 40, "num_hidden_layers": 2,
         "max_position_embeddings": 60}
SPECIAL = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
QUERIES = ["the cat on the mat?", "Water, water!", "", "a b c d e f g h i j k l m n o p q r s t u v w x y z"]

# Classes, sizes, the tokenizer and tokens that are added to it; the layout, and its settings.
VARIANTS = {
    # PyLate's, as answerai-colbert-small and its like: queries filled up with mask tokens that others do not see
    "colbert-bert": (BertConfig, BertModel, SIZES, "words", ["[Q] ", "[D] "], "pylate",
                     {"query_prefix": "[Q] ", "document_prefix": "[D] ", "query_length": 18, "document_length": 40,
                      "attend_to_expansion_tokens": False, "do_query_expansion": True}),
    # the same with local layers and two projections, as mxbai-edge-colbert and GTE-ModernColBERT
    "colbert-modernbert": (ModernBertConfig, ModernBertModel,
                           {**SIZES, **SPECIAL, "cls_token_id": 0, "sep_token_id": 2, "local_attention": 60,
                            "global_attn_every_n_layers": 2, "num_hidden_layers": 3, "max_position_embeddings": 120},
                           "bytes", ["[Q] ", "[D] "], "pylate",
                           {"query_prefix": "[Q] ", "document_prefix": "[D] ", "query_length": 20, "document_length": 60,
                            "attend_to_expansion_tokens": False, "skiplist_words": ["!", ",", "the"]}),
    # Stanford's: a projection beside the encoder's weights, mask tokens that all see, as its setting says
    "colbert-stanford": (BertConfig, BertModel, SIZES, "words", ["[unused0]", "[unused1]"], "stanford",
                         {"query_maxlen": 16, "doc_maxlen": 30, "attend_to_mask_tokens": True, "mask_punctuation": True,
                          "query_token_id": "[unused0]", "doc_token_id": "[unused1]"}),
    # sentence-transformers' own: prompts that are text, no expansion, no projection
    "colbert-own": (XLMRobertaConfig, XLMRobertaModel, {**SIZES, **SPECIAL, "type_vocab_size": 1}, "unigram", [], "own",
                    {"query_length": 20}),
}


def make_tokenizer(kind, added):
    if kind != "words":
        tokenizer = trained_tokenizer(kind)
        if added:
            tokenizer.add_tokens(added)
        return tokenizer
    words = list(dict.fromkeys(vocabulary()))
    if added and added[0].startswith("[unused"):
        words[1:1] = added  # part of the vocabulary, but not special
        added = []
    tokenizer = BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}, do_lower_case=True)
    if added:
        tokenizer.add_tokens(added)
    return tokenizer


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n")


def write_pylate(folder, model, tokenizer, settings):
    sizes = [24, 16] if len(settings.get("skiplist_words", [])) == 0 else [24, 32, 12]
    modules = [("Transformer", "", "sentence_transformers.models.Transformer")]
    for i, (inputs, outputs) in enumerate(zip(sizes, sizes[1:]), 1):
        dense = Dense(inputs, outputs, bias=False, activation_function=torch.nn.Identity())
        (folder / f"{i}_Dense").mkdir()
        dense.save(str(folder / f"{i}_Dense"))
        write(folder / f"{i}_Dense" / "config.json",
              {"in_features": inputs, "out_features": outputs, "bias": False,
               "activation_function": "torch.nn.modules.linear.Identity"})
        modules.append((f"{i}", f"{i}_Dense", "pylate.models.Dense.Dense"))
    write(folder / "modules.json", [{"idx": i, "name": str(i), "path": path, "type": kind}
                                    for i, (_, path, kind) in enumerate(modules)])
    write(folder / "sentence_bert_config.json", {"max_seq_length": 59, "do_lower_case": False})
    write(folder / "config_sentence_transformers.json",
          {"model_type": "ColBERT", "prompts": {}, "default_prompt_name": None, "similarity_fn_name": "MaxSim", **settings})
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def write_stanford(folder, model, tokenizer, settings):
    class Whole(BertModel):
        def __init__(self, config):
            super().__init__(config)
            self.linear = torch.nn.Linear(config.hidden_size, 16, bias=False)

    whole = Whole(model.config)
    whole.load_state_dict(model.state_dict(), strict=False)
    whole.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    write(folder / "config.json", {**config, "architectures": ["HF_ColBERT"]})
    (folder / "artifact.metadata").write_text(json.dumps({**settings, "similarity": "cosine", "dim": 16}) + "\n")
    tokenizer.model_max_length = 60
    tokenizer.save_pretrained(folder)


def write_own(folder, model, tokenizer, settings):
    source = folder.with_name(folder.name + ".tmp")
    tokenizer.model_max_length = 58
    model.save_pretrained(source)
    tokenizer.save_pretrained(source)
    transformer = Transformer(str(source), **settings)
    encoder = MultiVectorEncoder(modules=[transformer, MultiVectorMask(skiplist_words=["t", "▁the"]),
                                          Normalize(module_input_name="token_embeddings")],
                                 prompts={"query": "query: ", "document": ""}, device="cpu")
    encoder.save_pretrained(str(folder), create_model_card=False)
    shutil.rmtree(source)


LAYOUTS = {"pylate": write_pylate, "stanford": write_stanford, "own": write_own}


def rounded(rows):
    return rows.double().numpy().round(8).tolist()


def build(name):
    config_type, model_type, sizes, kind, added, layout, settings = VARIANTS[name]
    torch.manual_seed(sum(name.encode()))
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tokenizer = make_tokenizer(kind, added)
    model = model_type(config_type(vocab_size=len(tokenizer), initializer_range=0.2, **sizes))
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.1 * torch.randn_like(parameter)
    LAYOUTS[layout](folder, model, tokenizer, settings)
    for file in [*folder.glob("README.md"), *folder.glob("vocab.txt")]:
        file.unlink()
    encoder = MultiVectorEncoder(str(folder), device="cpu")
    documents = encoder.encode_document(TEXTS, batch_size=1)
    cases = []
    for query in QUERIES:
        asked = encoder.encode_query([query], batch_size=1)
        scores = encoder.similarity(asked, documents)[0]
        cases.append({"query": query, "texts": TEXTS, "scores": rounded(scores), "asked": rounded(asked[0]),
                      "rows": [rounded(rows) for rows in documents] if query == QUERIES[0] else []})
    (folder / "golden.json").write_text(json.dumps(cases, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    for each in sys.argv[1:] or VARIANTS:
        build(each)
