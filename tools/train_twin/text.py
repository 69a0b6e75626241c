"""Makes batches of tokens from lines of text."""

import random
from pathlib import Path

import torch
from transformers import AutoTokenizer

from .folder import EXIT_INPUT, EXIT_MODEL, Refusal, read_json, refuse_model

POOL = 32  # texts of so many batches are sorted by length before they are divided into batches


def read_lines(files):
    """Returns the lines that are not empty, each once, so that no held-out line is also trained on."""
    lines = {}
    for file in files:
        try:
            text = Path(file).read_bytes().decode("utf-8")
        except OSError as error:
            raise Refusal(EXIT_INPUT, f"{file}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise Refusal(EXIT_INPUT, f"{file}: line {line}: not UTF-8") from error
        lines.update((line.strip(), None) for line in text.split("\n") if line.strip())
    return list(lines)


class Tokenizer:
    """Opens the folder's tokenizer, which truncates as sentence-transformers does."""

    def __init__(self, folder, config):
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except Exception as error:  # libraries raise many types
            reason = str(error).strip().split("\n")[0]
            raise Refusal(EXIT_MODEL, f"{folder}: the tokenizer cannot be read: {reason}") from error
        file = folder / "sentence_bert_config.json"
        sentence = read_json(file, dict, default={})
        limit = sentence.get("max_seq_length")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 3):
            refuse_model(file, "max_seq_length", f"{limit} is not a whole number above 2")
        self.lowercase = sentence.get("do_lower_case") is True
        self.limit = min(limit or config["max_position_embeddings"], self.tokenizer.model_max_length,
                         config["max_position_embeddings"])
        if len(self.tokenizer) > config["vocab_size"]:
            refuse_model(folder / "config.json", "vocab_size",
                         f"{config['vocab_size']} is less than the {len(self.tokenizer)} tokens of the tokenizer")

    def encode(self, lines):
        if not lines:
            return []
        lines = [line.lower() for line in lines] if self.lowercase else lines
        encoded = self.tokenizer(lines, truncation=True, max_length=self.limit, padding=False,
                                 return_attention_mask=False, return_token_type_ids=False)
        return [torch.tensor(row, dtype=torch.int32) for row in encoded["input_ids"]]


def pad(rows):
    """Returns token ids and mask, both [texts, longest]."""
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    return ids.long(), torch.arange(ids.shape[1]) < lengths[:, None]


class Batches:
    """Batches of texts of similar lengths, in an order that depends on the seed alone."""

    def __init__(self, rows, size, seed):
        self.rows, self.size, self.seed = rows, size, seed
        self.epoch, self.order = None, []

    def shuffle(self, epoch):
        chosen = random.Random(f"{self.seed} {epoch}")
        order = chosen.sample(range(len(self.rows)), len(self.rows))
        pools = [order[at:at + POOL * self.size] for at in range(0, len(order), POOL * self.size)]
        order = [i for pool in pools for i in sorted(pool, key=lambda i: len(self.rows[i]))]
        self.order = [order[at:at + self.size] for at in range(0, len(order) - self.size + 1, self.size)]
        chosen.shuffle(self.order)
        self.epoch = epoch

    def __getitem__(self, step):
        epoch, at = divmod(step, len(self.rows) // self.size)
        if epoch != self.epoch:
            self.shuffle(epoch)
        return pad([self.rows[i] for i in self.order[at]])


class Texts:
    """All text of a run: `plain` and `wide` batches for training, and batches held out from both."""

    def __init__(self, tokenizer, lines, wide_lines, options):
        lines = list(lines)
        random.Random(options.seed).shuffle(lines)
        held_out, rest = lines[:options.held_out], lines[options.held_out:]
        if len(rest) < options.batch:
            raise Refusal(EXIT_INPUT, f"TEXT: {len(lines)} different lines are too few for --held-out "
                                      f"{options.held_out} and --batch {options.batch}")
        known = set(lines)
        rows, more = tokenizer.encode(rest), tokenizer.encode([line for line in wide_lines if line not in known])
        self.plain = Batches(rows, options.batch, options.seed)
        self.wide = Batches(rows + more, options.batch, options.seed)
        held_out = tokenizer.encode(held_out)
        self.held_out = [pad(held_out[at:at + 64]) for at in range(0, len(held_out), 64)]
