#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the prompts of wisp's chat templates with transformers, id for id.

    python-torch tests/oracle/chat.py CHAT_DRIVER

CHAT_DRIVER is tests/oracle/chat_driver.c built against the core. Each family has here a template of the kind that models
are published with, written for this test, and a small vocabulary of its kind, as GGUF and for transformers. Both run the
template on random conversations: many turns, white space, empty texts, all of Unicode. Roles that a template refuses must
be refused by wisp too. tests/oracle/jinja.py compares the texts of templates.
"""

import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The Python that has transformers need not have gguf; the one of tools/setup.py has it.
sys.path += [str(folder) for folder in (HERE.parents[1] / ".tools" / "python" / "lib").glob("python3*/site-packages")]

try:
    from gguf import GGUFValueType
    from tokenizers import AddedToken, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
except ImportError as error:
    print(f"skipped: chat templates: {error}")
    sys.exit(0)

# codecs.py beside this file; Python has a module of that name.
specification = importlib.util.spec_from_file_location("wisp_codecs", HERE / "codecs.py")
vocabularies = importlib.util.module_from_spec(specification)
specification.loader.exec_module(vocabularies)

SEED = 17

TURNS = "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('take turns') }}{% endif %}"
SPLIT = ("{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] %}{% set rest = messages[1:] %}"
         "{% else %}{% set rest = messages %}{% endif %}")

LLAMA2 = SPLIT + (
    "{% for message in rest %}" + TURNS +
    "{% if loop.first and system is defined %}"
    "{% set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% else %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}")

LLAMA3_MESSAGES = (
    "{% for message in rest %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}"
    "{{ message['content'] | trim }}{{ '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}")
LLAMA3 = "{{ bos_token }}{% set rest = messages %}" + LLAMA3_MESSAGES
LLAMA31 = "{{ bos_token }}" + SPLIT + (
    "{% if date_string is not defined %}{% set date_string = '26 Jul 2024' %}{% endif %}"
    "{{ '<|start_header_id|>system<|end_header_id|>\\n\\nCutting Knowledge Date: December 2023\\n' }}"
    "{{ 'Today Date: ' + date_string + '\\n\\n' }}{% if system is defined %}{{ system | trim }}{% endif %}{{ '<|eot_id|>' }}"
    ) + LLAMA3_MESSAGES

CHATML_MESSAGES = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


def with_system(text):
    return ("{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\n" + text + "<|im_end|>\\n' }}{% endif %}"
            + CHATML_MESSAGES)


QWEN3 = (
    "{% set ns = namespace(last = 0) %}"
    "{% for message in messages %}{% if message['role'] == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    "{% for message in messages %}{% set content = message['content'] %}"
    "{% if message['role'] == 'assistant' and '</think>' in content and loop.index0 < ns.last %}"
    "{% set content = content.split('</think>')[-1].lstrip('\\n') %}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
    "{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}")

LFM2 = "{{ bos_token }}" + SPLIT + (
    "{% if system %}{{ '<|im_start|>system\\n' + system + '<|im_end|>\\n' }}{% endif %}{% set messages = rest %}"
    ) + CHATML_MESSAGES

GEMMA = "{{ bos_token }}" + SPLIT + (
    "{% for message in rest %}" + TURNS +
    "{{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\\n' }}"
    "{% if loop.first and system is defined %}{{ system + '\\n\\n' }}{% endif %}"
    "{{ message['content'] | trim }}{{ '<end_of_turn>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}")


def mistral(begin, end, place, space):
    return "{{ bos_token }}" + SPLIT + (
        "{% for message in rest %}" + TURNS +
        "{% if message['role'] == 'user' %}{{ '" + begin + "' }}"
        "{% if " + place + " and system is defined %}{{ system + '\\n\\n' }}{% endif %}{{ message['content'] + '" + end + "' }}"
        "{% else %}{{ '" + space + "' + message['content'] | trim + eos_token }}{% endif %}{% endfor %}")


# The template of Phi-3.5. Its marks take the white space after them.
PHI3 = "{% for message in messages %}" + "".join(
    "{% " + word + " message['role'] == '" + role + "'" + more + " %}{{ '<|" + role + "|>\\n' + message['content'] + '<|end|>\\n' }}"
    for word, role, more in (("if", "system", " and message['content']"), ("elif", "user", ""), ("elif", "assistant", ""))
    ) + "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"

CHATML_TOKENS = ["<|im_start|>", "<|im_end|>"]
LLAMA3_TOKENS = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
PHI3_TOKENS = ["<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
THOUGHTS = ["<think>", "</think>"]

# name: (template, kind of vocabulary, control tokens, user-defined tokens, the token that begins a text)
FORMATS = {
    "llama2": (LLAMA2, "llama", [], [], "<s>"),
    "llama3": (LLAMA3, "llama-bpe", LLAMA3_TOKENS, [], "<|begin_of_text|>"),
    "llama3.1": (LLAMA31, "llama-bpe", LLAMA3_TOKENS, [], "<|begin_of_text|>"),
    "chatml": (CHATML_MESSAGES, "qwen2", CHATML_TOKENS, [], None),
    "qwen2": (with_system("You are a helpful assistant."), "qwen2", CHATML_TOKENS, [], None),
    "qwen2.5": (with_system("You are Qwen, created by Alibaba Cloud. You are a helpful assistant."), "qwen2",
                CHATML_TOKENS, [], None),
    "qwen3": (QWEN3, "qwen2", CHATML_TOKENS, THOUGHTS, None),
    "lfm2": (LFM2, "llama-bpe", ["<|startoftext|>", *CHATML_TOKENS], [], "<|startoftext|>"),
    "gemma": (GEMMA, "no prefix", ["<bos>", "<start_of_turn>", "<end_of_turn>"], [], "<bos>"),
    "mistral-v1": (mistral(" [INST] ", " [/INST]", "loop.first", " "), "first", [], [], "<s>"),
    "mistral-v3": (mistral("[INST] ", "[/INST]", "loop.last", " "), "first", ["[INST]", "[/INST]"], [], "<s>"),
    "mistral-v3, byte-level": (mistral("[INST]", "[/INST]", "loop.last", ""), "llama-bpe",
                               ["<s>", "</s>", "[INST]", "[/INST]"], [], "<s>"),
    "phi3": (PHI3, "llama", PHI3_TOKENS, [], "<s>"),
}

TEXTS = ["", " ", "\n", "  a  ", "\n\nHello\n", "\tx\x1f", "\u3000 in \u2003", "Hello", "What is 12345?", "日本語 text", "e\u0301",
         "👩\u200d👩", " leading", "trailing ", "<<SYS>>", "</think>", "<think>\nwell\n</think>\n\nso", "a</think>b</think>\n\n c ",
         "assistant\n", "user", "\x85x\xa0", "a\n\n\nb", "'s 're", "\U0001d7d8", "ｆｕｌｌ", "x" * 300, "\r\n", "\ufeffmark"]


def make(folder, name, training, merges):
    template, kind, control, added, bos = FORMATS[name]

    eos = "</s>" if "</s>" in control or kind in ("llama", "first") else None

    def more(writer, tokens):
        writer.add_chat_template(template)
        if eos:
            writer.add_eos_token_id(tokens.index(eos))
        if kind == "no prefix":
            writer.add_add_space_prefix(False)
        if name == "phi3":  # its marks take the white space after them
            writer.add_array("wisp.tokenizer.added_tokens", [tokens.index(token) for token in PHI3_TOKENS])
            writer.add_key_value("wisp.tokenizer.added_flags", [4] * len(PHI3_TOKENS), GGUFValueType.ARRAY, GGUFValueType.UINT8)

    def more_of_bytes(writer, tokens):
        more(writer, tokens)
        if bos:
            writer.add_bos_token_id(tokens.index(bos))

    if kind in ("llama", "first", "no prefix"):
        codec = vocabularies.sentencepiece(folder, training, name, control, bos, more)
        peer = codec.peer
        peer.add_special_tokens([AddedToken(token, normalized=False, rstrip=token in PHI3_TOKENS)
                                 for token in ["<s>", "</s>", *control]])
        if kind != "llama":
            peer.normalizer = normalizers.Replace(" ", "\u2581") if kind == "no prefix" else None
        if kind == "first":
            peer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        codec = vocabularies.byte_level(folder, kind, name, merges[kind], added=added, control=control, more=more_of_bytes)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=codec.peer, bos_token=bos, eos_token=eos, chat_template=template)
    return codec, tokenizer


def conversation(chosen, name):
    messages = []
    if chosen.random() < 0.5:
        messages.append({"role": "system", "content": chosen.choice(TEXTS)})
    for _ in range(chosen.choice((0, 0, 1, 2, 5, 12))):
        messages += [{"role": role, "content": "".join(chosen.choices(TEXTS, k=chosen.randint(0, 3)))}
                     for role in ("user", "assistant")]
    messages.append({"role": "user", "content": "".join(chosen.choices(TEXTS, k=chosen.randint(0, 3)))})
    if name not in ALTERNATE and chosen.random() < 0.2:
        messages[-1:-1] = [{"role": chosen.choice(("user", "assistant")), "content": "again"}]
    return messages


# The mark that each template writes after a reply.
ENDS = {"llama2": "</s>", "llama3": "<|eot_id|>", "llama3.1": "<|eot_id|>", "chatml": "<|im_end|>", "qwen2": "<|im_end|>",
        "qwen2.5": "<|im_end|>", "qwen3": "<|im_end|>", "lfm2": "<|im_end|>", "gemma": "<end_of_turn>", "mistral-v1": "</s>",
        "mistral-v3": "</s>", "mistral-v3, byte-level": "</s>", "phi3": "<|end|>"}

ALTERNATE = {"llama2", "gemma", "mistral-v1", "mistral-v3", "mistral-v3, byte-level"}


def packed(messages, options):
    data = json.dumps({"messages": messages, "variables": options}).encode("utf-8")
    return len(data).to_bytes(4, "little") + data


def run(driver, path, cases):
    """Returns for each case the ids, or the error, and the id of the mark that ends a reply."""
    done = subprocess.run([driver, path], input=b"".join(packed(*case) for case in cases), capture_output=True, check=True)
    numbers = lambda at, n: [int.from_bytes(done.stdout[at + 4 * i:at + 4 * i + 4], "little") for i in range(n)]  # noqa: E731
    results, at = [], 0
    for _ in cases:
        status, end, n = numbers(at, 3)
        results.append((numbers(at + 12, n) if status == 0 else done.stdout[at + 12:at + 12 + n].decode(), end))
        at += 12 + (n if status else 4 * n)
    return results


def check(driver, folder, name, training, merges, count):
    codec, tokenizer = make(folder, name, training, merges)
    chosen = random.Random(SEED)
    cases = [(conversation(chosen, name), {"enable_thinking": False} if name == "qwen3" and i % 2 else {})
             for i in range(count)]
    wrong = 0
    for (messages, options), (mine, end) in zip(cases, run(driver, codec.path, cases), strict=True):
        theirs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False,
                                               **options)
        if mine == theirs and tokenizer.convert_ids_to_tokens(end) == ENDS[name]:
            continue
        wrong += 1
        if wrong <= 3:
            shown = tokenizer.convert_ids_to_tokens(mine) if isinstance(mine, list) else ""
            print(f"{name}: {messages}\n  wisp   {mine}\n         {shown}, ended by {end}\n"
                  f"  theirs {theirs}\n         {tokenizer.convert_ids_to_tokens(theirs)}")
    turned = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    [(refused, _)] = run(driver, codec.path, [(turned, {})])
    if isinstance(refused, str) != (name in ALTERNATE):
        print(f"{name}: two messages of the user: {refused}")
        wrong += 1
    return wrong


def main():
    count = 400 if os.environ.get("WISP_TEST_ALL") else 60
    training = vocabularies.training_texts()
    merges = {pre: vocabularies.train_merges(pre, training, 2000) for pre in ("llama-bpe", "qwen2")}
    with tempfile.TemporaryDirectory() as folder:
        wrong = {name: check(sys.argv[1], folder, name, training, merges, count) for name in FORMATS}
    print(f"{len(FORMATS)} chat templates, {count} conversations each: {sum(wrong.values())} mismatches")
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
