"""wisp as LlamaIndex's embedding."""

from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from pydantic import PrivateAttr

from .embedder import Embedder


class WispEmbedding(BaseEmbedding):
    """Embeddings by wisp. `options` are those of Embedder."""

    _embedder: Embedder = PrivateAttr()

    def __init__(self, model: str | None = None, embed_batch_size: int = 256, **options: Any) -> None:
        super().__init__(model_name=model or "wisp-default", embed_batch_size=embed_batch_size)
        self._embedder = Embedder(model, **options)

    @classmethod
    def class_name(cls) -> str:
        return "WispEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        vector: list[float] = self._embedder.encode_query(query).tolist()
        return vector

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return [row.tolist() for row in self._embedder.encode_document(texts)]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)
