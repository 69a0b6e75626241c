"""Builds transformers' models that generate text from GGUF files, and cuts text for them."""

import json
import subprocess

import torch
from train_twin.folder import EXIT_INPUT, Refusal, refuse_model
from transformers import (LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM)

from .names import copy_values

ARCHITECTURES = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM),
                 "qwen3": (Qwen3Config, Qwen3ForCausalLM)}
# Keys that change what a model computes, and have no counterpart here.
UNSUPPORTED = (".rope.scaling.type", ".attention.sliding_window", ".expert_count")


def config_of(file):
    """Returns the settings of the file's model. Refuses those that it cannot say."""
    if file.architecture not in ARCHITECTURES:
        only = " or ".join(ARCHITECTURES)
        refuse_model(file.path, "general.architecture", f"{file.architecture}: only {only} can be used")
    for name, value in file.keys.items():
        if name.endswith(UNSUPPORTED) and value not in (0, "none"):
            refuse_model(file.path, name, f"{value} is not supported")
    heads, width = file.key("attention.head_count", int), file.key("embedding_length", int)
    size = file.key("attention.key_length", int, width // heads)
    for name in ("attention.value_length", "rope.dimension_count"):
        if file.key(name, int, size) != size:
            refuse_model(file.path, f"{file.architecture}.{name}", f"only {size} is supported")
    if "token_embd.weight" not in file.tensors:
        refuse_model(file.path, "token_embd.weight", "this tensor is missing")
    config, _ = ARCHITECTURES[file.architecture]
    return config(
        vocab_size=int(file.tensors["token_embd.weight"].shape[1]), hidden_size=width, head_dim=size,
        intermediate_size=file.key("feed_forward_length", int), num_hidden_layers=file.key("block_count", int),
        num_attention_heads=heads, num_key_value_heads=file.key("attention.head_count_kv", int, heads),
        max_position_embeddings=file.key("context_length", int),
        rms_norm_eps=file.key("attention.layer_norm_rms_epsilon", float),
        hidden_act=file.keys.get("wisp.hidden_act", "silu"), tie_word_embeddings="output.weight" not in file.tensors,
        rope_parameters={"rope_type": "default", "rope_theta": file.key("rope.freq_base", float, 10000.0)})


def load_decoder(file):
    """Returns the file's model in f32."""
    config = config_of(file)
    model = ARCHITECTURES[file.architecture][1](config).eval()
    tied = {"lm_head.weight"} if config.tie_word_embeddings else set()
    copy_values(model, file, set(model.state_dict()) - tied)
    return model


class Windows:
    """Cuts lines into token ids by `wisp tokenize`, and these, one after the other, into windows of equal length."""

    def __init__(self, wisp, file, length):
        self.wisp, self.file, self.length = wisp, file, length

    def encode(self, lines):
        if not lines:
            return []
        command = [self.wisp, "tokenize", "-m", self.file, "-"]
        try:
            done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
        except OSError as error:
            raise Refusal(EXIT_INPUT, f"{self.wisp}: {error.strerror}; --wisp names the program") from error
        if done.returncode:
            raise Refusal(EXIT_INPUT, done.stderr.strip())
        ids = [token for row in done.stdout.splitlines() for token in json.loads(row)]
        whole = len(ids) // self.length * self.length
        return list(torch.tensor(ids[:whole], dtype=torch.int32).view(-1, self.length))
