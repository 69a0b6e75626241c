"""Reads the teacher's folder."""

import json
from pathlib import Path

import torch
from transformers import BertModel

EXIT_FAILED, EXIT_USAGE, EXIT_MODEL, EXIT_INPUT = 1, 2, 3, 4


class Refusal(Exception):
    """The request cannot be done. Holds the reason, in words for the user, and the exit code."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def refuse_model(file, field, text):
    raise Refusal(EXIT_MODEL, f"{file}: {field}: {text}")


def read_json(file, kind, default=None):
    """Reads the JSON value in a file, which must be a `kind`. Without a file returns `default`, unless that is None."""
    if default is not None and not file.exists():
        return default
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise Refusal(EXIT_MODEL, f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise Refusal(EXIT_MODEL, f"{file}: not JSON: {error}") from error
    if not isinstance(value, kind):
        raise Refusal(EXIT_MODEL, f"{file}: {'an object' if kind is dict else 'an array'} belongs here")
    return value


def read_config(folder, activations):
    """Returns config.json. Refuses models other than BERT encoders with one of these activations."""
    file = folder / "config.json"
    config = read_json(file, dict)
    wanted = {"model_type": ("bert",), "hidden_act": activations, "position_embedding_type": ("absolute",),
              "is_decoder": (False,)}
    defaults = {"position_embedding_type": "absolute", "is_decoder": False}
    for field, values in wanted.items():
        given = config.get(field, defaults.get(field))
        if given not in values:
            only = " or ".join(map(str, values))
            said = "there is nothing to replace in a ReLU model" if given == "relu" else f"only {only} can be used"
            refuse_model(file, field, f"{json.dumps(given)}: {said}")
    for field in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size",
                  "max_position_embeddings"):
        given = config.get(field)
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            refuse_model(file, field, f"{json.dumps(given)} is not a whole number above 0")
    return config


def read_pooling(folder):
    """Returns ("mean" or "cls", the folder of the pooling module) from modules.json; mean without that file."""
    file = folder / "modules.json"
    pooling = ("mean", None)
    for module in read_json(file, list, default=[]):
        kind, path = (module.get(field) if isinstance(module, dict) else None for field in ("type", "path"))
        if not isinstance(kind, str) or not isinstance(path, str) or Path(path).name != path:
            refuse_model(file, "type, path", "two strings, path without folders, belong here")
        name = kind.rpartition(".")[2]
        if name == "Pooling":
            pooling = (pooling_mode(folder / path / "config.json"), path)
        elif name == "Transformer" and path:
            refuse_model(file, "path", f"{json.dumps(path)}: the transformer must lie in the folder itself")
        elif name not in ("Transformer", "Normalize"):
            refuse_model(file, "type", f"modules of type {kind} cannot be used")
    return pooling


def pooling_mode(file):
    config = read_json(file, dict)
    names = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    chosen = [names.get(flag, flag) for flag, value in config.items()
              if flag.startswith("pooling_mode_") and value is True]
    chosen += [config["pooling_mode"]] if "pooling_mode" in config else []
    if chosen not in (["mean"], ["cls"]):
        refuse_model(file, "pooling_mode", f"{chosen}: only mean or only cls can be used")
    return chosen[0]


def load_bert(folder, activation, **options):
    """Loads the folder's BertModel in f32, with the pooler if there is one. Hands more options to transformers."""
    if not any((folder / name).exists() for name in ("model.safetensors", "model.safetensors.index.json")):
        raise Refusal(EXIT_MODEL, f"{folder / 'model.safetensors'}: no such file")
    for pooler in (True, False):
        try:
            model, found = BertModel.from_pretrained(
                folder, local_files_only=True, use_safetensors=True, hidden_act=activation, add_pooling_layer=pooler,
                dtype=torch.float32, ignore_mismatched_sizes=True, output_loading_info=True, **options)
        except Exception as error:  # libraries raise many types
            reason = str(error).strip().split("\n")[0]
            raise Refusal(EXIT_MODEL, f"{folder}: the weights cannot be read: {reason}") from error
        missing = [name for name in found["missing_keys"] if not name.startswith("pooler.")]
        if missing or found["mismatched_keys"]:
            names = [name if isinstance(name, str) else name[0] for name in [*missing, *found["mismatched_keys"]]]
            refuse_model(folder, sorted(names)[0], "this weight is missing or of another shape")
        if not found["missing_keys"]:
            break
    return model.eval()  # turns dropout off, so that teacher and student agree and a run can be repeated
