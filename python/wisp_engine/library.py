"""The C library, which lies beside this file."""

import ctypes
import json
import math
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, SupportsIndex, TypeVar

import numpy as np

from . import _wisp, errors

Result = TypeVar("Result")

HERE = Path(__file__).parent
NAMES = {"darwin": "libwisp.dylib", "win32": "wisp.dll"}
ERRORS: dict[int, type[errors.WispError]] = {
    _wisp.WISP_ERROR_ARGUMENT: errors.ArgumentError,
    _wisp.WISP_ERROR_MEMORY: errors.OutOfMemoryError,
    _wisp.WISP_ERROR_IO: errors.InputOutputError,
    _wisp.WISP_ERROR_NOT_FOUND: errors.NotFoundError,
    _wisp.WISP_ERROR_FORMAT: errors.FormatError,
    _wisp.WISP_ERROR_UNSUPPORTED: errors.UnsupportedError,
    _wisp.WISP_ERROR_CANCELLED: errors.CancelledError,
}


def load() -> Any:
    path = os.environ.get("WISP_LIBRARY") or str(HERE / NAMES.get(sys.platform, "libwisp.so"))
    library = ctypes.CDLL(path)
    _wisp.declare_all(library)
    return library


lib = load()

FLOATS = ctypes.POINTER(ctypes.c_float)


def call(function: Any, *arguments: Any) -> None:
    """Calls a function of the library whose last argument is a wisp_error. Raises what it fails with."""
    error = _wisp.wisp_error()
    status = function(*arguments, ctypes.byref(error))
    if status != _wisp.WISP_OK:
        raise error_of(status, error)


def error_of(status: int, error: Any) -> errors.WispError:
    """Returns the exception of a wisp_error."""
    message, file, field = (bytes(text).decode("utf-8", "replace")
                            for text in (error.message, error.file, error.field))
    return ERRORS.get(status, errors.WispError)(message, file, field)


def interruptible(work: Callable[[], Result], cancel: Callable[[], None]) -> Result:
    """Runs work, and lets Ctrl-C cancel it if this is the main thread.

    Python hears a signal only between its own instructions, so the main thread must not be the one that is in C.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[Result] = []
    failures: list[BaseException] = []
    ended = threading.Event()  # Thread.join forgets a thread whose join was interrupted

    def run() -> None:
        try:
            results.append(work())
        except BaseException as failure:
            failures.append(failure)
        finally:
            ended.set()

    threading.Thread(target=run, name="wisp", daemon=True).start()
    try:
        ended.wait()
    except BaseException:
        while not ended.is_set():  # the call may begin after the first cancel
            cancel()
            ended.wait(0.05)
        raise
    if failures:
        raise failures[0]
    return results[0]


def encode(text: object, what: str) -> bytes:
    """Returns a text in UTF-8. A lone surrogate becomes bytes that wisp reads as U+FFFD."""
    if not isinstance(text, str):
        raise errors.ArgumentError(f"{what} must be a str, not {type(text).__name__}", field=what)
    return text.encode("utf-8", "surrogatepass")


def c_text(text: object, what: str) -> bytes:
    """Returns a text for a parameter that ends with a NUL in C, and would be cut at one without a word."""
    return without_nul(encode(text, what), what)


def c_path(path: str | os.PathLike[str]) -> bytes:
    return without_nul(os.fsencode(path), "path")


def without_nul(data: bytes, what: str) -> bytes:
    if b"\0" in data:
        raise errors.ArgumentError(f"{what} must not have a NUL", field=what)
    return data


def to_json(value: object, what: str) -> bytes:
    """Returns a value as JSON. A lone surrogate becomes U+FFFD, as readers of other languages refuse its escape."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as failure:
        raise errors.ArgumentError(f"{what} cannot become JSON: {failure}", field=what) from failure
    return encode(re.sub("[\ud800-\udfff]", "\ufffd", text), what)


def whole(value: object, what: str, least: int, most: int = 2**32 - 1) -> int:
    """Returns an int in this range. The C library would take another modulo 2^32."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or not least <= value.__index__() <= most:
        raise errors.ArgumentError(f"{what} must be an int from {least} to {most}, not {value!r}", field=what)
    return int(value.__index__())


def number(value: object, what: str) -> float:
    """Returns a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
        raise errors.ArgumentError(f"{what} must be a finite number, not {value!r}", field=what)
    return float(value)


def flag(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise errors.ArgumentError(f"{what} must be True or False, not {value!r}", field=what)
    return value


def texts_in(values: object, what: str) -> list[str]:
    """Returns a sequence of texts as a list. A str would be one of its characters."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise errors.ArgumentError(f"{what} must be a sequence of str, not {type(values).__name__}", field=what)
    return list(values)


def text_of(data: bytes) -> _wisp.wisp_text:
    return _wisp.wisp_text(data, len(data))


def texts_of(data: Sequence[bytes]) -> Any:
    """Returns an array of wisp_text. `data` must outlive it."""
    array = (_wisp.wisp_text * max(len(data), 1))()
    for index, item in enumerate(data):
        array[index].bytes = item
        array[index].length = len(item)
    return array


def bytes_of(text: _wisp.wisp_text) -> bytes:
    """Copies a wisp_text, which may contain zeros."""
    if not text.length:
        return b""
    field = type(text).bytes.offset
    address = ctypes.c_void_p.from_address(ctypes.addressof(text) + field).value
    return ctypes.string_at(address or 0, text.length)


def choose(find: Any, name: str | None, what: str) -> int:
    """Returns the value of an enum by its name; 0 for None."""
    value = ctypes.c_int(0)
    if name is not None and not find(c_text(str(name), what), ctypes.byref(value)):
        raise errors.ArgumentError(f"{what}: unknown value {name!r}", field=what)
    return value.value
