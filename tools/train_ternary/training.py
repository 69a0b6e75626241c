"""Trains a student with ternary matrices."""

import torch
from train_twin.losses import relative_error, whole_errors
from train_twin.training import Training, train_all_but_words

from .ternary import TernaryLinear

HIDDEN = -1e9  # added to the scores of tokens that are padding


def make_ternary(student):
    """Replaces the linear layers of each layer by ternary ones, and returns them under the names of their modules."""
    made = {}
    for name, module in list(student.model.encoder.named_modules(prefix="encoder")):
        if isinstance(module, torch.nn.Linear):
            made[name] = TernaryLinear(module)
            student.model.set_submodule(name, made[name])
    return made


def weights_of(student, ternary):
    """Returns the student's weights under BERT's names; ternary ones as they are to be quantised."""
    weights = {name: tensor for name, tensor in student.model.state_dict().items() if not name.endswith(".log_scales")}
    for name, module in ternary.items():
        weights[f"{name}.weight"] = module.exported()
    return weights


def layer_errors(teacher, student, ids, mask):
    """Runs each layer alone on the teacher's states. Returns (error, nothing)."""
    teacher.watch(mask)
    student.watch(mask)
    with torch.no_grad():
        states = teacher.model(input_ids=ids, attention_mask=mask.long(), output_hidden_states=True).hidden_states
    hidden = torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, HIDDEN)[:, None, None]
    error = 0.0
    for i, layer in enumerate(student.layers):
        error = error + relative_error(layer(states[i], hidden)[mask], states[i + 1][mask])
    return error, None


class TernaryTraining(Training):
    """Training of all weights but word embeddings, first each layer alone, then the whole."""

    def __init__(self, teacher, student, texts, options):
        whole = train_all_but_words(student.model)
        alone = list(student.layers.parameters())
        super().__init__(teacher, student, texts, options, (
            ("layers", layer_errors, texts.plain, options.layer_steps, options.layer_rate, alone),
            ("whole", whole_errors, texts.plain, options.steps, options.rate, whole)))
