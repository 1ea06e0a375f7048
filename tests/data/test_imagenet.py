"""ImageNet's own layout, on a made tree of small images."""

from __future__ import annotations

import json
import os
import shutil
from importlib.resources import files
from pathlib import Path

import pytest

from dytox.config import DataConfig, ScenarioConfig
from dytox.data import datasets, scenario
from dytox.data.encoded import Encoded
from dytox.errors import UserError

FACTS = json.loads((files("dytox") / "facts" / "class_orders.json").read_text())
WNIDS = FACTS["imagenet100_wnids"]


def config(root: Path, dataset: str = "imagenet100", **more: object) -> DataConfig:
    return DataConfig(dataset=dataset, root=str(root), image_size=16, resize=18, **more)  # type: ignore[arg-type]


@pytest.fixture
def copy(imagenet: Path, tmp_path: Path) -> Path:
    """A tree of one's own, linked: only removals and new files leave the shared one alone."""
    return Path(shutil.copytree(imagenet, tmp_path / "copy", copy_function=os.link))


def flatten(root: Path) -> dict[str, str]:
    """All of val/ in one folder; gives each stem's class."""
    classes = {}
    for path in sorted((root / "val").glob("*/*")):
        classes[path.stem] = path.parent.name
        path.rename(root / "val" / path.name)
    for wnid in WNIDS:
        (root / "val" / wnid).rmdir()
    return classes


def test_a_hundred_classes_in_the_published_order_and_nothing_decoded(imagenet: Path) -> None:
    data = datasets.load(config(imagenet))
    assert data.class_names == tuple(WNIDS)
    assert isinstance(data.train.images, Encoded)
    assert (len(data.train), len(data.test), data.train.size) == (100 + 4 * 5, 100 + 4, 16)
    tasks = scenario.build(ScenarioConfig(order=1, increment=10), data)
    assert tasks.class_names[:3] == tuple(WNIDS[label] for label in (68, 56, 78))  # of the facts
    first = tasks.train(tasks.tasks[0])
    assert isinstance(first.images, Encoded)
    path = first.images.sources[int((first.labels == 1).nonzero()[0])]
    assert path == str(imagenet / "train" / WNIDS[56] / f"{WNIDS[56]}_0.JPEG")
    pixels = data.test.take(data.test.labels == 68).pixels()
    assert pixels.shape == (2, 3, 16, 16)


@pytest.mark.parametrize("kind", ["solution", "map", "numbered map", "ground truth", "meta"])
def test_a_flat_val_is_sorted_by_the_usual_files(copy: Path, kind: str) -> None:
    expected = {Path(path).name: label for path, label in paths_of(copy)}
    classes = flatten(copy)
    if kind == "solution":
        lines = ["ImageId,PredictionString", *(f"{stem},{wnid} 1 2 3 4" for stem, wnid in classes.items())]
        (copy / "LOC_val_solution.csv").write_text("\n".join(lines))
    elif kind == "map":
        lines = [f"{stem}.JPEG {wnid}" for stem, wnid in classes.items()]
        (copy / "val" / "val_map.txt").write_text("\n".join(lines))
    elif kind == "numbered map":
        (copy / "val" / "ILSVRC2012_val_99999999.JPEG").write_bytes(
            b"of a class that is not among the hundred"
        )
        lines = [f"{stem}.JPEG {WNIDS.index(wnid)}" for stem, wnid in classes.items()]
        (copy / "val.txt").write_text("\n".join([*lines, "ILSVRC2012_val_99999999.JPEG 100"]))
    else:
        kit = copy / "ILSVRC2012_devkit_t12" / "data"
        kit.mkdir(parents=True)
        numbers = {wnid: 100 - place for place, wnid in enumerate(WNIDS)}
        if kind == "meta":  # written by scipy.io.savemat, with the same numbers
            shutil.copy(Path(__file__).parents[1] / "fixtures" / "meta.mat", kit)
        else:
            (kit / "map_clsloc.txt").write_text(
                "\n".join(f"{wnid} {n} a_name" for wnid, n in numbers.items())
            )
        truth = [str(numbers[classes[stem]]) for stem in sorted(classes)]
        (kit / "ILSVRC2012_validation_ground_truth.txt").write_text("\n".join(truth))
    assert {Path(path).name: label for path, label in paths_of(copy)} == expected
    assert len(expected) == 104


def paths_of(root: Path) -> list[tuple[str, int]]:
    test = datasets.load(config(root)).test
    return list(zip(test.images.sources, test.labels.tolist(), strict=True))


def test_what_is_missing_is_said(copy: Path) -> None:
    def refused() -> str:
        with pytest.raises(UserError) as found:
            datasets.load(config(copy))
        return str(found.value)

    (copy / "train" / WNIDS[7] / f"{WNIDS[7]}_0.JPEG").unlink()
    assert refused() == f"{copy / 'train' / WNIDS[7]}: a class folder without images."
    (copy / "train" / WNIDS[7]).rmdir()
    assert refused() == f"{copy / 'train'} has no class folder {WNIDS[7]}: each of 100 is needed."
    shutil.copytree(copy / "train" / WNIDS[8], copy / "train" / WNIDS[7])
    flatten(copy)
    assert "has images, but no class folders: put LOC_val_solution.csv or val_map.txt or" in refused()
    (copy / "val_map.txt").write_text(f"ILSVRC2012_val_00000000.JPEG {WNIDS[0]}\n")
    assert refused().endswith(f"which is in {copy / 'val'}.")
    (copy / "val_map.txt").write_text("ILSVRC2012_val_00000000.JPEG\n")
    assert refused().startswith(f"Line 1 of {copy / 'val_map.txt'} is")
    (copy / "val_map.txt").unlink()
    (copy / "ILSVRC2012_validation_ground_truth.txt").write_text("1\n")
    assert "put meta.mat or map_clsloc.txt beside it, where the numbers stand" in refused()
    (copy / "meta.mat").write_bytes(b"MATLAB" * 100)
    assert refused() == f"{copy / 'meta.mat'} cannot be read as ImageNet's meta.mat: replace it."
    shutil.rmtree(copy / "val")
    assert "--data names the folder above it" in refused()


def test_a_thousand_classes_are_asked_for_and_found(imagenet: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has 100 class folders n01234567, not the 1,000 of ImageNet"):
        datasets.load(config(imagenet, "imagenet1000"))
    image = next((imagenet / "train" / WNIDS[0]).iterdir())
    for part in ("train", "val"):
        for number in range(1000):
            (tmp_path / part / f"n{number:08}").mkdir(parents=True)
            os.link(image, tmp_path / part / f"n{number:08}" / "a.JPEG")
    data = datasets.load(config(tmp_path, "imagenet1000"))
    tasks = scenario.build(ScenarioConfig(order=1, increment=100), data)
    assert len(tasks) == 10
    assert tasks.class_names[:3] == ("n00000054", "n00000007", "n00000894")  # of the facts


@pytest.mark.parametrize(
    ("dataset", "key", "value"),
    [
        ("digits", "resize", 9),
        ("cifar100", "on_demand", True),
        ("folder", "label", "a"),
        ("digits", "root", "photos"),
        ("hf:some/thing", "root", "photos"),
    ],
)
def test_a_key_that_a_dataset_does_not_read_is_refused(dataset: str, key: str, value: object) -> None:
    with pytest.raises(UserError, match=f"data.{key}.* is for .*leave it out"):
        datasets.load(DataConfig(dataset=dataset, image_size=8, **{key: value}))  # type: ignore[arg-type]
