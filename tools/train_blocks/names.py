"""transformers' names of the tensors of GGUF files, and the order of their rows."""

import torch
from train_twin.folder import refuse_model

BERT = {
    "attn_q": "attention.self.query", "attn_k": "attention.self.key", "attn_v": "attention.self.value",
    "attn_output": "attention.output.dense", "attn_output_norm": "attention.output.LayerNorm",
    "ffn_up": "intermediate.dense", "ffn_down": "output.dense", "layer_output_norm": "output.LayerNorm",
    "token_embd": "embeddings.word_embeddings", "position_embd": "embeddings.position_embeddings",
    "token_types": "embeddings.token_type_embeddings", "token_embd_norm": "embeddings.LayerNorm"}
DECODER = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "token_embd": "model.embed_tokens",
    "output_norm": "model.norm", "output": "lm_head"}


def name_of(file, tensor):
    """Returns transformers' name of a tensor of the file. Refuses tensors that these models do not have."""
    names, layers = (BERT, "encoder.layer") if file.architecture == "bert" else (DECODER, "model.layers")
    *place, part, kind = tensor.split(".")
    if part not in names or (place and (place[0] != "blk" or len(place) != 2)):
        refuse_model(file.path, tensor, "this tensor is not supported")
    return ".".join([*([layers, place[1]] if place else []), names[part], kind])


def row_order(file, tensor):
    """Returns where transformers' rows of a tensor stand in the file. The dimensions that rotate together are
    neighbours in files of Llama, and halves of a head in transformers."""
    rows, part = int(file.tensors[tensor].shape[-1]), tensor.split(".")[-2]
    order = torch.arange(rows)
    if file.architecture != "llama" or part not in ("attn_q", "attn_k"):
        return order
    heads = file.key("attention.head_count", int)
    if part == "attn_k":
        heads = file.key("attention.head_count_kv", int, heads)
    return order.view(heads, rows // heads // 2, 2).transpose(1, 2).reshape(-1)


def copy_values(model, file, expected):
    """Gives the model's weights, of which `expected` are the names, the values of the file."""
    state, left = model.state_dict(), set(expected)
    for tensor in file.tensors:
        name, values = name_of(file, tensor), file.values(tensor)
        if name not in left or state[name].shape != values.shape:
            refuse_model(file.path, tensor, "this model has no such tensor, or one of another shape")
        state[name].copy_(values[row_order(file, tensor)])
        left.remove(name)
    if left:
        refuse_model(file.path, sorted(left)[0], "the file has no tensor for this weight")
