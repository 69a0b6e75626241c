"""Runs onnxruntime's CPU provider with Hugging Face's tokenizers. numpy pools and normalises."""

import concurrent.futures
import os

import protocol

ARGUMENTS = protocol.arguments("dtype")
os.environ["RAYON_NUM_THREADS"] = str(ARGUMENTS.threads)

import numpy  # noqa: E402
import onnxruntime  # noqa: E402
import tokenizers  # noqa: E402

FILES = {"fp32": "model.onnx", "int8": "model_quantized.onnx"}


class Runner(protocol.Embedder):
    packages = ("onnxruntime", "tokenizers")

    def load(self):
        self.tokenizer = tokenizers.Tokenizer.from_file(f"{ARGUMENTS.model}/tokenizer.json")
        self.session = self.open_session(ARGUMENTS.threads)
        self.single = self.session
        return {"onnxruntime": onnxruntime.__version__, "tokenizers": tokenizers.__version__}

    def open_session(self, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        return onnxruntime.InferenceSession(f"{ARGUMENTS.model}/onnx/{FILES[ARGUMENTS.dtype]}", options,
                                            providers=["CPUExecutionProvider"])

    def choices(self, texts):
        """With more threads, either all of them compute each batch, or one computes each batch ("callers")."""
        choices = protocol.batch_choices(texts)
        if ARGUMENTS.threads > 1 and len(texts) > 1:
            choices += [{**choice, "callers": ARGUMENTS.threads} for choice in choices]
        return choices

    def embed(self, texts, batch, callers=1):
        encodings = self.tokenizer.encode_batch(texts)
        order = sorted(range(len(texts)), key=lambda i: len(encodings[i].ids))
        batches = [order[first:first + batch] for first in range(0, len(order), batch)]
        session = self.session if callers == 1 else self.session_of_callers()
        rows = [None] * len(texts)

        def embed_batch(indices):
            for i, row in zip(indices, embed_ids(session, [encodings[i].ids for i in indices])):
                rows[i] = row

        if callers == 1:
            for indices in batches:
                embed_batch(indices)
        else:
            with concurrent.futures.ThreadPoolExecutor(callers) as pool:
                list(pool.map(embed_batch, reversed(batches)))  # starts with the long ones
        return rows

    def session_of_callers(self):
        if self.single is self.session:
            self.single = self.open_session(1)
        return self.single


def embed_ids(session, sequences):
    """Returns an embedding for each list of token ids, which it pads to the longest."""
    ids = numpy.zeros((len(sequences), max(map(len, sequences))), numpy.int64)
    mask = numpy.zeros_like(ids)
    for i, sequence in enumerate(sequences):
        ids[i, :len(sequence)] = sequence
        mask[i, :len(sequence)] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)}
    states = session.run(None, {entry.name: inputs[entry.name] for entry in session.get_inputs()})[0]
    weights = mask[:, :, None].astype(numpy.float32)
    means = (states * weights).sum(axis=1) / weights.sum(axis=1)
    return means / numpy.linalg.norm(means, axis=1, keepdims=True)


if __name__ == "__main__":
    protocol.serve(Runner(), ARGUMENTS.texts)
