"""Text embeddings."""

import ctypes
import functools
import itertools
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from . import _wisp, errors
from .engine import OpenModel
from .images import Images, is_image, names_image
from .library import FLOATS, c_text, call, encode, interruptible, lib, text_of, texts_of, whole
from .vector_cache import VectorCache

Precision = Literal["float32", "float16", "int8", "binary", "ubinary"]

SLICE = 256  # texts between two steps of a progress bar
IMAGES = 32  # that are decoded at a time


class Embedder(OpenModel):
    """Turns texts into vectors. Its names and defaults are those of SentenceTransformer.

    Safe in threads: each call has a session of its own. Usable after a fork. Pickles as its path and options.

    Parameters
    ----------
    model : str or PathLike, optional
        A GGUF file, a Hugging Face folder, a URL of a GGUF file or "hf:owner/name". The default is the file that the
        environment's WISP_MODEL names, else the English model that comes with wisp (384 dimensions).
    threads : int, optional
        Threads of one call. The default is the number of processors that the process, or its container, may use.
    compute : {"auto", "f32", "int8", "bf16"}, optional
        "bf16" needs a processor with AMX or AVX512-BF16. "auto" is "int8" for a quantised file, else "bf16" with AMX,
        else "f32".
    kernels : str, optional
        A kernel set of `wisp --version`. The default is the fastest that the processor has.
    predictor : {"auto", "dense", "exact", "lowrank", "sentence"}, optional
    portable : bool, optional
        Compute vectors that have the same bits on every machine and in every browser.
    device : {"cpu", "cuda", "auto"}, optional
        What computes. "cuda" needs an NVIDIA GPU and libwisp-cuda.so (docs/cuda.md).
    vector_cache : str or PathLike, optional
        A folder in which embeddings are kept: a text that was embedded before is read from there, with the same bits.
        The server, `wisp embed` and other processes may share it (docs/server.md).
    vector_cache_size : int, optional
        The most bytes that it takes. The default is 1 GB.

    Raises
    ------
    WispError
        If the model cannot be opened: NotFoundError, FormatError, UnsupportedError, InputOutputError, ArgumentError.
    """

    def __init__(self, model: str | os.PathLike[str] | None = None, *, threads: int | None = None,
                 compute: str | None = None, kernels: str | None = None, predictor: str | None = None,
                 portable: bool = False, device: str | None = None, vector_cache: str | os.PathLike[str] | None = None,
                 vector_cache_size: int | None = None) -> None:
        if vector_cache is None and vector_cache_size is not None:
            raise errors.ArgumentError("vector_cache_size requires vector_cache", field="vector_cache_size")
        super().__init__(model, "wisp-default", threads=threads, compute=compute, kernels=kernels, predictor=predictor,
                         portable=portable, device=device)
        self._dimensions: int = lib.wisp_model_dimensions(self._engine.model)
        size = 0 if vector_cache_size is None else whole(vector_cache_size, "vector_cache_size", 1, 2**63 - 1)
        self._images: Images | None = None
        self._cache = None if vector_cache is None else VectorCache(self._engine, vector_cache, size)
        self._options |= {"vector_cache": vector_cache, "vector_cache_size": vector_cache_size}

    def __repr__(self) -> str:
        return f"Embedder({self._path!r}, dimensions={self._dimensions})"

    @property
    def dimensions(self) -> int:
        """The number of values of a vector."""
        return self._dimensions

    @property
    def max_seq_length(self) -> int:
        """The tokens of a text that count; longer texts are cut to this many."""
        return int(self.info["max_tokens"])

    @property
    def vector_cache_stats(self) -> dict[str, int] | None:
        """The texts that the vector cache had ("found", and of these "truncated": longer than the model reads) and had
        not ("computed", and of these "lost": those that could not be kept, as on a full disk). None without a vector
        cache."""
        self._engine.check_open()
        return self._cache.stats() if self._cache else None

    def close(self) -> None:
        """Frees the model. No call may be under way."""
        if self._cache:
            self._cache.close()
        if self._images:
            self._images.close()
        super().close()

    def get_sentence_embedding_dimension(self) -> int:
        """Returns `dimensions`, by SentenceTransformer's name."""
        return self._dimensions

    def encode(self, sentences: Any, prompt_name: str | None = None, prompt: str | None = None,
               batch_size: int | None = None, show_progress_bar: bool | None = None,
               precision: Precision = "float32", convert_to_numpy: bool = True,
               normalize_embeddings: bool | None = None, truncate_dim: int | None = None) -> NDArray[Any]:
        """Embeds texts, and by a model with an image tower (CLIP) images among them.

        Parameters
        ----------
        sentences : str or iterable of str
            With an image tower also PIL images, arrays [height, width, 3] of uint8 and paths: a PathLike, or a str that
            ends as images do and names a file. Prompts are put before texts only. See encode_images.
        prompt_name : str, optional
            A prompt of the model, "query" for example, that is put before each text.
        prompt : str, optional
            A text that is put before each text. The default is the model's default prompt.
        batch_size : int, optional
            Texts between two steps of the progress bar. It changes neither results nor speed: wisp does not pad.
        show_progress_bar : bool, optional
            Draw a progress bar on standard error.
        precision : {"float32", "float16", "int8", "binary", "ubinary"}
            "int8" has each vector times 127 / its largest value, "binary" and "ubinary" a bit for each value, which
            is set if the value is above 0, in int8 (offset by 128) and uint8.
        convert_to_numpy : bool
            False returns a list of arrays, one for each text.
        normalize_embeddings : bool, optional
            True divides each vector by its length. By default the model says whether it is.
        truncate_dim : int, optional
            Keep this many first values, and normalise again (Matryoshka).

        Returns
        -------
        numpy.ndarray
            [texts, dimensions], or [dimensions] for one str or image.
        """
        single = isinstance(sentences, str) or is_image(sentences)
        items = [sentences] if single else list(sentences)
        dimensions = 0 if truncate_dim is None else whole(truncate_dim, "truncate_dim", 1, self._dimensions)
        step = SLICE if batch_size is None else whole(batch_size, "batch_size", 1)
        rows = self._rows_of(items, self._prompt(prompt_name, prompt), dimensions, step, bool(show_progress_bar))
        if normalize_embeddings:
            rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        result = in_precision(rows, precision)
        if single:
            return np.asarray(result[0])
        return result if convert_to_numpy else list(result)  # type: ignore[return-value]

    def encode_images(self, images: Any) -> NDArray[np.float32]:
        """Embeds images with the image tower of a CLIP or SigLIP model, to be compared with its embeddings of texts.

        The tower is read from the model's file by the first call. Images are resized and cropped as transformers does
        it with Pillow. Pillow, which must be installed, reads files; photos among them are turned upright as their EXIF
        data say. PIL images are not: `PIL.ImageOps.exif_transpose` does so.

        Parameters
        ----------
        images : PIL image, path, array [height, width, 3] of uint8 (red, green and blue), or iterable of these
            They are taken 32 at a time, so that those of a generator need not be in memory together.

        Returns
        -------
        numpy.ndarray
            [images, dimensions], or [dimensions] for one image. Each vector has length 1.
        """
        single = isinstance(images, str) or is_image(images)
        named = ((f"images[{index}]", image) for index, image in enumerate([images] if single else images))
        result = self._image_rows(named)
        return np.asarray(result[0]) if single else result

    def encode_stream(self, sentences: Iterable[str], chunk: int = 1024, **options: Any) -> Iterator[NDArray[Any]]:
        """Embeds texts as they come, and yields a vector for each, in order.

        Takes `chunk` texts at a time, so it never holds more than that. `options` are those of `encode`.
        """
        whole(chunk, "chunk", 1)
        iterator = iter(sentences)
        while texts := list(itertools.islice(iterator, chunk)):
            yield from self.encode(texts, **options)

    def encode_query(self, sentences: str | Iterable[str], **options: Any) -> NDArray[Any]:
        """Embeds queries: by the model's prompt "query" if it has one."""
        return self._with_prompt(sentences, ("query",), options)

    def encode_document(self, sentences: str | Iterable[str], **options: Any) -> NDArray[Any]:
        """Embeds documents: by the model's prompt "document", "passage" or "corpus" if it has one."""
        return self._with_prompt(sentences, ("document", "passage", "corpus"), options)

    def similarity(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        """Returns the cosines [rows of a, rows of b]."""
        left, right = (np.atleast_2d(np.asarray(x, np.float32)) for x in (a, b))
        lengths = np.linalg.norm(left, axis=1)[:, None] * np.linalg.norm(right, axis=1)[None, :]
        result: NDArray[Any] = left @ right.T / np.maximum(lengths, np.finfo(np.float32).tiny)
        return result

    def count_tokens(self, text: str) -> int:
        """Returns the tokens of a text before it is cut, with those that begin and end it."""
        count = ctypes.c_size_t()
        data = encode(text, "text")
        self._engine.check_open()
        call(lib.wisp_count_tokens, self._engine.model, text_of(data), ctypes.byref(count))
        return count.value

    def _with_prompt(self, sentences: str | Iterable[str], names: Sequence[str],
                     options: dict[str, Any]) -> NDArray[Any]:
        self._engine.check_open()
        for name in names:
            if options.get("prompt") is None and lib.wisp_model_prompt(self._engine.model, name.encode()) is not None:
                options = {"prompt_name": name} | options
                break
        return self.encode(sentences, **options)

    def _prompt(self, name: str | None, prompt: str | None) -> bytes | None:
        self._engine.check_open()
        if prompt is not None:
            return c_text(prompt, "prompt")
        if name is None:
            return None
        text: bytes | None = lib.wisp_model_prompt(self._engine.model, c_text(name, "prompt_name"))
        if text is None:
            raise errors.ArgumentError(f"prompt_name: the model has no prompt {name!r}", field="prompt_name")
        return text

    def _tower(self) -> Images:
        self._engine.check_open()
        if self._images is None:
            tower = Images(self._engine)
            with self._engine.lock:
                self._images = self._images or tower
        return self._images

    def _image_rows(self, named: Iterable[tuple[str, Any]]) -> NDArray[np.float32]:
        """Embeds images, each with its name for errors."""
        tower, parts, iterator = self._tower(), [], iter(named)
        while chunk := list(itertools.islice(iterator, IMAGES)):
            names, images = zip(*chunk, strict=True)
            parts.append(np.empty((len(chunk), self._dimensions), np.float32))
            tower.embed(images, names, parts[-1])
        return np.concatenate(parts) if parts else np.empty((0, self._dimensions), np.float32)

    def _has_tower(self) -> bool:
        try:
            self._tower()
        except errors.UnsupportedError:
            return False
        return True

    def _rows_of(self, items: list[Any], prompt: bytes | None, dimensions: int, batch: int,
                 progress: bool) -> NDArray[np.float32]:
        """Embeds texts and images."""
        images = [index for index, item in enumerate(items) if is_image(item)]
        named = [index for index, item in enumerate(items) if names_image(item)]
        if named and self._has_tower():
            images = sorted(images + named)
        if not images:
            return self._rows(items, prompt, dimensions, batch, progress)
        width = dimensions or self._dimensions
        found = self._image_rows((f"sentences[{index}]", items[index]) for index in images)[:, :width]
        if width < self._dimensions:
            found = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        rows = np.empty((len(items), width), np.float32)
        texts = sorted(set(range(len(items))) - set(images))
        rows[images] = found
        if texts:
            rows[texts] = self._rows([items[index] for index in texts], prompt, dimensions, batch, progress)
        return rows

    def _rows(self, texts: Sequence[str], prompt: bytes | None, dimensions: int, batch: int,
              progress: bool) -> NDArray[np.float32]:
        data = [encode(text, f"sentences[{index}]") for index, text in enumerate(texts)]
        width = dimensions or self._dimensions
        rows = np.empty((len(data), width), np.float32)
        array = texts_of(data)
        options = _wisp.wisp_embed_options(prompt=prompt, dimensions=dimensions)
        step = batch if progress else max(len(data), 1)
        bar = Bar(len(data)) if progress else None
        embed = self._cache.embed if self._cache else functools.partial(call, lib.wisp_embed)
        with self._engine.session() as session:
            for begin in range(0, len(data), step):
                part = rows[begin : begin + step]
                first = ctypes.byref(array, begin * ctypes.sizeof(_wisp.wisp_text))
                arguments = (session, ctypes.cast(first, ctypes.POINTER(_wisp.wisp_text)), len(part),
                             ctypes.byref(options), part.ctypes.data_as(FLOATS))
                interruptible(lambda a=arguments: embed(*a),  # type: ignore[misc]
                              lambda: lib.wisp_session_cancel(session))
                if bar:
                    bar.step(len(part))
        return rows


class Bar:
    """A progress bar on standard error, with rate and time left."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.begun = total, 0, time.monotonic()

    def step(self, count: int) -> None:
        self.done += count
        seconds = max(time.monotonic() - self.begun, 1e-9)
        filled = 30 * self.done // max(self.total, 1)
        left = seconds / self.done * (self.total - self.done)
        end = "\n" if self.done == self.total else ""
        print(f"\r{'#' * filled:<30} {self.done}/{self.total} texts, {self.done / seconds:.0f}/s, {left:.0f} s left ",
              end=end, file=sys.stderr, flush=True)


def in_precision(rows: NDArray[np.float32], precision: str) -> NDArray[Any]:
    if precision == "float32":
        return rows
    if precision == "float16":
        return rows.astype(np.float16)
    if precision == "int8":
        largest = np.maximum(np.abs(rows).max(axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return np.asarray(np.rint(rows * (127 / largest)).astype(np.int8))
    if precision in ("binary", "ubinary"):
        bits = np.packbits(rows > 0, axis=1)
        return np.asarray((bits.astype(np.int16) - 128).astype(np.int8) if precision == "binary" else bits)
    raise errors.ArgumentError(f"precision: unknown value {precision!r}", field="precision")
