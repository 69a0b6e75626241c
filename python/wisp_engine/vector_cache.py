"""Embeddings that are kept on disk, by their texts."""

import ctypes
import os
import threading
import weakref
from typing import Any

from . import _wisp
from .engine import Engine
from .library import c_path, call, lib

# The cache calls this for the texts that it does not have: wisp_embed itself, whose context is its session.
EMBED = ctypes.cast(lib.wisp_embed, lib.wisp_vector_cache_embed.argtypes[4])


class VectorCache:
    """The file of a folder that has the embeddings of an open model.

    A file may be used by any number of threads and processes, each process by an object of its own: a process that
    forked opens it again.
    """

    def __init__(self, engine: Engine, folder: str | os.PathLike[str], size: int) -> None:
        self.engine, self.folder, self.size = engine, c_path(folder), size
        self.lock = threading.Lock()
        self.open()

    def open(self) -> None:
        handle = ctypes.POINTER(_wisp.wisp_vector_cache)()
        with self.engine.session() as session:
            call(lib.wisp_vector_cache_open, session, self.folder, self.size, ctypes.byref(handle))
        self.process, self.handle = os.getpid(), handle
        self.closer = weakref.finalize(self, lib.wisp_vector_cache_close, handle)

    def embed(self, session: Any, *arguments: Any) -> None:
        """Does what wisp_embed does with the session. The arguments are its, without the error."""
        if self.process != os.getpid():
            with self.lock:
                if self.process != os.getpid():
                    self.closer.detach()  # what the other process has open is its own
                    self.open()
        texts, count, options, rows = arguments
        call(lib.wisp_vector_cache_embed, self.handle, texts, count, options, EMBED, session, rows)

    def stats(self) -> dict[str, int]:
        stats = _wisp.wisp_vector_cache_stats()
        lib.wisp_vector_cache_get_stats(self.handle, ctypes.byref(stats))
        return {name: getattr(stats, name) for name, *_ in stats._fields_}

    def close(self) -> None:
        self.closer()
