"""Checkpoints: what a run needs to continue as if it had not been cut off.

One is a JSON file (position, state) and a safetensors file that the JSON names; it exists once its JSON is
renamed into place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from dytox import upgrade
from dytox.errors import UserError
from dytox.randomness import Position
from dytox.runs import files, sealed, tensor_file

_KIND = "dytox checkpoint"
_NAME = re.compile(r"checkpoint-(\d+)-(\d+)-(\d+)-(\d+)\.json")


@dataclass(frozen=True)
class Checkpoint:
    """A run's state at a position; `skipped` says, a sentence each, which newer ones could not be used."""

    position: Position
    tensors: dict[str, Tensor]
    state: dict[str, Any]
    skipped: list[str] = field(default_factory=list)


class Checkpoints:
    """The last `keep` checkpoints of a run, in one folder."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        assert keep > 0, keep
        self.folder = folder
        self.keep = keep

    def save(self, position: Position, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Save a checkpoint; those at later positions and all but the last `keep` are removed."""
        files.make_folder(self.folder, member=True)
        source = self._source(position)
        try:
            encoded = tensor_file.encode_tensors(tensors)
            reference = sealed.attach(source.with_suffix(".safetensors"), encoded, member=True)
            content = {"position": asdict(position), "tensors": reference, "state": dict(state)}
            sealed.write_sealed(source, _KIND, content, member=True)
            kept = [each for each in self._positions() if each <= position][-self.keep :]
            self._remove_all_but(kept)
        finally:
            self._clean()

    def newest(self) -> Checkpoint | None:
        """Load the newest checkpoint that is intact; None if there is none at all."""
        skipped: list[str] = []
        for position in reversed(self._positions()):
            try:
                return self._load(self._source(position), skipped)
            except upgrade.NewerFormat:
                raise  # an older one would silently undo what a newer version has learned
            except UserError as error:
                skipped.append(str(error))
        if skipped:
            newest = skipped[0].rstrip(".")
            raise UserError(
                f"No checkpoint in {self.folder} can be used, start the run anew (newest: {newest})."
            )
        return None

    def remove(self, position: Position) -> None:
        """Remove the checkpoint at this position, if there is one."""
        self._remove_all_but([each for each in self._positions() if each != position])

    def clear(self) -> None:
        """Remove all checkpoints."""
        self._remove_all_but([])
        self._clean()

    def _source(self, position: Position) -> Path:
        task, phase, epoch, step = astuple(position)
        return self.folder / f"checkpoint-{task:03}-{phase:03}-{epoch:05}-{step:07}.json"

    def _positions(self) -> list[Position]:
        """The positions of all checkpoints, intact or damaged, from the oldest to the newest."""
        matches = [_NAME.fullmatch(path.name) for path in self.folder.glob("*.json")]
        return sorted(Position(*map(int, match.groups())) for match in matches if match)

    def _load(self, source: Path, skipped: list[str]) -> Checkpoint:
        content, found = sealed.read_sealed(source, _KIND)
        tensors, _ = files.read_tensors(*sealed.follow(source, content["tensors"]))
        try:
            state, tensors = upgrade.checkpoint(content["state"], tensors, found)
        except ValueError as error:
            raise files.damaged(source, str(error)) from error
        return Checkpoint(Position(**content["position"]), tensors, state, skipped)

    def _remove_all_but(self, kept: list[Position]) -> None:
        for position in self._positions():
            if position not in kept:
                files.remove(self._source(position), member=True)

    def _clean(self) -> None:
        """Remove temporary files and tensors that no checkpoint names; those of a damaged one stay."""
        named: set[Path] = set()
        for position in self._positions():
            source = self._source(position)
            try:
                named.add(sealed.follow(source, sealed.read_sealed(source, _KIND)[0]["tensors"])[0])
            except UserError:
                named.update(self.folder.glob(f"{source.stem}-*.safetensors"))
        for path in set(self.folder.glob("checkpoint-*.safetensors")) - named:
            files.remove(path, member=True)
        for path in filter(files.is_temporary, self.folder.glob(".*")):
            files.remove(path, member=True)
