from __future__ import annotations

import hashlib
from importlib.resources import files

import numpy as np
import torch

from dytox.config import DataConfig
from dytox.data import digits

# Of the 1,797 images and labels as bytes, computed from scikit-learn 1.9.1's `load_digits`.
SHA256 = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"


def test_the_archive_holds_scikit_learns_digits_and_no_pickle() -> None:
    with np.load(str(files("dytox.data") / "digits.npz"), allow_pickle=False) as arrays:
        content = arrays["images"].tobytes() + arrays["labels"].tobytes()
    assert hashlib.sha256(content).hexdigest() == SHA256


def test_pixels_are_scaled_to_bytes_in_three_equal_channels() -> None:
    samples, test, names = digits.load(DataConfig())
    assert test is None
    assert names == tuple("0123456789")
    assert samples.images.shape == (1797, 3, 8, 8)
    # The first row of the first image is 0 0 5 13 9 1 0 0 of 16.
    assert samples.images[0, 0, 0].tolist() == [0, 0, 80, 207, 143, 16, 0, 0]
    assert samples.images.max() == 255
    assert torch.equal(samples.images[:, 0], samples.images[:, 2])
    assert torch.bincount(samples.labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_the_attribution_ships_with_the_data() -> None:
    text = (files("dytox.data") / "digits.LICENSE.md").read_text(encoding="utf-8")
    for words in (
        "Optical Recognition of Handwritten Digits",
        "Alpaydin",
        "Kaynak",
        "CC BY 4.0",
        "optdigits.tes",
    ):
        assert words in text
