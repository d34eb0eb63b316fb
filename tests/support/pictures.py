"""Looks at a PNG as a test must: is it whole, how large is it, and is something drawn where it should be."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from matplotlib.image import imread
from PIL import Image

SIGNATURE = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Picture:
    """`pixels`: rows of columns of red, green, blue and opacity, each from 0 to 1."""

    pixels: np.ndarray
    words: str = ""  # what the file says of itself

    @property
    def width(self) -> int:
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        return int(self.pixels.shape[0])

    @property
    def opaque(self) -> bool:
        return self.pixels.shape[2] == 3 or bool((self.pixels[:, :, 3] == 1).all())

    def colours(self, *, top: float = 0.0, bottom: float = 1.0) -> int:
        """How many different colours stand between two heights, as shares of the whole."""
        rows = self.pixels[int(top * self.height) : int(bottom * self.height), 20:-20, :3]
        return len(np.unique((rows * 255).astype(np.uint8).reshape(-1, 3), axis=0))

    def holds(self, colour: str, *, within: float = 0.02) -> bool:
        """Whether some pixel is of that colour, written as `#rrggbb`."""
        wanted = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
        return bool((np.abs(self.pixels[:, :, :3] - wanted).max(axis=2) < within).any())


def read_png(content: bytes) -> Picture:
    assert content.startswith(SIGNATURE)
    with Image.open(io.BytesIO(content)) as image:
        words = str(image.info.get("Description", ""))
    return Picture(np.asarray(imread(io.BytesIO(content), format="png")), words)
