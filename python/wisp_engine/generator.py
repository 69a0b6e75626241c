"""Text generation."""

import codecs
import contextlib
import ctypes
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _wisp, errors
from .engine import Engine, OpenModel
from .library import (
    FLOATS,
    bytes_of,
    c_text,
    call,
    encode,
    error_of,
    flag,
    interruptible,
    lib,
    number,
    text_of,
    texts_in,
    to_json,
    whole,
)

MOST_ID = 2**31 - 1


def nonzero(value: object, name: str) -> float:
    if np.float32(number(value, name)) == 0:
        raise errors.ArgumentError(f"{name} must not be 0: leave it out, or give a small number", field=name)
    return number(value, name)


def from_1(value: object, name: str) -> int:
    return whole(value, name, 1)


def from_0(value: object, name: str) -> int:
    return whole(value, name, 0)


# The options of a text that are plain numbers, and what they may be: C takes 0 of some for an option that is not given.
# Each dict has those of one struct.
SAMPLING: dict[str, Callable[[object, str], float]] = {
    "temperature": number, "top_k": from_1, "top_p": nonzero, "min_p": number, "typical_p": nonzero,
    "repetition_penalty": nonzero, "presence_penalty": number, "frequency_penalty": number, "penalty_window": from_1,
    "seed": lambda value, name: whole(value, name, 0, 2**64 - 1), "temperature_last": flag}
TEXT: dict[str, Callable[[object, str], float]] = {"context_shift": flag, "keep_tokens": from_0, "drafts": from_0}
CONVERSATION = ("tools", "documents", "variables", "thinking", "template", "format", "date")


@dataclass(frozen=True)
class Reply:
    """A generated text."""

    text: str
    end: str  #: why it ended: "token", "stop", "length", "context", "caller" or "grammar"
    tokens: int  #: generated
    prompt_tokens: int
    reused_tokens: int  #: of the prompt, that had been computed before
    prompt_seconds: float
    seconds: float  #: after the prompt

    def __str__(self) -> str:
        return self.text


class Options:
    """The wisp_generate_options of one text, with all that they point to."""

    failure: errors.WispError | None = None

    def __init__(self, max_tokens: int | None = None, stop: str | Sequence[str] = (),
                 json_schema: Mapping[str, Any] | bool | str | None = None, grammar: str | None = None,
                 logit_bias: Mapping[int, float] | None = None, **numbers: Any) -> None:
        unknown = numbers.keys() - {*SAMPLING, *TEXT}
        if unknown:
            raise TypeError(f"unknown options: {', '.join(sorted(unknown))}")
        most = 0 if max_tokens is None else whole(max_tokens, "max_tokens", 1)
        given = {name: kinds[name](value, name) for kinds in (SAMPLING, TEXT) for name, value in numbers.items()
                 if name in kinds}
        stops = [encode(text, "stop") for text in ([stop] if isinstance(stop, str) else texts_in(stop, "stop"))]
        if not all(stops) or any(b"\0" in text for text in stops):
            raise errors.ArgumentError("stop must have texts with a character and without a NUL", field="stop")
        self.stops = (ctypes.c_char_p * max(len(stops), 1))(*stops)
        bias = dict(logit_bias or {})
        values = (_wisp.wisp_token_value(whole(id, "logit_bias", 0, MOST_ID), float(value))
                  for id, value in bias.items())
        self.bias = (_wisp.wisp_token_value * max(len(bias), 1))(*values)
        self.grammar = open_grammar(json_schema, grammar)
        sampling = _wisp.wisp_sampling(bias=self.bias, biases=len(bias),
                                       **{name: given[name] for name in SAMPLING if name in given})
        self.struct = _wisp.wisp_generate_options(
            max_tokens=most, sampling=sampling, stop=self.stops, stops=len(stops), grammar=self.grammar,
            **{name: given[name] for name in TEXT if name in given})

    def collect_failure(self) -> None:
        """Lets the text fail alone: `failure` is then its error."""
        kind: Any = next(field[1] for field in self.struct._fields_ if field[0] == "failed")

        def keep(_context: Any, error: Any) -> None:
            self.failure = error_of(error.contents.status, error.contents)

        self.struct.failed = kind(keep)

    def close(self) -> None:
        lib.wisp_grammar_close(self.grammar)


def open_grammar(schema: Mapping[str, Any] | bool | str | None, grammar: str | None) -> Any:
    if schema is not None and grammar is not None:
        raise errors.ArgumentError("json_schema and grammar exclude each other", field="grammar")
    pointer = ctypes.POINTER(_wisp.wisp_grammar)()
    if schema is not None:
        text = encode(schema, "json_schema") if isinstance(schema, str) else to_json(schema, "json_schema")
        call(lib.wisp_grammar_open_schema, text_of(text), ctypes.byref(pointer))
    elif grammar is not None:
        call(lib.wisp_grammar_open, text_of(encode(grammar, "grammar")), ctypes.byref(pointer))
    return pointer


class Generator(OpenModel):
    """Continues texts and answers conversations.

    The options of a text are keywords of each method: `max_tokens`, `temperature` (0: the likeliest token), `top_k`,
    `top_p`, `min_p`, `typical_p`, `repetition_penalty`, `presence_penalty`, `frequency_penalty`, `penalty_window`,
    `seed`, `temperature_last`, `stop` (a text or several), `json_schema` (a dict), `grammar` (GBNF), `logit_bias`
    ({token: value}), `context_shift`, `keep_tokens`, `drafts`. wisp.h says what each does.

    Parameters
    ----------
    model : str or PathLike, optional
        As for Embedder. The default is the file that WISP_MODEL names, else the story model that comes with wisp.
    threads, compute, kernels : optional
        As for Embedder.
    cache_type : {"auto", "f32", "f16", "int8"}, optional
        The type of keys and values. The default is "auto": int8 if the model computes in int8, else f32.
    attention : str, optional
        Which keys a token looks at: "full" (the default), "mass,mass=980", "full/quest,tokens=1024" or another policy
        that docs/internals.md describes.
    """

    def __init__(self, model: str | os.PathLike[str] | None = None, *, threads: int | None = None,
                 compute: str | None = None, kernels: str | None = None, cache_type: str | None = None,
                 attention: str | None = None) -> None:
        super().__init__(model, "wisp-stories", threads=threads, compute=compute, kernels=kernels,
                         cache_type=cache_type, attention=attention)

    @property
    def info(self) -> dict[str, Any]:
        """What Embedder.info says, and `cache_type`, the type of keys and values in use."""
        with self._engine.session() as session:
            used = lib.wisp_cache_type_name(lib.wisp_session_get_cache_type(session))
        return self._engine.info() | {"cache_type": used.decode()}

    def generate(self, prompt: str, **options: Any) -> Reply:
        """Continues a prompt and returns the whole text. Raises ArgumentError if the prompt exceeds the context."""
        return self._whole(self._continue(prompt), options)

    def stream(self, prompt: str, **options: Any) -> Iterator[str]:
        """Continues a prompt and yields the text in pieces of whole characters. Closing the iterator ends it."""
        return self._pieces(self._continue(prompt), options)

    def chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Reply:
        """Answers a conversation by the template of the model's file.

        `messages` are dicts with "role", "content" and what else the template uses. Options besides those of a text:
        `tools` and `documents` (lists), `variables` (a dict of others), `thinking` (bool), `template` (instead of the
        model's), `format` ("chatml" or "plain", of a model without one), `date` (a text; the default is now).
        """
        return self._whole(self._converse(messages, options), options)

    def chat_stream(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Iterator[str]:
        """Answers a conversation and yields the reply in pieces. Options are those of `chat`."""
        return self._pieces(self._converse(messages, options), options)

    def generate_batch(self, prompts: Iterable[str], at_once: int = 8, **options: Any) -> list[Reply]:
        """Continues many prompts, `at_once` at a time. Each text has the bits that it has alone.

        Where prompts fail, such as one that exceeds the context, the others are written all the same, and then the
        first failure is raised. Its attribute `results` has the Reply or the error of each prompt.
        """
        whole(at_once, "at_once", 1)
        data = [encode(prompt, f"prompts[{index}]") for index, prompt in enumerate(texts_in(prompts, "prompts"))]
        made = [Options(**options) for _ in data]
        pieces: list[list[bytes]] = [[] for _ in data]
        requests = (_wisp.wisp_request * max(len(data), 1))()
        results = (_wisp.wisp_generation * max(len(data), 1))()
        for request, prompt, chosen, texts in zip(requests, data, made, pieces, strict=False):
            chosen.struct.piece = receiver(chosen, texts.append)
            chosen.collect_failure()
            request.prompt, request.options = text_of(prompt), ctypes.pointer(chosen.struct)
        try:
            self._run(lambda session: call(lib.wisp_generate_batch, session, requests, len(data), at_once, results))
        finally:
            for chosen in made:
                chosen.close()
        replies = [chosen.failure or reply_of(texts, results[index])
                   for index, (chosen, texts) in enumerate(zip(made, pieces, strict=True))]
        for index, failure in enumerate(replies):
            if isinstance(failure, errors.WispError):
                raise errors.batch_error(f"prompts[{index}]", failure, replies)
        return [reply for reply in replies if isinstance(reply, Reply)]

    def tokenize(self, text: str) -> list[int]:
        """Returns the token ids of a text, with those that begin it."""
        data, count = encode(text, "text"), ctypes.c_size_t()
        self._engine.check_open()
        call(lib.wisp_tokenize, self._engine.model, text_of(data), None, 0, ctypes.byref(count))
        ids = (ctypes.c_int32 * max(count.value, 1))()
        call(lib.wisp_tokenize, self._engine.model, text_of(data), ids, count.value, ctypes.byref(count))
        return ids[: count.value]

    def detokenize(self, ids: Sequence[int]) -> str:
        """Returns the text of token ids. Control tokens stand for none."""
        array, length = ids_of(ids), ctypes.c_size_t()
        self._engine.check_open()
        call(lib.wisp_detokenize, self._engine.model, array, len(ids), None, None, 0, ctypes.byref(length))
        buffer = ctypes.create_string_buffer(length.value + 1)
        call(lib.wisp_detokenize, self._engine.model, array, len(ids), None, buffer, length.value, ctypes.byref(length))
        return buffer.raw[: length.value].decode("utf-8", "replace")

    def logits(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Returns the logits [ids, vocabulary] that follow each id of a text from its beginning."""
        rows = np.empty((len(ids), int(self.info["vocabulary_size"])), np.float32)
        array = ids_of(ids)
        pointer = rows.ctypes.data_as(FLOATS)
        self._run(lambda session: call(lib.wisp_logits, session, array, len(ids), pointer))
        return rows

    def _run(self, work: Callable[[Any], None]) -> None:
        with self._engine.session() as session:
            interruptible(lambda: work(session), lambda: lib.wisp_session_cancel(session))

    def _continue(self, prompt: str) -> Callable[..., None]:
        data = encode(prompt, "prompt")
        return lambda session, *rest: call(lib.wisp_generate, session, text_of(data), *rest)

    def _converse(self, messages: Sequence[Mapping[str, Any]], options: dict[str, Any]) -> Callable[..., None]:
        """Takes the options of a conversation from `options`."""
        taken = {name: options.pop(name, None) for name in CONVERSATION}
        variables = dict(taken["variables"] or {})
        variables |= {name: taken[name] for name in ("tools", "documents") if taken[name] is not None}
        if taken["thinking"] is not None and flag(taken["thinking"], "thinking"):
            variables["enable_thinking"] = True
        if not messages:
            raise errors.ArgumentError("messages must have at least one message", field="messages")
        texts = [to_json(list(messages), "messages"), to_json(variables, "variables"),
                 encode(taken["template"] or "", "template")]
        date = encode(taken["date"] or datetime.now().isoformat(timespec="seconds"), "date")
        conversation = _wisp.wisp_conversation(
            json=text_of(texts[0]), variables=text_of(texts[1]), chat_template=text_of(texts[2]), date=date,
            format=c_text(taken["format"], "format") if taken["format"] else None,
            no_thinking=taken["thinking"] is False)

        def write(session: Any, *rest: Any, _held: list[bytes] = texts) -> None:
            call(lib.wisp_chat, session, ctypes.byref(conversation), *rest)

        return write

    def _whole(self, write: Callable[..., None], options: Mapping[str, Any]) -> Reply:
        chosen, texts, result = Options(**options), list[bytes](), _wisp.wisp_generation()
        chosen.struct.piece = receiver(chosen, texts.append)
        try:
            self._run(lambda session: write(session, ctypes.byref(chosen.struct), ctypes.byref(result)))
        finally:
            chosen.close()
        return reply_of(texts, result)

    def _pieces(self, write: Callable[..., None], options: Mapping[str, Any]) -> Iterator[str]:
        return Stream(self._engine, write, Options(**options))


class Stream(Iterator[str]):
    """The pieces of a text that another thread writes."""

    def __init__(self, engine: Engine, write: Callable[..., None], options: Options) -> None:
        self.pieces: queue.SimpleQueue[bytes | BaseException | None] = queue.SimpleQueue()
        self.ended = False
        self.left = threading.Event()  # the thread has put its session back
        self.decode = codecs.getincrementaldecoder("utf-8")("replace").decode

        def receive(text: bytes) -> bool:
            self.pieces.put(text)
            return not self.ended

        def run() -> None:
            try:
                with engine.session() as session, contextlib.closing(options):
                    options.struct.piece = receiver(options, receive)
                    write(session, ctypes.byref(options.struct), None)
                self.pieces.put(None)
            except BaseException as failure:
                self.pieces.put(failure)
            finally:
                self.left.set()

        threading.Thread(target=run, name="wisp", daemon=True).start()

    def __next__(self) -> str:
        while not self.ended:
            piece = self.pieces.get()
            if isinstance(piece, bytes):
                if text := self.decode(piece, False):
                    return text
                continue
            self.ended = True
            if piece is not None:
                raise piece
            if text := self.decode(b"", True):
                return text
        raise StopIteration

    def close(self) -> None:
        """Ends the text."""
        self.ended = True
        self.left.wait()

    def __del__(self) -> None:
        self.ended = True


def ids_of(ids: Sequence[int]) -> Any:
    """Returns token ids as C takes them."""
    checked = (whole(id, f"ids[{index}]", 0, MOST_ID) for index, id in enumerate(ids))
    return (ctypes.c_int32 * max(len(ids), 1))(*checked)


def receiver(options: Options, receive: Callable[[bytes], object]) -> Any:
    """Returns the C function that hands each piece's text to `receive`, which ends the text by returning False."""
    kind: Any = next(field[1] for field in options.struct._fields_ if field[0] == "piece")
    return kind(lambda _context, piece: receive(bytes_of(piece.contents.text)) is not False)


def reply_of(texts: list[bytes], result: _wisp.wisp_generation) -> Reply:
    return Reply(text=b"".join(texts).decode("utf-8", "replace"), end=lib.wisp_end_name(result.end).decode(),
                 tokens=result.tokens, prompt_tokens=result.prompt_tokens, reused_tokens=result.reused_tokens,
                 prompt_seconds=result.prompt_seconds, seconds=result.seconds)
