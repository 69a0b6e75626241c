"""Errors. Each has the message of the C library, which names the file, the field and the value at fault."""

from typing import Any

__all__ = [
    "ArgumentError",
    "CancelledError",
    "FormatError",
    "InputOutputError",
    "NotFoundError",
    "OutOfMemoryError",
    "UnsupportedError",
    "WispError",
]


class WispError(Exception):
    """An error of wisp.

    Attributes
    ----------
    file : str
        The file at fault, or "".
    field : str
        The tensor, key or option at fault, or "".
    results : list
        Of a call with many texts, what became of each: a result or an error.
    """

    results: list[Any]

    def __init__(self, message: str, file: str = "", field: str = "") -> None:
        super().__init__(message)
        self.file = file
        self.field = field

    def __reduce__(self) -> tuple[type["WispError"], tuple[str, str, str]]:
        return type(self), (str(self), self.file, self.field)


def batch_error(place: str, failure: WispError, results: list[Any]) -> WispError:
    """Returns the error of one of many as that of all, with what became of each as `results`."""
    error = type(failure)(f"{place}: {failure}", failure.file, failure.field)
    error.results = results
    return error


class ArgumentError(WispError, ValueError):
    """An argument is invalid."""


class OutOfMemoryError(WispError, MemoryError):
    """An allocation failed."""


class InputOutputError(WispError, OSError):
    """Reading or writing failed, or a file changed while it was in use."""


class NotFoundError(WispError, LookupError):
    """A file, tensor, key or prompt is absent."""


class FormatError(WispError, ValueError):
    """A file is malformed."""


class UnsupportedError(WispError, NotImplementedError):
    """A well-formed file or request needs something that this build cannot do."""


class CancelledError(WispError):
    """The call was cancelled."""
