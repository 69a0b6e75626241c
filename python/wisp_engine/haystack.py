"""wisp as Haystack's embedders."""

from dataclasses import replace
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict

from .embedder import Embedder


class Component:
    """What both embedders share. `options` are those of Embedder."""

    def __init__(self, model: str | None = None, options: dict[str, Any] | None = None) -> None:
        self.model, self.options = model, options or {}
        self.embedder = Embedder(model, **self.options)

    def to_dict(self) -> dict[str, Any]:
        return default_to_dict(self, model=self.model, options=self.options)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        return default_from_dict(cls, data)


@component
class WispTextEmbedder(Component):
    """Embeds a query."""

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        return {"embedding": self.embedder.encode_query(text).tolist()}


@component
class WispDocumentEmbedder(Component):
    """Gives documents their embeddings. A document without text keeps none."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        texts = [document.content for document in documents if document.content]
        rows = iter(self.embedder.encode_document(texts))
        return {"documents": [replace(document, embedding=next(rows).tolist()) if document.content else document
                              for document in documents]}
