"""Runs llama.cpp through llama-cpp-python, which embeds the texts of a batch together."""

import protocol

ARGUMENTS = protocol.arguments()

import llama_cpp  # noqa: E402
import numpy  # noqa: E402

# 32 texts of 128 tokens fit a batch.
BATCH_TOKENS = 4096


class Runner(protocol.Embedder):
    packages = ("llama-cpp-python",)

    def load(self):
        self.model = llama_cpp.Llama(
            ARGUMENTS.model, embedding=True, n_ctx=BATCH_TOKENS, n_batch=BATCH_TOKENS, n_ubatch=BATCH_TOKENS,
            n_threads=ARGUMENTS.threads, n_threads_batch=ARGUMENTS.threads,
            pooling_type=llama_cpp.LLAMA_POOLING_TYPE_MEAN, verbose=False)
        return {"llama-cpp-python": llama_cpp.__version__}

    def embed(self, texts, batch):
        return protocol.in_batches(texts, batch, lambda some: self.model.embed(some, normalize=True))

    def rows(self, found):
        return super().rows(numpy.asarray(found))


if __name__ == "__main__":
    protocol.serve(Runner(), ARGUMENTS.texts)
