"""The tiny models as GGUF files, as llama.cpp's converter writes them, and what can differ between such files.

An option changes the file and, if the file says the same in another way, the PyTorch model that it is compared with.
OPTIONS and SUPPORTED are as in model_options.py.
"""

import collections

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter, quants

from model_folder import HEADS, HIDDEN, LAYERS, POSITIONS, SPARE, SPECIAL, WIDE, added_token
from model_options import CONFIG, POOLING, PROMPTS, SENTENCE, TOKENIZER, TOKENIZER_CONFIG, dense, modules, pair_processor

OPTIONS, SUPPORTED = [], set()
BERT, NOMIC, BOTH = ("bert GGUF",), ("nomic_bert GGUF",), ("bert GGUF", "nomic_bert GGUF")
NORMAL, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 3, 4, 5, 6
ABSENT = "(absent)"

# `change` gets the folder and the file. `assumed`: a key that the file lacks, so that wisp may give other embeddings
# if `wisp inspect` says what it assumes. `refuse`: the file means what no reference computes, so wisp must refuse it.
Change = collections.namedtuple("Change", "change assumed refuse", defaults=(None, False))

LAYER_NAMES = {
    "attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
    "attn.Wqkv": "attn_qkv", "attn.out_proj": "attn_output", "norm1": "attn_output_norm", "mlp.fc11": "ffn_up",
    "mlp.fc12": "ffn_gate", "mlp.fc2": "ffn_down", "norm2": "layer_output_norm"}
NAMES = {"embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
         "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
         "emb_ln": "token_embd_norm"}


def gguf_name(name):
    owner, kind = name.rsplit(".", 1)
    if owner in NAMES:
        return f"{NAMES[owner]}.{kind}"
    for prefix in ("encoder.layer.", "encoder.layers."):
        if owner.startswith(prefix):
            layer, part = owner[len(prefix):].split(".", 1)
            return f"blk.{layer}.{LAYER_NAMES[part]}.{kind}"
    return name


def spelled(token, kind):
    if kind == CONTROL:
        return token
    return token[2:] if token.startswith("##") else "\u2581" + token


class File:
    """A GGUF: `keys` by name, and for each tensor its values and the name of the type to store."""

    def __init__(self, folder):
        self.architecture = "bert" if folder.kind == "bert" else "nomic-bert"
        arch = self.architecture
        self.types = [CONTROL if token in SPECIAL else NORMAL for token in folder.vocabulary] + [UNUSED] * SPARE
        self.tokens = list(folder.vocabulary) + [f"[PAD{len(folder.vocabulary) + i}]" for i in range(SPARE)]
        self.stored = {}  # spellings of single tokens that differ from the converter's
        self.keys = {
            f"{arch}.block_count": LAYERS, f"{arch}.context_length": POSITIONS, f"{arch}.embedding_length": HIDDEN,
            f"{arch}.feed_forward_length": WIDE, f"{arch}.attention.head_count": HEADS,
            f"{arch}.attention.layer_norm_epsilon": 1e-12, f"{arch}.attention.causal": False,
            f"{arch}.pooling_type": 1, "tokenizer.ggml.model": "bert", "tokenizer.ggml.token_type_count": 2,
            "tokenizer.ggml.pre": "jina-v2-en", "tokenizer.ggml.unknown_token_id": 1, "tokenizer.ggml.cls_token_id": 2,
            "tokenizer.ggml.seperator_token_id": 3, "tokenizer.ggml.padding_token_id": 0,
            "tokenizer.ggml.mask_token_id": 4}
        if arch == "nomic-bert":
            self.keys["nomic-bert.rope.freq_base"] = 1000.0
        self.tensors = {gguf_name(name): tensor.float().numpy() for name, tensor in folder.tensors.items()}
        self.kinds = {}

    def key(self, name):
        """The whole name of a key: "ARCH." stands for the architecture."""
        return name.replace("ARCH.", self.architecture + ".")

    def write(self, path):
        writer = GGUFWriter(path, self.architecture)
        for name, value in self.keys.items():
            kind = {bool: GGUFValueType.BOOL, int: GGUFValueType.UINT32, float: GGUFValueType.FLOAT32,
                    str: GGUFValueType.STRING, list: GGUFValueType.ARRAY}[type(value)]
            writer.add_key_value(name, value, kind, GGUFValueType.INT32 if kind == GGUFValueType.ARRAY else None)
        if self.tokens:
            writer.add_token_list([self.stored.get(token, spelled(token, kind))
                                   for token, kind in zip(self.tokens, self.types or [NORMAL] * len(self.tokens))])
        if self.types:
            writer.add_token_types(self.types)
        for name, values in self.tensors.items():
            kind = GGMLQuantizationType[self.kinds.get(name, "F32")]
            values = np.ascontiguousarray(values)
            writer.add_tensor(name, values.astype(np.float64) if kind.name == "F64" else quants.quantize(values, kind),
                              raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def prepare(folder):
    """Makes the folder say what a file of the converter says: no limit below the positions, and normalised."""
    folder.json[SENTENCE]["max_seq_length"] = POSITIONS
    # This class takes tokenizer.json as it is; BertTokenizer would replace its normaliser.
    folder.json[TOKENIZER_CONFIG] = {**folder.json[TOKENIZER_CONFIG], "model_max_length": POSITIONS,
                                     "tokenizer_class": "PreTrainedTokenizerFast"}
    return File(folder)


# ---- options --------------------------------------------------------------------------------------------------------


def option(name, values, supported=(), kinds=BOTH):
    made = {value: change if isinstance(change, Change) else Change(change) for value, change in values.items()}
    OPTIONS.append((name, kinds, made))
    SUPPORTED.update((name, value) for value in (made if supported == "all" else supported))


def keys(**changed):
    """Sets keys: "__" stands for a dot, ARCH for the architecture. ABSENT removes one."""
    def change(_, file):
        for name, value in changed.items():
            name = file.key(name.replace("__", "."))
            if value is ABSENT:
                file.keys.pop(name, None)
            else:
                file.keys[name] = value
    return change


def both(*changes):
    """Each change is one of the folder, marked by `model`, or one of the file."""
    def change(folder, file):
        for one in changes:
            one(folder, file)
    return change


def model(change):
    return lambda folder, _: change(folder)


def config(**changed):
    return lambda folder, _: folder.json[CONFIG].update(changed)


def normalizer(lowercase, accents):
    return lambda folder, _: folder.json[TOKENIZER]["normalizer"].update(lowercase=lowercase, strip_accents=accents)


GGML_LOWER, GGML_STRIP = "tokenizer__ggml__normalizer__lowercase", "tokenizer__ggml__normalizer__strip_accents"
WISP_LOWER, WISP_STRIP = "wisp__tokenizer__lowercase", "wisp__tokenizer__strip_accents"
option("case and accents", {
    "cased": both(normalizer(False, None), keys(**{GGML_LOWER: False})),
    "uncased": both(normalizer(True, None), keys(**{GGML_LOWER: True})),
    "cased, no accents": both(normalizer(False, True), keys(**{GGML_LOWER: False, GGML_STRIP: True})),
    "uncased, accents": both(normalizer(True, False), keys(**{GGML_LOWER: True, GGML_STRIP: False})),
    "accents alone said": both(normalizer(True, False), keys(**{GGML_STRIP: False})),
    "cased by wisp": both(normalizer(False, None), keys(**{WISP_LOWER: False})),
    "accents by wisp": both(normalizer(True, False), keys(**{WISP_STRIP: False})),
    "both": both(normalizer(False, False), keys(**{GGML_LOWER: False, WISP_LOWER: False, WISP_STRIP: False})),
    "wisp and llama.cpp differ": Change(keys(**{GGML_LOWER: False, WISP_LOWER: True}), refuse=True),
    "accents differ": Change(keys(**{GGML_STRIP: False, WISP_STRIP: True}), refuse=True),
    "nothing said, cased": Change(both(normalizer(False, None)), assumed="tokenizer.ggml.normalizer.lowercase"),
    "nothing said, accents": Change(both(normalizer(True, False)), assumed="tokenizer.ggml.normalizer.strip_accents"),
    "a number": Change(keys(**{GGML_LOWER: 1}), refuse=True)},
    ("cased", "uncased", "cased, no accents", "uncased, accents", "accents alone said", "cased by wisp", "both"))
for key, flag in (("clean_text", "clean_text"), ("handle_chinese_chars", "handle_chinese_chars")):
    option(f"wisp.tokenizer.{key}", {str(value): both(
        lambda folder, _, value=value, flag=flag: folder.json[TOKENIZER]["normalizer"].update({flag: value}),
        keys(**{f"wisp__tokenizer__{key}": value})) for value in (True, False)}, "all")
option("wisp.tokenizer.max_input_chars_per_word", {str(n): both(
    lambda folder, _, n=n: folder.json[TOKENIZER]["model"].update(max_input_chars_per_word=n),
    keys(wisp__tokenizer__max_input_chars_per_word=n)) for n in (3, 20, 200)}, "all")

POOLING_MODES = {1: "mean", 2: "cls", 3: "lasttoken"}


def pooling(mode):
    return lambda folder, _: folder.json.__setitem__(POOLING, {"embedding_dimension": HIDDEN, "pooling_mode": mode})


option("pooling_type", {
    **{str(n): both(pooling(mode), keys(ARCH__pooling_type=n)) for n, mode in POOLING_MODES.items()},
    "0": Change(keys(ARCH__pooling_type=0), refuse=True), "4": Change(keys(ARCH__pooling_type=4), refuse=True),
    "9": Change(keys(ARCH__pooling_type=9), refuse=True), "absent": keys(ARCH__pooling_type=ABSENT),
    "absent, cls": Change(both(pooling("cls"), keys(ARCH__pooling_type=ABSENT)), assumed="ARCH.pooling_type")}, ("1", "2"))
ACTIVATIONS = ("relu", "gelu_new", "gelu_pytorch_tanh", "silu", "quick_gelu")
option("activation", {
    **{f"{name}, not said": Change(config(hidden_act=name), assumed="wisp.hidden_act") for name in ACTIVATIONS},
    **{f"{name} by wisp": both(config(hidden_act=name), keys(wisp__hidden_act=name)) for name in ("gelu", *ACTIVATIONS)},
    **{f"{name} by a key of others": Change(both(config(hidden_act=name), keys(ARCH__hidden_act=name)),
                                            assumed="wisp.hidden_act") for name in ACTIVATIONS}},
    ("gelu by wisp", "relu by wisp"), BERT)
option("activation of nomic-bert", {"silu by wisp": keys(wisp__hidden_act="silu"), "gelu by wisp": Change(
    keys(wisp__hidden_act="gelu"), refuse=True)}, kinds=NOMIC)
option("layer_norm_epsilon", {
    **{str(value): both(config(layer_norm_eps=value), keys(ARCH__attention__layer_norm_epsilon=value))
       for value in (1e-12, 1e-5, 0.01, 0.5)}, "absent": keys(ARCH__attention__layer_norm_epsilon=ABSENT),
    "not said": both(config(layer_norm_eps=0.5), keys(ARCH__attention__layer_norm_epsilon=ABSENT)),
    "of RMS": both(config(layer_norm_eps=0.5), keys(ARCH__attention__layer_norm_epsilon=ABSENT,
                                                    ARCH__attention__layer_norm_rms_epsilon=0.5))}, ("1e-05", "0.01"))
option("causal", {"true": Change(keys(ARCH__attention__causal=True), refuse=True), "absent": keys(ARCH__attention__causal=ABSENT)},
       ("absent",))
option("heads", {str(n): both(config(num_attention_heads=n), keys(ARCH__attention__head_count=n)) for n in (1, 2, 8)}, "all")
option("keys of attention", {
    "head_count_kv 4": keys(ARCH__attention__head_count_kv=4), "head_count_kv 2": keys(ARCH__attention__head_count_kv=2),
    "key_length 8": keys(ARCH__attention__key_length=8), "key_length 3": Change(keys(ARCH__attention__key_length=3), refuse=True),
    "value_length 3": Change(keys(ARCH__attention__value_length=3), refuse=True),
    "scale": Change(keys(ARCH__attention__scale=0.5), refuse=True),
    "sliding_window": Change(keys(ARCH__attention__sliding_window=4), refuse=True),
    "clamp_kqv": Change(keys(ARCH__attention__clamp_kqv=1.0), refuse=True),
    "max_alibi_bias": Change(keys(ARCH__attention__max_alibi_bias=8.0), refuse=True),
    "expert_count": Change(keys(ARCH__expert_count=4), refuse=True),
    "moe_every_n_layers": Change(keys(ARCH__moe_every_n_layers=2), refuse=True),
    "parallel residual": Change(keys(ARCH__use_parallel_residual=True), refuse=True)})
option("rope", {
    "10000": both(lambda folder, _: folder.json[CONFIG]["rope_parameters"].update(rope_theta=10000.0),
                  keys(ARCH__rope__freq_base=10000.0)), "absent": Change(keys(ARCH__rope__freq_base=ABSENT), refuse=True),
    "scaling none": keys(ARCH__rope__scaling__type="none"), "dimension_count 8": keys(ARCH__rope__dimension_count=8),
    "dimension_count 4": Change(keys(ARCH__rope__dimension_count=4), refuse=True),
    "linear": Change(keys(ARCH__rope__scaling__type="linear", ARCH__rope__scaling__factor=2.0), refuse=True),
    "factor": Change(keys(ARCH__rope__scaling__factor=2.0), refuse=True),
    "scale_linear": Change(keys(ARCH__rope__scale_linear=2.0), refuse=True),
    "yarn": Change(keys(ARCH__rope__scaling__type="yarn", ARCH__rope__scaling__original_context_length=20), refuse=True)},
    ("10000", "scaling none", "dimension_count 8"), NOMIC)
option("sizes", {
    "context_length 20": both(keys(ARCH__context_length=20), model(lambda folder: folder.json[SENTENCE].update(max_seq_length=20))),
    "context_length 100": Change(keys(ARCH__context_length=100), assumed="wisp.max_seq_length"), "block_count 1": Change(keys(ARCH__block_count=1), refuse=True),
    "block_count 3": Change(keys(ARCH__block_count=3), refuse=True),
    "embedding_length 16": Change(keys(ARCH__embedding_length=16), refuse=True),
    "feed_forward_length 32": Change(keys(ARCH__feed_forward_length=32), refuse=True),
    "token_type_count 1": keys(tokenizer__ggml__token_type_count=1)})
option("wisp's keys", {
    "max_seq_length 16": both(model(lambda folder: folder.json[SENTENCE].update(max_seq_length=16)), keys(wisp__max_seq_length=16)),
    "max_seq_length not said": Change(model(lambda folder: folder.json[SENTENCE].update(max_seq_length=16)),
                                      assumed="wisp.max_seq_length"),
    "normalize false": both(model(modules("Transformer", "Pooling")), keys(wisp__normalize=False)),
    "normalize true": keys(wisp__normalize=True), "normalize not said": Change(
        model(modules("Transformer", "Pooling")), assumed="wisp.normalize"),
    "default prompt": both(model(lambda folder: folder.json[PROMPTS].update(
        prompts={"query": "query: "}, default_prompt_name="query")), keys(wisp__prompt__query="query: ", wisp__default_prompt_name="query")),
    "unknown prompt": Change(keys(wisp__default_prompt_name="other"), refuse=True)},
    ("max_seq_length 16", "normalize false", "normalize true", "default prompt"))


def store(kind, chosen=lambda name: True):
    """Stores matrices as another type; the model gets the values that are left."""
    def change(folder, file):
        for name, values in file.tensors.items():
            if chosen(name) and values.ndim == 2:
                file.kinds[name] = kind
                number = GGMLQuantizationType[kind]
                file.tensors[name] = quants.dequantize(quants.quantize(values, number), number)
        for name in folder.tensors:
            if gguf_name(name) in file.tensors:
                folder.tensors[name] = torch.tensor(file.tensors[gguf_name(name)])
    return change


TYPES = ("F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")
option("types of tensors", {
    **{kind: store(kind) for kind in TYPES}, **{f"{kind} in layers": store(kind, lambda name: "blk" in name) for kind in TYPES},
    "mixed": both(store("Q8_0", lambda name: "ffn" in name), store("F16", lambda name: "attn" in name)),
    "F16 embeddings": store("F16", lambda name: "blk" not in name),
    "norms too": both(store("F16"), lambda _, file: file.kinds.update({name: "F16" for name in file.tensors})),
    "F64": Change(lambda _, file: file.kinds.update({"token_embd.weight": "F64"}))}, TYPES)


def extra(name, *shape):
    return Change(lambda _, file: file.tensors.__setitem__(name, 0.2 * np.random.default_rng(5).standard_normal(
        shape).astype(np.float32)), refuse=True)


def with_dense(folder, file):
    dense()(folder)
    file.tensors["dense_2.weight"] = folder.dense["linear.weight"].numpy()
    file.tensors["dense_2.bias"] = folder.dense["linear.bias"].numpy()


option("extra tensors", {
    **{name: extra(name, *shape) for name, shape in {
        "cls.weight": (HIDDEN, HIDDEN), "cls.bias": (HIDDEN,), "cls.output.weight": (1, HIDDEN), "cls.norm.weight": (HIDDEN,),
        "dense_3.weight": (HIDDEN, HIDDEN), "output.weight": (HIDDEN, HIDDEN),
        "output_norm.weight": (HIDDEN,), "rope_freqs.weight": (4,), "blk.0.attn_q_norm.weight": (HIDDEN,),
        "blk.0.attn_norm.weight": (HIDDEN,), "blk.0.attn_norm_2.weight": (HIDDEN,), "blk.2.ffn_up.weight": (WIDE, HIDDEN),
        "blk.0.ffn_up_exps.weight": (4, WIDE, HIDDEN), "blk.0.attn_output.scale": (1,), "unknown": (4,),
        "blk.0.attn_q.weight.lora_a": (4, HIDDEN), "blk.1.ffn_sub_norm.weight": (WIDE,)}.items()}, "Dense": with_dense}, ("Dense",))
option("extra tensors of bert", {"gate": extra("blk.0.ffn_gate.weight", WIDE, HIDDEN), "qkv": extra(
    "blk.0.attn_qkv.weight", 3 * HIDDEN, HIDDEN)}, kinds=BERT)
option("extra tensors of nomic-bert", {name: extra(name, *shape) for name, shape in {
    "blk.0.attn_qkv.bias": (3 * HIDDEN,), "blk.0.ffn_up.bias": (WIDE,), "blk.0.ffn_down.bias": (HIDDEN,),
    "blk.1.ffn_gate.bias": (WIDE,), "blk.0.attn_output.bias": (HIDDEN,), "position_embd.weight": (POSITIONS, HIDDEN),
    "blk.0.attn_q.weight": (HIDDEN, HIDDEN)}.items()}, kinds=NOMIC)


def without(*names):
    return lambda _, file: [file.tensors.pop(name, None) for name in names]


def no_types(folder, file):
    without("token_types.weight")(folder, file)
    folder.tensors["embeddings.token_type_embeddings.weight"].zero_()


option("missing tensors", {"token_types": no_types, **{name: Change(without(name), refuse=True) for name in (
    "token_embd_norm.bias", "blk.0.attn_output_norm.weight", "blk.1.ffn_down.weight", "token_embd.weight")}})


def qkv_in_one(_, file):
    for layer in range(LAYERS):
        for kind in ("weight", "bias"):
            parts = [file.tensors.pop(f"blk.{layer}.attn_{part}.{kind}") for part in "qkv"]
            file.tensors[f"blk.{layer}.attn_qkv.{kind}"] = np.concatenate(parts)


option("query, key and value", {"in one": qkv_in_one}, kinds=BERT)

# ---- the tokenizer --------------------------------------------------------------------------------------------------


def add(token, kind, special, **flags):
    def change(folder, file):
        number = len(folder.vocabulary)
        folder.vocabulary.append(token)
        file.tokens[number], file.types[number] = token, kind
        folder.json[TOKENIZER]["added_tokens"].append(added_token(number, token, special, **{"normalized": False, **flags}))
    return change


def retype(token, kind):
    def change(_, file):
        file.types[file.tokens.index(token)] = kind
    return change


def ids(cls, sep):
    def change(folder, file):
        pair_processor("BertProcessing", cls, sep)(folder)
        keys(tokenizer__ggml__cls_token_id=folder.vocabulary.index(cls),
             tokenizer__ggml__seperator_token_id=folder.vocabulary.index(sep))(folder, file)
    return change


def no_types_of_tokens(_, file):
    file.types, file.tokens = [], list(file.tokens)
    file.stored = {token: token for token in SPECIAL}


GGML = "tokenizer__ggml__"
option("tokens", {
    "user-defined": add("newtok", USER_DEFINED, False), "user-defined upper": add("NewTok", USER_DEFINED, False),
    "user-defined word": both(add("new tok", USER_DEFINED, False)), "control": add("<new>", CONTROL, True),
    "control upper": add("[NEW]", CONTROL, True), "no types": no_types_of_tokens, "a byte": Change(retype("cat", BYTE), refuse=True),
    "user-defined in the vocabulary": both(retype("cat", USER_DEFINED), lambda folder, _: folder.json[TOKENIZER]["added_tokens"].append(
        added_token(folder.vocabulary.index("cat"), "cat", False, normalized=False)))},
    ("user-defined", "user-defined upper", "control", "control upper"))
option("ids of tokens", {
    "word": ids("the", "cat"), "swapped": ids("[SEP]", "[CLS]"),
    "bos and eos": keys(**{GGML + "cls_token_id": ABSENT, GGML + "seperator_token_id": ABSENT, GGML + "bos_token_id": 2, GGML + "eos_token_id": 3}),
    "separator": keys(**{GGML + "seperator_token_id": ABSENT, GGML + "separator_token_id": 3}),
    "bos differs": Change(keys(**{GGML + "bos_token_id": 9})), "eos differs": keys(**{GGML + "eos_token_id": 9}),
    "separators differ": keys(**{GGML + "separator_token_id": 9}),
    "no unknown": Change(keys(**{GGML + "unknown_token_id": ABSENT})), "no mask": keys(**{GGML + "mask_token_id": ABSENT}),
    "no padding": keys(**{GGML + "padding_token_id": ABSENT}), "too large": Change(keys(**{GGML + "cls_token_id": 5000}), refuse=True),
    "no cls": Change(keys(**{GGML + "cls_token_id": ABSENT})), "unknown cat": both(
        keys(**{GGML + "unknown_token_id": 6}), lambda folder, _: folder.json[TOKENIZER]["model"].update(unk_token=folder.vocabulary[6]))},
    ("bos and eos", "separator", "no mask", "no padding"))
option("keys of the tokenizer", {
    "pre": keys(tokenizer__ggml__pre="default"), "gpt2": Change(keys(tokenizer__ggml__model="gpt2"), refuse=True),
    "t5": Change(keys(tokenizer__ggml__model="t5"), refuse=True), "add_bos_token false": Change(keys(tokenizer__ggml__add_bos_token=False)),
    "add_eos_token false": keys(tokenizer__ggml__add_eos_token=False), "add_space_prefix": keys(tokenizer__ggml__add_space_prefix=True),
    "no model": Change(keys(tokenizer__ggml__model=ABSENT), refuse=True)}, ("pre",))
option("general keys", {
    **{name: Change(lambda _, file, name=name: setattr(file, "architecture", name), refuse=True) for name in (
        "jina-bert-v2", "nomic-bert-moe", "modern-bert", "neo-bert", "llama", "eurobert")},
    "adapter": Change(keys(general__type="adapter"), refuse=True), "model": keys(general__type="model"), "projector": Change(
        keys(general__type="mmproj"), refuse=True), "split": Change(keys(split__no=0, split__count=2), refuse=True),
    "name": keys(general__name="x")}, ("model", "name"))
