"""Does one run, from the arguments to the folder."""

from train_relu.folder import load_bert, read_config, read_pooling
from train_relu.losses import Watched
from train_relu.output import remove, resume, save_checkpoint, settings_of, write_folder
from train_relu.run import checkpoint_of, set_up
from train_relu.text import Texts, Tokenizer, read_lines
from train_relu.training import train

from .training import TernaryTraining, make_ternary, weights_of

# The result depends on these options, beside the files.
SETTINGS = ("seed", "batch", "held_out", "layer_steps", "layer_rate", "steps", "rate", "bf16")


def run(options):
    """Runs the training. Returns whether it reached the end."""
    folder, checkpoint = options.teacher, checkpoint_of(options)
    config, (pooling, pooling_path) = read_config(folder, ("gelu", "relu")), read_pooling(folder)
    lines = read_lines(options.text)
    set_up(options)
    texts = Texts(Tokenizer(folder, config), lines, [], options)
    # PyTorch's fused attention for processors takes twice the time of its parts.
    teacher, student = (Watched(load_bert(folder, config["hidden_act"], attn_implementation="eager").to(options.device),
                                pooling) for _ in range(2))
    ternary = make_ternary(student)
    training = TernaryTraining(teacher, student, texts, options)
    settings = settings_of(options, SETTINGS, folder, {"TEXT": lines})
    if options.resume:
        resume(checkpoint, settings, training)
    if not train(training, lambda: save_checkpoint(checkpoint, settings, training)):
        print(f"stopped after step {training.step}; the same command with --resume goes on", flush=True)
        return False
    write_folder(options.out, folder, config, pooling_path, weights_of(student, ternary), "float32")
    remove(checkpoint)
    print(f"wrote {options.out}", flush=True)
    return True
