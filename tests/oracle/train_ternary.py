#!/usr/bin/env python3
"""Trains a ternary twin of a tiny random model with tools/train_ternary.py, and checks its promises.

    tests/oracle/train_ternary.py WISP

WISP is the program, which makes BITNET_T158 of the twin. Needs torch and transformers, which .tools/bin/python-torch
has, and no data. What the tool shares with tools/train_relu.py, as checkpoints, tests/oracle/train_relu.py tests.
"""

import json
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tiny_encoder import call_main, embeddings, make_teacher, make_text

REPO = Path(__file__).resolve().parents[2]
TOOL = REPO / "tools" / "train_ternary.py"
sys.path.insert(0, str(TOOL.parent))
MAIN = runpy.run_path(str(TOOL))["main"]
WISP = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else sys.exit(__doc__)

# Rates far above the tool's own, as the model is tiny and the steps are few.
SMALL = ["--layer-steps", "16", "--layer-rate", "0.02", "--steps", "24", "--rate", "0.01", "--batch", "16", "--held-out",
         "32", "--report", "8", "--save", "100", "--device", "cpu", "--threads", "1"]
BLOCK = 256


def is_ternary(name):
    return name.startswith("encoder.") and name.endswith(".weight") and "LayerNorm" not in name


def absmean(weight):
    """Returns the values that docs/formats.md says BITNET_T158 has of a matrix: blocks of its elements, with the mean
    size of each as its scale, which is a float of 16 bits."""
    flat = weight.flatten()
    blocks = torch.nn.functional.pad(flat, (0, -len(flat) % BLOCK)).view(-1, BLOCK)
    scales = blocks.abs().mean(1, keepdim=True)
    ratio = blocks / scales
    codes = torch.where(ratio.abs() >= 0.5, ratio.sign(), torch.zeros_like(ratio))
    return (codes * scales.half().float()).flatten()[:len(flat)].view(weight.shape)


class TrainTernary(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.teacher, cls.text, cls.twin = cls.folder / "teacher", cls.folder / "text.txt", cls.folder / "twin"
        make_teacher(cls.teacher)
        make_text(cls.text, 1, 400)
        code, cls.said, complaint = call_main(MAIN, "train_ternary.py", cls.teacher, cls.text, "-o", cls.twin, *SMALL)
        if code:
            raise AssertionError(f"status {code}: {complaint}")
        cls.lines = cls.text.read_text(encoding="utf-8").split("\n")[:40]
        # The twin with the values that it is to have when it is quantised.
        cls.rounded = cls.folder / "rounded"
        shutil.copytree(cls.twin, cls.rounded)
        weights = {name: absmean(tensor) if is_ternary(name) else tensor
                   for name, tensor in load_file(cls.twin / "model.safetensors").items()}
        save_file(weights, cls.rounded / "model.safetensors", metadata={"format": "pt"})

    def test_loss_falls_and_cosine_rises(self):
        found = re.findall(r"^(\w+) (\d+)/40: (?:loss ([\d.]+), .*; )?held out: cosine ([-\d.]+)$", self.said,
                           re.MULTILINE)
        self.assertEqual([int(row[1]) for row in found], [0, 8, 16, 24, 32, 40])
        for stage in ("layers", "whole"):
            losses = [float(row[2]) for row in found if row[0] == stage]
            self.assertLess(losses[-1], losses[0], stage)
        self.assertGreater(float(found[-1][3]), float(found[0][3]))
        self.assertRegex(self.said, f"wrote {re.escape(str(self.twin))}\n$")

    def test_folder(self):
        """The twin has the teacher's names and shapes; each block has one magnitude, and its mean is a half."""
        before, after = (load_file(folder / "model.safetensors") for folder in (self.teacher, self.twin))
        self.assertEqual({name: tensor.shape for name, tensor in before.items()},
                         {name: tensor.shape for name, tensor in after.items()})
        self.assertTrue(torch.equal(before["embeddings.word_embeddings.weight"],
                                    after["embeddings.word_embeddings.weight"]))
        self.assertEqual(json.loads((self.twin / "config.json").read_text())["hidden_act"], "gelu")
        ternary = [tensor for name, tensor in after.items() if is_ternary(name)]
        self.assertEqual(len(ternary), 3 * 6)
        for tensor in ternary:
            for block in tensor.flatten().split(BLOCK):
                self.assertLessEqual(len(block[block != 0].abs().unique()), 1)
                mean = float(block.abs().double().sum() / BLOCK)
                self.assertAlmostEqual(float(torch.tensor(mean).half()), mean, delta=1e-6 * mean)

    def test_wisp_makes_what_was_trained(self):
        gguf, policy = self.folder / "twin.gguf", self.folder / "policy"
        policy.write_text("token_embd.weight f32\nblk.*.weight type\n* keep optional\n", encoding="utf-8")
        subprocess.run([WISP, "quantize", "--type", "bitnet_t158", "--policy", policy, self.twin, gguf], check=True,
                       stdout=subprocess.DEVNULL)
        made = subprocess.run([WISP, "embed", "-m", gguf, "--compute", "f32", "--format", "json"], check=True,
                              input="\n".join(self.lines) + "\n", capture_output=True, text=True).stdout
        mine = torch.tensor(json.loads(made))
        self.assertGreater(float((mine * embeddings(self.rounded, self.lines)).sum(-1).min()), 0.99999)
        # Training went on with these values, and so it took the twin nearer to its teacher than rounding alone.
        teacher, plain = embeddings(self.teacher, self.lines), self.folder / "plain.gguf"
        subprocess.run([WISP, "quantize", "--type", "bitnet_t158", self.teacher, plain], check=True,
                       stdout=subprocess.DEVNULL)
        rounded = subprocess.run([WISP, "embed", "-m", plain, "--compute", "f32", "--format", "json"], check=True,
                                 input="\n".join(self.lines) + "\n", capture_output=True, text=True).stdout
        self.assertGreater(float((mine * teacher).sum(-1).mean()),
                           float((torch.tensor(json.loads(rounded)) * teacher).sum(-1).mean()))

    def test_refusals(self):
        for change, says in (({"hidden_act": "gelu_new"}, "hidden_act: .*only gelu or relu can be used"),
                             ({"model_type": "roberta"}, "model_type: .*only bert can be used")):
            folder = self.folder / f"refused-{next(iter(change))}"
            shutil.copytree(self.teacher, folder)
            config = json.loads((folder / "config.json").read_text())
            (folder / "config.json").write_text(json.dumps({**config, **change}))
            code, _, complaint = call_main(MAIN, "train_ternary.py", folder, self.text, "-o", self.folder / "no", *SMALL)
            self.assertEqual(code, 3, complaint)
            self.assertRegex(complaint, says)
        code, _, complaint = call_main(MAIN, "train_ternary.py", self.teacher, self.text, "-o", self.folder / "no",
                                       "--layer-steps", "0", "--steps", "0")
        self.assertEqual(code, 2)
        self.assertIn("are both 0", complaint)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
