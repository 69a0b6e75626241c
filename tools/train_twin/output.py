"""Writes results. A file or folder appears only when it is whole and on the disk."""

import contextlib
import hashlib
import io
import json
import os
import shutil

import safetensors.torch
import torch

from .folder import EXIT_FAILED, EXIT_USAGE, Refusal

# A sentence encoder has these files beside weights and config.json. The model card, of the teacher, is left out.
COPIED = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json", "added_tokens.json",
          "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json")


def flush_to_disk(path):
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def appearing(path):
    """Gives a temporary path, which becomes `path` when the body ends and is removed if it fails."""
    temporary = path.with_name(path.name + ".tmp")
    remove(temporary)
    try:
        yield temporary
        for made in [*temporary.rglob("*"), temporary]:
            flush_to_disk(made)
        os.replace(temporary, path)
        flush_to_disk(path.parent)
    except OSError as error:
        raise Refusal(EXIT_FAILED, f"{path}: {error.strerror}") from error
    finally:
        remove(temporary)


def write_folder(out, folder, config, pooling_path, weights, dtype):
    """Writes a student of this config.json and these weights to a folder like the teacher's."""
    with appearing(out) as temporary:
        temporary.mkdir()
        for name in [*COPIED, *([f"{pooling_path}/config.json"] if pooling_path else [])]:
            if (folder / name).exists():
                (temporary / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(folder / name, temporary / name)
        config = {**config, "architectures": ["BertModel"], "dtype": dtype}
        config.pop("torch_dtype", None)  # earlier versions have dtype under this name
        (temporary / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        weights = {name: tensor.to("cpu", getattr(torch, dtype)).contiguous() for name, tensor in weights.items()}
        (temporary / "model.safetensors").write_bytes(safetensors.torch.save(weights, metadata={"format": "pt"}))


# ---- checkpoints -----------------------------------------------------------------------------------------------------

def weight_files(model):
    """Returns the files that say what a model computes: those of a folder, or the file itself."""
    return sorted([model / "config.json", *model.glob("*.safetensors")]) if model.is_dir() else [model]


def settings_of(options, names, files, texts):
    """Returns all settings that the result depends on, under the names that the user gives them. `files` has lists of
    files by such names, `texts` lists of lines."""
    settings = {f"--{name.replace('_', '-')}": getattr(options, name) for name in names}
    for name, paths in files.items():
        digest = hashlib.sha256()
        for path in paths:
            digest.update(path.read_bytes())
        settings[name] = digest.hexdigest()[:16]
    for name, lines in texts.items():
        settings[name] = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    return settings


def save_checkpoint(file, settings, training):
    made = io.BytesIO()
    torch.save({"settings": settings, **training.state()}, made)
    with appearing(file) as temporary:
        temporary.write_bytes(made.getbuffer())


def resume(file, settings, training):
    """Loads a checkpoint that was made with equal settings."""
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
        then = state["settings"]
    except FileNotFoundError as error:
        raise Refusal(EXIT_FAILED, f"{file}: no such file: there is nothing to resume") from error
    except Exception as error:  # libraries raise many types
        raise Refusal(EXIT_FAILED, f"{file}: no checkpoint of this program") from error
    for name, value in settings.items():
        if then.get(name) != value:
            raise Refusal(EXIT_USAGE, f"{file}: {name}: was {then.get(name)} when this began, is {value} now")
    training.restore(state)
    print(f"resuming after step {training.step}", flush=True)
