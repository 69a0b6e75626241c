"""Embeddings of images."""

import ctypes
import os
import threading
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _wisp, errors
from .engine import Engine
from .library import FLOATS, call, lib

BYTES = ctypes.POINTER(ctypes.c_uint8)


class Images:
    """The image tower of an open model, which one call uses at a time."""

    def __init__(self, engine: Engine) -> None:
        handle = ctypes.POINTER(_wisp.wisp_images)()
        call(lib.wisp_images_open, engine.model, engine.session_options.threads, ctypes.byref(handle))
        self.handle, self.process, self.lock = handle, os.getpid(), threading.Lock()
        self.closer = weakref.finalize(self, lib.wisp_images_close, handle)

    def embed(self, images: list[Any], first: int, rows: NDArray[np.float32]) -> None:
        """Writes the rows of images, which are counted from `first` in errors."""
        pixels = [pixels_of(image, f"images[{first + i}]") for i, image in enumerate(images)]
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
    return hasattr(value, "convert") or (isinstance(value, np.ndarray) and value.ndim == 3)


def pixels_of(image: Any, what: str) -> NDArray[np.uint8]:
    """Returns [height, width, 3] of a PIL image or an array, without a copy if it is one already."""
    array = np.asarray(image.convert("RGB") if hasattr(image, "convert") else image)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or array.size == 0:
        raise errors.ArgumentError(f"{what} must be a PIL image or an array [height, width, 3] of uint8, not "
                                   f"{array.dtype} {list(array.shape)}", field=what)
    return np.ascontiguousarray(array)
