"""Does one run, from the arguments to the file."""

from train_twin.folder import EXIT_INPUT, Refusal, load_bert, read_config, read_pooling, refuse_model
from train_twin.losses import Watched
from train_twin.output import settings_of, weight_files
from train_twin.run import SETTINGS, checkpoint_of, set_up, train_and_write
from train_twin.text import Texts, Tokenizer, read_lines

from .decoder import Windows, load_decoder
from .file import ModelFile
from .names import copy_values
from .student import Trained
from .training import BlockTraining, Predictor


def encoders(options, start):
    """Returns the teacher, the student, and what makes token ids of lines."""
    folder = options.teacher
    config, (pooling, _) = read_config(folder, ("gelu", "relu")), read_pooling(folder)
    if start.architecture != "bert":
        refuse_model(start.path, "general.architecture", f"{start.architecture}: TEACHER is a folder of a bert")
    # PyTorch's fused attention for processors takes twice the time of its parts.
    teacher, student = (load_bert(folder, config["hidden_act"], attn_implementation="eager") for _ in range(2))
    copy_values(student, start, (name for name in student.state_dict() if not name.startswith("pooler.")))
    return Watched(teacher, pooling), Watched(student, pooling), Tokenizer(folder, config)


def decoders(options, start):
    file = ModelFile(options.teacher)
    models = Predictor(load_decoder(file)), Predictor(load_decoder(start))
    check_vocabulary(file, start)
    return *models, Windows(options.wisp, file.path, options.window)


def check_vocabulary(teacher, start):
    """Refuses a file whose tokens are not the teacher's, as predictions of the two could not be compared."""
    mine, theirs = (file.keys.get("tokenizer.ggml.tokens", []) for file in (start, teacher))
    sizes = [int(file.tensors["token_embd.weight"].shape[1]) for file in (start, teacher)]
    if sizes[0] != sizes[1]:
        refuse_model(start.path, "token_embd.weight", f"{sizes[0]} tokens, where {teacher.path} has {sizes[1]}")
    for token, (own, other) in enumerate(zip(mine, theirs)):
        if own != other:
            refuse_model(start.path, "tokenizer.ggml.tokens", f"token {token} is {own!r}, in {teacher.path} {other!r}")


def run(options):
    """Runs the training. Returns whether it reached the end."""
    checkpoint, lines = checkpoint_of(options), read_lines(options.text)
    start = ModelFile(options.start)
    set_up(options)
    kind = encoders if options.teacher.is_dir() else decoders
    teacher, student, tokenizer = kind(options, start)
    for made in (teacher.model, student.model):
        made.to(options.device)
    texts = Texts(tokenizer, lines, [], options)
    if len(texts.plain.rows) < options.batch or not texts.held_out:
        raise Refusal(EXIT_INPUT, f"TEXT: {len(lines)} different lines are too few for --batch {options.batch} and "
                                  f"--held-out {options.held_out} in windows of {options.window} tokens")
    trained = Trained(student.model, teacher.model, start)
    student.model.to(options.device)
    print(trained.describe(), flush=True)
    settings = settings_of(options, (*SETTINGS, "window"),
                           {"TEACHER": weight_files(options.teacher), "--start": [options.start]}, {"TEXT": lines})
    return train_and_write(BlockTraining(teacher, student, trained, texts, options), checkpoint, settings,
                           lambda: start.write(options.out, trained.written()))
