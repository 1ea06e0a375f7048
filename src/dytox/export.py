"""Export of a model to one file that predicts without dytox: ONNX or torch.export.

The input is uint8 RGB images (batch, size, size, 3), the output confidences (batch, classes) as of
`predict_proba`. Scaling, normalisation, all tasks and the temperature are part of the graph; class names and
everything else are metadata.
"""

from __future__ import annotations

import copy
import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from dytox import __version__, calibration
from dytox.data.augment import normalise
from dytox.errors import UserError
from dytox.learner import ContinualLearner
from dytox.runs import files


class Predictor(nn.Module):
    """The network with everything around it, from uint8 pixels to confidences."""

    def __init__(self, learner: ContinualLearner) -> None:
        super().__init__()
        self.method = copy.deepcopy(learner.method).eval().requires_grad_(False).cpu().float()
        self.mean, self.std = learner.config.data.mean, learner.config.data.std
        self.temperature = learner.temperature

    def forward(self, images: Tensor) -> Tensor:
        """Map uint8 images (batch, size, size, 3) to confidences (batch, classes)."""
        pixels = normalise(images.permute(0, 3, 1, 2), self.mean, self.std)
        scores = self.method.predict(self.method.model(pixels))
        if self.method.config.evaluation.flip:
            scores = (scores + self.method.predict(self.method.model(pixels.flip(-1)))) / 2
        return calibration.confidences(scores, self.temperature)


def write_export(learner: ContinualLearner, out: Path) -> None:
    """Write the file in the format of its suffix: .onnx or .pt2."""
    writers = {".onnx": to_onnx, ".pt2": to_torch}
    if out.suffix not in writers:
        raise UserError(f"{out} should end in .onnx, or in .pt2 for torch.export.")
    if not learner.classes_:
        raise UserError("This model has learned no class yet: there is nothing to export.")

    def content() -> Iterator[bytes]:  # exported after the file could be opened
        yield writers[out.suffix](learner)

    files.write(out, content())


def resizing(learner: ContinualLearner) -> str:
    """A description of the part of an image that the model sees, and of its resizing."""
    size, resize = learner.size, learner.config.data.resize or learner.size
    of = "largest square" if size == resize else f"square of {size}/{resize} of the short side"
    return f"the {of} in the middle, resized to the side with bicubic interpolation and antialiasing"


def metadata(learner: ContinualLearner) -> dict[str, str]:
    """What a program needs to know to use the exported model."""
    return {
        "classes": json.dumps(learner.classes_, ensure_ascii=False),
        "image_size": str(learner.size),
        "resize": str(learner.config.data.resize or learner.size),
        "resizing": resizing(learner),
        "producer": f"dytox {__version__}",
    }


def program(learner: ContinualLearner) -> torch.export.ExportedProgram:
    """The exported graph, for any number of images."""
    images = torch.zeros(2, learner.size, learner.size, 3, dtype=torch.uint8)
    batch = torch.export.Dim("batch", min=1)
    return torch.export.export(Predictor(learner).eval(), (images,), dynamic_shapes=({0: batch},))


def to_torch(learner: ContinualLearner) -> bytes:
    """The bytes of a .pt2 file; its metadata are in the extra file `metadata.json`."""
    stream = io.BytesIO()
    with _quietly():
        exported = program(learner)
    torch.export.save(exported, stream, extra_files={"metadata.json": json.dumps(metadata(learner))})
    return stream.getvalue()


def to_onnx(learner: ContinualLearner) -> bytes:
    """The bytes of an .onnx file."""
    try:
        import onnx
        import onnxscript  # noqa: F401  # torch's exporter needs it
    except ImportError:
        raise UserError("ONNX needs more packages: pip install 'dytox[export]'.") from None
    with _quietly():
        exported = torch.onnx.export(
            program(learner),
            dynamo=True,
            input_names=["images"],
            output_names=["confidences"],
            verbose=False,
        )
    assert exported is not None
    model = exported.model_proto
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.helper.set_model_props(model, metadata(learner))
    return bytes(model.SerializeToString())


@contextmanager
def _quietly() -> Iterator[None]:
    """Suppress messages of the exporter that are meant for its developers."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
