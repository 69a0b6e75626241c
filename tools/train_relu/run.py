"""Does one run, from the arguments to the folder."""

import torch
from transformers.utils import logging

from .folder import EXIT_USAGE, Refusal, load_bert, read_config, read_pooling
from .losses import Watched
from .output import remove, resume, save_checkpoint, settings_of, write_folder
from .text import Texts, Tokenizer, read_lines
from .training import SparseTraining, train

# The result depends on these options, beside the files.
SETTINGS = ("seed", "batch", "held_out", "layer_steps", "layer_rate", "steps", "rate", "wide_steps", "wide_rate",
            "density", "penalty", "bf16")


def checkpoint_of(options):
    """Returns the checkpoint's path. Checks before any work is done that the results can be written."""
    out = options.out
    if out.exists():
        raise Refusal(EXIT_USAGE, f"{out}: exists already")
    if not out.parent.is_dir():
        raise Refusal(EXIT_USAGE, f"{out.parent}: no such folder")
    checkpoint = out.with_name(out.name + ".checkpoint")
    if checkpoint.exists() and not options.resume:
        raise Refusal(EXIT_USAGE, f"{checkpoint}: exists already: --resume goes on from it")
    return checkpoint


def set_up(options):
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.device == "cuda" and not torch.cuda.is_available():
        raise Refusal(EXIT_USAGE, "--device cuda: PyTorch finds no such device")
    options.device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")


def run(options):
    """Runs the training. Returns whether it reached the end."""
    folder, checkpoint = options.teacher, checkpoint_of(options)
    config, (pooling, pooling_path) = read_config(folder, ("gelu",)), read_pooling(folder)
    lines, wide_lines = read_lines(options.text), read_lines(options.wide_text)
    set_up(options)
    texts = Texts(Tokenizer(folder, config), lines, wide_lines, options)
    teacher, student = (Watched(load_bert(folder, activation).to(options.device), pooling)
                        for activation in ("gelu", "relu"))
    training = SparseTraining(teacher, student, texts, options)
    settings = settings_of(options, SETTINGS, folder, {"TEXT": lines, "--wide-text": wide_lines})
    if options.resume:
        resume(checkpoint, settings, training)
    if not train(training, lambda: save_checkpoint(checkpoint, settings, training)):
        print(f"stopped after step {training.step}; the same command with --resume goes on", flush=True)
        return False
    write_folder(options.out, folder, {**config, "hidden_act": "relu"}, pooling_path, student.model.state_dict(),
                 options.dtype)
    remove(checkpoint)
    print(f"wrote {options.out}", flush=True)
    return True
