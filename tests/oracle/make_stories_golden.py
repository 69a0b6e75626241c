#!/usr/bin/env python3
"""Writes tests/data/golden-stories.json and golden-stories.f32: what transformers' LlamaForCausalLM computes in f32 with
the weights of models/wisp-stories.gguf.

The .json file has a prompt, the ids that greedy decoding continues it with (up to the model's 512 positions, but no
further than the token that ends a text), the text's ids that logits were computed for, and its perplexity. The .f32
file has the logits [positions, 512], little-endian, at the positions that the .json file lists. Token ids come from the
SentencePiece model as Hugging Face tokenizers runs it.

Run after models/wisp-stories.gguf has changed: .tools/bin/python-torch tests/oracle/make_stories_golden.py
"""

import json
import sys

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers
from transformers import LlamaConfig, LlamaForCausalLM

from read_gguf import REPO, read_model

MODEL = REPO / "models" / "wisp-stories.gguf"
OUT = REPO / "tests" / "data" / "golden-stories"
PROMPT = "Once upon a time"
TEXT = (
    "One day, a dog named Max went to the park. He saw a big cat & a small, red bird in a tree. \"Hello!\" said Max. "
    "The bird did not answer; it flew away to its nest. Max was sad, so he ran home (very fast) and ate 12 cookies.\n"
    "Zoë's grandmother — who lived nearby — laughed. She told him a story about the sea, the moon and a tiny boat that "
    "could sing. Max slept well that night, and in the morning the bird came back with a friend. They played all day."
)
POSITIONS = [0, 1, 2, 7, 30, 31, 32, 33, 63, 64, 100, 127, 128, 200, 227]


def make_tokenizer(metadata):
    """Rebuilds the BPE merges from the scores, as transformers does: pieces in the order of their scores."""
    tokens = metadata["tokenizer.ggml.tokens"]
    scores = metadata["tokenizer.ggml.scores"]
    kinds = metadata["tokenizer.ggml.token_type"]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    normal = {token for token, kind in zip(tokens, kinds) if kind == 1}
    merges = []
    for token in normal:
        for cut in range(1, len(token)):
            if token[:cut] in normal and token[cut:] in normal:
                merges.append((-scores[vocabulary[token]], vocabulary[token[:cut]], vocabulary[token[cut:]],
                               (token[:cut], token[cut:])))
    merges = [merge for *_, merge in sorted(merges, key=lambda merge: merge[:3])]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(tokens[i], normalized=False) for i in (0, 1, 2)])
    return tokenizer


def permuted(weight, heads):
    """Turns neighbouring rotary pairs, which GGUF has, into the halves that transformers has."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def make_model(metadata, tensors):
    heads, kv_heads = metadata["llama.attention.head_count"], metadata["llama.attention.head_count_kv"]
    layers = metadata["llama.block_count"]
    config = LlamaConfig(
        vocab_size=512, hidden_size=metadata["llama.embedding_length"], num_hidden_layers=layers,
        intermediate_size=metadata["llama.feed_forward_length"], num_attention_heads=heads,
        num_key_value_heads=kv_heads, max_position_embeddings=metadata["llama.context_length"],
        rms_norm_eps=metadata["llama.attention.layer_norm_rms_epsilon"], tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": metadata["llama.rope.freq_base"]})
    state = {"model.embed_tokens.weight": tensors["token_embd.weight"], "lm_head.weight": tensors["token_embd.weight"],
             "model.norm.weight": tensors["output_norm.weight"]}
    names = {"attn_norm": "input_layernorm", "attn_output": "self_attn.o_proj", "attn_v": "self_attn.v_proj",
             "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
             "ffn_down": "mlp.down_proj"}
    for layer in range(layers):
        here, there = f"blk.{layer}.", f"model.layers.{layer}."
        for name, theirs in names.items():
            state[f"{there}{theirs}.weight"] = tensors[f"{here}{name}.weight"]
        state[f"{there}self_attn.q_proj.weight"] = permuted(tensors[f"{here}attn_q.weight"], heads)
        state[f"{there}self_attn.k_proj.weight"] = permuted(tensors[f"{here}attn_k.weight"], kv_heads)
    model = LlamaForCausalLM(config)
    model.load_state_dict(state)
    return model.eval()


@torch.inference_mode()
def main():
    metadata, tensors = read_model(MODEL)
    tokenizer, model = make_tokenizer(metadata), make_model(metadata, tensors)
    prompt = [1, *tokenizer.encode(PROMPT).ids]
    greedy = model.generate(torch.tensor([prompt]), max_length=512, do_sample=False, eos_token_id=1,
                            pad_token_id=0)[0].tolist()[len(prompt):]
    greedy = greedy[: greedy.index(1)] if 1 in greedy else greedy
    ids = [1, *tokenizer.encode(TEXT).ids]
    logits = model(torch.tensor([ids])).logits[0]
    losses = torch.nn.functional.cross_entropy(logits[:-1].double(), torch.tensor(ids[1:]))
    golden = {"prompt": PROMPT, "prompt_ids": prompt, "greedy_ids": greedy, "greedy_text": tokenizer.decode(greedy),
              "text": TEXT, "ids": ids, "positions": POSITIONS, "perplexity": losses.exp().item()}
    OUT.with_suffix(".json").write_text(json.dumps(golden, ensure_ascii=False) + "\n")
    OUT.with_suffix(".f32").write_bytes(logits[POSITIONS].numpy().astype("<f4").tobytes())
    print(len(ids), "ids,", len(greedy), "greedy tokens, perplexity", golden["perplexity"])


if __name__ == "__main__":
    main()
