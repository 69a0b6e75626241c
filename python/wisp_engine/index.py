"""An index of vectors with ids: exact search, in memory and in a file."""

import ctypes
import json
import os
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _wisp, errors
from .embedder import Embedder
from .library import FLOATS, bytes_of, c_path, call, choose, encode, lib, text_of, texts_in, texts_of, to_json, whole

INDEXES: weakref.WeakSet["Index"] = weakref.WeakSet()


@dataclass(frozen=True)
class Match:
    """A row that a search found."""

    id: str
    score: float  #: the cosine if both vectors are normalised
    metadata: Any = None
    error: errors.FormatError | None = None  #: why there is no metadata, in a file of another program


class Index:
    """Vectors with ids and JSON metadata. Its file is that of `wisp index` and of the JavaScript package.

    Make one with `Index.create`, or `Index.open` a file. Safe in threads: one call runs at a time. A forked process
    goes on with a copy of its own; if another thread was using the index when it forked, the copy is closed.
    """

    def __init__(self, pointer: Any, embedder: Embedder | None) -> None:
        self._pointer = pointer
        self._embedder = embedder
        self._lock = threading.Lock()
        self._closer = weakref.finalize(self, lib.wisp_index_close, pointer)
        INDEXES.add(self)

    @classmethod
    def create(cls, embedder: Embedder | None = None, dimensions: int = 0, kind: str = "int8") -> "Index":
        """Makes an empty index, for the vectors of an embedder or for any with `dimensions` values.

        `kind` is "int8" (a byte for each value) or "f32".
        """
        number = choose(lib.wisp_index_kind_find, kind, "kind")
        if dimensions or embedder is None:
            whole(dimensions, "dimensions", 1)
        pointer = ctypes.POINTER(_wisp.wisp_index)()
        if embedder is None:
            call(lib.wisp_index_create, None, dimensions, number, ctypes.byref(pointer))
        else:
            with embedder._engine.session() as session:
                call(lib.wisp_index_create, session, dimensions, number, ctypes.byref(pointer))
        return cls(pointer, embedder)

    @classmethod
    def open(cls, path: str | os.PathLike[str], embedder: Embedder | None = None) -> "Index":
        """Opens a file. Raises ArgumentError if its vectors are of another model than the embedder's."""
        pointer = ctypes.POINTER(_wisp.wisp_index)()
        call(lib.wisp_index_open, c_path(path), ctypes.byref(pointer))
        index = cls(pointer, embedder)
        if embedder is not None:
            with embedder._engine.session() as session:
                call(lib.wisp_index_check_model, pointer, session)
        return index

    @property
    def dimensions(self) -> int:
        """The number of values of a vector."""
        return int(self._info().dimensions)

    def __len__(self) -> int:
        return int(self._info().count)

    def __contains__(self, id: object) -> bool:
        data, row = encode(id, "id"), ctypes.c_uint64()
        with self._lock:
            return bool(lib.wisp_index_find(self._open(), text_of(data), ctypes.byref(row)))

    def add(self, ids: Sequence[str], texts: Sequence[str] | None = None, vectors: ArrayLike | None = None,
            metadata: Sequence[Any] | None = None) -> None:
        """Adds texts, which the embedder embeds, or vectors [ids, dimensions]. An id that is there is replaced.

        `metadata` has anything that JSON can hold for each id; by default {"text": text} if texts are given.
        """
        if (texts is None) == (vectors is None):
            raise errors.ArgumentError("give texts or vectors", field="texts")
        if texts is not None:
            texts = texts_in(texts, "texts")
            vectors = self._needs_embedder().encode_document(texts, truncate_dim=self.dimensions)
            metadata = [{"text": text} for text in texts] if metadata is None else metadata
        ids = texts_in(ids, "ids")
        rows = self._rows(vectors, len(ids), "ids")
        if metadata is not None and len(metadata) != len(ids):
            raise errors.ArgumentError(f"metadata has {len(metadata)} entries for {len(ids)} ids", field="metadata")
        names = [encode(id, f"ids[{index}]") for index, id in enumerate(ids)]
        if "" in ids:
            raise errors.ArgumentError("ids must have a character", field="ids")
        notes = None
        if metadata is not None:
            notes = [to_json(item, f"metadata[{index}]") for index, item in enumerate(metadata)]
        with self._lock:
            call(lib.wisp_index_add, self._open(), texts_of(names), texts_of(notes) if notes else None,
                 rows.ctypes.data_as(FLOATS), len(names))

    def remove(self, ids: Sequence[str]) -> int:
        """Removes ids and returns how many there were."""
        names, removed = [encode(id, "ids") for id in texts_in(ids, "ids")], ctypes.c_size_t()
        with self._lock:
            call(lib.wisp_index_remove, self._open(), texts_of(names), len(names), ctypes.byref(removed))
        return removed.value

    def search(self, query: str | ArrayLike, k: int = 10) -> list[Match]:
        """Finds the k nearest rows of one query, a text or a vector, best first."""
        k = whole(k, "k", 1, 2**63)
        vector: Any = query
        if isinstance(query, str):
            vector = self._needs_embedder().encode_query(query, truncate_dim=self.dimensions)
        rows = self._rows(np.atleast_2d(np.asarray(vector, np.float32)), 1, "query")
        with self._lock:
            info = _wisp.wisp_index_info()
            lib.wisp_index_get_info(self._open(), ctypes.byref(info))
            k = min(k, max(int(info.count), 1))
            matches, found = (_wisp.wisp_match * k)(), ctypes.c_size_t()
            call(lib.wisp_index_search, self._open(), rows.ctypes.data_as(FLOATS), 1, k, matches, ctypes.byref(found))
            return [self._match(match) for match in matches[: found.value]]

    def save(self, path: str | os.PathLike[str], force: bool = False) -> None:
        """Writes the file, which appears whole or not at all.

        Refuses to replace a file that is not an index, unless `force` is True.
        """
        if not force and not may_replace(path):
            name = os.fsdecode(path)
            raise errors.ArgumentError(f"{name}: exists and is not an index: choose another name, or replace it by "
                                       "force=True", file=name, field="path")
        with self._lock:
            call(lib.wisp_index_save, self._open(), c_path(path))

    def close(self) -> None:
        """Frees the index without saving it."""
        with self._lock:
            self._closer()

    def _open(self) -> Any:
        if not self._closer.alive:
            raise errors.ArgumentError("the index is closed")
        return self._pointer

    def _info(self) -> _wisp.wisp_index_info:
        info = _wisp.wisp_index_info()
        with self._lock:
            lib.wisp_index_get_info(self._open(), ctypes.byref(info))
        return info

    def _match(self, match: _wisp.wisp_match) -> Match:
        id, metadata = _wisp.wisp_text(), _wisp.wisp_text()
        lib.wisp_index_get(self._pointer, match.row, ctypes.byref(id), ctypes.byref(metadata))
        note, name = bytes_of(metadata), bytes_of(id).decode("utf-8", "replace")
        try:
            return Match(name, match.score, json.loads(note) if note else None)
        except (ValueError, RecursionError) as failure:
            error = errors.FormatError(f"the metadata of {name!r} are not JSON: {failure}", field="metadata")
            return Match(name, match.score, error=error)

    def _needs_embedder(self) -> Embedder:
        if self._embedder is None:
            raise errors.ArgumentError("texts need an index with an embedder", field="texts")
        return self._embedder

    def _rows(self, vectors: Any, count: int, what: str) -> NDArray[np.float32]:
        rows = np.ascontiguousarray(vectors, np.float32)
        if rows.shape != (count, self.dimensions):
            raise errors.ArgumentError(f"vectors of shape {list(rows.shape)} for {count} {what} and "
                                       f"{self.dimensions} dimensions", field="vectors")
        return rows


def may_replace(path: str | os.PathLike[str]) -> bool:
    """Returns whether there is an index, an empty file or nothing."""
    try:
        with open(path, "rb") as file:
            beginning = file.read(8)
    except OSError:  # saving says what is wrong
        return True
    return beginning in (b"", b"WISPINDX")


def after_fork() -> None:
    for index in INDEXES:
        if index._lock.locked():  # it may be half changed
            index._closer.detach()
        index._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)
