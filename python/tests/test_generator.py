"""Text by the package."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from wisp_engine import ArgumentError, Generator, UnsupportedError, WispError

GOLDEN = json.loads((Path(os.environ["WISP_REPO"]) / "tests/data/golden-stories.json").read_text())


@pytest.fixture(scope="module")
def generator():
    return Generator(threads=1)


def test_stream_joins_to_the_text(generator):
    reply = generator.generate("Once upon a time", max_tokens=40)
    assert reply.end == "length" and reply.tokens == 40 and str(reply) == reply.text
    assert "".join(generator.stream("Once upon a time", max_tokens=40)) == reply.text


def test_stream_can_be_left(generator):
    stream = generator.stream("Once upon a time")
    next(stream)
    stream.close()
    assert list(stream) == []


def test_batch_has_the_bits_of_each(generator):
    prompts = ["Once upon a time", "The dog", "Lily"]
    batch = generator.generate_batch(prompts, max_tokens=20, temperature=0.8, seed=7)
    assert [reply.text for reply in batch] == [
        generator.generate(prompt, max_tokens=20, temperature=0.8, seed=7).text for prompt in prompts]


def test_schema_and_grammar(generator):
    text = generator.generate("x", json_schema={"enum": ["red", "green"]}, max_tokens=30).text
    assert json.loads(text) in ("red", "green")
    assert generator.generate("x", grammar='root ::= "yes" | "no"', max_tokens=30).text in ("yes", "no")
    with pytest.raises(ArgumentError, match="exclude each other"):
        generator.generate("x", grammar="root ::= [a]", json_schema={})
    with pytest.raises(WispError):
        generator.generate("x", grammar="root ::= (")


def test_ids_and_logits(generator):
    ids = generator.tokenize("Hello there")
    assert generator.detokenize(ids) == "Hello there"
    logits = generator.logits(ids)
    assert logits.shape == (len(ids), generator.info["vocabulary_size"]) and np.isfinite(logits).all()
    assert generator.info["cache_type"] == "f32"
    forced = generator.generate("Hello there", max_tokens=1, logit_bias={int(logits[-1].argmin()): 1000.0})
    assert generator.tokenize(forced.text) != []


def test_arguments(generator):
    with pytest.raises(TypeError, match="unknown options: max_token"):
        generator.generate("x", max_token=3)
    with pytest.raises(ArgumentError, match="max_tokens must be an int from 1 to 4294967295, not 0"):
        generator.generate("x", max_tokens=0)
    with pytest.raises(ArgumentError, match="at least one message"):
        generator.chat([])
    with pytest.raises(ArgumentError, match="role"):
        generator.chat([{"content": "x"}], format="plain")
    with pytest.raises(ArgumentError):
        generator.generate("word " * 5000)


def test_chat(generator):
    messages = [{"role": "user", "content": "Once upon a time"}]
    reply = generator.chat(messages, format="plain", max_tokens=8)
    assert "".join(generator.chat_stream(messages, format="plain", max_tokens=8)) == reply.text
    template = "{% if x == 1 and tools | length == 2 and messages[0].role == 'user' %}Once upon a time{% endif %}"
    made = generator.chat(messages, template=template, tools=[{}, {}], variables={"x": 1}, max_tokens=8)
    assert made.text == generator.generate("Once upon a time", max_tokens=8).text
    with pytest.raises(WispError):
        generator.chat(messages)


def test_pickle(generator):
    copy = pickle.loads(pickle.dumps(generator))
    assert copy.generate("Once", max_tokens=9).text == generator.generate("Once", max_tokens=9).text


def test_an_encoder_does_not_generate():
    from wisp_engine.files import shipped

    with pytest.raises(UnsupportedError):
        Generator(shipped("wisp-default")).generate("x")
