"""Trains the student, in stages, and reports its progress."""

import math
import signal
import time

import torch

from .folder import EXIT_FAILED, Refusal

LAST_RATE = 0.05  # the learning rate falls to this fraction of itself, along a cosine


class Stage:
    """A stage of `steps` steps, which begins with step `start`."""

    def __init__(self, name, errors, batches, start, steps, rate, parameters):
        self.name, self.errors, self.batches = name, errors, batches
        self.start, self.end, self.rate = start, start + steps, rate
        self.optimizer = torch.optim.AdamW(parameters, lr=rate, fused=True)

    def set_rate(self, step):
        done = (step - self.start) / (self.end - self.start)
        share = LAST_RATE + (1 - LAST_RATE) * 0.5 * (1 + math.cos(math.pi * done))
        self.optimizer.param_groups[0]["lr"] = self.rate * share


def train_all_but_words(model):
    """Keeps the word embeddings, and the pooler, as they are. Returns the other parameters."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("word_embeddings" not in name and not name.startswith("pooler."))
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def cosines(teacher, student, texts, options):
    """Runs the held-out lines, and gives the cosines to the teacher of each batch of them."""
    for batch in texts.held_out:
        ids, mask = (part.to(options.device) for part in batch)
        with torch.no_grad(), torch.autocast(options.device, torch.bfloat16, enabled=options.bf16):
            found = (teacher.run(ids, mask)[0] * student.run(ids, mask)[0]).sum(-1)
        yield found


def mean_cosine(teacher, student, texts, options):
    """Returns the mean of these cosines, in words."""
    return f"cosine {float(torch.cat(list(cosines(teacher, student, texts, options))).mean()):.5f}"


class Training:
    """The student and everything that a checkpoint holds. `plan` lists stages, each as (name, function that returns a
    batch's error and what subclasses add to it, batches, steps, rate, parameters)."""

    def __init__(self, teacher, student, texts, options, plan):
        self.teacher, self.student, self.texts, self.options = teacher, student, texts, options
        self.stages, start = [], 0
        for name, errors, batches, steps, rate, parameters in plan:
            self.stages.append(Stage(name, errors, batches, start, steps, rate, parameters))
            start += steps
        self.total, self.step = start, 0

    def stage(self):
        """Returns the stage of the next step; at the end, the last stage."""
        return next((stage for stage in self.stages if self.step < stage.end), self.stages[-1])

    def state(self):
        stage = self.stage()
        moments = stage.optimizer.state_dict() if stage.start < self.step < stage.end else None
        return {"step": self.step, "student": self.student.model.state_dict(), "optimizer": moments}

    def restore(self, state):
        self.step = state["step"]
        self.student.model.load_state_dict(state["student"])
        if state["optimizer"] is not None:
            self.stage().optimizer.load_state_dict(state["optimizer"])

    def advance(self):
        """Does one step. Returns the parts of the loss."""
        stage, device = self.stage(), self.options.device
        ids, mask = (part.to(device) for part in stage.batches[self.step - stage.start])
        with torch.autocast(device, torch.bfloat16, enabled=self.options.bf16):
            error, activations = stage.errors(self.teacher, self.student, ids, mask)
        parts = (error, *self.penalties(activations))
        loss = sum(parts)
        if not torch.isfinite(loss):
            raise Refusal(EXIT_FAILED, f"step {self.step + 1}: the loss is {float(loss.detach())}: "
                                       "a lower learning rate may help")
        stage.set_rate(self.step)
        stage.optimizer.zero_grad()
        loss.backward()
        stage.optimizer.step()
        self.step += 1
        self.after_step(activations)
        return [float(part.detach()) for part in parts]

    def penalties(self, _activations):
        """Returns what is added to the error."""
        return []

    def after_step(self, _activations):
        """Does what follows each step."""

    def describe(self, parts):
        """Returns the loss in words."""
        return f"loss {sum(parts):.4f}"

    def judge(self):
        """Returns how the student does on the held-out lines, in words."""
        return mean_cosine(self.teacher, self.student, self.texts, self.options)


class Report:
    """Prints the progress of the training."""

    def __init__(self, training):
        self.training, self.losses, self.since = training, [], time.monotonic()

    def add(self, losses):
        self.losses.append(losses)

    def line(self, stage):
        text = f"{stage} {self.training.step}/{self.training.total}: "
        if self.losses:
            means = [sum(column) / len(self.losses) for column in zip(*self.losses)]
            speed = len(self.losses) / (time.monotonic() - self.since)
            text += f"{self.training.describe(means)}, {speed:.1f} steps/s; "
        print(f"{text}held out: {self.training.judge()}", flush=True)
        self.losses, self.since = [], time.monotonic()


class Stopping:
    """Remembers the first Ctrl-C while its body runs, so that a step can end; obeys the second."""

    def __enter__(self):
        self.asked = False
        self.previous = {number: signal.signal(number, self.ask) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def ask(self, *_):
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *_):
        for number, handler in self.previous.items():
            signal.signal(number, handler)


def train(training, save):
    """Trains to the end or to Ctrl-C, and saves regularly and then. Returns whether it reached the end."""
    options, report = training.options, Report(training)
    with Stopping() as stopping:
        report.line("start")
        while training.step < training.total and not stopping.asked:
            stage = training.stage()
            report.add(training.advance())
            if training.step == stage.end or training.step % options.report == 0:
                report.line(stage.name)
            if training.step % options.save == 0:
                save()
        save()
    return training.step == training.total
