"""Embeddings of images, of the tiny CLIP and SigLIPs of tests/data/models."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from wisp_engine import ArgumentError, Embedder, Index, UnsupportedError

FOLDER = Path(os.environ["WISP_REPO"]) / "tests/data/models/clip"


def read_goldens(folder):
    cases = json.loads((folder / "golden-images.json").read_text())
    return [(np.frombuffer(bytes.fromhex(c["pixels"]), np.uint8).reshape(c["height"], c["width"], 3), c["row"])
            for c in cases]


@pytest.fixture(scope="module")
def goldens():
    return read_goldens(FOLDER)


@pytest.fixture(scope="module")
def embedder():
    with Embedder(FOLDER, compute="f32") as opened:
        yield opened


class Picture:
    """What a PIL image has that is used here."""

    def __init__(self, pixels):
        self.pixels = pixels

    def convert(self, mode):
        assert mode == "RGB"
        return self.pixels


def test_equals_transformers(embedder, goldens):
    rows = embedder.encode_images(pixels for pixels, _ in goldens)
    assert rows.shape == (len(goldens), embedder.dimensions)
    np.testing.assert_allclose(rows, [row for _, row in goldens], atol=1e-5)


@pytest.mark.parametrize("name", ["siglip", "siglip2"])
def test_siglip_equals_transformers(name):
    folder = FOLDER.with_name(name)
    goldens = read_goldens(folder)
    with Embedder(folder, compute="f32") as embedder:
        rows = embedder.encode_images(pixels for pixels, _ in goldens)
    np.testing.assert_allclose(rows, [row for _, row in goldens], atol=1e-5)


def test_more_images_than_are_decoded_at_a_time(embedder, goldens):
    images = [pixels for pixels, _ in goldens] * 5
    rows = embedder.encode_images(images)
    assert np.array_equal(rows, np.tile(rows[:len(goldens)], (5, 1)))


def test_one_image(embedder, goldens):
    pixels, row = goldens[3]
    np.testing.assert_allclose(embedder.encode_images(Picture(pixels)), row, atol=1e-5)
    assert np.array_equal(embedder.encode_images(pixels[:, ::-1][:, ::-1]), embedder.encode_images(pixels))
    assert embedder.encode_images([]).shape == (0, embedder.dimensions)


def test_errors(embedder, goldens):
    pixels = goldens[0][0]
    for wrong in (pixels.astype(np.float32), pixels[..., :2], pixels[0], pixels[:0]):
        with pytest.raises(ArgumentError, match=r"images\[1\] must be a PIL image or an array"):
            embedder.encode_images([pixels, wrong])
    with pytest.raises(UnsupportedError, match="no image tower"), Embedder() as texts:
        texts.encode_images(pixels)


def test_an_index_of_images_is_searched_by_text(embedder, goldens):
    rows = embedder.encode_images(pixels for pixels, _ in goldens)
    index = Index.create(embedder)
    index.add([f"{i}.jpg" for i in range(len(rows))], vectors=rows)
    best = index.search("the cat", k=1)[0]
    scores = rows @ embedder.encode("the cat")
    assert best.id == f"{scores.argmax()}.jpg"
    assert abs(best.score - scores.max()) < 0.01
