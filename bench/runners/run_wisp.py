"""Runs wisp's Python package."""

import protocol

ARGUMENTS = protocol.arguments()

import wisp_engine  # noqa: E402


class Runner(protocol.Embedder):
    packages = ("wisp-engine",)

    def load(self):
        self.model = wisp_engine.Embedder(ARGUMENTS.model, threads=ARGUMENTS.threads)
        return {"kernels": self.model.info["kernels"]}

    def choices(self, _texts):
        """Offers no choices: wisp does not pad, so that batches make no difference."""
        return [{}]

    def embed(self, texts):
        return self.model.encode(texts)


if __name__ == "__main__":
    protocol.serve(Runner(), ARGUMENTS.texts)
