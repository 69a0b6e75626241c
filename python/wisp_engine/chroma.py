"""wisp as Chroma's embedding function."""

from typing import Any

from chromadb import Documents, EmbeddingFunction, Embeddings

from .embedder import Embedder


class WispEmbeddingFunction(EmbeddingFunction[Documents]):
    """Embeddings by wisp. `options` are those of Embedder."""

    def __init__(self, model: str | None = None, **options: Any) -> None:
        self.model, self.options = model, options
        self.embedder = Embedder(model, **options)

    def __call__(self, input: Documents) -> Embeddings:
        return list(self.embedder.encode_document(input))

    def embed_query(self, input: Documents) -> Embeddings:
        return list(self.embedder.encode_query(input))

    @staticmethod
    def name() -> str:
        return "wisp"

    def get_config(self) -> dict[str, Any]:
        return {"model": self.model, **self.options}

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> "WispEmbeddingFunction":
        return WispEmbeddingFunction(**config)
