"""Runs fastembed on the exported ONNX files, as a model of the user's own."""

import protocol

ARGUMENTS = protocol.arguments("dtype")

import fastembed  # noqa: E402
from fastembed.common.model_description import ModelSource, PoolingType  # noqa: E402

FILES = {"fp32": "onnx/model.onnx", "int8": "onnx/model_quantized.onnx"}
NAME = "all-MiniLM-L6-v2-exported"


class Runner(protocol.Embedder):
    packages = ("fastembed",)

    def load(self):
        fastembed.TextEmbedding.add_custom_model(
            NAME, pooling=PoolingType.MEAN, normalization=True, sources=ModelSource(url="none"), dim=384,
            model_file=FILES[ARGUMENTS.dtype])
        self.model = fastembed.TextEmbedding(NAME, threads=ARGUMENTS.threads, specific_model_path=ARGUMENTS.model)
        return {"fastembed": fastembed.__version__}

    def embed(self, texts, batch):
        return protocol.in_batches(texts, batch, lambda some: list(self.model.embed(some, batch_size=batch)))


if __name__ == "__main__":
    protocol.serve(Runner(), ARGUMENTS.texts)
