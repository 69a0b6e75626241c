"""Embeddings of images."""

import ctypes
import importlib
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _wisp, errors
from .engine import Engine
from .library import FLOATS, call, lib

BYTES = ctypes.POINTER(ctypes.c_uint8)

# By these endings encode takes a str for the path of an image, as SentenceTransformer does.
ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tiff", ".webp")


class Images:
    """The image tower of an open model, which one call uses at a time."""

    def __init__(self, engine: Engine) -> None:
        handle = ctypes.POINTER(_wisp.wisp_images)()
        call(lib.wisp_images_open, engine.model, engine.session_options.threads, ctypes.byref(handle))
        self.handle, self.process, self.lock = handle, os.getpid(), threading.Lock()
        self.closer = weakref.finalize(self, lib.wisp_images_close, handle)

    def embed(self, images: Sequence[Any], names: Sequence[str], rows: NDArray[np.float32]) -> None:
        """Writes the rows of images, which errors call by these names."""
        pixels = [pixels_of(image, name) for image, name in zip(images, names, strict=True)]
        pictures = (_wisp.wisp_image * len(pixels))(*(
            _wisp.wisp_image(pixels=array.ctypes.data_as(BYTES), width=array.shape[1], height=array.shape[0])
            for array in pixels))
        if self.process != os.getpid():  # the lock may be another thread's, which is not in this process
            self.process, self.lock = os.getpid(), threading.Lock()
        with self.lock:
            call(lib.wisp_images_embed, self.handle, pictures, len(pixels), rows.ctypes.data_as(FLOATS))

    def close(self) -> None:
        self.closer()


def is_image(value: object) -> bool:
    """Returns whether a value is an image and can be nothing else."""
    return (hasattr(value, "convert") or isinstance(value, os.PathLike)
            or (isinstance(value, np.ndarray) and value.ndim == 3))


def names_image(value: object) -> bool:
    """Returns whether a text is the path of a file that seems to be an image."""
    return isinstance(value, str) and value.lower().endswith(ENDINGS) and os.path.isfile(value)


def read_image(path: str | os.PathLike[str], what: str) -> Any:
    """Returns the PIL image of a file, turned upright as its EXIF data say."""
    try:
        pillow = importlib.import_module("PIL.Image")
        operations = importlib.import_module("PIL.ImageOps")
    except ImportError as error:
        raise errors.UnsupportedError(f"{what}: Pillow, which reads files of images, is not installed "
                                      "(pip install pillow)", field=what) from error
    try:
        with pillow.open(path) as image:
            return operations.exif_transpose(image).convert("RGB")
    except FileNotFoundError as error:
        raise errors.NotFoundError(f"{what}: {os.fspath(path)}: there is no such file", os.fspath(path),
                                   what) from error
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError) as error:
        raise errors.FormatError(f"{what}: {os.fspath(path)}: {error}", os.fspath(path), what) from error


def pixels_of(image: Any, what: str) -> NDArray[np.uint8]:
    """Returns [height, width, 3] of a PIL image, a file or an array, without a copy if it is one already."""
    if isinstance(image, str | os.PathLike):
        image = read_image(image, what)
    array = np.asarray(image.convert("RGB") if hasattr(image, "convert") else image)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or array.size == 0:
        raise errors.ArgumentError(f"{what} must be a PIL image, a path or an array [height, width, 3] of uint8, not "
                                   f"{array.dtype} {list(array.shape)}", field=what)
    return np.ascontiguousarray(array)
