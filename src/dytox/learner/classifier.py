"""A trained classifier: method, class names and memory; it predicts, and is saved and loaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from dytox import calibration
from dytox.checking import flat
from dytox.config import Config
from dytox.data import inputs
from dytox.data.exemplars import Exemplars
from dytox.data.inputs import Images
from dytox.data.names import tidy
from dytox.data.samples import Samples, Stored
from dytox.engine.distributed import World
from dytox.engine.evaluate import scores
from dytox.engine.method import Method
from dytox.engine.phase import freeze
from dytox.errors import UserError, unknown
from dytox.learner import fitting
from dytox.learner.assessment import Assessment, assess
from dytox.methods import registry
from dytox.models.encoders import from_saved_state, own_encoder
from dytox.randomness import Position, seeded
from dytox.runs import model_directory

AnyClassifier = TypeVar("AnyClassifier", bound="Classifier")


class Classifier:
    """Predicts among all classes learned so far.

    Images may be arrays, tensors, lists of files or of Pillow's images, folders and datasets
    (`dytox.data.inputs`); labels strings or whole numbers. Classes go by their names, as text.
    """

    def __init__(
        self,
        config: Config,
        world: World | None = None,
        *,
        encoder: nn.Module | None = None,
        saved: bool = False,
    ) -> None:
        """A classifier that knows no class yet; the config must say the image size.

        `encoder` is the module that the config's `model.encoder: own` asks for. With `saved` a saved state is
        restored afterwards, so the file that `model.weights` names is not read.
        """
        self.config, self.world, self.encoder = registry.complete(config), world or World(), encoder
        if config.data.image_size is None:
            raise UserError("Config key data.image_size: a learner needs the side of its images in pixels.")
        self.size = config.data.image_size
        self.method: Method = self.blank(saved=saved)
        self.memory = Exemplars.empty(self.size)
        self.held_out = self.memory.samples  # never learned from
        self.temperature = 1.0  # of the confidences
        self.class_names: list[str] = []
        self.history: list[dict[str, Any]] = []

    def blank(self, *, saved: bool = False) -> Method:
        """The method before its first task; with `saved` its weights are loaded afterwards."""
        built = from_saved_state(self.config) if saved else self.config
        with seeded(self.config.seed, Position(), "model"):
            method = registry.find_method(self.config.method.name)(built).eval()
        method.config = self.config
        if self.config.model.encoder == "own":
            if method.needs_all_images:
                raise UserError(
                    f"{method.name} builds its network anew at each task, so it cannot take a module."
                )
            method.model.put_encoder(own_encoder(self.encoder, self.config))
        return placed(method, self.config)

    @property
    def increments(self) -> list[int]:
        """The number of classes of each task that it has learned."""
        return self.method.model.increments

    @property
    def classes_(self) -> list[str]:
        """The names of the classes, in the order in which they were learned."""
        return list(self.class_names)

    def place(self, name: str) -> int:
        """The place of a class among those it knows."""
        if tidy(name) not in self.class_names:
            raise unknown("class", name, self.class_names)
        return self.class_names.index(tidy(name))

    def get_params(self) -> dict[str, Any]:
        """Every value of the config under its full key, as in {"training.epochs": 100}."""
        return flat(self.config.model_dump())

    # Predicting

    def predict_proba(self, images: Images) -> np.ndarray[Any, np.dtype[np.float32]]:
        """The confidence in each class, (n, classes), in the order of `classes_`; a row sums to 1.

        They are calibrated on images that were held out (`dytox.calibration`), where there are some.
        """
        return (
            self.confidences(inputs.read_images(images, self.size, self.config.data.resize)).float().numpy()
        )

    @overload
    def predict(self, images: Images) -> list[str]: ...
    @overload
    def predict(self, images: Images, *, reject: float) -> list[str | None]: ...
    def predict(self, images: Images, *, reject: float | None = None) -> list[str] | list[str | None]:
        """The class of each image, by name.

        With `reject`, a share such as 0.05: None where the confidence is below the one from which on at
        most this share of the answers was wrong on held-out images.
        """
        confidence, places = self.confidences(
            inputs.read_images(images, self.size, self.config.data.resize)
        ).max(dim=1)
        named = [self.class_names[place] for place in places.tolist()]
        if reject is None:
            return named
        least = self.threshold(reject)
        return [
            name if value >= least else None for name, value in zip(named, confidence.tolist(), strict=True)
        ]

    def threshold(self, error_rate: float) -> float:
        """The confidence from which on at most this share of the answers is wrong, on held-out images.

        Without any, on the memory, which was learned, so that more answers may be wrong elsewhere.
        """
        if not 0 <= error_rate < 1:
            raise UserError(f"The error rate to accept must be at least 0 and below 1, not {error_rate}.")
        samples = self.held_out if len(self.held_out) else self.memory.samples
        if not len(samples):
            raise UserError(
                "This model keeps no image to choose a threshold by: it cannot say when to reject."
            )
        confidence, places = self.confidences(samples.images).max(dim=1)
        return calibration.threshold(confidence, places == samples.labels, error_rate)

    def evaluate(self, images: Any, labels: ArrayLike | None = None) -> Assessment:
        """How it does on labelled images of classes it knows, as for `learn`."""
        pixels, names = inputs.labelled(images, labels, self.size, self.config.data.resize)
        return self.assess(Samples(pixels, torch.tensor([self.place(name) for name in names])))

    def score(self, images: Any, labels: ArrayLike | None = None) -> float:
        """The share of images that is right, between 0 and 1, as scikit-learn's classifiers have it."""
        return self.evaluate(images, labels).top1 / 100

    def assess(self, samples: Samples) -> Assessment:
        """As `evaluate`, for samples."""
        return assess(self.confidences(samples.images), samples.labels, self.class_names, self.increments)

    def confidences(self, images: Stored) -> Tensor:
        """As `predict_proba`, for a tensor (n, 3, size, size) or encoded images."""
        return calibration.confidences(self.scores(images), self.temperature)

    def scores(self, images: Stored) -> Tensor:
        """The method's own scores, between 0 and 1, (n, classes)."""
        if not self.class_names:
            raise UserError("This learner has learned no class yet: call learn first.")
        return scores(self.method, images, self.world)

    # Saving

    def save(self, path: str | Path) -> None:
        """Writes a model directory: all that is needed to predict and to go on learning."""
        data = self.config.data
        description = {
            "config": self.config.model_dump(),
            "classes": self.class_names,
            "increments": self.increments,  # for readers of the file; those of `structure` count
            "structure": self.method.structure(),
            "preprocessing": {
                "image_size": data.image_size,
                "resize": data.resize or data.image_size,
                "mean": data.mean,
                "std": data.std,
            },
            "temperature": self.temperature,
        }
        held = {f"held_out.{name}": tensor for name, tensor in self.held_out.tensors().items()}
        memory = {**self.memory.tensors(), **held} if len(self.memory) or len(self.held_out) else None
        model_directory.save(Path(path), description, self.method.state_dict(), memory, self.history)

    @classmethod
    def load(
        cls: type[AnyClassifier],
        path: str | Path,
        *,
        method: str | None = None,
        encoder: nn.Module | None = None,
    ) -> AnyClassifier:
        """What `save` wrote, which holds no code.

        A method of another package, `package.module:Class`, must be named here, and an encoder of one's own
        be given again; its weights come from the directory.
        """
        saved = model_directory.load(Path(path))
        try:
            config = fitting.config_of(saved, method, encoder)
            loaded = cls(_runnable(config), encoder=encoder, saved=True)
            loaded.restore(saved.description["structure"], saved.model, saved.memory)
            loaded.class_names = saved.description["classes"]
            loaded.temperature = saved.description["temperature"]
            loaded.history = saved.history
        except Exception as error:  # whatever a description holds, it is a description and no program
            said = isinstance(error, UserError | ValueError)
            reason = str(error).rstrip(".") if said else f"its parts do not fit each other, {error!r}"
            raise UserError(f"The model in {path} cannot be used: {reason}.") from None
        return loaded

    def restore(
        self, structure: Mapping[str, Any], method: Mapping[str, Tensor], memory: Mapping[str, Tensor] | None
    ) -> None:
        """Takes over a saved state of method and memory."""
        if self.method.model.increments:
            self.method = self.blank(saved=True)
        self.method.rebuild(structure)
        self.method.load_state_dict(dict(method))
        freeze(self.method)  # torch multiplies, and rounds, otherwise by what may learn
        if memory is not None:
            self.memory = Exemplars.from_tensors(memory)
            prefix = "held_out."
            held = {
                name.removeprefix(prefix): each for name, each in memory.items() if name.startswith(prefix)
            }
            if held:
                self.held_out = Samples.from_tensors(held)


def _runnable(config: Config) -> Config:
    """On a device that is here: where a model was learned does not matter any more."""
    try:
        device(config)
    except UserError:
        return config.model_copy(update={"runtime": config.runtime.model_copy(update={"device": "auto"})})
    return config


def placed(method: Method, config: Config) -> Method:
    """The method, moved to the device and the precision of the weights that the config asks for."""
    precision = torch.float64 if config.runtime.precision == "fp64" else torch.float32
    return method.to(device(config), precision)


def device(config: Config) -> torch.device:
    """The device that the config asks for."""
    name = config.runtime.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        probe = torch.ones(1, device=name)
        probe.cpu()  # torch's "meta" computes nothing
        return probe.device
    except (RuntimeError, AssertionError):
        raise UserError(
            f"Config key runtime.device: there is no {name!r} here; 'auto' takes what is there."
        ) from None
