#!/usr/bin/env python3
"""Trains the blocks of tiny random models with tools/train_blocks.py, and checks its promises.

    tests/oracle/train_blocks.py WISP

WISP is the program, which makes the files to begin with, and reads those that come out. Needs torch and transformers,
which .tools/bin/python-torch has, and gguf, and no data. What the tool shares with tools/train_relu.py, as checkpoints,
tests/oracle/train_relu.py tests.
"""

import copy
import json
import random
import re
import runpy
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import decoders  # models, and their files. It skips if packages are missing.

import decoder_configs as configs  # noqa: E402  (the packages are there)
import numpy as np  # noqa: E402
import torch  # noqa: E402
from gguf import GGUFReader, quants  # noqa: E402
from quantise_texts import random_model, with_weights  # noqa: E402
from tiny_encoder import call_main, embeddings, make_teacher, make_text  # noqa: E402

REPO = Path(__file__).resolve().parents[2]
TOOL = REPO / "tools" / "train_blocks.py"
sys.path.insert(0, str(TOOL.parent))
MAIN = runpy.run_path(str(TOOL))["main"]
WISP = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else sys.exit(__doc__)

# A rate above the tool's own, as the models are tiny and the steps are few.
SMALL = ["--steps", "60", "--rate", "0.001", "--batch", "8", "--held-out", "24", "--report", "30", "--save", "100",
         "--device", "cpu", "--threads", "1", "--window", "48", "--wisp", WISP]
DECODERS = (("llama, grouped queries", "q4_0", "q8_0"), ("qwen3", "iq4_nl", "q5_1"), ("qwen2", "q4_1", "q5_0"))


def call(*arguments):
    return call_main(MAIN, "train_blocks.py", *arguments)


def wisp(*arguments, **options):
    return subprocess.run([WISP, *map(str, arguments)], check=True, capture_output=True, text=True, **options).stdout


def divergences(said):
    return [float(number) for number in re.findall(r"held out: divergence ([\d.]+)$", said, re.MULTILINE)]


class TrainBlocks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.text = cls.folder / "text.txt"
        make_text(cls.text, 1, 300)

    def files(self, index, name, kind, embedding):
        """Makes the teacher's file and the one to begin with: (model, teacher, start, out)."""
        architecture, made, config = configs.MODELS[name]
        config = copy.deepcopy(config)
        if kind == "iq4_nl":  # which has no 0 for the neurons that wisp adds
            config.intermediate_size = 128
        with torch.inference_mode():
            model = random_model(index, made, config)
        teacher, start, out = (self.folder / f"{index}-{part}.gguf" for part in ("teacher", "start", "out"))
        decoders.write_gguf(teacher, architecture, model)
        output = [] if config.tie_word_embeddings else ["--output-type", kind]
        wisp("quantize", "--type", kind, "--embedding-type", embedding, "--pad-neurons", *output, teacher, start)
        return model, teacher, start, out

    def other_divergence(self, name, model, file, ids):
        """The divergence from the model of a file, whose blocks the gguf package reads."""
        with torch.inference_mode():
            expected = model(ids).logits.double().log_softmax(-1)
            other = with_weights(configs.MODELS[name][0], model, file)(ids).logits.double().log_softmax(-1)
            return float((expected.exp() * (expected - other)).sum(-1).mean())

    def test_divergence_falls(self):
        for index, (name, kind, embedding) in enumerate(DECODERS):
            with self.subTest(name):
                model, teacher, start, out = self.files(index, name, kind, embedding)
                code, said, complaint = call(teacher, self.text, "--start", start, "-o", out, *SMALL)
                self.assertEqual(code, 0, complaint)
                told = divergences(said)
                self.assertEqual(len(told), 3, said)  # at steps 0, 30 and 60
                self.assertLess(told[-1], 0.7 * told[0], said)
                # These are the lines that the tool holds out, in its order.
                lines = list(dict.fromkeys(self.text.read_text().split("\n")[:-2]))
                random.Random(1).shuffle(lines)
                ids = [token for line in lines[:24] for token in self.tokens(teacher, line)]
                ids = torch.tensor(ids[:len(ids) // 48 * 48]).view(-1, 48)
                for file, expected in ((start, told[0]), (out, told[-1])):
                    self.assertAlmostEqual(self.other_divergence(name, model, file, ids), expected, delta=0.002 * expected + 1e-5)
                self.check_files(start, out, kind.upper())
                perplexities = [self.perplexity(file) for file in (teacher, start, out)]
                self.assertLess(abs(perplexities[2] - perplexities[0]), abs(perplexities[1] - perplexities[0]))

    def test_resumed(self):
        """Trained weights survive a run that could not write its file."""
        _, teacher, start, out = self.files(8, "llama, every head its keys, tied", "q4_0", "q8_0")
        arguments = [teacher, self.text, "--start", start, *SMALL, "--steps", "6", "-o"]
        self.assertEqual(call(*arguments, out)[0], 0)
        again = self.folder / "again.gguf"
        with mock.patch("train_blocks.file.ModelFile.write", side_effect=OSError(28, "No space left on device")):
            code, _, complaint = call(*arguments, again)
        self.assertEqual((code, complaint), (1, "train_blocks: output: No space left on device\n"))
        self.assertFalse(again.exists())
        other = self.folder / "other.gguf"
        wisp("quantize", "--type", "q4_1", "--pad-neurons", teacher, other)
        code, _, complaint = call(teacher, self.text, "--start", other, *SMALL, "--steps", "6", "-o", again, "--resume")
        self.assertEqual(code, 2)
        self.assertRegex(complaint, "again.gguf.checkpoint: --start: was ")
        code, said, complaint = call(*arguments, again, "--resume")
        self.assertEqual(code, 0, complaint)
        self.assertIn("resuming after step 6", said)
        self.assertEqual(again.read_bytes(), out.read_bytes())

    def tokens(self, file, line):
        return json.loads(wisp("tokenize", "-m", file, "--text", line))

    def perplexity(self, file):
        return float(re.search(r'"perplexity":([\d.]+)', wisp(
            "eval", "ppl", "--json", "--compute", "f32", "-m", file, self.text)).group(1))

    def check_files(self, start, out, kind):
        """Both have the same keys and the same types at the same places, and the new file has finite values."""
        before, after = GGUFReader(start), GGUFReader(out)
        self.assertEqual({name: field.contents() for name, field in before.fields.items()},
                         {name: field.contents() for name, field in after.fields.items()})
        self.assertEqual([(t.name, t.tensor_type, t.data_offset) for t in before.tensors],
                         [(t.name, t.tensor_type, t.data_offset) for t in after.tensors])
        changed = {t.name: not np.array_equal(t.data, u.data) for t, u in zip(before.tensors, after.tensors)}
        for tensor in after.tensors:
            self.assertTrue(np.isfinite(quants.dequantize(tensor.data, tensor.tensor_type)).all(), tensor.name)
            if tensor.tensor_type.name == kind or tensor.name.endswith("norm.weight"):
                self.assertTrue(changed[tensor.name], tensor.name)

    def test_encoder(self):
        teacher, text, start, out = (self.folder / f"encoder{name}" for name in ("", ".txt", "-start.gguf", "-out.gguf"))
        make_teacher(teacher)
        make_text(text, 1, 400)
        wisp("quantize", "--type", "q4_0", "--embedding-type", "q8_0", teacher, start)
        code, said, complaint = call(teacher, text, "--start", start, "-o", out, *SMALL)
        self.assertEqual(code, 0, complaint)
        told = [float(number) for number in re.findall(r"cosine ([\d.]+)$", said, re.MULTILINE)]
        self.assertLess(1 - told[-1], 0.7 * (1 - told[0]), said)
        lines = text.read_text().split("\n")[:40]
        wanted, losses = embeddings(teacher, lines), []
        for file in (start, out):
            mine = wisp("embed", "-m", file, "--compute", "f32", "--format", "json", input="\n".join(lines) + "\n")
            losses.append(1 - float((torch.tensor(json.loads(mine)) * wanted).sum(-1).mean()))
        self.assertLess(losses[1], 0.7 * losses[0])

    def test_refusals(self):
        _, teacher, start, out = self.files(9, "llama, grouped queries", "q4_0", "q8_0")
        scaled = self.folder / "scaled.gguf"
        with torch.inference_mode():
            architecture, made, config = configs.MODELS["llama, YaRN"]
            decoders.write_gguf(scaled, architecture, random_model(0, made, config))
        gemma = self.folder / "gemma.gguf"
        with torch.inference_mode():
            architecture, made, config = configs.MODELS["gemma2"]
            decoders.write_gguf(gemma, architecture, random_model(0, made, config))
        larger, respelt = self.folder / "larger.gguf", self.folder / "respelt.gguf"
        with torch.inference_mode():
            architecture, made, config = configs.MODELS["llama, grouped queries"]
            config = copy.deepcopy(config)
            config.vocab_size += 1
            decoders.write_gguf(larger, architecture, random_model(0, made, config))
        token = GGUFReader(teacher).fields["tokenizer.ggml.tokens"].contents(9).encode()
        self.assertEqual(teacher.read_bytes().count(token), 1)
        respelt.write_bytes(teacher.read_bytes().replace(token, token[::-1]))
        broken = self.folder / "broken.gguf"
        broken.write_bytes(start.read_bytes()[:1000])
        few = self.folder / "few.txt"
        few.write_text("one\ntwo\n")
        for arguments, expected, says in (
                ((teacher, self.text, "--start", teacher), 3, "no matrix has one of the types"),
                ((teacher, self.text, "--start", broken), 3, "broken.gguf: not a GGUF file"),
                ((teacher, self.text, "--start", self.folder / "absent.gguf"), 3, "absent.gguf: No such file"),
                ((scaled, self.text, "--start", start), 3, r"rope.scaling.type: yarn is not supported"),
                ((gemma, self.text, "--start", start), 3, "general.architecture: gemma2: only llama or"),
                ((larger, self.text, "--start", start), 3,
                 r"start.gguf: token_embd.weight: 300 tokens, where .*larger.gguf has 301$"),
                ((respelt, self.text, "--start", start), 3,
                 r"start.gguf: tokenizer.ggml.tokens: token 9 is '<0x06>', in .*respelt.gguf '>60x0<'$"),
                ((teacher, few, "--start", start), 4, "different lines are too few"),
                ((teacher, self.text, "--start", start, "--wisp", "/nowhere"), 4, "--wisp names the program"),
                ((teacher, self.text, "--start", start, "--steps", "0"), 2, "--steps is 0")):
            code, _, complaint = call(*arguments[:2], *SMALL, *arguments[2:], "-o", out)
            self.assertEqual(code, expected, complaint)
            self.assertRegex(complaint, says)
            self.assertFalse(out.exists())


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
