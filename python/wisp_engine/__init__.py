"""wisp: sentence embeddings, search and text generation on the processor.

>>> from wisp_engine import Embedder
>>> embedder = Embedder()
>>> embedder.encode(["The cat sleeps on the sofa.", "Interest is due every month."]).shape
(2, 384)
"""

from .classifier import Classifier
from .embedder import Embedder
from .errors import (
    ArgumentError,
    CancelledError,
    FormatError,
    InputOutputError,
    NotFoundError,
    OutOfMemoryError,
    UnsupportedError,
    WispError,
)
from .generator import Generator, Reply
from .index import Index, Match
from .library import lib as _lib
from .reranker import Reranker

__version__: str = _lib.wisp_build().decode().split()[1]

__all__ = [
    "ArgumentError",
    "CancelledError",
    "Classifier",
    "Embedder",
    "FormatError",
    "Generator",
    "Index",
    "InputOutputError",
    "Match",
    "NotFoundError",
    "OutOfMemoryError",
    "Reply",
    "Reranker",
    "UnsupportedError",
    "WispError",
]
