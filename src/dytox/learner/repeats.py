"""Find images that are given to a model which already stores them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch

from dytox.data.samples import Samples
from dytox.errors import UserError


def without_kept(
    samples: Samples, kept: Sequence[Samples], known: Sequence[str], new: Sequence[str], called: Sequence[str]
) -> Samples:
    """Return the samples that are not among `kept`; refuse an image that is kept under another class.

    It is not refused if both classes are known and both are given here: what was learned once may be given
    again. `called` names each image in the error, for example by its file.
    """
    before, here = defaultdict(set), defaultdict(set)  # the labels of an image that is kept
    for part in kept:
        for content, label in zip(part.contents(), part.labels.tolist(), strict=True):
            before[content].add(label)
    given = list(zip(samples.contents(), samples.labels.tolist(), strict=True))
    for content, label in given:
        if content in before:
            here[content].add(label)
    names, places = [*known, *new], []
    for place, (content, label) in enumerate(given):
        if content not in before:
            places.append(place)
        elif label not in before[content] and (label >= len(known) or not before[content] & here[content]):
            image, other = called[place] if called else f"Image {place + 1}", names[min(before[content])]
            raise UserError(
                f"{image} is of class {names[label]!r} here, and the model keeps the same image as "
                f"{other!r}: leave it out, or forget {other!r} first."
            )
    return samples.take(torch.tensor(places, dtype=torch.int64))
