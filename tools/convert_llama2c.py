#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Converts a model in llama2.c's format to GGUF.

MODEL is a .bin file: seven 32-bit integers (dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len), then
f32 weights. TOKENIZER is a tokenizer.bin file of the same project. `wisp convert OUT SMALLER --type q8_0` makes the
result smaller. Needs the packages of tools/requirements.txt.
"""

import argparse
import os
import struct
import sys
from pathlib import Path

import gguf
import numpy as np

EXIT_FAILED, EXIT_MODEL = 1, 3


class Malformed(Exception):
    pass


def read_tokens(path: Path, count: int) -> tuple[list[bytes], list[float], list[int]]:
    """Returns the spellings, scores and GGUF types of the tokens."""
    data = path.read_bytes()
    tokens, scores, types, at = [], [], [], 4
    for i in range(count):
        if at + 8 > len(data):
            raise Malformed(f"{path}: ends before token {i} of {count}")
        score, length = struct.unpack_from("<fi", data, at)
        text = data[at + 8 : at + 8 + length]
        at += 8 + length
        if length < 0 or at > len(data):
            raise Malformed(f"{path}: token {i} has {length} bytes")
        byte = len(text) == 6 and text.startswith(b"<0x")
        special = {0: gguf.TokenType.UNKNOWN, 1: gguf.TokenType.CONTROL, 2: gguf.TokenType.CONTROL}
        types.append(int(special.get(i, gguf.TokenType.BYTE if byte else gguf.TokenType.NORMAL)))
        # llama2.c stores spaces; SentencePiece and GGUF spell them U+2581.
        tokens.append(text if i < 3 or byte else text.replace(b" ", "\u2581".encode()))
        scores.append(score)
    tokens[:3] = [b"<unk>", b"<s>", b"</s>"]
    return tokens, scores, types


def read_weights(path: Path) -> tuple[dict[str, int], dict[str, np.ndarray]]:
    """Returns the hyper-parameters and the tensors under GGUF's names."""
    data = path.read_bytes()
    names = ["dim", "hidden_dim", "layers", "heads", "kv_heads", "vocabulary", "positions"]
    if len(data) < 28:
        raise Malformed(f"{path}: {len(data)} bytes, where the header has 28")
    config = dict(zip(names, struct.unpack_from("<7i", data), strict=True))
    shared = config["vocabulary"] > 0
    config["vocabulary"] = abs(config["vocabulary"])
    if min(config.values()) <= 0 or config["dim"] % config["heads"]:
        raise Malformed(f"{path}: {config}")
    dim, hidden, layers = config["dim"], config["hidden_dim"], config["layers"]
    head = dim // config["heads"]
    kv = head * config["kv_heads"]
    per_layer = [
        ("attn_norm", (dim,)),
        ("attn_q", (dim, dim)),
        ("attn_k", (kv, dim)),
        ("attn_v", (kv, dim)),
        ("attn_output", (dim, dim)),
        ("ffn_norm", (dim,)),
        ("ffn_gate", (hidden, dim)),
        ("ffn_down", (dim, hidden)),
        ("ffn_up", (hidden, dim)),
    ]
    floats = np.frombuffer(data, dtype="<f4", offset=28)
    at = 0

    def take(*shape: int) -> np.ndarray:
        nonlocal at
        size = int(np.prod(shape))
        if at + size > floats.size:
            raise Malformed(f"{path}: {floats.size} floats are too few for {config}")
        at += size
        return floats[at - size : at].reshape(shape)

    tensors = {"token_embd": take(config["vocabulary"], dim)}
    for name, shape in per_layer:
        for layer, weights in enumerate(take(layers, *shape)):
            tensors[f"blk.{layer}.{name}"] = weights
    tensors["output_norm"] = take(dim)
    take(config["positions"] * head)  # tables of rotary positions, which are computed anew
    if not shared:
        tensors["output"] = take(config["vocabulary"], dim)
    return config, tensors


def write(out: Path, name: str, config: dict[str, int], tensors: dict[str, np.ndarray], tokenizer: Path) -> None:
    tokens, scores, types = read_tokens(tokenizer, config["vocabulary"])
    temporary = out.with_name(f".{out.name}.{os.getpid()}")
    writer = gguf.GGUFWriter(temporary, "llama")
    writer.add_name(name)
    writer.add_context_length(config["positions"])
    writer.add_embedding_length(config["dim"])
    writer.add_block_count(config["layers"])
    writer.add_feed_forward_length(config["hidden_dim"])
    writer.add_head_count(config["heads"])
    writer.add_head_count_kv(config["kv_heads"])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(config["dim"] // config["heads"])
    writer.add_vocab_size(config["vocabulary"])
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(1)  # these models were trained to begin the next text where one ends
    writer.add_add_bos_token(True)
    for tensor, weights in tensors.items():
        writer.add_tensor(f"{tensor}.weight", np.ascontiguousarray(weights))
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", type=Path)
    parser.add_argument("tokenizer", metavar="TOKENIZER", type=Path)
    parser.add_argument("out", metavar="OUT", type=Path)
    parser.add_argument("--name", help="becomes general.name (default: MODEL's name)")
    arguments = parser.parse_args()
    try:
        config, tensors = read_weights(arguments.model)
        write(arguments.out, arguments.name or arguments.model.stem, config, tensors, arguments.tokenizer)
    except Malformed as error:
        print(f"convert_llama2c: {error}", file=sys.stderr)
        return EXIT_MODEL
    except OSError as error:
        print(f"convert_llama2c: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
