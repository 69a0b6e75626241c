"""Trains a student with ReLU, whose activations cost something."""

import math

import torch
from train_twin.losses import EPSILON, relative_error, whole_errors
from train_twin.training import Training, cosines, train_all_but_words

STEER_EVERY, STEER_BY = 4, 1.01


def penalty_of(layer, activations):
    """Returns the size of activations' contributions to the output, summed over neurons, averaged over tokens."""
    norms = layer.output.dense.weight.norm(dim=0)
    return (activations.float().abs() @ norms).mean() / math.sqrt(len(norms))


def layer_errors(teacher, student, ids, mask):
    """Runs each feed-forward layer alone on the teacher's inputs. Returns (error, activations of each layer)."""
    with torch.no_grad():
        teacher.run(ids, mask)
    error, activations = 0.0, []
    for i, layer in enumerate(student.layers):
        with torch.no_grad():
            wanted = teacher.layers[i].output.dense(teacher.activations[i])
        activations.append(layer.intermediate.intermediate_act_fn(layer.intermediate.dense(teacher.inputs[i])))
        error = error + relative_error(layer.output.dense(activations[-1]), wanted)
    return error, activations


class SparseTraining(Training):
    """Training with a penalty on activations, which is steered until the wanted share of them is left."""

    def __init__(self, teacher, student, texts, options):
        whole = train_all_but_words(student.model)
        alone = [parameter for layer in student.layers for part in (layer.intermediate, layer.output.dense)
                 for parameter in part.parameters()]
        super().__init__(teacher, student, texts, options, (
            ("layers", layer_errors, texts.plain, options.layer_steps, options.layer_rate, alone),
            ("whole", whole_errors, texts.plain, options.steps, options.rate, whole),
            ("wide", whole_errors, texts.wide, options.wide_steps, options.wide_rate, whole)))
        self.weights = torch.zeros(len(student.layers))  # weight of each layer's penalty
        self.active = torch.zeros(len(student.layers))  # sums of each layer's shares since the last steering

    def state(self):
        return {**super().state(), "weights": self.weights, "active": self.active}

    def restore(self, state):
        super().restore(state)
        self.weights, self.active = state["weights"], state["active"]

    def penalties(self, activations):
        penalties = torch.stack([penalty_of(*pair) for pair in zip(self.student.layers, activations)])
        if self.step == 0:
            self.weights = self.options.penalty / (penalties.detach().cpu() + EPSILON)
        return [(self.weights.to(self.options.device) * penalties).sum()]

    def after_step(self, activations):
        """Raises the weight of a layer's penalty if too many of its neurons are active, and else lowers it."""
        self.active += torch.stack([(a > 0).float().mean() for a in activations]).cpu()
        if self.step % STEER_EVERY == 0:
            too_many = self.active / STEER_EVERY > self.options.density
            self.weights = torch.where(too_many, self.weights * STEER_BY, self.weights / STEER_BY)
            self.active.zero_()

    def describe(self, parts):
        error, penalty = parts
        return f"loss {error + penalty:.4f} (error {error:.4f}, penalty {penalty:.4f})"

    def judge(self):
        """Returns the share of non-zero activations, and the mean cosine to the teacher, on the held-out lines."""
        nonzero = count = 0
        found = []
        for batch in cosines(self.teacher, self.student, self.texts, self.options):
            found.append(batch)
            nonzero += sum(int((a != 0).sum()) for a in self.student.activations.values())
            count += sum(a.numel() for a in self.student.activations.values())
        return f"{100 * nonzero / count:.2f} % non-zero, cosine {float(torch.cat(found).mean()):.5f}"
