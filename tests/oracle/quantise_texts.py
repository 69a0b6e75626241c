#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks `wisp quantize --data` of decoders with transformers: tiny models of random weights.

    python-torch tests/oracle/quantise_texts.py WISP

transformers runs the original model and the quantised one, whose weights the gguf package reads, on tokens that the
quantiser has not seen. For each matrix of a layer, the quantised model's inputs go through the quantised weights and
through those that `wisp quantize` rounds; the outputs should be the original's, and if they are added to the hidden
states also take back the difference of these. The corrected matrix must be nearer than the rounded one for nearly all
matrices, by a seventh on average, and the probabilities of the next token by a fifth.
"""

import copy
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import decoders  # models, and their files. It skips if packages are missing.

import decoder_configs as configs  # noqa: E402  (the packages are there)
import numpy as np  # noqa: E402
import torch  # noqa: E402

from read_gguf import read_model  # noqa: E402

# The norms whose inputs are the hidden states that the outputs of these layers are added to.
RESIDUAL = {
    "llama": {"self_attn.o_proj": "input_layernorm", "mlp.down_proj": "post_attention_layernorm"},
    "qwen3": {"self_attn.o_proj": "input_layernorm", "mlp.down_proj": "post_attention_layernorm"},
    "lfm2": {"self_attn.out_proj": "operator_norm", "conv.out_proj": "operator_norm", "feed_forward.w2": "ffn_norm"},
    "gemma2": {}, "gpt2": {}}
CASES = [("llama, grouped queries", "q4_0"), ("qwen3", "q4_0"), ("qwen3", "bitnet_t158"), ("gemma2", "iq4_nl"),
         ("lfm2", "mxfp4"), ("gpt2", "q4_0")]


def texts(rng, count):
    return ["".join(chr(97 + c) for c in np.minimum(rng.zipf(1.4, 60), 26) - 1) for _ in range(count)]


def random_model(index, kind, config):
    config._attn_implementation = "eager"
    torch.manual_seed(index)
    model = kind(config).eval()
    for parameter in model.parameters():
        parameter.copy_(torch.randn_like(parameter) * (0.2 if parameter.dim() == 1 else 0.12) +
                        (1 if parameter.dim() == 1 else 0))
    return model


def names_of(architecture, model):
    """transformers' names of the tensors that the file has, and the file's."""
    state = [name for name in model.state_dict() if not (name == "lm_head.weight" and model.config.tie_word_embeddings)]
    return list(zip(state, (name for name, _ in decoders.tensors_of(architecture, model))))


def with_weights(architecture, model, path):
    """A copy of the model with the weights of a file, of which those of neurons that were added are left out."""
    _, tensors = read_model(path)
    made, state = copy.deepcopy(model), model.state_dict()
    for name, theirs in names_of(architecture, model):
        value, shape = tensors[theirs].float(), state[name].shape
        if architecture == "gpt2" and value.dim() == 2 and "wte" not in name and "wpe" not in name:
            value = value.T
        if "conv.conv" in name:
            value = value.unsqueeze(1)
        if architecture == "gemma2" and "norm" in name:
            value = value - 1
        if architecture == "llama" and name.split(".")[-2] in ("q_proj", "k_proj"):
            heads = model.config.num_attention_heads if "q_proj" in name else model.config.num_key_value_heads
            rows, columns = value.shape
            value = value.reshape(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)
        if value.shape != shape:
            extra = value.clone()
            extra[tuple(slice(n) for n in shape)] = 0
            assert value.dim() != 2 or value.shape[0] == shape[0] or not extra.any(), f"{name}: added neurons are not zeros"
            value = value[tuple(slice(n) for n in shape)]
        state[name] = value
    if model.config.tie_word_embeddings and "lm_head.weight" in state:
        state["lm_head.weight"] = next(state[n] for n in state if n.endswith(("embed_tokens.weight", "wte.weight")))
    made.load_state_dict(state)
    return made


def run(model, ids):
    """The inputs and outputs of all modules in layers, and the logits."""
    seen, hooks = {}, []
    for name, module in model.named_modules():
        def hook(_, inputs, output, name=name):
            if inputs and torch.is_tensor(inputs[0]) and torch.is_tensor(output):
                seen[name] = (inputs[0].reshape(-1, inputs[0].shape[-1]), output.reshape(-1, output.shape[-1]))
        hooks.append(module.register_forward_hook(hook))
    logits = model(ids).logits
    for hook in hooks:
        hook.remove()
    return seen, logits.double().log_softmax(-1)


def quantise(wisp, source, target, kind, *options):
    command = [wisp, "quantize", "--type", kind, "--pad-neurons", "--format", "json", *options, str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"FAILED: {' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)


@torch.inference_mode()
def compare(wisp, folder, index, name, kind):
    architecture, made, config = configs.MODELS[name]
    model = random_model(index, made, config)
    source, corrected, rounded = (folder / f"{index}-{part}.gguf" for part in ("f32", "texts", "rounded"))
    decoders.write_gguf(source, architecture, model)
    rng = np.random.default_rng(index)
    data = folder / f"{index}.txt"
    data.write_text("\n".join(texts(rng, 120)))
    others = ["--embedding-type", "q8_0"] + ([] if config.tie_word_embeddings else ["--output-type", "q8_0"])
    told = quantise(wisp, source, corrected, kind, "--data", str(data), *others)
    quantise(wisp, source, rounded, kind, *others)
    # BITNET_T158 has BF16's number in a file, so the gguf package reads what wisp expands.
    if kind == "bitnet_t158":
        for path in (corrected, rounded):
            subprocess.run([wisp, "convert", "--type", "f32", str(path), str(path) + ".f32"], check=True, capture_output=True)
        corrected, rounded = Path(f"{corrected}.f32"), Path(f"{rounded}.f32")
    ids = torch.tensor([[1, 259 % configs.VOCABULARY] + [3 + ord(c) for c in text] for text in texts(rng, 24)])
    # Gives the tokens of wisp's codec: a first token, a space, and a token for each byte.
    ids[:, 1] = 3 + ord(" ")
    near, far = with_weights(architecture, model, corrected), with_weights(architecture, model, rounded)
    seen, expected = run(model, ids)
    here, got = run(near, ids)
    _, plain = run(far, ids)
    better, ratios = 0, []
    matrices = [n for n, m in model.named_modules() if isinstance(m, torch.nn.Linear) and n != "lm_head"]
    weights = dict(near.named_modules()), dict(far.named_modules())
    for module in matrices:
        part = module.split(".", 3)[3]
        wanted = seen[module][1].clone()
        norm = RESIDUAL[architecture].get(part)
        if norm:
            at = module.removesuffix(part) + norm
            wanted += seen[at][0] - here[at][0]
        errors = [float(((wanted - torch.nn.functional.linear(here[module][0], w[module].weight, w[module].bias)) ** 2).sum())
                  for w in weights]
        better += errors[0] < errors[1]
        ratios.append(errors[0] / errors[1])
    divergence = [float((expected.exp() * (expected - other)).sum(-1).mean()) for other in (got, plain)]
    mean = float(np.mean(ratios)) if ratios else float("nan")
    print(f"{name}, {kind}: errors of outputs {mean:.2f} of rounding's, below it in {better} of {len(matrices)} matrices; "
          f"divergence {divergence[0]:.4f}, rounded {divergence[1]:.4f}")
    reported = [t["output_error"] < t["plain_error"] for t in told["types"][0]["tensors"]]
    return (all(reported) and divergence[0] < 0.8 * divergence[1] and
            (not matrices or (mean < 0.85 and better >= 0.9 * len(matrices))))


def main():
    wisp = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as folder:
        results = [compare(wisp, Path(folder), i, name, kind) for i, (name, kind) in enumerate(CASES)]
    if not all(results):
        raise SystemExit("FAILED")


if __name__ == "__main__":
    main()
