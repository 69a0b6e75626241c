# SPDX-License-Identifier: Apache-2.0
"""The tokens of single bytes in byte-level vocabularies."""


def byte_alphabet():
    """The character that spells each byte, in the order of bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in printable]
    spelled = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(rest)}
    return [spelled[b] for b in range(256)]


ALPHABET = byte_alphabet()
