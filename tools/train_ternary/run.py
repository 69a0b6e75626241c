"""Does one run, from the arguments to the folder."""

from train_twin.folder import load_bert, read_config, read_pooling
from train_twin.losses import Watched
from train_twin.output import settings_of, weight_files, write_folder
from train_twin.run import LAYER_SETTINGS, SETTINGS, checkpoint_of, set_up, train_and_write
from train_twin.text import Texts, Tokenizer, read_lines

from .training import TernaryTraining, make_ternary, weights_of


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
    settings = settings_of(options, (*SETTINGS, *LAYER_SETTINGS), {"TEACHER": weight_files(folder)}, {"TEXT": lines})

    def write():
        write_folder(options.out, folder, config, pooling_path, weights_of(student, ternary), "float32")

    return train_and_write(TernaryTraining(teacher, student, texts, options), checkpoint, settings, write)
