#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/models.md: which of the models that people have wisp takes, as the program itself says.

    tools/models_page.py [--wisp build/wisp] [--measure build/native/tests/unit/test_models] [--check]

Each model's folder is made with its config.json alone, of the published type and class and of tiny sizes. If the program
asks for the files that are missing, it takes the model; else its message says why not. Errors are those that the test of
the same golden prints (--measure), else those that the page has. --check fails if the page differs in anything but errors.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "models.md"

# Sizes under all the names that configurations have for them.
SIZES = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
    "head_dim": 8, "vocab_size": 300, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "layer_norm_eps": 1e-6,
    "type_vocab_size": 2, "pad_token_id": 0, "dim": 32, "n_heads": 4, "hidden_dim": 64, "n_layers": 2, "n_embd": 32,
    "n_head": 4, "n_layer": 2, "n_positions": 64, "n_inner": 64, "num_experts": 4, "num_experts_per_tok": 2,
    "num_local_experts": 4, "moe_intermediate_size": 16, "num_dense_layers": 1, "local_attention": 8,
}
NOMIC = {"activation_function": "swiglu", "layer_norm_epsilon": 1e-6, "rotary_emb_fraction": 1.0, "rotary_emb_base": 1000,
         "prenorm": False, "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False}
MODERN = {"global_attn_every_n_layers": 2, "local_rope_theta": 10000.0, "global_rope_theta": 160000.0,
          "hidden_activation": "gelu", "cls_token_id": 0, "sep_token_id": 1}
ONE_LABEL = {"id2label": {"0": "LABEL_0"}, "num_labels": 1}
GTE = {"pack_qkv": True, "position_embedding_type": "rope", "rope_theta": 500000, "layer_norm_type": "layer_norm",
       "type_vocab_size": 0, "rope_scaling": {"type": "ntk", "factor": 2.0}}
DEBERTA = {"relative_attention": True, "position_buckets": 32, "max_relative_positions": -1, "norm_rel_ebd": "layer_norm",
           "share_att_key": True, "pos_att_type": "p2c|c2p", "position_biased_input": False, "type_vocab_size": 0}
TANH = {"hidden_act": "gelu_pytorch_tanh"}
LFM2 = {"layer_types": ["conv", "full_attention"]}
GEMMA = {"query_pre_attn_scalar": 8, "sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}
SENTENCE, GENERATES, SCORES, LABELS = "mean cls lasttoken".split(), None, "scores", "labels"
SENTIMENT = {"id2label": {"0": "NEGATIVE", "1": "POSITIVE"}}
INFERENCE = {"id2label": {"0": "contradiction", "1": "entailment", "2": "neutral"}}


def model(name, kind, model_type, class_name, golden, **config):
    return {"name": name, "kind": kind, "type": model_type, "class": class_name, "golden": golden, "config": config}


# A row has the models of one row of the table of what people run; `kind` is the pooling of a model that embeds.
# `golden` names a folder of tests/data/models, or a model of tests/oracle/decoder_configs.py.
ROWS = [
    [model("all-MiniLM, bge-small-en, gte v1, e5-v2, mxbai-large, arctic v1", "mean", "bert", "BertModel", "models/cls12")],
    [model("all-mpnet-base-v2", "mean", "mpnet", "MPNetModel", "models/mpnet")],
    [model("multilingual-e5, bge-m3", "cls", "xlm-roberta", "XLMRobertaModel", "models/xlm-roberta"),
     model("paraphrase-multilingual-MiniLM", "mean", "bert", "BertModel", "models/xlm-roberta")],
    [model("nomic-embed-text v1.5", "mean", "nomic_bert", "NomicBertModel", "models/nomic", **NOMIC)],
    [model("nomic-embed-text v2-moe", "mean", "nomic_bert", "NomicBertModel", "models/nomic-moe",
           **NOMIC | {"moe_every_n_layers": 2, "moe_top_k": 2, "activation_function": "gelu", "qkv_proj_bias": True,
                      "mlp_fc1_bias": True, "mlp_fc2_bias": True})],
    [model("gte-modernbert, granite-embedding r2, mxbai-edge", "cls", "modernbert", "ModernBertModel", "models/modernbert", **MODERN)],
    [model("gte v1.5, arctic-m v2, stella", "cls", "new", "NewModel", "models/gte-en", **GTE)],
    [model("EmbeddingGemma", "mean", "gemma3_text", "Gemma3TextModel", "models/embeddinggemma",
           use_bidirectional_attention=True, **GEMMA)],
    [model("Qwen3-Reranker", GENERATES, "qwen3", "Qwen3ForCausalLM", "`wisp rerank` (tests/oracle/judge.py): 3e-6"),
     model("Qwen3-Embedding, harrier-0.6b", "lasttoken", "qwen3", "Qwen3Model", "models/qwen3-embedding"),
     model("harrier-270m", "lasttoken", "gemma3_text", "Gemma3TextModel", "models/gemma3-last", **GEMMA)],
    [model("jina-embeddings v2", "mean", "bert", "JinaBertModel", "models/jina-v2", position_embedding_type="alibi",
           feed_forward_type="geglu"),
     model("jina-embeddings v3", "mean", "xlm-roberta", "XLMRobertaModel", "models/jina-v3", position_embedding_type="rotary"),
     model("jina-embeddings v5-nano", "lasttoken", "eurobert", "EuroBertModel", "models/eurobert")],
    [model("mdbr-leaf, LaBSE", "mean", "bert", "BertModel", "models/dense-twice")],
    [model("LFM2.5-Embedding", "cls", "lfm2", "Lfm2BidirectionalModel", "models/lfm2-embedding", **LFM2)],
    [model("potion, model2vec", "static", "model2vec", "StaticModel", "models/static")],
    [model("CLIP (of OpenAI, LAION), texts and images", "tower", "clip", "CLIPModel", "models/clip", text_config={"hidden_act": "quick_gelu"}, vision_config={"hidden_act": "quick_gelu"}),
     model("CLIP: the text tower alone", "tower", "clip_text_model", "CLIPTextModelWithProjection", "models/clip-text", eos_token_id=2),
     model("SigLIP, texts and images", "tower", "siglip", "SiglipModel", "models/siglip", text_config=TANH, vision_config=TANH),
     model("SigLIP 2 of one resolution", "tower", "siglip", "SiglipModel", "models/siglip2", text_config=TANH, vision_config=TANH),
     model("SigLIP: the text tower alone", "tower", "siglip_text_model", "SiglipTextModel", "models/siglip-text")],
    [model("DistilBERT", "mean", "distilbert", "DistilBertModel", "models/distilbert"),
     model("RoBERTa", "mean", "roberta", "RobertaModel", "models/roberta"),
     model("DeBERTa v3 and v2", "mean", "deberta-v2", "DebertaV2Model", "models/deberta-v3", **DEBERTA),
     model("ELECTRA", "mean", "electra", "ElectraModel", "models/electra-base", embedding_size=32)],
    [model("ms-marco-MiniLM", SCORES, "bert", "BertForSequenceClassification", "models/rank-bert", **ONE_LABEL),
     model("mxbai-rerank-v1", SCORES, "deberta-v2", "DebertaV2ForSequenceClassification", "models/rank-deberta", **DEBERTA | ONE_LABEL),
     model("bge-reranker", SCORES, "xlm-roberta", "XLMRobertaForSequenceClassification", "models/rank-roberta", **ONE_LABEL),
     model("gte-multilingual-reranker", SCORES, "new", "NewForSequenceClassification", "models/rank-gte", **GTE | ONE_LABEL),
     model("rankers of MPNet", SCORES, "mpnet", "MPNetForSequenceClassification", "models/rank-mpnet", **ONE_LABEL),
     model("gte-reranker-modernbert", SCORES, "modernbert", "ModernBertForSequenceClassification", "models/rank-modernbert", **MODERN | ONE_LABEL),
     model("nli-deberta-v3, zero-shot classifiers", LABELS, "deberta-v2", "DebertaV2ForSequenceClassification", "models/labels-deberta", **DEBERTA | INFERENCE),
     model("nli-MiniLM, roberta-large-mnli", LABELS, "roberta", "RobertaForSequenceClassification", "models/labels-roberta", **INFERENCE),
     model("distilbert-sst-2 and other sentiment", LABELS, "distilbert", "DistilBertForSequenceClassification", "models/labels-distilbert", **SENTIMENT)],
    [model("SPLADE", "splade", "bert", "BertForMaskedLM", "models/splade-bert"),
     model("granite-embedding-30m-sparse", "splade", "roberta", "RobertaForMaskedLM", "models/splade-roberta")],
    [model("SmolLM2", GENERATES, "llama", "LlamaForCausalLM", "SmolLM2-135M-Instruct itself (tests/oracle/smollm2.py)")],
    [model("SmolLM3", GENERATES, "smollm3", "SmolLM3ForCausalLM", "smollm3")],
    [model("Qwen2.5, R1-Distill-Qwen", GENERATES, "qwen2", "Qwen2ForCausalLM", "qwen2")],
    [model("Qwen3", GENERATES, "qwen3", "Qwen3ForCausalLM", "qwen3")],
    [model("Qwen3.5", GENERATES, "qwen3_5_text", "Qwen3_5ForCausalLM", None)],
    [model("Llama 3.x, TinyLlama, Falcon3", GENERATES, "llama", "LlamaForCausalLM", "llama, frequencies of Llama 3.1")],
    [model("Gemma 2", GENERATES, "gemma2", "Gemma2ForCausalLM", "gemma2", **GEMMA),
     model("Gemma 3", GENERATES, "gemma3_text", "Gemma3ForCausalLM", "gemma3, local and global layers", **GEMMA)],
    [model("Gemma 3n", GENERATES, "gemma3n_text", "Gemma3nForCausalLM", None),
     model("Gemma 4", GENERATES, "gemma4_text", "Gemma4ForCausalLM", None)],
    [model("Phi-3, Phi-4-mini", GENERATES, "phi3", "Phi3ForCausalLM", "phi3, a part of each head rotated", sliding_window=None)],
    [model("LFM2, LFM2.5", GENERATES, "lfm2", "Lfm2ForCausalLM", "lfm2", **LFM2)],
    [model("LFM2-8B-A1B", GENERATES, "lfm2_moe", "Lfm2MoeForCausalLM", "lfm2moe", **LFM2)],
    [model("Granite 3", GENERATES, "granite", "GraniteForCausalLM", "granite"),
     model("Granite 4 (350M, 1B, Micro)", GENERATES, "granitemoehybrid", "GraniteMoeHybridForCausalLM", "granitemoehybrid, attention in all layers",
           layer_types=["attention", "attention"], shared_intermediate_size=64, position_embedding_type="rope", num_local_experts=0),
     model("Granite 4 H", GENERATES, "granitemoehybrid", "GraniteMoeHybridForCausalLM", None, layer_types=["mamba", "attention"])],
    [model("Mistral 7B, Nemo", GENERATES, "mistral", "MistralForCausalLM", "mistral, a sliding window", sliding_window=None),
     model("Ministral 3", GENERATES, "ministral3", "Ministral3ForCausalLM", "ministral3",
           rope_parameters={"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 32,
                            "llama_4_scaling_beta": 0.1})],
    [model("OLMo 2 and 3", GENERATES, "olmo2", "Olmo2ForCausalLM", "olmo2")],
    [model("OLMoE", GENERATES, "olmoe", "OlmoeForCausalLM", "olmoe")],
    [model("GLM-4", GENERATES, "glm4", "Glm4ForCausalLM", "glm4")],
    [model("GLM-4.7-Flash", GENERATES, "glm4_moe_lite", "Glm4MoeLiteForCausalLM", "glm4_moe_lite", q_lora_rank=16, kv_lora_rank=16,
           qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=16, n_routed_experts=4, n_group=1, topk_group=1, topk_method="noaux_tc")],
    [model("gpt-oss", GENERATES, "gpt_oss", "GptOssForCausalLM", "gpt-oss", sliding_window=16, quantization_config={"quant_method": "mxfp4"},
           rope_scaling={"rope_type": "yarn", "factor": 32.0, "truncate": False, "original_max_position_embeddings": 32})],
    [model("Falcon-H1", GENERATES, "falcon_h1", "FalconH1ForCausalLM", None)],
    [model("BitNet b1.58 2B4T", GENERATES, "bitnet", "BitNetForCausalLM", "bitnet", hidden_act="relu2", quantization_config={
        "quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"})],
    [model("MiniCPM", GENERATES, "minicpm", "MiniCPMForCausalLM", "minicpm")],
    [model("GPT-NeoX, Pythia", GENERATES, "gpt_neox", "GPTNeoXForCausalLM", "gptneox")],
    [model("StarCoder2", GENERATES, "starcoder2", "Starcoder2ForCausalLM", "starcoder2")],
    [model("StableLM 2", GENERATES, "stablelm", "StableLmForCausalLM", "stablelm")],
]

NOTES = {}


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def outcome(wisp, m, folder):
    """Returns None if the program takes the model, else the message by which it refuses it."""
    if m["kind"] == "static":
        write_json(folder / "modules.json", [{"idx": 0, "name": "0", "path": ".",
                                              "type": "sentence_transformers.models.StaticEmbedding"}])
    usual = SIZES if m["kind"] is GENERATES or m["kind"] == "lasttoken" or m["type"] == "nomic_bert" else SIZES | {"hidden_act": "gelu", "activation": "gelu"}
    write_json(folder / "config.json", {**usual, "model_type": m["type"], "architectures": [m["class"]], **m["config"]})
    if m["kind"] in SENTENCE:
        names = ["Transformer", "Pooling"]
        write_json(folder / "modules.json", [{"idx": i, "name": str(i), "path": "1_Pooling" if i else "",
                                              "type": f"sentence_transformers.models.{name}"} for i, name in enumerate(names)])
        write_json(folder / "1_Pooling" / "config.json", {"pooling_mode": m["kind"]})
    if m["kind"] == "splade":
        types = ["base.modules.transformer.Transformer", "sparse_encoder.modules.splade_pooling.SpladePooling"]
        write_json(folder / "modules.json", [{"idx": i, "name": str(i), "path": "1_SpladePooling" if i else "",
                                              "type": f"sentence_transformers.{name}"} for i, name in enumerate(types)])
        write_json(folder / "1_SpladePooling" / "config.json", {"pooling_strategy": "max"})
    done = subprocess.run([wisp, "inspect", folder], capture_output=True, text=True, check=False)
    message = done.stderr.replace(str(folder) + "/", "").replace(str(folder), "the folder").strip().removeprefix("wisp: ")
    takes = re.search(r"(tokenizer\.json|vocab\.txt|safetensors|tokenizer\.model).*(missing|No such file|no such)|no weights",
                      message)
    return None if takes or done.returncode == 0 else message


def measured(program):
    """The largest f32 error of each golden, by the test that compares it."""
    errors = {}
    out = subprocess.run([program], capture_output=True, text=True, check=False).stdout
    for name, error in re.findall(r"^(models/\S+), \w+: relative error f32 (\S+),", out, re.M):
        errors.setdefault(name, float(error))  # that of the folder comes first
        if errors[name] < float(error) < 1e-4:  # files in f16 have errors of their own
            errors[name] = float(error)
    return errors


def has_golden(golden):
    """Whether the repository compares what the row says."""
    if golden.startswith("models/"):
        return (ROOT / "tests" / "data" / golden / "golden.json").exists()
    return f'"{golden}": (' in (ROOT / "tests" / "oracle" / "decoder_configs.py").read_text() or "tests/oracle" in golden


def compared(m, errors):
    golden = m["golden"]
    if golden.startswith("models/"):
        peer = "transformers" if m["kind"] in ("tower", LABELS) else "sentence-transformers"
        text = f"{peer}, `tests/data/{golden}`"
    elif "tests/oracle" in golden:
        return f"transformers, {golden}"
    else:
        text = f"transformers, `decoders.py` \"{golden}\""
    return text + (f": {errors[golden]:.1e}" if golden in errors else ": at most 1e-4 of the largest logit"
                   if not golden.startswith("models/") else "")


def shortened(message):
    return re.sub(r", only .*", "", message.replace("|", "\\|"))[:160]


def page(wisp, errors):
    lines, runs, partly = [], 0, 0
    for number, row in enumerate(ROWS, 1):
        taken = []
        for m in row:
            with tempfile.TemporaryDirectory() as folder:
                refusal = outcome(wisp, m, Path(folder))
            found = m["golden"] and has_golden(m["golden"])
            runs_here = refusal is None and found
            taken.append(runs_here)
            why = compared(m, errors) if runs_here else NOTES.get(m["name"]) or (shortened(refusal) if refusal else "not compared")
            lines.append(f"| {number} | {m['name']} | {m['type']}, {m['class']} | {'runs' if runs_here else 'refused'} | {why} |")
        runs += all(taken)
        partly += any(taken) and not all(taken)
    return HEAD.format(rows=len(ROWS), runs=runs, partly=partly) + "\n".join(lines) + "\n"


HEAD = """# The models that people have, and which of them run

Of {rows} rows of models that are downloaded most, {runs} run whole and {partly} in part. `tools/models_page.py` writes this page: it
gives the program each model's type and class, and says what the program says. A row runs if the program takes it and a
test compares it with the class that the last column names: tiny random models with all settings of the published one, in f32.
Errors of embeddings are relative to a row's length, those of logits to the largest. Real weights are compared by
`make run/torch/smollm2` (SmolLM2), `make run/torch/real_encoders` (SPLADE-tiny, all-mpnet-base-v2), `make run/torch/real_onnx` (bge-small-en,
ms-marco-MiniLM and answerai-colbert-small as ONNX files), tests/unit/test_golden.c (all-MiniLM) and `make test-llama`.

| row | models | model_type and class in folders | | compared with, or why not |
|---|---|---|---|---|
"""


def without_errors(text):
    return re.sub(r": (\d\.\de-\d\d|at most 1e-4 of the largest logit) \|", " |", text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wisp", type=Path, default=ROOT / "build" / "wisp")
    parser.add_argument("--measure", type=Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    written = PAGE.read_text() if PAGE.exists() else ""
    errors = {m["golden"]: float(e) for row in ROWS for m in row if m["golden"]
              for e in re.findall(re.escape(m["golden"]) + r"[`\"]?: (\d\.\de-\d\d) \|", written)}
    if arguments.measure:
        errors |= measured(arguments.measure.resolve())
    text = page(arguments.wisp.resolve(), errors)
    if arguments.check:
        same = without_errors(text) == without_errors(written)
        print("docs/models.md is as the program says" if same else "docs/models.md: run tools/models_page.py")
        return 0 if same else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
