"""A model and its sessions, shared by the threads of a process."""

import contextlib
import ctypes
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Any, TypeVar

from . import _wisp, errors, files
from .library import c_path, c_text, call, choose, lib, whole

Opened = TypeVar("Opened", bound="OpenModel")

ENGINES: weakref.WeakSet["Engine"] = weakref.WeakSet()


class Engine:
    """An open model. Each call has a session of its own; sessions are kept for later calls.

    A forked process goes on with the model, which does not change while it is open. Sessions that other threads used
    when the process forked are left to the parent.
    """

    def __init__(self, path: str, threads: int | None = None, compute: str | None = None, kernels: str | None = None,
                 predictor: str | None = None, portable: bool = False, cache_type: str | None = None,
                 attention: str | None = None, device: str | None = None) -> None:
        if threads is not None:
            threads = whole(threads, "threads", 1, 1024)
        self.path = path
        self.session_options = _wisp.wisp_session_options(
            threads=threads or lib.wisp_usable_threads(),
            cache_type=choose(lib.wisp_cache_type_find, cache_type, "cache_type"),
            attention=c_text(attention, "attention") if attention else None)
        options = _wisp.wisp_model_options(
            compute=choose(lib.wisp_compute_find, compute, "compute"),
            predictor=choose(lib.wisp_predictor_find, predictor, "predictor"),
            kernels=c_text(kernels, "kernels") if kernels else None, portable=portable,
            device=c_text(device, "device") if device else None)
        model = ctypes.POINTER(_wisp.wisp_model)()
        call(lib.wisp_model_open, c_path(path), ctypes.byref(options), ctypes.byref(model))
        self.model = model
        self.lock = threading.Lock()
        self.idle: list[Any] = []
        self.sessions: list[Any] = []
        self.closer = weakref.finalize(self, close_all, model, self.sessions)
        ENGINES.add(self)

    def close(self) -> None:
        """Frees the model. No call may be under way."""
        self.closer()

    def check_open(self) -> None:
        if not self.closer.alive:
            raise errors.ArgumentError("the model is closed")

    @contextlib.contextmanager
    def session(self) -> Iterator[Any]:
        """Lends a session to one call."""
        self.check_open()
        with self.lock:
            session = self.idle.pop() if self.idle else None
        if session is None:
            session = ctypes.POINTER(_wisp.wisp_session)()
            call(lib.wisp_session_open, self.model, ctypes.byref(self.session_options), ctypes.byref(session))
            self.sessions.append(session)
        try:
            yield session
        except Exception:
            self.put_back(session)
            raise
        except BaseException:  # Ctrl-C cancelled the call, and might cancel the session's next one
            self.sessions.remove(session)
            lib.wisp_session_close(session)
            raise
        self.put_back(session)

    def put_back(self, session: Any) -> None:
        with self.lock:
            self.idle.append(session)

    def info(self) -> dict[str, Any]:
        """Returns the fields of wisp_model_info."""
        self.check_open()
        info = _wisp.wisp_model_info()
        lib.wisp_model_get_info(self.model, ctypes.byref(info))
        values = {field[0]: getattr(info, field[0]) for field in info._fields_}
        return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}


def close_all(model: Any, sessions: list[Any]) -> None:
    for session in sessions:
        lib.wisp_session_close(session)
    lib.wisp_model_close(model)


class OpenModel:
    """What an Embedder, a Generator, a Reranker and a Classifier have in common: an engine that closes, and pickles
    as the model's path and its options."""

    def __init__(self, model: str | os.PathLike[str] | None, default: str, **options: Any) -> None:
        self._path = files.find(model, default)
        self._options = options
        self._engine = Engine(self._path, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        return reopen, (type(self), self._path, self._options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._path!r})"

    def __enter__(self: Opened) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the model. No call may be under way."""
        self._engine.close()

    @property
    def info(self) -> dict[str, Any]:
        """What is known of the model: name, architecture, kernels, max_tokens, resident_bytes and more."""
        return self._engine.info()


def reopen(kind: type[Any], path: str, options: dict[str, Any]) -> Any:
    """Opens what was pickled."""
    return kind(path, **options)


def after_fork() -> None:
    for engine in ENGINES:
        engine.lock = threading.Lock()
        engine.sessions[:] = engine.idle  # in place: the finalizer has this list


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)
