"""Stores the weights of a tiny model as PyTorch's checkpoints and as ONNX files, for make_models.py.

Needs torch; for ONNX also onnx, onnxscript and onnxruntime, for 4 bits onnx_ir.
"""

import numpy as np
import torch


def checkpoint(model, folder):
    torch.save(model.state_dict(), folder / "pytorch_model.bin")


def old_checkpoint(model, folder):
    """As versions of PyTorch before 1.6 do."""
    torch.save(model.state_dict(), folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)


class States(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.auto_model = model  # sentence-transformers names it so

    def forward(self, ids, mask, types):
        return self.auto_model(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state


def export(model, file, **how):
    ids = torch.tensor([[2, 7, 9, 3]])
    names = {"input_names": ["input_ids", "attention_mask", "token_type_ids"], "output_names": ["last_hidden_state"]}
    torch.onnx.export(States(model).eval(), (ids, torch.ones_like(ids), torch.zeros_like(ids)), file, **names, **how)


def onnx(model, folder):
    """By tracing, as optimum does."""
    (folder / "onnx").mkdir()
    export(model, folder / "onnx" / "model.onnx", dynamo=False, opset_version=14)


def new_onnx(model, folder):
    """By torch.export, with the weights in a file beside the graph, and without the traces of stacks in it."""
    from onnx import load, save
    file = folder / "model.onnx"
    shapes = {name: {1: torch.export.Dim("tokens", max=48)} for name in ("ids", "mask", "types")}
    export(model, file, dynamo=True, external_data=True, opset_version=18, dynamic_shapes=shapes)
    whole = load(file, load_external_data=False)
    for part in [whole, whole.graph, *whole.graph.node, *whole.graph.initializer, *whole.graph.value_info]:
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    save(whole, file)


def int8_onnx(model, folder):
    """Quantised by onnxruntime; the model gets the weights that the bytes stand for."""
    from onnx import load, numpy_helper
    from onnxruntime.quantization import quantize_dynamic
    plain = folder / "plain.onnx"
    export(model, plain, dynamo=False, opset_version=14)
    (folder / "onnx").mkdir()
    quantize_dynamic(plain, folder / "onnx" / "model_quantized.onnx", per_channel=True)
    plain.unlink()
    graph = load(folder / "onnx" / "model_quantized.onnx").graph
    values = {value.name: numpy_helper.to_array(value) for value in graph.initializer}
    places = {node.input[1]: node.name for node in graph.node if node.op_type == "MatMulInteger"}
    state = model.state_dict()
    for name, value in values.items():
        if not name.endswith("_quantized"):
            continue
        base = name.removesuffix("_quantized")
        floats = (value.astype(np.int32) - values[base + "_zero_point"]).astype(np.float32) * values[base + "_scale"]
        if name in places:
            base, floats = places[name].rsplit("/", 1)[0].strip("/").replace("/", ".") + ".weight", floats.T
        state[base.split("auto_model.")[1]].copy_(torch.tensor(np.ascontiguousarray(floats)))


def nibbles(values, count):
    """The first 4-bit numbers of each row, of which a byte has two, the lower half first."""
    both = np.stack([values & 15, values >> 4], axis=-1)
    return both.reshape(len(values), -1)[:, :count].astype(np.int32)


def q4_onnx(model, folder):
    """Matrices as 4-bit numbers with zero points, by onnxruntime; the model gets the weights that they stand for."""
    from onnx import load, numpy_helper, save
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
    plain = folder / "plain.onnx"
    export(model, plain, dynamo=False, opset_version=14)
    (folder / "onnx").mkdir()
    quantiser = MatMulNBitsQuantizer(load(plain), block_size=16, is_symmetric=False)
    quantiser.process()
    save(quantiser.model.model, folder / "onnx" / "model_q4.onnx")
    plain.unlink()
    graph = quantiser.model.model.graph
    values = {value.name: numpy_helper.to_array(value) for value in graph.initializer}
    state = model.state_dict()
    for node in graph.node:
        if node.op_type != "MatMulNBits":
            continue
        matrix, scales, zeros = (values[name] for name in node.input[1:])
        size, outputs = (next(a.i for a in node.attribute if a.name == name) for name in "KN")
        blocks = -(-size // 16)
        numbers = nibbles(matrix.reshape(outputs, -1), size)
        zeros = nibbles(zeros.reshape(outputs, -1), blocks).repeat(16, axis=1)[:, :size]
        floats = (numbers - zeros) * scales.reshape(outputs, blocks).repeat(16, axis=1)[:, :size]
        name = node.name.rsplit("/", 1)[0].strip("/").replace("/", ".") + ".weight"
        state[name.split("auto_model.")[1]].copy_(torch.tensor(floats))


STORES = {"checkpoint": checkpoint, "old checkpoint": old_checkpoint, "onnx": onnx, "new onnx": new_onnx,
          "int8 onnx": int8_onnx, "q4 onnx": q4_onnx}
