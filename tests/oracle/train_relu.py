#!/usr/bin/env python3
"""Trains a ReLU twin of a tiny random model with tools/train_relu.py, and checks its promises.

    tests/oracle/train_relu.py WISP

WISP is the program, which is compared with transformers on the twin. Needs torch and transformers, which
.tools/bin/python-torch has, and no data: the model and its text are made here from a seed.
"""

import json
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch
from safetensors.torch import load_file
from tiny_encoder import call_main, embeddings, make_teacher, make_text, write_json

REPO = Path(__file__).resolve().parents[2]
TOOL = REPO / "tools" / "train_relu.py"
sys.path.insert(0, str(TOOL.parent))
MAIN = runpy.run_path(str(TOOL))["main"]
WISP = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else sys.exit(__doc__)

# Rates far above the tool's own, as the model is tiny and the steps are few.
STEPS = ["--layer-steps", "24", "--layer-rate", "0.01", "--steps", "24", "--rate", "0.003"]
SMALL = [*STEPS, "--penalty", "0.1", "--density", "0.05", "--batch", "16", "--held-out", "32", "--report", "8",
         "--save", "10", "--device", "cpu", "--threads", "1"]


class Progress:
    """The lines that the tool prints, as numbers."""

    def __init__(self, text):
        found = re.findall(r"^(\w+) (\d+)/\d+: (?:loss ([\d.]+) .*; )?held out: ([\d.]+) % non-zero, cosine ([-\d.]+)$",
                           text, re.MULTILINE)
        self.losses = {stage: [float(row[2]) for row in found if row[0] == stage] for stage in ("layers", "whole")}
        self.steps = [int(row[1]) for row in found]
        self.nonzero = [float(row[3]) for row in found]
        self.cosine = [float(row[4]) for row in found]


def call(*arguments):
    """Runs the tool's main: (exit code, output, complaints)."""
    return call_main(MAIN, "train_relu.py", *arguments)


class TrainRelu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.teacher, cls.text = cls.folder / "teacher", cls.folder / "text.txt"
        make_teacher(cls.teacher)
        make_text(cls.text, 1, 400)
        cls.twin = cls.folder / "twin"
        cls.progress = cls.train(cls.twin)

    @classmethod
    def arguments(cls, out, *more):
        return [cls.teacher, cls.text, "-o", out, *SMALL, *more]

    @classmethod
    def train(cls, out, *more):
        code, said, complaint = call(*cls.arguments(out, *more))
        if code:
            raise AssertionError(f"status {code}: {complaint}")
        return Progress(said)

    def refuse(self, code, pattern, *arguments):
        """Checks that the tool ends with this code and message, and has written nothing."""
        before = sorted(self.folder.rglob("*"))
        ended, _, complaint = call(*arguments)
        self.assertEqual(ended, code, complaint)
        self.assertRegex(complaint, pattern)
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def start(self, arguments):
        """The tool as a program of its own, for what happens to it while it runs."""
        command = [sys.executable, TOOL, *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def assert_same_weights(self, one, other):
        weights = [load_file(folder / "model.safetensors") for folder in (one, other)]
        self.assertEqual(sorted(weights[0]), sorted(weights[1]))
        for name, tensor in weights[0].items():
            self.assertTrue(torch.equal(tensor, weights[1][name]), name)

    def test_loss_falls_and_cosine_rises(self):
        for stage in ("layers", "whole"):
            losses = self.progress.losses[stage]
            self.assertEqual(len(losses), 3)
            self.assertLess(losses[-1], losses[0], stage)
        self.assertEqual(self.progress.steps, [0, 8, 16, 24, 32, 40, 48])
        self.assertGreater(self.progress.cosine[-1], self.progress.cosine[0])

    def test_penalty_makes_sparse(self):
        without = self.train(self.folder / "unpenalised", "--penalty", "0")
        self.assertEqual(without.nonzero[0], self.progress.nonzero[0])
        self.assertLess(self.progress.nonzero[-1], self.progress.nonzero[0] - 2)
        self.assertLess(self.progress.nonzero[-1], without.nonzero[-1] - 2)

    def test_folder(self):
        """The twin is the teacher's folder with ReLU, whose frozen weights are the teacher's."""
        config = json.loads((self.twin / "config.json").read_text())
        self.assertEqual(config["hidden_act"], "relu")
        names = {str(file.relative_to(self.teacher)) for file in self.teacher.rglob("*") if file.is_file()}
        self.assertEqual({str(file.relative_to(self.twin)) for file in self.twin.rglob("*") if file.is_file()}, names)
        before, after = (load_file(folder / "model.safetensors") for folder in (self.teacher, self.twin))
        same = {name for name in before if torch.equal(before[name], after[name])}
        self.assertEqual(same, {"embeddings.word_embeddings.weight", "pooler.dense.weight", "pooler.dense.bias"})
        self.assertFalse((self.folder / "twin.checkpoint").exists())

    def test_wisp_agrees_with_transformers(self):
        lines = self.text.read_text().split("\n")[:40]
        gguf = self.folder / "twin.gguf"
        subprocess.run([WISP, "convert", self.twin, gguf], check=True)
        theirs = embeddings(self.twin, lines)
        for model in (self.twin, gguf):
            made = subprocess.run([WISP, "embed", "-m", model, "--compute", "f32", "--format", "json"], check=True,
                                  input="\n".join(lines) + "\n", capture_output=True, text=True).stdout
            cosines = (torch.tensor(json.loads(made)) * theirs).sum(-1)
            self.assertEqual(len(cosines), len(lines))
            self.assertGreater(float(cosines.min()), 0.99999)

    def test_interrupted_and_resumed(self):
        """Stopped by Ctrl-C in each stage and resumed, it comes to the same bits, and says no to other settings."""
        out, checkpoint = self.folder / "resumed", self.folder / "resumed.checkpoint"
        for i, after in enumerate(("layers 8/", "whole 32/")):
            with self.start(self.arguments(out, *(["--resume"] if i else []))) as process:
                for line in process.stdout:
                    if line.startswith(after):
                        process.send_signal(signal.SIGINT)
                        break
                said = process.stdout.read() + process.stderr.read()
            self.assertEqual(process.returncode, 130, said)
            self.assertRegex(said, "stopped after step .*--resume")
            self.assertTrue(checkpoint.exists())
            self.assertFalse(out.exists())
        rest = self.arguments(out)
        self.refuse(2, "resumed.checkpoint: exists already: --resume", *rest)
        self.refuse(2, "resumed.checkpoint: --seed: was 1 when this began, is 2 now", *rest, "--resume", "--seed", "2")
        self.train(out, "--resume")
        self.assert_same_weights(self.twin, out)
        self.assertFalse(checkpoint.exists())

    def test_wide_text_and_half_precision(self):
        wide = self.folder / "wide.txt"
        make_text(wide, 2, 200)
        out = self.folder / "wide"
        progress = self.train(out, "--layer-steps", "2", "--steps", "1", "--wide-steps", "9", "--wide-text", wide,
                              "--bf16", "--dtype", "float16")
        self.assertEqual(progress.steps, [0, 2, 3, 8, 12])
        self.assertEqual({tensor.dtype for tensor in load_file(out / "model.safetensors").values()}, {torch.float16})
        self.assertEqual(json.loads((out / "config.json").read_text())["dtype"], "float16")

    def test_help(self):
        code, said, _ = call("--help")
        self.assertEqual(code, 0)
        self.assertIn("--density SHARE", said)

    def changed(self, name, change):
        """A copy of the teacher in which a JSON file is changed."""
        copy = Path(self.enterContext(tempfile.TemporaryDirectory(dir=self.folder))) / "copy"
        shutil.copytree(self.teacher, copy)
        value = json.loads((copy / name).read_text())
        change(value)
        write_json(copy / name, value)
        return copy

    def test_refuses_models(self):
        for name, field, value, pattern in (
                ("config.json", "model_type", "roberta", r'config.json: model_type: "roberta": only bert'),
                ("config.json", "hidden_act", "relu", 'config.json: hidden_act: "relu": there is nothing to replace'),
                ("config.json", "hidden_act", "silu", 'config.json: hidden_act: "silu": only gelu'),
                ("config.json", "hidden_size", "32", 'config.json: hidden_size: "32" is not a whole number'),
                ("config.json", "intermediate_size", 64, "intermediate.dense.*: this weight is missing or of"),
                ("config.json", "vocab_size", 50, "config.json: vocab_size: 50 is less"),
                ("1_Pooling/config.json", "pooling_mode_max_tokens", True, "1_Pooling/config.json: pooling_mode: "),
                ("sentence_bert_config.json", "max_seq_length", "x", "max_seq_length: x is not a whole number")):
            with self.subTest(field=field, value=value):
                copy = self.changed(name, lambda found, field=field, value=value: found.__setitem__(field, value))
                self.refuse(3, pattern, copy, self.text, "-o", self.folder / "refused", *SMALL)
        copy = self.changed("modules.json", lambda found: found.append({"type": "x.models.Dense", "path": "2_Dense"}))
        self.refuse(3, "modules.json: type: modules of type x.models.Dense", copy, self.text, "-o",
                    self.folder / "refused", *SMALL)

    def test_refuses_broken_files(self):
        copy = self.changed("config.json", lambda found: None)
        out = ["-o", self.folder / "refused", *SMALL]
        (copy / "model.safetensors").write_bytes((self.teacher / "model.safetensors").read_bytes()[:-100])
        self.refuse(3, "copy: the weights cannot be read: ", copy, self.text, *out)
        (copy / "model.safetensors").unlink()
        self.refuse(3, "model.safetensors: no such file", copy, self.text, *out)
        (copy / "config.json").write_text("{")
        self.refuse(3, "config.json: not JSON", copy, self.text, *out)
        self.refuse(3, "nowhere/config.json: No such file", self.folder / "nowhere", self.text, *out)

    def test_refuses_text(self):
        bad, few = self.folder / "bad.txt", self.folder / "few.txt"
        bad.write_bytes(b"good\n\xff\n")
        few.write_text("one\ntwo\none\n")
        out = ["-o", self.folder / "refused", *SMALL]
        self.refuse(4, "bad.txt: line 2: not UTF-8", self.teacher, bad, *out)
        self.refuse(4, "TEXT: 2 different lines are too few", self.teacher, few, *out)
        self.refuse(4, "absent.txt: No such file", self.teacher, self.folder / "absent.txt", *out)

    def test_refuses_arguments(self):
        given = [self.teacher, self.text, "-o"]
        self.refuse(2, "twin: exists already", *given, self.twin, *SMALL)
        self.refuse(2, "absent: no such folder", *given, self.folder / "absent" / "x", *SMALL)
        self.refuse(2, "1.5 is not between 0 and 1", *given, self.folder / "refused", "--density", "1.5")
        self.refuse(2, "--wide-steps and --wide-text", *given, self.folder / "refused", "--wide-steps", "5")
        self.refuse(2, "are all 0", *given, self.folder / "refused", "--steps", "0", "--layer-steps", "0")
        self.refuse(2, "exists already", *given, ".", *SMALL)
        self.refuse(1, "refused.checkpoint: no such file: there is nothing", *given, self.folder / "refused", *SMALL,
                    "--resume")

    def test_refuses_checkpoint(self):
        (self.folder / "torn.checkpoint").write_bytes(b"PK not a checkpoint")
        self.refuse(1, "torn.checkpoint: no checkpoint of this program", *self.arguments(self.folder / "torn"),
                    "--resume")

    def test_loss_that_is_not_finite(self):
        self.refuse(1, "step [0-9]+: the loss is nan", *self.arguments(self.folder / "refused"), "--layer-rate", "1e30")

    def test_folder_that_cannot_be_written(self):
        """Trained weights are kept if the result cannot be written, and no half of it is left."""
        out = self.folder / "blocked"
        with self.start(self.arguments(out, "--layer-steps", "2", "--steps", "200")) as process:
            process.stdout.readline()
            out.mkdir()
            (out / "mine").write_text("mine")
            said = process.communicate()[1]
        self.assertEqual(process.returncode, 1, said)
        self.assertRegex(said, "blocked: Directory not empty")
        self.assertEqual([file.name for file in out.iterdir()], ["mine"])
        self.assertTrue((self.folder / "blocked.checkpoint").exists())
        self.assertFalse((self.folder / "blocked.tmp").exists())


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
