"""Trains a student whose weights are rounded."""

import torch
from train_twin.losses import whole_errors
from train_twin.training import Training, mean_cosine


class Predictor:
    """A model that generates text."""

    def __init__(self, model):
        self.model = model

    def log_probabilities(self, ids):
        """Returns those of each next token, [texts, tokens, vocabulary]."""
        return self.model(input_ids=ids, use_cache=False).logits.float().log_softmax(-1)


def divergence(teacher, student, ids, _mask):
    """Returns (the mean divergence of the student's next tokens from the teacher's in nats, nothing)."""
    with torch.no_grad():
        wanted = teacher.log_probabilities(ids)
    mine = student.log_probabilities(ids)
    return (wanted.exp() * (wanted - mine)).sum(-1).mean(), None


def judge(teacher, student, texts, options):
    """Returns how far the student is from the teacher on the held-out lines, in words."""
    if not isinstance(student, Predictor):
        return mean_cosine(teacher, student, texts, options)
    total = tokens = 0
    for ids, mask in texts.held_out:
        with torch.no_grad():
            error, _ = divergence(teacher, student, ids.to(options.device), mask)
        total, tokens = total + float(error) * mask.numel(), tokens + mask.numel()
    return f"divergence {total / tokens:.5f}"


FIRST_TEMPERATURE = 0.3  # low enough that the model begins near START, whose levels GPTQ chose with care
LAST_TEMPERATURE = 0.02
SETTLED = 0.8  # the part of all steps after which each weight has one of its two levels


class BlockTraining(Training):
    """Training of everything that Trained says."""

    def __init__(self, teacher, student, trained, texts, options):
        self.trained = trained
        errors = divergence if isinstance(student, Predictor) else whole_errors
        parameters = [parameter for parameter in student.model.parameters() if parameter.requires_grad]
        super().__init__(teacher, student, texts, options,
                         (("blocks", errors, texts.plain, options.steps, options.rate, parameters),))

    def advance(self):
        done = self.step / self.total / SETTLED
        cooled = FIRST_TEMPERATURE * (LAST_TEMPERATURE / FIRST_TEMPERATURE) ** done
        self.trained.set_temperature(cooled if done < 1 else 0)
        return super().advance()

    def judge(self):
        """Judges what would be written now."""
        self.trained.set_temperature(0)
        return judge(self.teacher, self.student, self.texts, self.options)
