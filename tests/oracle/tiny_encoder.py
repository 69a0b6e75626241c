"""A tiny sentence encoder, text for it, and what runs a tool that trains it, for train_relu.py and train_ternary.py."""

import contextlib
import io
import json
import random
import string
import sys
from unittest import mock

import torch
from transformers import AutoTokenizer, BertConfig, BertModel, BertTokenizerFast

SYLLABLES = [a + b for a in "bdfgklmnprst" for b in "aeiou"]


def words(chosen, count):
    return ["".join(chosen.choices(SYLLABLES, k=chosen.randint(1, 3))) for _ in range(count)]


def make_text(file, seed, count):
    chosen = random.Random(seed)
    known = words(chosen, 80)
    lines = [" ".join(chosen.choices(known, k=chosen.randint(1, 14))) for _ in range(count)]
    file.write_text("\n".join(lines) + "\n\n", encoding="utf-8")


def make_teacher(folder):
    """A BERT of three layers, mean pooling and Normalize, as sentence-transformers lays it out."""
    torch.manual_seed(7)
    (folder / "1_Pooling").mkdir(parents=True)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.ascii_lowercase, *SYLLABLES]
    pieces += ["##" + piece for piece in pieces[5:]]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    BertTokenizerFast(vocab={piece: i for i, piece in enumerate(pieces)}).save_pretrained(folder)
    # Wider than BERT's initial spread, so that activations are not all about 0, if GELU and ReLU are alike.
    model = BertModel(BertConfig(vocab_size=len(pieces), hidden_size=32, num_attention_heads=2, intermediate_size=96,
                                 num_hidden_layers=3, max_position_embeddings=48, initializer_range=0.2))
    model.save_pretrained(folder)
    modules = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    write_json(folder / "modules.json", [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(modules)])
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True})
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 40, "do_lower_case": False})


def write_json(file, value):
    file.write_text(json.dumps(value), encoding="utf-8")


def embeddings(folder, lines):
    """As transformers makes them: mean pooling, normalised."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), BertModel.from_pretrained(folder).eval()
    given = tokenizer(lines, padding=True, truncation=True, max_length=40, return_tensors="pt")
    with torch.no_grad():
        states = model(**given).last_hidden_state
    weights = given["attention_mask"][..., None]
    return torch.nn.functional.normalize((states * weights).sum(1) / weights.sum(1), dim=-1)


def call_main(main, name, *arguments):
    """Runs the main function of the tool of this name: (exit code, output, complaints). Starting PyTorch anew takes
    longer than the training."""
    out, complaints = io.StringIO(), io.StringIO()
    with (contextlib.redirect_stdout(out), contextlib.redirect_stderr(complaints),
          mock.patch.object(sys, "argv", [name, *map(str, arguments)])):
        try:
            code = main()
        except SystemExit as ending:  # as argparse does
            code = ending.code
    return code, out.getvalue(), complaints.getvalue()
