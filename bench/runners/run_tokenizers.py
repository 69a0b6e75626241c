"""Runs Hugging Face's tokenizers on one thread, with the call that their documentation gives for many texts."""

import os

import protocol

ARGUMENTS = protocol.arguments()
os.environ.update(RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")

import numpy  # noqa: E402
import tokenizers  # noqa: E402


class Runner:
    packages = ()

    def load(self):
        self.tokenizer = tokenizers.Tokenizer.from_file(f"{ARGUMENTS.model}/tokenizer.json")
        return {"tokenizers": tokenizers.__version__}

    def choices(self, _texts):
        """Offers no choices: embed() calls encode_batch_fast, which omits offsets as wisp does."""
        return [{}]

    def embed(self, texts):
        return self.tokenizer.encode_batch_fast(texts)

    def rows(self, encodings):
        return [numpy.array(encoding.ids, "<i4") for encoding in encodings]


if __name__ == "__main__":
    protocol.serve(Runner(), ARGUMENTS.texts)
