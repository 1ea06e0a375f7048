"""A run directory: everything a run reads, writes and leaves behind."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter
from torch import Tensor

from dytox import __version__, upgrade
from dytox.checking import validate
from dytox.config import Config
from dytox.errors import UserError
from dytox.randomness import Position
from dytox.runs import environment, files, locks
from dytox.runs.checkpoints import Checkpoints

MEMBERS = ("checkpoints", "evaluation", "model", "plots", "tensorboard", "wandb", "log.jsonl", ".lock")
_PLACE = ("task", "phase_index", "epoch")  # what every line of the log carries


class RunDirectory:
    """The files of one run, by name."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.model = self.path / "model"  # the model directory
        self.checkpoints = Checkpoints(self.path / "checkpoints")
        self._config = self.path / "config.yaml"
        self._environment = self.path / "environment.json"
        self._log = self.path / "log.jsonl"
        self._metrics = self.path / "metrics.json"

    def create(self, config: Config, resume: bool = False) -> None:
        """Write config and environment of a new run; with `resume`, note that the run there continues."""
        if resume:
            self._go_on(config)
            return
        if any(path.exists() for path in (self._config, self._log, self._metrics, self.checkpoints.folder)):
            raise UserError(f"{self.path} already holds a run: `dytox resume {self.path}` or another --out.")
        files.make_folder(self.path)
        head = {"format": upgrade.current(), "package": __version__}
        files.write(self._config, [to_yaml({**head, **config.model_dump()})])
        files.write_json(self._environment, environment.describe_environment())

    def _go_on(self, config: Config) -> None:
        if config != self.read_config():
            raise UserError(
                f"{self._config} is not the config asked for: resume it unchanged or take another --out."
            )
        started = (
            self.read_environment() if self._environment.exists() else environment.describe_environment()
        )
        started["resumed"] = [*started.get("resumed", []), environment.describe_environment()]
        files.write_json(self._environment, started)

    def read_config(self) -> Config:
        """The config as it was resolved when the run began."""
        if not self._config.is_file():
            raise files.not_a("run", self.path, without="config.yaml")
        values = _from_yaml(self._config)
        found = upgrade.check_format(values.pop("format", 1), values.pop("package", None), self._config)
        try:
            return validate(Config, upgrade.config(values, found))
        except UserError as error:
            raise UserError(f"{self._config}: {error}") from None

    def read_environment(self) -> dict[str, Any]:
        """Versions, machine and command line of the run's start, and of each resumption under `resumed`."""
        return files.read_mapping(self._environment)

    def threads(self) -> int | None:
        """The number of threads that the run was last computed with, if its environment is known."""
        if not self._environment.exists():
            return None
        started = self.read_environment()
        threads = [started, *started.get("resumed", [])][-1].get("threads")
        return threads if isinstance(threads, int) else None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the run directory; refused if another process works on it or if a member is a link."""
        files.make_folder(self.path)
        files.refuse_links(self.path, MEMBERS)
        with locks.exclusive(self.path, f"The run {self.path}"):
            yield

    def log(self, line: Mapping[str, Any]) -> None:
        """Append a line, on the disk when this returns; `task`, `phase_index` and `epoch` count from 0."""
        assert all(type(line.get(key)) is int for key in _PLACE), f"{_PLACE} must be numbers: {dict(line)}"
        files.append(self._log, files.to_json(files.finite(line)) + b"\n")

    def log_lines(self) -> list[dict[str, Any]]:
        """Read the log; a last line that was cut off is left out."""
        if not self._log.exists():
            return []
        texts = files.read(self._log).split(b"\n")
        while texts and not texts[-1]:
            texts.pop()
        lines = []
        for number, text in enumerate(texts, start=1):
            line = _parse(text)
            if line is not None:
                lines.append(line)
            elif number < len(texts):
                raise files.damaged(self._log, f"line {number} is not a line of a log")
        return lines

    def cut_log(self, position: Position) -> None:
        """Remove the lines from the epoch at `position` on: they will be written again."""
        place = (position.task, position.phase, position.epoch)
        kept = [line for line in self.log_lines() if tuple(line[key] for key in _PLACE) < place]
        files.write(self._log, [files.to_json(line) + b"\n" for line in kept])

    def write_metrics(self, content: Mapping[str, Any]) -> None:
        """`metrics.json`, from `dytox.metrics.summary`."""
        files.write_json(self._metrics, content)

    def has_metrics(self) -> bool:
        """Whether a task was measured."""
        return self._metrics.is_file()

    def read_metrics(self) -> dict[str, Any]:
        """The content of `metrics.json`."""
        return files.read_mapping(self._metrics)

    def save_evaluation(self, task: int, tensors: Mapping[str, Tensor]) -> None:
        """Save the tensors that a report needs of the evaluation after a task."""
        path = self._evaluation(task)
        files.make_folder(path.parent, member=True)
        files.write_tensors(path, tensors, member=True)

    def load_evaluation(self, task: int) -> tuple[dict[str, Tensor], dict[str, str]]:
        """The tensors of the evaluation after a task, and the file's metadata."""
        return files.read_tensors(self._evaluation(task))

    def _evaluation(self, task: int) -> Path:
        return self.path / "evaluation" / f"task-{task:02}.safetensors"


def _parse(text: bytes) -> dict[str, Any] | None:
    """A line of the log, or None if it cannot be read."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(line, dict) and all(type(line.get(key)) is int for key in _PLACE)
    return line if whole else None


class _Representer(SafeRepresenter):
    """Quotes text with characters that cannot be printed, which ruamel.yaml would write as they are."""

    def text(self, text: str) -> ScalarNode:
        style = None if text.isprintable() else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Representer.add_representer(str, _Representer.text)


def _yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)  # YAML 1.2: 5e-4 is a number, `no` a word
    yaml.Representer = _Representer
    yaml.default_flow_style = False
    yaml.representer.sort_base_mapping_type_on_output = False
    yaml.width = 10_000
    return yaml


def to_yaml(values: Mapping[str, Any]) -> bytes:
    """Keys and values as YAML 1.2, in their order."""
    text = io.BytesIO()
    _yaml().dump(values, text)
    return text.getvalue()


def _from_yaml(path: Path) -> dict[str, Any]:
    try:
        values = _yaml().load(files.read(path).decode())
    except (YAMLError, ValueError) as error:
        mark = error.problem_mark if isinstance(error, MarkedYAMLError) else None
        where = f"line {mark.line + 1} is not YAML" if mark else "not a whole YAML file"
        raise files.damaged(path, where) from error
    if not isinstance(values, dict):
        raise files.damaged(path, "it should hold keys and values")
    return values
