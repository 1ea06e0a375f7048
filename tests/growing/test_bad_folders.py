"""Folders as people have them: what is wrong is one sentence, what can be used is used."""

from __future__ import annotations

import io
import os
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dytox.data import images
from dytox.engine.observer import Observer
from dytox.errors import UserError
from dytox.growing import teaching
from dytox.growing.plan import Plan
from dytox.growing.source import find_classes, read_pictures
from dytox.learner import ContinualLearner

Photos = Callable[..., Path]
Planned = Callable[..., Plan]


def picture(path: Path, size: tuple[int, int] = (8, 8), mode: str = "RGB", **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size).save(path, **options)
    return path


def bomb() -> bytes:
    """A PNG that says it has 40,000 × 40,000 pixels."""
    chunks = (b"IHDR" + struct.pack(">IIBBBBB", 40_000, 40_000, 8, 2, 0, 0, 0), b"IDAT")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks
    )


def refusal(planned: Planned, model: Path, folder: Path, **options: Any) -> str:
    with pytest.raises(UserError) as error:
        planned(model, folder, **options)
    assert not model.exists()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_is_no_folder_of_classes(tmp_path: Path, model: Path, planned: Planned) -> None:
    assert "There is no folder" in refusal(planned, model, tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "has no class folders" in refusal(planned, model, tmp_path / "empty")
    picture(tmp_path / "flat" / "a.png")
    assert "has no class folders" in refusal(planned, model, tmp_path / "flat")
    (tmp_path / "hollow" / "cat").mkdir(parents=True)
    assert "a class folder without images" in refusal(planned, model, tmp_path / "hollow")
    assert "There is no folder" in refusal(planned, model, picture(tmp_path / "file.png"))


def test_one_class_at_first(photos: Photos, model: Path, planned: Planned) -> None:
    assert "A first task of one class ('ant') teaches nothing" in refusal(planned, model, photos("one", 0, 1))


def test_one_image(photos: Photos, model: Path, planned: Planned) -> None:
    assert "one class ('ant')" in refusal(planned, model, photos("one", 0, 1, each=1))
    plan = planned(model, photos("two", 0, 2, each=1))  # one image a class: none is held out
    assert (len(plan.learned), len(plan.held)) == (2, 0)
    assert teaching.teach(plan, Observer()) == []
    assert len(ContinualLearner.load(model).memory) == 2


NAMES = ["two words", "größe", "花", "a'b", "[bold]", "%s", "-rf", "CON", "🐈", "a" * 200]


def test_names_of_all_kinds(photos: Photos, model: Path, planned: Planned, tmp_path: Path) -> None:
    folder = photos("one", 0, 2, each=4)
    for number, name in enumerate(NAMES):
        for place in range(3):
            picture(folder / name / f"{place}.png", size=(8 + number, 8))
    teaching.teach(planned(model, folder), Observer())
    assert set(ContinualLearner.load(model).classes_) == {*NAMES, "ant", "bee"}


def test_accents_are_one_name_however_they_are_written(photos: Photos, model: Path, planned: Planned) -> None:
    folder = photos("one", 0, 2, each=4)
    picture(folder / "Ca\u0301fe" / "0.png")
    assert planned(model, folder).new[0] == "C\u00e1fe"
    picture(folder / "C\u00e1fe" / "0.png")
    assert "differ only in case or spelling" in refusal(planned, model, folder)


def test_a_hidden_folder_is_no_class(photos: Photos, model: Path, planned: Planned) -> None:
    folder = photos("one", 0, 2)
    picture(folder / ".hidden" / "0.png")
    assert planned(model, folder).new == ["ant", "bee"]


def test_two_classes_that_differ_only_in_case(photos: Photos, model: Path, planned: Planned) -> None:
    folder = photos("one", 0, 2, each=5)
    picture(folder / "Ant" / "0.png")
    assert "The classes 'Ant' and 'ant' differ only in case" in refusal(planned, model, folder)
    teaching.teach(planned(model, photos("good", 0, 2, each=5)), Observer())
    later = photos("later", 2, 3, each=5)
    picture(later / "BEE" / "0.png")
    with pytest.raises(UserError, match="The classes 'bee' and 'BEE' differ only in case"):
        planned(model, later)


@pytest.mark.parametrize("name", ["bell\a", "line\nbreak", "\x1b[31mred", " "])
def test_names_that_cannot_be_printed(photos: Photos, model: Path, planned: Planned, name: str) -> None:
    folder = photos("one", 0, 2, each=5)
    picture(folder / name / "0.png")
    assert "is empty or cannot be printed" in refusal(planned, model, folder)


def kinds(folder: Path) -> int:
    """Images of every kind that can be read."""
    picture(folder / "dot.png", size=(1, 1))
    picture(folder / "thin.png", size=(20_000, 10))
    picture(folder / "grey.png", mode="L")
    picture(folder / "palette.gif", mode="P")
    picture(folder / "print.jpg", mode="CMYK")
    Image.fromarray(np.full((9, 9), 40_000, dtype=np.uint16)).save(folder / "sixteen.png")
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "lime")]
    frames[0].save(folder / "moving.gif", save_all=True, append_images=frames[1:])
    exif = Image.Exif()
    exif[0x0112] = 6
    picture(folder / "turned.jpg", exif=exif)
    picture(folder / "UPPER.PNG")
    return 9


def broken(folder: Path) -> int:
    """Files that cannot."""
    (folder / "text.jpg").write_text("not an image")
    (folder / "empty.png").touch()
    stream = io.BytesIO()
    Image.effect_noise((64, 64), 50).save(stream, "JPEG")
    (folder / "truncated.jpg").write_bytes(stream.getvalue()[:-500])
    (folder / "bomb.png").write_bytes(bomb())
    (folder / "folder.png").mkdir()
    return 5


def test_images_of_all_kinds_are_learned_and_broken_ones_named(
    photos: Photos, model: Path, planned: Planned
) -> None:
    folder = photos("one", 0, 2)
    good, bad = kinds(folder / "ant"), broken(folder / "ant")
    plan = planned(model, folder, held_out=0)
    assert len(plan.learned) == 40 + good
    assert len(plan.skipped) == bad
    for name in ("text.jpg", "empty.png", "truncated.jpg", "bomb.png", "folder.png"):
        assert any(name in sentence for sentence in plan.skipped)
    teaching.teach(plan, Observer())
    assert ContinualLearner.load(model).classes_ == ["ant", "bee"]


def test_nothing_but_broken_images(model: Path, planned: Planned, tmp_path: Path) -> None:
    for name in ("ant", "bee"):
        (tmp_path / "bad" / name).mkdir(parents=True)
        (tmp_path / "bad" / name / "a.jpg").write_text("?")
    assert "No image in" in refusal(planned, model, tmp_path / "bad")


def test_links_that_lead_out_are_passed_over_and_named(photos: Photos, tmp_path: Path) -> None:
    folder = photos("one", 0, 2)
    outside = picture(tmp_path / "outside" / "secret.png")
    (folder / "ant" / "link.png").symlink_to(outside)
    (folder / "ant" / "inside.png").symlink_to(folder / "bee" / "020.png")
    (folder / "linked").symlink_to(outside.parent)
    found = find_classes(folder)
    assert list(found.classes) == ["ant", "bee"]
    assert len(found.classes["ant"]) == 21
    assert [sentence.split(" is a link")[0] for sentence in found.skipped] == [
        str(folder / "ant" / "link.png"),
        str(folder / "linked" / "secret.png"),
    ]
    (folder / "ant" / "loop.png").symlink_to(folder / "ant" / "loop.png")
    assert any("loop.png" in sentence for sentence in read_pictures(find_classes(folder), 8).skipped)


def test_files_that_may_not_be_read(photos: Photos, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = photos("one", 0, 2)
    locked = folder / "ant" / "000.png"
    locked.chmod(0)
    if os.access(locked, os.R_OK):  # the superuser may read everything

        def refuse(path: Any, *arguments: Any) -> Any:
            if str(path) == str(locked):
                raise PermissionError(13, "Permission denied")
            return opened(path, *arguments)

        opened = images.open_regular
        monkeypatch.setattr(images, "open_regular", refuse)
    pictures = read_pictures(find_classes(folder), 8)
    assert len(pictures.images) == 39
    assert len(pictures.skipped) == 1
    assert "000.png" in pictures.skipped[0]
    assert "Permission denied" in pictures.skipped[0]


def test_a_class_may_grow_by_a_single_image(photos: Photos, model: Path, planned: Planned) -> None:
    teaching.teach(planned(model, photos("one", 0, 3)), Observer())
    teaching.teach(planned(model, photos("two", 3, 4, each=1)), Observer())
    teaching.teach(planned(model, photos("more", 0, 1, each=1, skip=20)), Observer())
    learner = ContinualLearner.load(model)
    assert learner.classes_ == ["ant", "bee", "cat", "dog"]
    assert torch.bincount(learner.memory.samples.labels).tolist() == [10, 10, 10, 1]


def test_the_work_of_finding_files_grows_with_their_number(tmp_path: Path) -> None:
    def calls(count: int) -> int:
        """The calls of functions while a folder of two classes of so many files is searched."""
        for name in ("a", "b"):
            (tmp_path / str(count) / name).mkdir(parents=True)
            for number in range(count):
                (tmp_path / str(count) / name / f"{number}.png").touch()
        counted = 0

        def count_call(frame: Any, event: str, argument: Any) -> None:
            nonlocal counted
            counted += event in ("call", "c_call")

        sys.setprofile(count_call)
        try:
            found = find_classes(tmp_path / str(count))
        finally:
            sys.setprofile(None)
        assert found.images == 2 * count
        return counted

    calls(10)  # fills caches
    assert calls(400) < 2.5 * calls(200)
