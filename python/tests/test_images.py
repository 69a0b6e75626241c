"""Embeddings of images, of the tiny CLIP and SigLIPs of tests/data/models."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from wisp_engine import ArgumentError, Embedder, FormatError, Index, NotFoundError, UnsupportedError

FOLDER = Path(os.environ["WISP_REPO"]) / "tests/data/models/clip"
FILES = Path(os.environ["WISP_REPO"]) / "tests/data/images"


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
        with pytest.raises(ArgumentError, match=r"images\[1\] must be a PIL image, a path or an array"):
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


@pytest.fixture(scope="module")
def files():
    cases = json.loads((FILES / "golden.json").read_text())
    # Pillow cuts values of 16-bit grey at 255 (tests/oracle/make_images.py).
    return [(FILES / "good" / case["name"], case["row"]) for case in cases if case["name"] != "grey-16.png"]


def test_files(embedder, files):
    expected = [row for _, row in files]
    np.testing.assert_allclose(embedder.encode_images(path for path, _ in files), expected, atol=1e-5)
    np.testing.assert_allclose(embedder.encode([path for path, _ in files]), expected, atol=1e-5)
    np.testing.assert_allclose(embedder.encode([str(path) for path, _ in files]), expected, atol=1e-5)
    assert np.array_equal(embedder.encode_images(str(files[2][0])), embedder.encode(files[2][0]))


def test_texts_and_images_together(embedder, files):
    path, row = files[3]
    image = Image.open(path)
    rows = embedder.encode(["a cat", image, "none.png", path, np.asarray(image.convert("RGB"))])
    assert np.array_equal(rows[[0, 2]], embedder.encode(["a cat", "none.png"]))  # there is no such file
    np.testing.assert_allclose(rows[[1, 3, 4]], [row] * 3, atol=1e-5)
    short = embedder.encode(image, truncate_dim=4)
    np.testing.assert_allclose(short, np.array(row[:4]) / np.linalg.norm(row[:4]), atol=1e-5)
    assert embedder.encode([image], precision="int8").dtype == np.int8


def test_a_photo_is_turned_only_if_it_is_a_file(embedder):
    path = FILES / "good/exif-3.jpg"
    as_it_is = embedder.encode(Image.open(path))
    assert not np.allclose(as_it_is, embedder.encode(path), atol=1e-3)
    assert np.array_equal(embedder.encode(Image.open(path).rotate(180)), embedder.encode(path))


def test_a_model_of_texts_takes_paths_for_texts(files):
    path = str(files[0][0])
    with Embedder() as texts:
        assert np.array_equal(texts.encode([path]), texts.encode([f" {path} "]))
        with pytest.raises(UnsupportedError, match="no image tower"):
            texts.encode([files[0][0]])


def test_bad_files(embedder):
    for name in ("cut.jpg", "cut.png", "text.png", "bomb.png"):
        with pytest.raises(FormatError, match=r"images\[0\]: .*" + name):
            embedder.encode_images([FILES / "bad" / name])
    with pytest.raises(NotFoundError, match=r"sentences\[1\]: .*none.png: there is no such file"):
        embedder.encode(["a", FILES / "none.png"])
