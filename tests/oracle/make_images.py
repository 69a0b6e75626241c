#!/usr/bin/env python3
"""Writes tests/data/images: files of images of many kinds, with their pixels as Pillow reads them and their embeddings by
transformers with the tiny CLIP of tests/data/models.

Needs torch, transformers and Pillow up to 12 (pip install --target .tools/pillow "pillow<13"); the result is committed, so
tests need none of them.
"""

import io
import json
import shutil
import struct
import sys
import zlib

from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
sys.path.append(str(REPO / ".tools" / "pillow"))

import numpy as np
import torch
from PIL import Image, ImageOps
from transformers import CLIPModel
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

OUT = REPO / "tests/data/images"
CLIP = REPO / "tests/data/models/clip"
ORIENTATION = 0x0112


def picture(width, height, channels=3):
    """Waves with sharp edges, without symmetry."""
    y, x = np.mgrid[:height, :width]
    waves = np.stack([127 + 120 * np.sin(x / (5 + c) + c) * np.cos(y / (4 + c)) for c in range(channels)], -1)
    waves[(x + 2 * y) % 23 < 3] = [(37 + 90 * c) % 256 for c in range(channels)]
    return np.clip(waves, 0, 255).astype(np.uint8)


def saved(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(width, height, depth, colour, rows, before=b"", interlaced=0):
    """A PNG of a kind that Pillow does not write."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def interlaced_png(pixels):
    """A PNG of seven passes (Adam7)."""
    rows = b""
    for y, x, dy, dx in ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)):
        for row in pixels[y::dy, x::dx]:
            rows += b"\0" + row.tobytes() if row.size else b""
    return png(pixels.shape[1], pixels.shape[0], 8, 2, rows, interlaced=1)


def exif(orientation, little):
    """EXIF data with another tag before the orientation and one behind it."""
    mark = "<" if little else ">"
    entries = ((0x0100, 3, 1, 99), (ORIENTATION, 3, 1, orientation), (0x0213, 3, 1, 1))
    body = b"".join(struct.pack(mark + "HHIHH", tag, kind, count, value, 0) for tag, kind, count, value in entries)
    return (b"II*\0" if little else b"MM\0*") + struct.pack(mark + "IH", 8, len(entries)) + body + b"\0\0\0\0"


def good_files():
    """Names and bytes of files, each of one kind."""
    image = Image.fromarray(picture(45, 31))
    grey = image.convert("L")
    palette = image.quantize(40)
    alpha = Image.fromarray(picture(45, 31, 1)[..., 0])
    grey_alpha, wide, tall = grey.copy(), Image.fromarray(picture(90, 11)), Image.fromarray(picture(13, 70))
    grey_alpha.putalpha(alpha)
    deep = (picture(29, 33).astype(np.uint16) * 257 + 91).astype(">u2")
    yield "rgb.png", saved(image, "PNG")
    yield "grey.png", saved(grey, "PNG")
    yield "grey-alpha.png", saved(grey_alpha, "PNG")
    yield "rgba.png", saved(Image.fromarray(picture(45, 31, 4), "RGBA"), "PNG")
    yield "palette.png", saved(palette, "PNG")
    yield "palette-alpha.png", saved(palette, "PNG", transparency=bytes(range(0, 200, 5)))
    yield "bits-4.png", saved(image.quantize(16), "PNG")
    yield "bits-1.png", saved(image.convert("1"), "PNG")
    yield "interlaced.png", interlaced_png(picture(19, 21))
    yield "rgb-16.png", png(29, 33, 16, 2, b"".join(b"\0" + row.tobytes() for row in deep))
    yield "grey-16.png", png(29, 33, 16, 0, b"".join(b"\0" + row.tobytes() for row in deep[..., 0]))
    yield "one.png", saved(Image.fromarray(picture(1, 1)), "PNG")
    yield "wide.png", saved(wide, "PNG")
    yield "exif.png", saved(tall, "PNG", exif=b"Exif\0\0" + exif(6, False))
    for subsampling, name in enumerate(("444", "422", "420")):
        yield f"{name}.jpg", saved(image, "JPEG", quality=70 + 10 * subsampling, subsampling=subsampling)
    yield "progressive.jpg", saved(image, "JPEG", quality=85, progressive=True)
    yield "grey.jpeg", saved(grey, "JPEG")
    yield "cmyk.jpg", saved(image.convert("CMYK"), "JPEG", quality=80)
    yield "restarts.jpg", saved(image, "JPEG", quality=60, restart_marker_rows=1)
    yield "tall.jpg", saved(tall, "JPEG")
    for orientation in range(1, 9):
        turned = Image.fromarray(picture(23, 17))
        yield f"exif-{orientation}.jpg", saved(turned, "JPEG", quality=80, exif=b"Exif\0\0" + exif(orientation, orientation % 2 == 0))
    yield "palette.gif", saved(image.quantize(16), "GIF")
    yield "rgb.bmp", saved(Image.fromarray(picture(20, 9)), "BMP")
    yield "lossless.webp", saved(image, "WEBP", lossless=True)


def bad_files():
    image = Image.fromarray(picture(45, 31))
    whole, jpeg = saved(image, "PNG"), saved(image, "JPEG")
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    yield "damaged.png", bytes(damaged)
    yield "cut.png", whole[: len(whole) // 2]
    yield "cut.jpg", jpeg[: len(jpeg) // 2]
    yield "text.png", b"This is not an image.\n"
    yield "empty.jpg", b""
    yield "header.jpg", jpeg[:30]
    yield "lossy.webp", saved(image, "WEBP", quality=50)
    yield "bomb.png", png(60000, 60000, 8, 2, b"\0" * 100)  # 10.8 GB of pixels
    yield "wide.png", png(70000, 1, 8, 0, b"\0" * 70001)


def upright(name, data):
    """The pixels, of which Pillow would cut those of 16-bit grey at 255 instead of taking the upper byte."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if name == "grey-16.png":
        image = Image.fromarray((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8))
    return image.convert("RGB")


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    model, processor = CLIPModel.from_pretrained(CLIP).eval(), CLIPImageProcessorPil.from_pretrained(CLIP)
    cases = []
    for folder, files in (("good", good_files()), ("bad", bad_files())):
        (OUT / folder).mkdir(parents=True)
        for name, data in files:
            (OUT / folder / name).write_bytes(data)
            if folder == "bad":
                continue
            image = upright(name, data)
            with torch.no_grad():
                row = model.get_image_features(**processor(image, return_tensors="pt")).pooler_output[0].double()
            cases.append({"name": name, "width": image.width, "height": image.height, "pixels": image.tobytes().hex(),
                          "row": (row / row.norm()).numpy().round(8).tolist()})
    (OUT / "golden.json").write_text("[" + ",\n".join(map(json.dumps, cases)) + "]\n")


if __name__ == "__main__":
    main()
