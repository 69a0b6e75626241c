"""`wisp serve` and `wisp-engine serve` as the official clients of OpenAI, Anthropic and Hugging Face see them.

WISP_CHAT_MODEL names a model with a chat template that generates in place of the one that comes with wisp.
"""

import asyncio
import base64
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.request
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from wisp_engine import Embedder

anthropic = pytest.importorskip("anthropic", reason="skipped: anthropic is not installed")
openai = pytest.importorskip("openai", reason="skipped: openai is not installed")
pydantic = pytest.importorskip("pydantic", reason="skipped: pydantic is not installed")

REPO = Path(os.environ["WISP_REPO"])
PROGRAM = REPO / "build/wisp"
LIBRARIES = f"{os.environ.get('LD_LIBRARY_PATH', '')}:{REPO}/.tools/civetweb/usr/lib/{platform.machine()}-linux-gnu"
STORIES = REPO / "models/wisp-stories.gguf"
CHAT_MODEL = os.environ.get("WISP_CHAT_MODEL")
KEY = "key of the test"
TEXTS = ["cats are nice", "the bank", "Ein Satz mit „Zeichen“ 😀", ""]
PROMPT = [{"role": "user", "content": "Once upon a time"}]


class Server:
    """A server in a process of its own, which ends with the test."""

    def __init__(self, *words):
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, "LD_LIBRARY_PATH": LIBRARIES, "WISP_API_KEY": KEY})
        said = ""
        for line in self.process.stderr:
            said += line
            if port := re.search(r":(\d+) \(Ctrl-C ends\)", line):
                self.url = f"http://127.0.0.1:{port[1]}"
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return
        self.process.wait()
        if "CivetWeb" in said and not os.environ.get("CI"):
            pytest.skip("skipped: CivetWeb is not there (tools/setup.py civetweb)")
        raise RuntimeError(said)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0

    def openai(self, **options):
        return openai.OpenAI(**{"base_url": f"{self.url}/v1", "api_key": KEY, "max_retries": 0, **options})

    def anthropic(self, **options):
        return anthropic.Anthropic(**{"base_url": self.url, "api_key": KEY, "max_retries": 0, **options})

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(),
                                         {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"})
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)

    def is_writing(self):
        request = urllib.request.Request(f"{self.url}/metrics", headers={"Authorization": f"Bearer {KEY}"})
        with urllib.request.urlopen(request) as reply:
            return b"\nwisp_writing 0\n" not in reply.read()


def native(*words):
    if not PROGRAM.exists():
        pytest.skip("skipped: needs the program (make native)")
    return Server(PROGRAM, "serve", "--port", "0", "-t", "1", *words)


def node(*words):
    program = shutil.which("node")
    if not program or not (REPO / "js/wisp-simd128.wasm").exists():
        pytest.skip("skipped: needs Node and the modules (make wasm)")
    return Server(program, REPO / "js/cli.js", "serve", "--port", "0", "-t", "1", *words)


@pytest.fixture(scope="module", params=[(native, "--batch-tokens", "64"), (node,)])
def embeds(request):
    start, *more = request.param
    with start("--name", "small", "--portable", "--queue", "64", *more) as server:
        yield server


@pytest.fixture(scope="module")
def tei():
    rank = f"rank={REPO}/tests/data/models/rank-bert"
    with native("--name", "small", "--portable", "--also", rank) as server:
        yield server


@pytest.fixture(scope="module")
def writes():
    model = ("-m", CHAT_MODEL) if CHAT_MODEL else ("-m", STORIES, "--chat-format", "plain")
    with native(*model, "--name", "writer", "--also", f"small={REPO}/models/wisp-default.gguf") as server:
        yield server


@pytest.fixture(scope="module")
def rows():
    return Embedder(portable=True).encode(TEXTS)


# ---- embeddings -------------------------------------------------------------------------------------


def test_models(embeds):
    assert [model.id for model in embeds.openai().models.list()] == ["small"]


def test_embeddings(embeds, rows):
    create = embeds.openai().embeddings.create
    # The client asks for base64 unless told otherwise, and decodes it.
    made = create(model="small", input=TEXTS)
    assert np.array_equal(np.array([row.embedding for row in made.data], np.float32), rows)
    assert made.model == "small" and made.usage.prompt_tokens == made.usage.total_tokens > len(TEXTS)
    floats = create(model="small", input=TEXTS, encoding_format="float")
    assert np.array_equal(np.array([row.embedding for row in floats.data], np.float32), rows)
    raw = create(model="small", input=TEXTS[0], encoding_format="base64").data[0].embedding
    assert base64.b64decode(raw) == rows[0].tobytes()
    short = create(model="small", input=TEXTS[0], dimensions=32).data[0].embedding
    assert np.allclose(short, rows[0, :32] / np.linalg.norm(rows[0, :32]), atol=1e-6)


def test_embeddings_of_token_ids(tei):
    create = tei.openai().embeddings.create
    [tokens] = tei.post("/tokenize", {"inputs": TEXTS[0]})
    ids = [token["id"] for token in tokens if not token["special"]]
    assert create(model="small", input=ids).data == create(model="small", input=TEXTS[0]).data
    assert len(create(model="small", input=[ids, ids]).data) == 2


def test_embeddings_at_the_same_time(embeds, rows):
    async def ask():
        client = openai.AsyncOpenAI(base_url=f"{embeds.url}/v1", api_key=KEY)
        made = await asyncio.gather(*(client.embeddings.create(model="small", input=text) for text in TEXTS * 4))
        return [row.data[0].embedding for row in made]

    assert np.array_equal(np.array(asyncio.run(ask()), np.float32), np.tile(rows, (4, 1)))


def test_errors_of_embeddings(embeds):
    create = embeds.openai().embeddings.create
    with pytest.raises(openai.BadRequestError, match="dimensions") as bad:
        create(model="small", input="a", dimensions=1000)
    assert bad.value.status_code == 400 and bad.value.param == "dimensions"
    assert bad.value.type == "invalid_request_error"
    with pytest.raises(openai.AuthenticationError, match="API key"):
        embeds.openai(api_key="another").embeddings.create(model="small", input="a")
    with pytest.raises(openai.APIStatusError, match="256") as large:
        create(model="small", input="word " * 400)
    assert large.value.status_code == 413
    with pytest.raises(openai.NotFoundError):
        embeds.openai().files.list()


def test_a_full_queue(embeds):
    """The client raises RateLimitError, and with retries asks again after the time of Retry-After."""
    long = threading.Thread(target=embeds.openai(max_retries=9).embeddings.create,
                            kwargs={"model": "small", "input": ["a longer text of some words"] * 400})
    long.start()
    with pytest.raises(openai.RateLimitError) as busy:
        while long.is_alive():
            embeds.openai().embeddings.create(model="small", input=["b"] * 65)
    assert busy.value.response.headers["retry-after"] == "1"
    assert len(embeds.openai(max_retries=9).embeddings.create(model="small", input=["b"] * 65).data) == 65
    long.join()


def test_names_of_models(tei):
    assert sorted(model.id for model in tei.openai().models.list()) == ["rank", "small"]
    with pytest.raises(openai.NotFoundError, match="there is no model large"):
        tei.openai().embeddings.create(model="large", input="a")
    with pytest.raises(openai.BadRequestError, match="makes no embeddings"):
        tei.openai().embeddings.create(model="rank", input="a")


def test_huggingface_hub(tei, rows):
    hub = pytest.importorskip("huggingface_hub", reason="skipped: huggingface_hub is not installed")
    embed = hub.InferenceClient(f"{tei.url}/embed", token=KEY)
    made = embed.feature_extraction(TEXTS[0], normalize=True, truncate=True)
    assert np.array_equal(made, rows[:1])
    assert np.array_equal(embed.feature_extraction(TEXTS), rows)
    similar = hub.InferenceClient(f"{tei.url}/similarity", token=KEY)
    scores = similar.sentence_similarity(TEXTS[0], other_sentences=TEXTS[1:])
    assert np.allclose(scores, rows[1:] @ rows[0], atol=1e-6)


def test_text_embeddings_inference(tei, rows):
    """The requests of TEI's documentation."""
    assert np.array_equal(np.array(tei.post("/embed", {"inputs": TEXTS}), np.float32), rows)
    [tokens] = tei.post("/tokenize", {"inputs": "What is Deep Learning?"})
    assert tokens[0] == {"id": 101, "text": "[CLS]", "special": True}
    asked = {"query": "the cat", "texts": ["a dog", "the cat"], "return_text": True, "model": "rank"}
    ranks = tei.post("/rerank", asked)
    assert ranks[0]["score"] >= ranks[1]["score"]
    assert all(row["text"] == asked["texts"][row["index"]] for row in ranks)


# ---- text, by OpenAI's client -----------------------------------------------------------------------


class Answer(pydantic.BaseModel):
    color: Literal["red", "green"]
    good: bool


TOOL = {"name": "get_weather", "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}


def test_chat(writes):
    create = writes.openai().chat.completions.create
    asked = {"model": "writer", "messages": PROMPT, "max_tokens": 12, "temperature": 0}
    whole = create(**asked, logprobs=True, top_logprobs=2)
    [choice] = whole.choices
    assert choice.finish_reason == "length" and choice.message.role == "assistant"
    assert len(choice.logprobs.content) == whole.usage.completion_tokens == 12
    assert all(len(token.top_logprobs) == 2 for token in choice.logprobs.content)
    assert "".join(token.token for token in choice.logprobs.content) == choice.message.content
    chunks = list(create(**asked, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == choice.message.content
    assert chunks[-1].usage.completion_tokens == 12
    stop = choice.message.content[4:8]
    stopped = create(**asked, stop=[stop]).choices[0]
    assert stopped.finish_reason == "stop"
    assert stopped.message.content == choice.message.content[:choice.message.content.index(stop)]
    drawn = [create(**{**asked, "temperature": 1}, seed=seed).choices[0].message.content for seed in (7, 7, 8)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_chat_by_schema(writes):
    parsed = writes.openai().chat.completions.parse(model="writer", messages=PROMPT, response_format=Answer,
                                                        temperature=0)
    assert isinstance(parsed.choices[0].message.parsed, Answer)
    with writes.openai().chat.completions.stream(model="writer", messages=PROMPT, response_format=Answer,
                                                 temperature=0) as stream:
        kinds = {event.type for event in stream}
    assert {"content.delta", "content.done"} <= kinds
    assert isinstance(stream.get_final_completion().choices[0].message.parsed, Answer)


def test_chat_with_tools(writes):
    """A call that was made, its result, and the functions themselves go into the prompt."""
    create = writes.openai().chat.completions.create
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'}}
    messages = [{"role": "user", "content": "Weather in Rome?"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}]
    asked = {"model": "writer", "messages": messages, "max_tokens": 8, "temperature": 0}
    with_tools = create(**asked, tools=[{"type": "function", "function": TOOL}])
    assert with_tools.choices[0].message.content
    assert create(**asked).choices[0].message.content
    with pytest.raises(openai.BadRequestError, match="auto"):
        create(**asked, tools=[{"type": "function", "function": TOOL}], tool_choice="required")


def test_completions(writes):
    create = writes.openai().completions.create
    asked = {"model": "writer", "prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}
    whole = create(**asked)
    assert whole.choices[0].finish_reason == "length" and whole.usage.completion_tokens == 12
    assert "".join(chunk.choices[0].text for chunk in create(**asked, stream=True)) == whole.choices[0].text


def test_responses(writes):
    responses = writes.openai().responses
    asked = {"model": "writer", "input": "Once upon a time", "max_output_tokens": 12, "temperature": 0}
    whole = responses.create(**asked)
    assert whole.status == "incomplete" and whole.incomplete_details.reason == "max_output_tokens"
    assert whole.output_text and whole.usage.output_tokens == 12
    with responses.stream(**asked) as stream:
        events = list(stream)
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole.output_text
    assert events[-1].type == "response.incomplete" and events[-1].response.output_text == whole.output_text
    with responses.stream(model="writer", input="Once upon a time", text_format=Answer, temperature=0) as stream:
        assert isinstance(stream.get_final_response().output_parsed, Answer)
    parsed = responses.parse(model="writer", input="Once upon a time", text_format=Answer, temperature=0)
    assert isinstance(parsed.output_parsed, Answer)
    tool = {"type": "function", "strict": False, **TOOL}
    assert responses.create(**asked, instructions="Write.", tools=[tool]).output_text


def test_errors_of_text(writes):
    client = writes.openai()
    with pytest.raises(openai.NotFoundError, match="there is no model gpt"):
        client.chat.completions.create(model="gpt", messages=PROMPT)
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.chat.completions.create(model="writer", messages=PROMPT, temperature=-1)
    with pytest.raises(openai.BadRequestError, match="writes no text"):
        client.chat.completions.create(model="small", messages=PROMPT)
    with pytest.raises(openai.BadRequestError, match="keeps no responses"):
        client.responses.create(model="writer", input="a", previous_response_id="resp_1")
    with pytest.raises(openai.AuthenticationError):
        writes.openai(api_key="another").completions.create(model="writer", prompt="a")


def test_a_client_that_leaves(writes):
    never_ends = {"logit_bias": {"2": -100}} if not CHAT_MODEL else {}
    stream = writes.openai().completions.create(model="writer", prompt="Once upon a time", max_tokens=400, stream=True,
                                                **never_ends)
    next(iter(stream))
    stream.close()
    for _ in range(200):
        if not writes.is_writing():
            return
        time.sleep(0.05)
    raise AssertionError("the server goes on with a text that nobody reads")


# ---- text, by Anthropic's client --------------------------------------------------------------------


def test_messages(writes):
    messages = writes.anthropic().messages
    asked = {"model": "writer", "system": "Write.", "messages": PROMPT}
    greedy = {"max_tokens": 12, "extra_body": {"temperature": 0}}
    whole = messages.create(**asked, **greedy)
    assert whole.stop_reason == "max_tokens" and whole.content[0].type == "text"
    with messages.stream(**asked, **greedy) as stream:
        assert "".join(stream.text_stream) == whole.content[0].text
        assert stream.get_final_message().usage.output_tokens == 12
    used = whole.usage.input_tokens + whole.usage.cache_read_input_tokens
    assert messages.count_tokens(**asked).input_tokens == used
    stop = whole.content[0].text[4:8]
    stopped = messages.create(**asked, **greedy, stop_sequences=[stop])
    assert stopped.stop_reason == "stop_sequence"
    assert stopped.content[0].text == whole.content[0].text.split(stop)[0]


def test_messages_by_schema(writes):
    made = writes.anthropic().messages.parse(model="writer", max_tokens=200, messages=PROMPT, output_format=Answer,
                                             extra_body={"temperature": 0})
    assert isinstance(made.parsed_output, Answer)


def test_messages_with_tools(writes):
    tool = {"name": TOOL["name"], "description": TOOL["description"], "input_schema": TOOL["parameters"]}
    use = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Rome"}}
    turns = [{"role": "user", "content": "Weather in Rome?"}, {"role": "assistant", "content": [use]},
             {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}]}]
    messages = writes.anthropic().messages
    made = messages.create(model="writer", max_tokens=8, messages=turns, tools=[tool])
    assert made.content[0].type in ("text", "tool_use")


def test_errors_of_messages(writes):
    asked = {"model": "writer", "max_tokens": 8, "messages": PROMPT}
    with pytest.raises(anthropic.NotFoundError, match="there is no model claude"):
        writes.anthropic().messages.create(**{**asked, "model": "claude"})
    with pytest.raises(anthropic.BadRequestError, match="role"):
        writes.anthropic().messages.create(**{**asked, "messages": [{"role": "robot", "content": "a"}]})
    with pytest.raises(anthropic.AuthenticationError):
        writes.anthropic(api_key="another").messages.create(**asked)
