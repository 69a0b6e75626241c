"""The beginning and the end of a run."""

import torch
from transformers.utils import logging

from .folder import EXIT_USAGE, Refusal
from .output import remove, resume, save_checkpoint
from .training import train

# The result of every program depends on these options, beside the files; that of some also on LAYER_SETTINGS.
SETTINGS = ("seed", "batch", "held_out", "steps", "rate", "bf16")
LAYER_SETTINGS = ("layer_steps", "layer_rate")


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
    """Makes libraries quiet, and chooses threads and device."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.device == "cuda" and not torch.cuda.is_available():
        raise Refusal(EXIT_USAGE, "--device cuda: PyTorch finds no such device")
    options.device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")


def train_and_write(training, checkpoint, settings, write):
    """Trains, from the checkpoint if --resume asks for it, and then makes OUT by `write`. Returns whether
    training reached the end."""
    options = training.options
    if options.resume:
        resume(checkpoint, settings, training)
    if not train(training, lambda: save_checkpoint(checkpoint, settings, training)):
        print(f"stopped after step {training.step}; the same command with --resume goes on", flush=True)
        return False
    write()
    remove(checkpoint)
    print(f"wrote {options.out}", flush=True)
    return True
