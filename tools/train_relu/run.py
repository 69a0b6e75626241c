"""Does one run, from the arguments to the folder."""

from train_twin.folder import load_bert, read_config, read_pooling
from train_twin.losses import Watched
from train_twin.output import settings_of, weight_files, write_folder
from train_twin.run import LAYER_SETTINGS, SETTINGS, checkpoint_of, set_up, train_and_write
from train_twin.text import Texts, Tokenizer, read_lines

from .training import SparseTraining


def run(options):
    """Runs the training. Returns whether it reached the end."""
    folder, checkpoint = options.teacher, checkpoint_of(options)
    config, (pooling, pooling_path) = read_config(folder, ("gelu",)), read_pooling(folder)
    lines, wide_lines = read_lines(options.text), read_lines(options.wide_text)
    set_up(options)
    texts = Texts(Tokenizer(folder, config), lines, wide_lines, options)
    teacher, student = (Watched(load_bert(folder, activation).to(options.device), pooling)
                        for activation in ("gelu", "relu"))
    names = (*SETTINGS, *LAYER_SETTINGS, "wide_steps", "wide_rate", "density", "penalty")
    settings = settings_of(options, names, {"TEACHER": weight_files(folder)}, {"TEXT": lines, "--wide-text": wide_lines})

    def write():
        write_folder(options.out, folder, {**config, "hidden_act": "relu"}, pooling_path, student.model.state_dict(),
                     options.dtype)

    return train_and_write(SparseTraining(teacher, student, texts, options), checkpoint, settings, write)
