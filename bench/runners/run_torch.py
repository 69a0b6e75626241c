"""Runs PyTorch through encode() of sentence-transformers, which sorts by length, pads, pools and normalises."""

import os

import protocol

ARGUMENTS = protocol.arguments("dtype")
os.environ.update(RAYON_NUM_THREADS=str(ARGUMENTS.threads), HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="true",
                  CUDA_VISIBLE_DEVICES="")

import sentence_transformers  # noqa: E402
import torch  # noqa: E402

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Runner(protocol.Embedder):
    packages = ("sentence-transformers",)

    def load(self):
        torch.set_num_threads(ARGUMENTS.threads)
        self.model = sentence_transformers.SentenceTransformer(
            ARGUMENTS.model, device="cpu", model_kwargs={"dtype": DTYPES[ARGUMENTS.dtype]})
        self.model.eval()
        return {"torch": torch.__version__, "sentence-transformers": sentence_transformers.__version__,
                "capability": torch.backends.cpu.get_cpu_capability(),
                "attention": self.model[0].auto_model.config._attn_implementation}

    def embed(self, texts, batch):
        return self.model.encode(texts, batch_size=batch, convert_to_numpy=True, show_progress_bar=False)


if __name__ == "__main__":
    protocol.serve(Runner(), ARGUMENTS.texts)
