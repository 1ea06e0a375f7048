"""What a checkpoint belongs to: a run goes on only with the config and the data that it began with."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from dytox import __version__
from dytox.checking import differing
from dytox.config import Config
from dytox.data.encoded import Encoded
from dytox.data.scenario import Scenario
from dytox.errors import UserError


@dataclass(frozen=True)
class Origin:
    """What a checkpoint belongs to."""

    config: dict[str, Any]
    data: str  # a checksum of the training and test images and labels
    version: str

    @staticmethod
    def of(config: Config, tasks: Scenario) -> Origin:
        """Of this run, here and now; where the data lie does not matter."""
        digest = hashlib.blake2b(digest_size=16)
        for samples in (tasks.train_samples, tasks.test_samples):
            images = samples.images
            digest.update(
                images.fingerprint() if isinstance(images, Encoded) else images.contiguous().numpy().data
            )
            digest.update(samples.labels.numpy().data)
        return Origin(config.decisive(), digest.hexdigest(), __version__)

    def compare(self, other: Origin) -> list[str]:
        """What differs in config or data is an error, another version of the package a notice."""
        different = [
            f"{key} is {mine!r} and was {theirs!r}"
            for key, (mine, theirs) in differing(self.config, other.config).items()
        ]
        if different:
            raise UserError(
                f"The run began with another config ({'; '.join(different)}): restore config.yaml."
            )
        if self.data != other.data:
            raise UserError("The run began with other images: give it the dataset that it began with.")
        if self.version != other.version:
            return [f"The run began with dytox {other.version} and goes on with {self.version}."]
        return []
