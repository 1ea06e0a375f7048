"""The speed of augmenting and loading images, compared with one image at a time with Pillow.

The paper's code augments with Pillow. Photographs of ImageNet's size are made; no dataset is needed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from dytox.bench.steps import Ours, grown, some_batch, training_step
from dytox.bench.suite import some_images, some_samples
from dytox.bench.timing import CPU, Settings, interleaved
from dytox.config import Config
from dytox.data.augment import Augmentation, draw_crops, windows
from dytox.data.decoding import Decoder, Request
from dytox.data.encoded import Encoded
from dytox.data.loader import Loader
from dytox.data.randaugment import FILL, OPERATIONS
from dytox.randomness import Position, generator

Operation = Callable[[Image.Image, float], Image.Image]


def pillow_augment(
    images: Tensor, draws: Mapping[str, Tensor], *, pad: int, mean: Sequence[float], std: Sequence[float]
) -> Tensor:
    """Augment one image after the other: uint8 (n, 3, side, side) -> normalised float32."""
    return torch.stack([_one(image, draws, i, pad, mean, std) for i, image in enumerate(images)])


def _one(
    pixels: Tensor,
    draws: Mapping[str, Tensor],
    place: int,
    pad: int,
    mean: Sequence[float],
    std: Sequence[float],
) -> Tensor:
    image, side = Image.fromarray(pixels.permute(1, 2, 0).numpy()), pixels.shape[-1]
    if "offset" in draws:
        top, left = draws["offset"][place].tolist()
        image = ImageOps.expand(image, pad).crop((left, top, left + side, top + side))
    if draws["flip"][place]:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if "operation" in draws:
        rounds = zip(draws["operation"][place].tolist(), draws["argument"][place].tolist(), strict=True)
        for operation, argument in rounds:
            if operation >= 0:
                image = PILLOW[OPERATIONS[operation]](image, argument)
    levels = np.asarray(image, np.float32) / 255
    normed = (levels - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)
    return torch.from_numpy(normed).permute(2, 0, 1)


def _affine(image: Image.Image, *matrix: float) -> Image.Image:
    return image.transform(
        image.size,
        Image.Transform.AFFINE,
        matrix,
        resample=Image.Resampling.BILINEAR,
        fillcolor=(FILL, FILL, FILL),
    )


def _rotate(image: Image.Image, degrees: float) -> Image.Image:
    return image.rotate(degrees, resample=Image.Resampling.BILINEAR, fillcolor=(FILL, FILL, FILL))


def _posterize(image: Image.Image, bits: float) -> Image.Image:
    kept = int(bits)  # Pillow refuses 0 bits, which make an image black
    return ImageOps.posterize(image, kept) if kept else image.point([0] * 768)


def _solarize_add(image: Image.Image, added: float) -> Image.Image:
    table = [min(255, level + int(added)) if level < 128 else level for level in range(256)]
    return image.point(table * 3)


PILLOW: dict[str, Operation] = {
    "AutoContrast": lambda image, _: ImageOps.autocontrast(image),
    "Equalize": lambda image, _: ImageOps.equalize(image),
    "Invert": lambda image, _: ImageOps.invert(image),
    "Posterize": _posterize,
    "Solarize": lambda image, threshold: ImageOps.solarize(image, int(threshold)),
    "SolarizeAdd": _solarize_add,
    "Color": lambda image, factor: ImageEnhance.Color(image).enhance(factor),
    "Contrast": lambda image, factor: ImageEnhance.Contrast(image).enhance(factor),
    "Brightness": lambda image, factor: ImageEnhance.Brightness(image).enhance(factor),
    "Sharpness": lambda image, factor: ImageEnhance.Sharpness(image).enhance(factor),
    "Rotate": _rotate,
    "ShearX": lambda image, shear: _affine(image, 1, shear, 0, 0, 1, 0),
    "ShearY": lambda image, shear: _affine(image, 1, 0, 0, shear, 1, 0),
    "TranslateX": lambda image, share: _affine(image, 1, 0, share * image.width, 0, 1, 0),
    "TranslateY": lambda image, share: _affine(image, 1, 0, 0, 0, 1, share * image.height),
}


def of_augmentation(config: Config, settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure the augmentation of a training batch, ours and Pillow's, and the training step."""
    say("augmentation: Pillow and ours in turn")
    batch, device = config.training.batch, settings.device
    samples, images = some_samples(config, 10, 2 * batch // 10 + 1), some_images(config, batch)
    data, augmentation = config.data, Augmentation(config.augment, mean=config.data.mean, std=config.data.std)
    loader = Loader(samples, config.training, augmentation, seed=0, mixup=config.augment.mixup, device=device)
    method = grown(Ours, config, 2, device)
    places = loader.epoch(Position())[0]
    draws = augmentation.draw(generator(0, Position(), "augment"), batch, samples.size)
    moved = images.to(device)

    def theirs() -> Tensor:
        return pillow_augment(images, draws, pad=config.augment.pad, mean=data.mean, std=data.std).to(device)

    with training_step(method, some_batch(method, batch)) as step:
        found = interleaved(
            {
                "pillow": theirs,
                "ours": lambda: augmentation(moved, draws),
                "batch": lambda: loader.batch(places, Position(), "train", method.model.draw),
                "step": step,
            },
            3 * settings.repeats,
            device,
        )
    whole = found["batch"].median + found["step"].median
    return {
        "batch": batch,
        "plain": found["pillow"].rate(batch),
        "ours": found["ours"].rate(batch),
        "speedup": found["pillow"].median / found["ours"].median,
        "step": asdict(found["step"]),
        "making_a_batch": asdict(found["batch"]),
        "augmentation_of_step": found["ours"].median / whole,
        "making_a_batch_of_step": found["batch"].median / whole,
    }


AREA = (0.08, 1.0)  # share of the image that a resized crop covers
BATCH = 64


def of_loading(
    repeats: int,
    say: Callable[[str], None],
    *,
    images: int = 256,
    width: int = 500,
    height: int = 375,
    size: int = 224,
    workers: Sequence[int] = (1, 2),
) -> dict[str, Any]:
    """Measure random crops of made photographs to `size`: by Pillow in one process, and by our workers.

    `decoding` only decodes a file to RGB pixels; `plain` decodes it whole, then crops and resizes.
    """
    say("loading large images: Pillow and ours in turn")
    with tempfile.TemporaryDirectory() as folder:
        paths = [_photo(Path(folder) / f"{number}.jpg", number, width, height) for number in range(images)]
        crops = draw_crops(torch.Generator().manual_seed(0), images)
        request = Request(Encoded(tuple(map(str, paths)), size, size), crops, AREA)
        ways = {"decoding": lambda: _decode(paths), "plain": lambda: _crop(paths, crops, size)}
        with ExitStack() as stack:
            ours = {str(count): stack.enter_context(_streaming(count, request)) for count in workers}
            found = interleaved({**ways, **ours}, repeats, CPU)
        kilobytes = sum(path.stat().st_size for path in paths) / images / 1000
    share = {count: found["decoding"].median / found[count].median / int(count) for count in ours}
    return {
        "images": images,
        "width": width,
        "height": height,
        "kilobytes": kilobytes,  # of a file, mean
        "size": size,  # side of the network's input, in pixels
        "decoding": found["decoding"].rate(images),
        "plain": found["plain"].rate(images),
        "ours": {count: found[count].rate(images) for count in ours},  # by the number of workers
        "share_of_decoding": share,  # images per second and worker, relative to decoding alone
    }


def _decode(paths: Sequence[Path]) -> None:
    for path in paths:
        with Image.open(path) as image:
            image.convert("RGB")


def _crop(paths: Sequence[Path], crops: torch.Tensor, size: int) -> None:
    for path, crop in zip(paths, crops, strict=True):
        with Image.open(path) as image:
            pixels = image.convert("RGB")
        top, left, h, w = windows(crop[None], pixels.height, pixels.width, area=AREA)[0].tolist()
        window = pixels.crop((int(left), int(top), int(left + w), int(top + h)))
        torch.from_numpy(np.array(window.resize((size, size), Image.Resampling.BICUBIC))).permute(2, 0, 1)


@contextmanager
def _streaming(workers: int, request: Request) -> Iterator[Callable[[], None]]:
    decoder = Decoder(workers, BATCH)

    def stream() -> None:
        batches = (request[start : start + BATCH] for start in range(0, len(request), BATCH))
        for _ in decoder.stream(batches):
            pass

    with closing(decoder):
        yield stream


def _photo(path: Path, number: int, width: int, height: int) -> Path:
    """Write smooth shapes with grain: a file of about the size of ImageNet's, 110 kB at 500×375 pixels."""
    source = np.random.default_rng(number)
    coarse = Image.fromarray(source.integers(0, 256, (12, 16, 3), dtype=np.uint8))
    smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), dtype=np.float32)
    grain = source.normal(0, 14, (height, width, 1))
    Image.fromarray((smooth + grain).clip(0, 255).astype(np.uint8)).save(path, quality=93)
    return path
