#!/usr/bin/env python3
"""Writes the model that comes with wisp for its peers: model.py GGUF TEXTS FOLDER, run in .tools/bench-here.

GGUF has the weights as f32, those that wisp computes with. onnx/model.onnx has the graph of BERT with them, written out
operator by operator as PyTorch exports it; quantise.py makes the others of it, calibrated with the lines of TEXTS."""

import struct
import sys
from pathlib import Path

import numpy as np
import onnx
import quantise  # beside this file
import tokenizers
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
STRING, ARRAY, ALIGNMENT = 8, 9, 32


class Gguf:
    """Metadata and f32 tensors of a file that wisp wrote."""

    def __init__(self, path):
        self.bytes, self.at = path.read_bytes(), 8
        tensors, values = self.scalar("<Q"), self.scalar("<Q")
        self.metadata = {self.string(): self.value(self.scalar("<I")) for _ in range(values)}
        entries = [(self.string(), [self.scalar("<Q") for _ in range(self.scalar("<I"))], self.scalar("<I"),
                    self.scalar("<Q")) for _ in range(tensors)]
        data = -(-self.at // ALIGNMENT) * ALIGNMENT
        self.tensors = {name: np.frombuffer(self.bytes, "<f4", int(np.prod(shape)), data + offset).reshape(shape[::-1])
                        for name, shape, _type, offset in entries}

    def scalar(self, form):
        found = struct.unpack_from(form, self.bytes, self.at)[0]
        self.at += struct.calcsize(form)
        return found

    def string(self):
        length = self.scalar("<Q")
        self.at += length
        return self.bytes[self.at - length:self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            inner = self.scalar("<I")
            return [self.value(inner) for _ in range(self.scalar("<Q"))]
        return self.scalar(SCALARS[kind])


class Graph:
    """Nodes of a graph. Each method adds one and returns the name of its result."""

    def __init__(self, file):
        self.file, self.nodes, self.constants = file, [], {}

    def node(self, operator, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def constant(self, name, values):
        self.constants.setdefault(name, numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def ints(self, *values):
        return self.constant("i" + "_".join(map(str, values)), np.array(values, np.int64))

    def tensor(self, name):
        return self.constant(name, self.file.tensors[name])

    def linear(self, x, name):
        weights = self.constant(f"{name}.transposed", self.file.tensors[f"{name}.weight"].T)
        return self.node("Add", self.node("MatMul", x, weights), self.tensor(f"{name}.bias"))

    def norm(self, x, name):
        return self.node("LayerNormalization", x, self.tensor(f"{name}.weight"), self.tensor(f"{name}.bias"), axis=-1,
                         epsilon=self.file.metadata["bert.attention.layer_norm_epsilon"])


def attention(graph, x, mask, layer, heads, size):
    def split(name, *order):
        rows = graph.linear(x, f"blk.{layer}.{name}")
        return graph.node("Transpose", graph.node("Reshape", rows, graph.ints(0, 0, heads, size // heads)), perm=order)

    query, key, value = split("attn_q", 0, 2, 1, 3), split("attn_k", 0, 2, 3, 1), split("attn_v", 0, 2, 1, 3)
    root = graph.constant("root", np.float32((size / heads) ** 0.5))
    scores = graph.node("Add", graph.node("Div", graph.node("MatMul", query, key), root), mask)
    context = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), value)
    rows = graph.node("Reshape", graph.node("Transpose", context, perm=[0, 2, 1, 3]), graph.ints(0, 0, size))
    return graph.linear(rows, f"blk.{layer}.attn_output")


def encoder(file):
    """Returns the graph from token ids to the states of the last layer."""
    graph, metadata = Graph(file), file.metadata
    size, heads = metadata["bert.embedding_length"], metadata["bert.attention.head_count"]
    tokens = graph.node("Gather", graph.tensor("token_embd.weight"), "input_ids")
    types = graph.node("Gather", graph.tensor("token_types.weight"), "token_type_ids")
    length = graph.node("Slice", graph.node("Shape", "input_ids"), graph.ints(1), graph.ints(2))
    positions = graph.node("Slice", graph.tensor("position_embd.weight"), graph.ints(0), length, graph.ints(0))
    x = graph.norm(graph.node("Add", graph.node("Add", tokens, types), positions), "token_embd_norm")
    attended = graph.node("Cast", graph.node("Unsqueeze", "attention_mask", graph.ints(1, 2)), to=TensorProto.FLOAT)
    absent = graph.node("Sub", graph.constant("one", np.float32(1)), attended)
    mask = graph.node("Mul", absent, graph.constant("low", np.float32(-1e9)))
    for layer in range(metadata["bert.block_count"]):
        added = graph.node("Add", attention(graph, x, mask, layer, heads, size), x)
        x = graph.norm(added, f"blk.{layer}.attn_output_norm")
        wide = graph.node("Relu", graph.linear(x, f"blk.{layer}.ffn_up"))
        x = graph.norm(graph.node("Add", graph.linear(wide, f"blk.{layer}.ffn_down"), x), f"blk.{layer}.layer_output_norm")
    graph.nodes.append(helper.make_node("Identity", [x], ["last_hidden_state"]))
    shape = ["batch", "tokens"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape)
              for name in ("input_ids", "attention_mask", "token_type_ids")]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*shape, size])
    model = helper.make_model(helper.make_graph(graph.nodes, "bert", inputs, [output], list(graph.constants.values())),
                              opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def tokenizer_of(file):
    """Returns the WordPiece tokenizer of the file, which truncates as wisp does."""
    ids = {written(token): i for i, token in enumerate(file.metadata["tokenizer.ggml.tokens"])}
    found = tokenizers.Tokenizer(tokenizers.models.WordPiece(ids, unk_token="[UNK]"))
    found.normalizer = tokenizers.normalizers.BertNormalizer()
    found.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    marks = [("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])]
    found.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=marks)
    found.add_special_tokens([f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")])
    found.enable_truncation(file.metadata["wisp.max_seq_length"])
    return found


def written(token):
    """Returns a token of a GGUF file, which marks words' beginnings, as WordPiece has it."""
    if token.startswith("\u2581"):
        return token[1:]
    return token if token.startswith("[") and token.endswith("]") else f"##{token}"


def main():
    source, texts, folder = map(Path, sys.argv[1:])
    (folder / "onnx").mkdir(parents=True, exist_ok=True)
    file = Gguf(source)
    onnx.save(encoder(file), folder / "onnx/model.onnx")
    tokenizer_of(file).save(str(folder / "tokenizer.json"))
    quantise.quantise(folder, texts.read_text(encoding="utf-8").splitlines())
    return 0


if __name__ == "__main__":
    sys.exit(main())
