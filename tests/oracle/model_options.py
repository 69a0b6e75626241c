"""Options of Hugging Face folders that can change embeddings, one after the other.

OPTIONS holds each option as a name, the kinds of model that have it, and its values. A value is a function that changes
a Folder. Values in SUPPORTED must give equal embeddings if nothing else is changed; all others may be refused.
"""

import copy
import json

import torch
from transformers import AutoConfig, AutoModel

from model_folder import HEADS, HIDDEN, LAYERS, POSITIONS, WIDE, added_token, piece

OPTIONS, SUPPORTED = [], set()
BERT, BOTH = ("bert",), ("bert", "nomic_bert")


def option(name, values, supported=(), kinds=BOTH):
    """Adds an option; `values` is a dictionary of functions. `supported` is "all" or some of its keys."""
    OPTIONS.append((name, kinds, values))
    SUPPORTED.update((name, value) for value in (values if supported == "all" else supported))


def setting(file, key, values, supported=(), kinds=BOTH, name=None):
    """Adds an option that sets a key of a JSON file; ABSENT removes it. Keys may go down: "normalizer.lowercase"."""
    def change(value):
        return lambda folder: put(folder.json.setdefault(file, {}), key, value)
    def spelled(value):
        return json.dumps(value, ensure_ascii=False)
    option(name or f"{file}: {key}", {spelled(value): change(value) for value in values},
           [spelled(value) for value in (values if supported == "all" else supported)], kinds)


ABSENT = "(absent)"


def put(target, key, value):
    *path, last = key.split(".")
    for step in path:
        if not isinstance(target.get(step), dict):
            return  # an option that was applied before has taken the place away
        target = target[step]
    if isinstance(value, str) and value == ABSENT:
        target.pop(last, None)
    else:
        target[last] = copy.deepcopy(value)


def chain(*changes):
    def change(folder):
        for one in changes:
            one(folder)
    return change


def put_in(file, **keys):
    return lambda folder: [put(folder.json.setdefault(file, {}), key, value) for key, value in keys.items()]


def drop(*files):
    def change(folder):
        for file in files:
            folder.json.pop(file, None)
    return change


# ---- config.json ----------------------------------------------------------------------------------------------------

CONFIG, TOKENIZER, TOKENIZER_CONFIG = "config.json", "tokenizer.json", "tokenizer_config.json"
SENTENCE, PROMPTS, POOLING = "sentence_bert_config.json", "config_sentence_transformers.json", "1_Pooling/config.json"

setting(CONFIG, "hidden_act", ["gelu", "relu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_python",
                               "gelu_python_tanh", "quick_gelu", "gelu_10", "silu", "swish", "tanh", "sigmoid", "mish",
                               "relu2", "relu6", "leaky_relu", "linear", "laplace", ABSENT],
        ("gelu", "relu"), BERT)
setting(CONFIG, "hidden_act", ["silu", "swish", "gelu", "relu", ABSENT], ("silu",), ("nomic_bert",),
        "config.json: hidden_act of nomic_bert")
setting(CONFIG, "layer_norm_eps", [1e-12, 1e-5, 0.01, 0.5, 1, ABSENT, "0.01", None], (1e-12, 1e-5, 0.01))
setting(CONFIG, "position_embedding_type", ["absolute", "relative_key", "relative_key_query", None], ("absolute",), BERT)
setting(CONFIG, "num_attention_heads", [1, 2, 8, 16, 32, 3, ABSENT], (1, 2, 8))
setting(CONFIG, "num_hidden_layers", [1, 3, 0, ABSENT], (1,))
setting(CONFIG, "max_position_embeddings", [20, 64, ABSENT])
setting(CONFIG, "vocab_size", [100, 10_000, ABSENT])
setting(CONFIG, "type_vocab_size", [1, 3, ABSENT])
setting(CONFIG, "is_decoder", [True, False], (False,))
setting(CONFIG, "add_cross_attention", [True, False], (False,), BERT)
setting(CONFIG, "chunk_size_feed_forward", [0, 4])
setting(CONFIG, "pruned_heads", [{}, {"0": [1]}])
setting(CONFIG, "dtype", ["float32", "float16", "bfloat16"], "all")
setting(CONFIG, "torch_dtype", ["float32", "float16"], "all")
setting(CONFIG, "architectures", [["BertForMaskedLM"], ["BertForSequenceClassification"], ["MyModel"], [], None, ABSENT])
setting(CONFIG, "tokenizer_class", ["BertTokenizer", "BertTokenizerFast", "BertJapaneseTokenizer", "RobertaTokenizer",
                                    "DistilBertTokenizer", "PreTrainedTokenizerFast", None])
setting(CONFIG, "auto_map", [{"AutoModel": "modeling.MyBert"}, {"AutoTokenizer": ["x.y", None]}])
setting(CONFIG, "quantization_config", [{"quant_method": "fp8"}, None])
setting(CONFIG, "model_type", ["roberta", "distilbert", "electra", "xlm-roberta", "camembert", "bert-generation", "mpnet",
                               "nomic_bert", "bert", "BERT", ABSENT])
setting(CONFIG, "hidden_dropout_prob", [0.9])
setting(CONFIG, "attn_implementation", ["eager"])
setting(CONFIG, "output_hidden_states", [True])
setting(CONFIG, "intermediate_size", [32, 128])
setting(CONFIG, "hidden_size", [64, "32"])
setting(CONFIG, "embedding_size", [16])
setting(CONFIG, "head_dim", [8, 4, 16], kinds=("nomic_bert",))
setting(CONFIG, "rope_parameters", [{"rope_type": "default", "rope_theta": 10.0}, {"rope_type": "default"},
                                    {"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.0},
                                    {"rope_type": "dynamic", "rope_theta": 1000.0, "factor": 2.0},
                                    {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 2.0},
                                    {"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.5},
                                    {"rope_theta": 10.0}, None, ABSENT], kinds=("nomic_bert",))
for key, values in {"rope_theta": [10.0], "rotary_emb_base": [10], "rotary_emb_fraction": [1.0, 0.5, 0.0],
                    "rotary_emb_interleaved": [True], "rotary_scaling_factor": [2.0], "rotary_emb_scale_base": [512],
                    "prenorm": [True], "use_rms_norm": [True], "causal": [True], "parallel_block": [True],
                    "qkv_proj_bias": [True], "mlp_fc1_bias": [True], "mlp_fc2_bias": [True], "moe_every_n_layers": [2],
                    "scale_attn_weights": [False], "activation_function": ["swiglu", "gelu", "geglu", "relu"],
                    "partial_rotary_factor": [0.5], "attention_bias": [True], "max_trained_positions": [16],
                    "layer_norm_epsilon": [0.5], "n_positions": [16], "n_head": [2], "n_inner": [32]}.items():
    setting(CONFIG, key, values, kinds=("nomic_bert",))


def nomic_spelling(folder):
    config = folder.json[CONFIG]
    names = {"hidden_size": "n_embd", "num_attention_heads": "n_head", "intermediate_size": "n_inner",
             "num_hidden_layers": "n_layer", "max_position_embeddings": "n_positions",
             "layer_norm_eps": "layer_norm_epsilon"}
    rope = config.pop("rope_parameters", None) or {}
    config.pop("hidden_act", None)
    renamed = {names.get(key, key): value for key, value in config.items()}
    folder.json[CONFIG] = {
        "activation_function": "swiglu", "causal": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False,
        "parallel_block": False, "prenorm": False, "qkv_proj_bias": False, "rotary_emb_fraction": 1.0,
        "rotary_emb_base": rope.get("rope_theta", 1000), "rotary_emb_interleaved": False, "rotary_emb_scale_base": None,
        "rotary_scaling_factor": None, "scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True,
        "use_rms_norm": False, **renamed}


option("Nomic's spelling", {"yes": nomic_spelling}, "all", ("nomic_bert",))


def another_class(kind, **more):
    """Makes the folder one of another kind of model, which transformers builds from its own configuration."""
    def apply(folder):
        sizes = {"vocab_size": len(folder.vocabulary), "hidden_size": HIDDEN, "num_attention_heads": HEADS,
                 "intermediate_size": WIDE, "num_hidden_layers": LAYERS, "max_position_embeddings": POSITIONS}
        config = AutoConfig.for_model(kind, **{**sizes, **more})
        folder.json[CONFIG] = json.loads(config.to_json_string(use_diff=False))
        folder.json[CONFIG]["model_type"] = kind
        model = AutoModel.from_config(config)
        folder.tensors = {name: 3 * tensor.clone() for name, tensor in model.state_dict().items()}
    return apply


DEBERTA = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "layer_norm_eps": 1e-7, "position_biased_input": False}
DEBERTAS = {"c2p": {"pos_att_type": ["c2p"]}, "p2c": {"pos_att_type": "p2c", "share_att_key": True},
            "buckets": {"position_buckets": 8, "share_att_key": True, "norm_rel_ebd": "layer_norm"},
            "distances": {"max_relative_positions": 12}, "positions": {"position_biased_input": True, "type_vocab_size": 2},
            "own": {"position_buckets": 7, "max_relative_positions": 20, "norm_rel_ebd": "layer_norm"},
            "none": {"relative_attention": False}, "convolution": {"conv_kernel_size": 3}}
DECODER = {"num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0}
option("model class", {
    **{kind: another_class(kind) for kind in ("mpnet", "electra", "albert", "deberta-v2", "layoutlm", "roc_bert", "ernie",
                                              "convbert", "mobilebert")},
    **{f"deberta-v2, {name}": another_class("deberta-v2", **DEBERTA | more) for name, more in DEBERTAS.items()},
    # Positions do not count padding, and 1, which their configurations have for it, is [UNK] in this vocabulary.
    **{kind: another_class(kind, pad_token_id=0) for kind in ("roberta", "xlm-roberta", "camembert")},
    "distilbert": another_class("distilbert", dim=HIDDEN, n_heads=HEADS, hidden_dim=WIDE, n_layers=LAYERS),
    "modernbert": another_class("modernbert", pad_token_id=0), "qwen3": another_class("qwen3", **DECODER),
    "gemma3_text": another_class("gemma3_text", **DECODER), "llama": another_class("llama", **DECODER),
    "jina": put_in(CONFIG, position_embedding_type="alibi", feed_forward_type="geglu", model_type="bert",
                   auto_map={"AutoModel": "jinaai/jina-bert-implementation--modeling_bert.JinaBertModel"})}, [f"deberta-v2, {name}" for name in DEBERTAS if name != "convolution"], BERT)

# ---- weights --------------------------------------------------------------------------------------------------------


def rename(change):
    def apply(folder):
        folder.tensors = {change(name): tensor for name, tensor in folder.tensors.items()}
    return apply


def cast(dtype, chosen=lambda name: True):
    def apply(folder):
        folder.tensors = {name: tensor.to(dtype) if chosen(name) and tensor.is_floating_point() else tensor
                          for name, tensor in folder.tensors.items()}
    return apply


def add_tensor(name, *shape):
    return lambda folder: folder.tensors.__setitem__(name, 0.2 * torch.randn(shape))


def drop_tensor(*names):
    return lambda folder: [folder.tensors.pop(name, None) for name in names]


def old_norm_names(name):
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


def cut_rows(name, rows):
    def apply(folder):
        folder.tensors[name] = folder.tensors[name][:rows].clone()
    return apply


def more_layers(folder):
    for name in list(folder.tensors):
        if f".{LAYERS - 1}." in name:
            folder.tensors[name.replace(f".{LAYERS - 1}.", f".{LAYERS}.")] = folder.tensors[name].clone()


option("dtype of the tensors", {"f16": cast(torch.float16), "bf16": cast(torch.bfloat16), "f64": cast(torch.float64),
                                "mixed": cast(torch.float16, lambda name: "word" in name or "dense" in name),
                                "i8": cast(torch.int8, lambda name: "word" in name)}, ("f16", "bf16", "mixed"))
option("names of tensors", {"bert.": rename("bert.{}".format), "model.": rename("model.{}".format),
                            "roberta.": rename("roberta.{}".format),
                            "0.auto_model.": rename("0.auto_model.{}".format), "gamma": rename(old_norm_names),
                            "upper": rename(str.upper)}, ("bert.",), BERT)
option("names of nomic_bert's tensors", {"bert.": rename("bert.{}".format), "nomic_bert.": rename("nomic_bert.{}".format)},
       kinds=("nomic_bert",))
option("extra tensors", {
    "pooler": chain(add_tensor("pooler.dense.weight", HIDDEN, HIDDEN), add_tensor("pooler.dense.bias", HIDDEN)),
    "masked": chain(add_tensor("cls.predictions.bias", 8), add_tensor("cls.predictions.decoder.weight", 8, HIDDEN)),
    "classifier": chain(add_tensor("classifier.weight", 2, HIDDEN), add_tensor("classifier.bias", 2)),
    "position_ids": lambda folder: folder.tensors.__setitem__("embeddings.position_ids", torch.arange(40)[None]),
    "distance": add_tensor("encoder.layer.0.attention.self.distance_embedding.weight", 79, 8),
    "layer": more_layers, "unknown": add_tensor("something.weight", 4), "lora": add_tensor(
        "encoder.layer.0.attention.self.query.lora_A.default.weight", 4, HIDDEN)}, ("pooler", "masked", "position_ids"),
    BERT)
option("missing tensors", {
    "bias": drop_tensor("encoder.layer.0.attention.self.query.bias"), "layer norm": drop_tensor(
        "encoder.layer.1.output.LayerNorm.weight"), "types": drop_tensor("embeddings.token_type_embeddings.weight"),
    "positions": drop_tensor("embeddings.position_embeddings.weight")}, kinds=BERT)
option("rows of tensors", {
    "one type": chain(cut_rows("embeddings.token_type_embeddings.weight", 1), put_in(CONFIG, type_vocab_size=1)),
    "few words": cut_rows("embeddings.word_embeddings.weight", 100), "few words said": chain(
        cut_rows("embeddings.word_embeddings.weight", 100), put_in(CONFIG, vocab_size=100))}, ("one type",))
option("shards", {str(n): lambda folder, n=n: setattr(folder, "shards", n) for n in (1, 2, 5)}, "all")


def stale_index(folder):
    folder.index = {"weight_map": {"embeddings.word_embeddings.weight": "model-00001-of-00002.safetensors"}}


def lora(folder, weights=True, **more):
    folder.json["adapter_config.json"] = {
        "peft_type": "LORA", "base_model_name_or_path": ".", "r": 2, "lora_alpha": 8, "target_modules": ["query"],
        "lora_dropout": 0.0, "bias": "none", "task_type": "FEATURE_EXTRACTION", "inference_mode": True, **more}
    folder.adapter = weights


option("index", {"stale": stale_index})
option("adapter_config.json", {"LoRA": lora, "without weights": lambda folder: lora(folder, False),
                               "rsLoRA": lambda folder: lora(folder, use_rslora=True)}, kinds=BERT)
option("weights", {"model_fp16": lambda folder: setattr(folder, "weights_name", "model_fp16.safetensors"),
                   "onnx": lambda folder: setattr(folder, "weights_name", "onnx/model.safetensors"),
                   "bin": lambda folder: setattr(folder, "weights_name", "pytorch_model.bin")})

# ---- tokenizer.json -------------------------------------------------------------------------------------------------

for key in ("lowercase", "strip_accents", "clean_text", "handle_chinese_chars"):
    setting(TOKENIZER, f"normalizer.{key}", [True, False, ABSENT] + [None] * (key == "strip_accents"))
LOWER, STRIP = {"type": "Lowercase"}, {"type": "StripAccents"}
PLAIN = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
         "lowercase": False}
setting(TOKENIZER, "normalizer", [
    None, ABSENT, LOWER, {"type": "NFC"}, {"type": "Sequence", "normalizers": []},
    {"type": "Sequence", "normalizers": [PLAIN]}, {"type": "Sequence", "normalizers": [LOWER, PLAIN]},
    {"type": "Sequence", "normalizers": [PLAIN, LOWER]}, {"type": "Sequence", "normalizers": [{"type": "NFD"}, STRIP]},
    {"type": "Sequence", "normalizers": [{"type": "Strip", "strip_left": True, "strip_right": True}, PLAIN]},
    {"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "e"}, "content": "a"}, PLAIN]}])
WORDS = {"type": "BertPreTokenizer"}
setting(TOKENIZER, "pre_tokenizer", [
    WORDS, None, {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "Sequence", "pretokenizers": [WORDS]},
    {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Isolated"}]},
    {"type": "Sequence", "pretokenizers": [WORDS, {"type": "Digits", "individual_digits": True}]},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}])
setting(TOKENIZER, "model.unk_token", ["cat", "[MASK]", "absent", None])
setting(TOKENIZER, "model.continuing_subword_prefix", ["", "@@"])
setting(TOKENIZER, "model.max_input_chars_per_word", [3, 20, 1000, 0])
setting(TOKENIZER, "truncation", [
    {"direction": "Right", "max_length": 6, "strategy": "LongestFirst", "stride": 0},
    {"direction": "Left", "max_length": 32, "strategy": "LongestFirst", "stride": 0},
    {"direction": "Right", "max_length": 12, "strategy": "OnlyFirst", "stride": 4}])
setting(TOKENIZER, "padding", [
    {"strategy": {"Fixed": 24}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
     "pad_token": "[PAD]"},
    {"strategy": "BatchLongest", "direction": "Left", "pad_to_multiple_of": 8, "pad_id": 7, "pad_type_id": 1,
     "pad_token": "[PAD]"}])


def template(single, **names):
    """A post-processor; `single` is names of special tokens, and "A" for the text."""
    def apply(folder):
        vocabulary = {name: i for i, name in enumerate(folder.vocabulary)}
        parts = [{"Sequence": {"id": "A", "type_id": 0}} if name == "A" else piece(name) for name in single]
        folder.json.get(TOKENIZER, {})["post_processor"] = {
            "type": "TemplateProcessing", "single": parts, "pair": [*parts, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {name: {"id": name, "ids": [vocabulary[name]], "tokens": [name]}
                               for name in single if name != "A"}}
    return apply


def pair_processor(kind, cls, sep, **more):
    def apply(folder):
        ids = {name: folder.vocabulary.index(name) for name in (cls, sep)}
        folder.json.get(TOKENIZER, {})["post_processor"] = {
            "type": kind, "cls": [cls, ids[cls]], "sep": [sep, ids[sep]], **more}
    return apply


def typed_template(folder):
    template(["[CLS]", "A", "[SEP]"])(folder)
    folder.json.get(TOKENIZER, {}).get("post_processor", {"single": [{}, {}]})["single"][1] = {
        "Sequence": {"id": "A", "type_id": 1}}


option("post_processor", {
    "cls sep": template(["[CLS]", "A", "[SEP]"]), "sep alone": template(["A", "[SEP]"]), "none": template(["A"]),
    "cls alone": template(["[CLS]", "A"]), "twice": template(["[CLS]", "[CLS]", "A", "[SEP]"]),
    "other cls": template(["[MASK]", "A", "[SEP]"]), "word": template(["the", "A", "cat"]), "type 1": typed_template,
    "bert": pair_processor("BertProcessing", "[CLS]", "[SEP]"),
    "bert swapped": pair_processor("BertProcessing", "[SEP]", "[CLS]"), "roberta": pair_processor(
        "RobertaProcessing", "[CLS]", "[SEP]", trim_offsets=True, add_prefix_space=False),
    "null": put_in(TOKENIZER, post_processor=None)}, ("cls sep",))


def add_tokens(*tokens):
    """Adds tokens at the end of the vocabulary."""
    def apply(folder):
        tokenizer = folder.json.get(TOKENIZER)
        for content, special, flags in tokens:
            number = len(folder.vocabulary)
            folder.vocabulary.append(content)  # one of the spare rows is its embedding
            if tokenizer and "added_tokens" in tokenizer:
                tokenizer["added_tokens"].append(added_token(number, content, special, **flags))
    return apply


option("added tokens", {
    "special": add_tokens(("<new>", True, {})), "word": add_tokens(("newtok", False, {})),
    "raw": add_tokens(("newtok", False, {"normalized": False})), "upper": add_tokens(("NewTok", False, {})),
    "raw upper": add_tokens(("NewTok", False, {"normalized": False})), "lstrip": add_tokens(("<new>", True, {"lstrip": True})),
    "rstrip": add_tokens(("<new>", False, {"rstrip": True})), "single": add_tokens(("newtok", False, {"single_word": True})),
    "two": add_tokens(("new tok", False, {}), ("newtok", True, {"normalized": True})),
    "accent": add_tokens(("café", False, {})), "normalized special": add_tokens(("[NEW]", True, {"normalized": True})),
    "inside": lambda folder: folder.json.get(TOKENIZER, {"added_tokens": []})["added_tokens"].append(
        added_token(folder.vocabulary.index("cat"), "cat", False)),
    "no mask": lambda folder: folder.json.get(TOKENIZER, {"added_tokens": [0]})["added_tokens"].pop(),
    "none": put_in(TOKENIZER, added_tokens=[])}, ("special", "word", "raw", "upper", "single"))

# ---- tokenizer_config.json and its relatives ------------------------------------------------------------------------

for key, values in {
        "do_lower_case": [True, False, ABSENT, None], "strip_accents": [True, False, ABSENT],
        "tokenize_chinese_chars": [True, False, ABSENT], "tokenizer_class": [
            "BertTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend", "BertJapaneseTokenizer",
            "DistilBertTokenizer", "DistilBertTokenizerFast", "RobertaTokenizer", "MPNetTokenizer", "ElectraTokenizer",
            "NomicBertTokenizer", "MyTokenizer", "XLMRobertaTokenizer", ABSENT, None],
        "model_max_length": [8, 20, 512, 10 ** 30, ABSENT, None, "8"], "never_split": [["cat"]],
        "do_basic_tokenize": [False], "clean_text": [False], "wordpieces_prefix": ["", "@@"], "max_len": [8],
        "max_length": [8], "stride": [2], "truncation_side": ["left", "right"], "padding_side": ["left", "right"],
        "truncation_strategy": ["only_first"], "pad_to_multiple_of": [16], "split_special_tokens": [True, False],
        "additional_special_tokens": [[], ["<new>"], ["cat"], ["[NEW]", "<new>"]],
        "extra_special_tokens": [{}, {"new_token": "<new>"}, ["<new>"], {"cat_token": "cat"}],
        "cls_token": ["the", "[MASK]", "<new>", None, ABSENT, {"content": "[CLS]", "lstrip": True}],
        "sep_token": ["cat", "[PAD]", None, ABSENT], "unk_token": ["cat", "<unk>", None, ABSENT],
        "pad_token": ["the", "<pad>", None, ABSENT], "mask_token": [
            "the", None, ABSENT, {"__type": "AddedToken", "content": "[MASK]", "lstrip": True, "rstrip": False,
                                  "normalized": False, "single_word": False, "special": True}],
        "bos_token": ["<s>", "[CLS]", "the"], "eos_token": ["</s>", "[SEP]", "cat"], "add_bos_token": [True],
        "add_eos_token": [True], "add_prefix_space": [True], "model_input_names": [["input_ids", "attention_mask"]],
        "clean_up_tokenization_spaces": [True], "word_tokenizer_type": ["mecab"], "subword_tokenizer_type": ["character"],
        "do_word_tokenize": [False], "added_tokens_decoder": [
            {}, {"7": {"content": "sat", "special": False, "normalized": True}},
            {"4": {"content": "[MASK]", "lstrip": True, "special": True}}],
        "backend": ["tokenizers", "custom"], "chat_template": ["{{ messages }}"], "add_special_tokens": [False]}.items():
    setting(TOKENIZER_CONFIG, key, values)
option("tokenizer_config.json", {"absent": drop(TOKENIZER_CONFIG)})
setting("special_tokens_map.json", "cls_token", ["[CLS]", "the", {"content": "[CLS]", "lstrip": True}])
setting("special_tokens_map.json", "unk_token", ["[UNK]", "cat"])
setting("special_tokens_map.json", "additional_special_tokens", [["<new>"], ["cat"]])
setting("added_tokens.json", "newtok", [5, 186, 900])


def vocabulary_file(text=None, keep=False):
    def apply(folder):
        lines = "\n".join(folder.vocabulary) + "\n"
        folder.text["vocab.txt"] = text(lines) if text else lines
        if not keep:
            folder.json.pop(TOKENIZER, None)
    return apply


option("vocab.txt", {
    "alone": vocabulary_file(), "bare": chain(vocabulary_file(), drop(TOKENIZER_CONFIG)),
    "CRLF": vocabulary_file(lambda lines: lines.replace("\n", "\r\n")), "no last newline": vocabulary_file(str.rstrip),
    "beside": vocabulary_file(keep=True), "disagrees": vocabulary_file(lambda lines: lines.replace("cat", "dog"), True),
    "twice": vocabulary_file(lambda lines: lines.replace("dog\n", "").replace("sat\n", "cat\n")),
    "spaces": vocabulary_file(lambda lines: lines.replace("cat\n", "cat \n")),
    "order": vocabulary_file(lambda lines: "\n".join(reversed(lines.split())) + "\n", True)}, ("alone", "beside"))

# ---- sentence-transformers' files -----------------------------------------------------------------------------------

MODULES = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize", "Dense": "3_Dense",
           "LayerNorm": "4_LayerNorm", "Dropout": "5_Dropout", "WordWeights": "6_WordWeights", "LSTM": "7_LSTM", "CNN": "8_CNN",
           "WeightedLayerPooling": "9_Weighted"}


def modules(*names, prefix="sentence_transformers.models.", **paths):
    def apply(folder):
        folder.json["modules.json"] = [
            {"idx": i, "name": str(i), "path": paths.get(name, MODULES.get(name, "")),
             "type": name if "." in name else prefix + name} for i, name in enumerate(names)]
    return apply


def dense(activation="torch.nn.modules.linear.Identity", out=HIDDEN, bias=True, **more):
    def apply(folder):
        modules("Transformer", "Pooling", "Dense", "Normalize")(folder)
        folder.json["3_Dense/config.json"] = {"in_features": HIDDEN, "out_features": out, "bias": bias,
                                              "activation_function": activation, **more}
        folder.dense = {"linear.weight": 0.2 * torch.randn(out, HIDDEN), **({"linear.bias": torch.randn(out)} if bias else {})}
    return apply


def into_subfolder(folder):
    for name in (CONFIG, TOKENIZER, TOKENIZER_CONFIG, SENTENCE, "special_tokens_map.json", "adapter_config.json"):
        if name in folder.json:
            folder.json[f"0_Transformer/{name}"] = folder.json.pop(name)
    for name in list(folder.text):
        folder.text[f"0_Transformer/{name}"] = folder.text.pop(name)
    folder.weights_name = "0_Transformer/model.safetensors"
    modules("Transformer", "Pooling", "Normalize", Transformer="0_Transformer")(folder)


NEW = "sentence_transformers.sentence_transformer.modules."
option("modules.json", {
    "no Normalize": modules("Transformer", "Pooling"), "no Pooling": modules("Transformer", "Normalize"),
    "only Transformer": modules("Transformer"), "Normalize first": modules("Transformer", "Normalize", "Pooling"),
    "Normalize twice": modules("Transformer", "Pooling", "Normalize", "Normalize"),
    "Pooling twice": modules("Transformer", "Pooling", "Pooling"), "absent": drop("modules.json"),
    "new names": modules("sentence_transformers.base.modules.transformer.Transformer", NEW + "pooling.Pooling",
                         "sentence_transformers.base.modules.normalize.Normalize",
                         **{NEW + "pooling.Pooling": "1_Pooling"}),
    "short names": modules("Transformer", "Pooling", "Normalize", prefix=""),
    "custom": modules("Transformer", "custom.Pooling", "Normalize", **{"custom.Pooling": "1_Pooling"}),
    "another path": modules("Transformer", "Pooling", "Normalize", Pooling="pool"), "empty": modules(),
    "Dropout": modules("Transformer", "Pooling", "Dropout", "Normalize"), "LayerNorm": modules("Transformer", "Pooling", "LayerNorm"),
    "Pooling first": modules("Pooling", "Transformer"), "subfolder": into_subfolder,
    "two Transformers": modules("Transformer", "Transformer", "Pooling"),
    "Dense": dense(), "Dense tanh": dense("torch.nn.modules.activation.Tanh"), "Dense smaller": dense(out=16),
    "Dense without bias": dense(bias=False), "Dense residual": dense(use_residual=True),
    "Dense of tokens": dense(module_input_name="token_embeddings")},
       ("no Normalize", "absent", "new names", "Normalize twice", "Dense", "Dense tanh", "Dense smaller", "Dense without bias"))
FLAGS = ["mean_tokens", "cls_token", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"]


def flags(*on):
    return lambda folder: folder.json.__setitem__(POOLING, {
        "word_embedding_dimension": HIDDEN, **{f"pooling_mode_{name}": name in on for name in FLAGS}})


option("Pooling", {**{" and ".join(on) or "none": flags(*on) for on in [
    ("mean_tokens",), ("cls_token",), ("max_tokens",), ("mean_sqrt_len_tokens",), ("weightedmean_tokens",),
    ("lasttoken",), ("cls_token", "mean_tokens"), ()]}, "empty": lambda folder: folder.json.__setitem__(
        POOLING, {"word_embedding_dimension": HIDDEN}), "absent": drop(POOLING)}, ("mean_tokens", "cls_token"))
option("Pooling by name", {str(mode): lambda folder, mode=mode: folder.json.__setitem__(
    POOLING, {"embedding_dimension": HIDDEN, "pooling_mode": mode, "include_prompt": True})
    for mode in ("mean", "cls", "max", "lasttoken", "mean_sqrt_len_tokens", "weightedmean", ["mean"], ["cls", "mean"],
                 "sum", None)}, ("mean", "cls"))
setting(POOLING, "include_prompt", [True, False], "all")
setting("2_Normalize/config.json", "module_input_name", ["sentence_embedding", "token_embeddings", "cls_token_embeddings"])
setting("2_Normalize/config.json", "module_output_name", ["sentence_embedding", "normalized"])


def prompts(default=None, **named):
    def apply(folder):
        folder.json.setdefault(PROMPTS, {}).update(prompts=named, default_prompt_name=default)
        folder.prompts = [name for name, text in named.items() if isinstance(text, str)]
    return apply


option("prompts", {
    "two": prompts(query="query: ", passage="the cat: "), "default": prompts("query", query="query: "), "empty": prompts(query=""),
    "no space": prompts(query="new"), "null": prompts(query=None), "unknown default": prompts("other", query="query: "),
    "special": prompts("query", query="[MASK] "), "long": prompts("query", query="the cat sat on the mat " * 8),
    "accents": prompts("query", query="É "), "ends in a token": prompts("query", query="<new>"), "blank": prompts("query", query="  ")},
    ("two", "default", "empty"))
for key, values in {"truncate_dim": [8, None, 64], "similarity_fn_name": ["dot", "euclidean", None], "model_type": [
        "SentenceTransformer", "SparseEncoder", "CrossEncoder", "MultiVectorEncoder"], "requirements": [
            {"transformers": ">=4"}, {"transformers": ">=99"}]}.items():
    setting(PROMPTS, key, values)
option("config_sentence_transformers.json", {"absent": drop(PROMPTS)}, "all")
for key, values in {
        "max_seq_length": [4, 16, 40, 100, None, ABSENT, "16"], "do_lower_case": [True, False, ABSENT, None],
        "tokenizer_args": [{}, {"do_lower_case": False}, {"model_max_length": 8}],
        "processor_kwargs": [{}, {"strip_accents": False}, {"model_max_length": 8}, {"truncation_side": "left"}],
        "model_args": [{}, {"dtype": "float32"}], "model_kwargs": [{"attn_implementation": "eager"}],
        "config_args": [{}, {"hidden_act": "relu"}, {"num_hidden_layers": 1}], "config_kwargs": [{"layer_norm_eps": 0.5}],
        "transformer_task": ["feature-extraction", "fill-mask", "text-generation"], "modality_config": [
            {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
            {"text": {"method": "forward", "method_output_name": "pooler_output"}}],
        "module_output_name": ["token_embeddings", "sentence_embedding"], "tokenizer_name_or_path": ["."],
        "processing_kwargs": [{}, {"text": {"max_length": 6}}, {"text": {"truncation": False}}, {"common": {"padding": "max_length"}}],
        "query_length": [4], "document_length": [4], "unpad_inputs": [True], "query_expansion": [
            {"strategy": "fixed", "attend": True, "length": 16}]}.items():
    setting(SENTENCE, key, values)
option("sentence_bert_config.json", {"absent": drop(SENTENCE), "named roberta": lambda folder: folder.json.__setitem__(
    "sentence_roberta_config.json", {**(folder.json.pop(SENTENCE, None) or {}), "max_seq_length": 8})})
