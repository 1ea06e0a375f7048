"""How the cost of evaluation grows with classes, patches, image size and batch: measured, and on paper."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

from dytox.bench import products
from dytox.bench.steps import CLASSES, Ours, evaluating, grown, some_batch
from dytox.bench.suite import Settings
from dytox.bench.timing import interleaved
from dytox.checking import merge
from dytox.config import Config


class Variant(NamedTuple):
    """A model of one task, and the batch that it sees."""

    config: Config
    batch: int
    classes: int = CLASSES

    def operations(self) -> float:
        """Of a pass for one image, in products of matrices alone."""
        return products.operations(self.config, 1, self.classes)


def variants(config: Config, batch: int) -> dict[str, Variant]:
    """The model of the config first, then others that differ in one thing each."""
    side, patch = config.data.image_size, config.model.patch_size
    assert side is not None

    def changed(section: str, key: str, value: int) -> Variant:
        return Variant(Config.model_validate(merge(config.model_dump(), {section: {key: value}})), batch)

    return {
        "the model as it is": Variant(config, batch),
        **{f"{n:,} classes": Variant(config, batch, n) for n in (CLASSES // 10, CLASSES * 10)},
        **{f"patches of {n} px": changed("model", "patch_size", n) for n in (patch * 2, patch // 2)},
        **{f"images of {n} px": changed("data", "image_size", n) for n in (side // 2, side * 2)},
        **{f"batches of {n}": Variant(config, n) for n in (max(1, batch // 4), batch * 4, batch * 8)},
    }


def of_growth(config: Config, settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """Evaluation of each variant in turn: the time of an image, as a ratio to that of the first."""
    say("evaluation with other classes, patches, image sizes and batches, in turn")
    every = variants(config, settings.batch)
    with ExitStack() as stack:
        passes = {}
        for name, variant in every.items():
            method = grown(Ours, variant.config, 1, settings.device, variant.classes)
            images = some_batch(method, variant.batch).images
            passes[name] = stack.enter_context(evaluating(method, images))
        times = interleaved(passes, settings.repeats, settings.device)
    name, first = next(iter(every.items()))
    alone = times[name].median / first.batch
    rows = [
        {
            "changed": name,
            "classes": variant.classes,
            "patches": products.patches(variant.config),
            "image_size": variant.config.data.image_size,
            "batch": variant.batch,
            "evaluation": times[name].rate(variant.batch),
            "measured": times[name].median / variant.batch / alone,
            "on_paper": variant.operations() / first.operations(),
        }
        for name, variant in every.items()
    ]
    return {"rows": rows}
