"""Losses: the student's distance from the teacher."""

import torch
from torch.nn import functional

EPSILON = 1e-12
SIMILARITY_WEIGHT = 8.0


class Watched:
    """A model with hooks that keep the inputs of each feed-forward layer and the outputs of its activation, as
    [tokens, hidden_size] and [tokens, intermediate_size] without padding."""

    def __init__(self, model, pooling):
        self.model, self.pooling = model, pooling
        self.layers = model.encoder.layer
        for i, layer in enumerate(self.layers):
            layer.intermediate.register_forward_hook(lambda _, given, made, i=i: self.keep(i, given[0], made))

    def keep(self, i, given, made):
        self.inputs[i], self.activations[i] = given[self.mask], made[self.mask]

    def watch(self, mask):
        """Begins to keep what layers do with texts of this mask."""
        self.mask, self.inputs, self.activations = mask, {}, {}

    def run(self, ids, mask):
        """Returns (normalised embeddings [texts, hidden_size], states after each layer [tokens, hidden_size])."""
        self.watch(mask)
        made = self.model(input_ids=ids, attention_mask=mask.long(), output_hidden_states=True)
        rows, weights = made.last_hidden_state.float(), mask[..., None].float()
        pooled = rows[:, 0] if self.pooling == "cls" else (rows * weights).sum(1) / weights.sum(1)
        return functional.normalize(pooled, dim=-1), [state[mask] for state in made.hidden_states[1:]]


def relative_error(mine, wanted):
    """Returns the squared error divided by the squares of the wanted values."""
    mine, wanted = mine.float(), wanted.float()
    return (mine - wanted).square().sum() / (wanted.square().sum() + EPSILON)


def whole_errors(teacher, student, ids, mask):
    """Runs the whole model. Compares every second state and the last, embeddings, and similarities of texts."""
    with torch.no_grad():
        wanted, wanted_states = teacher.run(ids, mask)
    mine, states = student.run(ids, mask)
    last = len(states) - 1
    error = sum(relative_error(states[i], wanted_states[i]) for i in range(last + 1) if i % 2 == 1 or i == last)
    error = error + SIMILARITY_WEIGHT * (1 - (mine * wanted).sum(-1).mean())
    error = error + SIMILARITY_WEIGHT * (mine @ mine.T - wanted @ wanted.T).square().mean()
    return error, [student.activations[i] for i in range(len(states))]
