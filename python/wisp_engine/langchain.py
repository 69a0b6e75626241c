"""wisp as LangChain's embeddings."""

from typing import Any

from langchain_core.embeddings import Embeddings

from .embedder import Embedder


class WispEmbeddings(Embeddings):
    """Embeddings by wisp. `options` are those of Embedder; or give an `embedder` that is open."""

    def __init__(self, model: str | None = None, *, embedder: Embedder | None = None, **options: Any) -> None:
        self.embedder = embedder or Embedder(model, **options)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [row.tolist() for row in self.embedder.encode_document(texts)]

    def embed_query(self, text: str) -> list[float]:
        vector: list[float] = self.embedder.encode_query(text).tolist()
        return vector
