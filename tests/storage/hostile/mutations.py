"""Mutants: bytes that were changed on the way, from a seed.

A mutant has one to three changes, each a flip of bits, a cut, an insertion, a swap of two ranges or a
range of zeros, most of them short, some as long as the file; it never equals what it was made of.
"""

from __future__ import annotations

from random import Random


def mutant(data: bytes, seed: int) -> bytes:
    """A changed copy of `data`, which must hold two different bytes."""
    rng = Random(seed)
    changed = data
    while changed == data:
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            if changed:
                changed = rng.choice((_flip, _cut, _insert, _swap, _zero))(changed, rng)
    return changed


def _flip(data: bytes, rng: Random) -> bytes:
    flipped = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def _cut(data: bytes, rng: Random) -> bytes:
    start, end = _range(len(data), rng)
    return data[:start] + (
        b"" if rng.random() < 0.3 else data[end:]
    )  # the end of the file, or from its midst


def _insert(data: bytes, rng: Random) -> bytes:
    start, end = _range(len(data), rng)
    at = rng.choice((start, end, len(data)))
    return data[:at] + (rng.randbytes(end - start) if rng.random() < 0.5 else data[start:end]) + data[at:]


def _swap(data: bytes, rng: Random) -> bytes:
    start, end = _range(len(data), rng)
    other = rng.randrange(len(data) - (end - start) + 1)
    (a, b), (c, d) = sorted([(start, end), (other, other + end - start)])
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:] if b <= c else data


def _zero(data: bytes, rng: Random) -> bytes:
    start, end = _range(len(data), rng)
    return data[:start] + bytes(end - start) + data[end:]


def _range(size: int, rng: Random) -> tuple[int, int]:
    """start < end, of any length up to `size`, every order of magnitude equally likely."""
    length = min(size, int(2 ** rng.uniform(0, size.bit_length())))
    start = rng.randrange(size - length + 1)
    return start, start + length
