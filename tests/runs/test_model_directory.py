"""A model directory is the old state or the new one, and gives nothing else, whatever happens to it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from dytox import __version__, upgrade
from dytox.errors import UserError
from dytox.runs import files, model_directory, sealed
from dytox.runs.model_directory import SavedModel

KIND = "dytox model"


def save(path: Path, number: int, memory: bool = True) -> None:
    model_directory.save(
        path,
        {"number": number, "classes": ["cat", "dog"], "mean": [0.5, 0.25]},
        {"weight": torch.full((2, 3), float(number)), "count": torch.tensor(number)},
        {"images": torch.full((4,), number % 256, dtype=torch.uint8)} if memory else None,
        [{"task": number}],
    )


def number_of(saved: SavedModel) -> int:
    """The number all parts of a state agree on."""
    number = int(saved.description["number"])
    assert saved.description == {"number": number, "classes": ["cat", "dog"], "mean": [0.5, 0.25]}
    assert torch.equal(saved.model["weight"], torch.full((2, 3), float(number)))
    assert saved.model["count"] == number
    assert saved.memory is not None
    assert saved.memory["images"].tolist() == [number % 256] * 4
    assert saved.history == [{"task": number}]
    return number


def content(folder: Path) -> list[Path]:
    """All files but the lock's."""
    return sorted(path for path in folder.iterdir() if path.name != ".lock")


def roles(folder: Path) -> list[str]:
    return sorted(path.name.split("-")[0] for path in content(folder))


def test_comes_back_and_the_new_state_replaces_the_old(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "model"
    for number in (1, 2, 2):
        save(folder, number)
        assert number_of(model_directory.load(folder)) == number
        assert roles(folder) == ["config.json", "history", "memory", "model"]
    save(folder, 3, memory=False)
    assert model_directory.load(str(folder)).memory is None
    assert roles(folder) == ["config.json", "history", "model"]


def test_config_names_the_files_with_their_checksums(tmp_path: Path) -> None:
    save(tmp_path, 1)
    config = files.read_json(tmp_path / "config.json")
    assert (config["format"], config["package"]) == (upgrade.current(), __version__)
    for role, suffix in (("model", ".safetensors"), ("memory", ".safetensors"), ("history", ".json")):
        named = config["files"][role]
        assert named["name"] == f"{role}-{named['sha256'][:8]}{suffix}"
        files.read(tmp_path / named["name"], named["sha256"])


def test_other_people_s_files_stay(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / "model-notes.txt").write_text("mine")
    save(tmp_path, 1)
    save(tmp_path, 2)
    assert (tmp_path / "README.md").exists()
    assert (tmp_path / "model-notes.txt").exists()


@pytest.mark.parametrize("content", ['{"hidden_size": 12}', "[]", "not json"])
def test_config_of_another_program_is_not_overwritten(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(UserError, match=r"config\.json"):
        save(tmp_path, 1)
    assert (tmp_path / "config.json").read_text() == content
    with pytest.raises(UserError, match=r"config\.json"):
        model_directory.load(tmp_path)


def test_no_model_directory(tmp_path: Path) -> None:
    for path, words in ((tmp_path, "is not a model directory"), (tmp_path / "nowhere", "There is no folder")):
        with pytest.raises(UserError, match=words):
            model_directory.load(path)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is not a model directory"):
        model_directory.load(tmp_path / "file")
    with pytest.raises(UserError, match="Cannot write"):
        save(tmp_path / "file", 1)


@pytest.mark.parametrize("flip", [0x01, 0x20, 0xFF])
def test_flipped_byte_anywhere_is_refused_or_without_effect(tmp_path: Path, flip: int) -> None:
    save(tmp_path, 1)
    for path in content(tmp_path):
        whole = bytearray(path.read_bytes())
        for place in range(len(whole)):
            whole[place] ^= flip
            path.write_bytes(whole)
            whole[place] ^= flip
            try:
                assert number_of(model_directory.load(tmp_path)) == 1  # a blank became another blank
                assert path.name == "config.json"
            except UserError as error:
                assert path.name in str(error)  # noqa: PT017
        path.write_bytes(whole)
    assert number_of(model_directory.load(tmp_path)) == 1


def test_cut_or_missing_files_are_named(tmp_path: Path) -> None:
    save(tmp_path, 1)
    for path in content(tmp_path):
        whole = path.read_bytes()
        for length in (0, 1, len(whole) // 2, len(whole) - 2):
            path.write_bytes(whole[:length])
            with pytest.raises(UserError, match=path.name):
                model_directory.load(tmp_path)
        path.unlink()
        if path.name.startswith("memory"):  # it can still predict
            assert model_directory.load(tmp_path).memory is None
        else:
            with pytest.raises(UserError, match=path.name):
                model_directory.load(tmp_path)
        path.write_bytes(whole)


@pytest.mark.parametrize(
    ("version", "advice"),
    [(99, "format 99, and this is dytox"), (0, "no format that dytox ever had"), (None, "no format")],
)
def test_other_format_version(tmp_path: Path, version: int | None, advice: str) -> None:
    save(tmp_path, 1)
    config = files.read_json(tmp_path / "config.json")
    config["format"] = version
    files.write_json(tmp_path / "config.json", config)
    with pytest.raises(UserError, match=advice):
        model_directory.load(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "../outside.safetensors",
        "{outside}",
        "sub/x.safetensors",
        "..",
        ".",
        "",
        "a\\b",
        "~",
        "link.safetensors",
    ],
)
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    folder, outside = tmp_path / "model", tmp_path / "outside.safetensors"
    save(folder, 1)
    sha256 = files.write_tensors(outside, {"weight": torch.zeros(1)})
    (folder / "sub").mkdir()
    (folder / "sub" / "x.safetensors").write_bytes(outside.read_bytes())
    (folder / "link.safetensors").symlink_to(outside)
    config = sealed.read_sealed(folder / "config.json", KIND)[0]
    config["files"]["model"] = {"name": name.format(outside=outside), "sha256": sha256}
    sealed.write_sealed(folder / "config.json", KIND, config)
    with pytest.raises(UserError, match="only a file in its own folder"):
        model_directory.load(folder)


@pytest.mark.parametrize("named", [None, [], {}, {"model": "x"}, {"model": {"name": 1, "sha256": "x"}}])
def test_config_that_does_not_name_its_files(tmp_path: Path, named: object) -> None:
    sealed.write_sealed(tmp_path / "config.json", KIND, {"files": named})
    with pytest.raises(UserError, match="does not name its files"):
        model_directory.load(tmp_path)


def test_history_that_is_no_list(tmp_path: Path) -> None:
    save(tmp_path, 1)
    config = sealed.read_sealed(tmp_path / "config.json", KIND)[0]
    config["files"]["history"] = sealed.attach(tmp_path / "history.json", [b"{}"])
    sealed.write_sealed(tmp_path / "config.json", KIND, config)
    with pytest.raises(UserError, match="history is not a list"):
        model_directory.load(tmp_path)


def test_crash_at_any_moment_leaves_the_old_or_the_new(
    tmp_path: Path, crashing: Callable[[int], Any]
) -> None:
    seen = []
    for moment in range(100):
        folder = tmp_path / str(moment)
        save(folder, 1)
        with crashing(moment) as died:
            save(folder, 2)
        seen.append(number_of(model_directory.load(folder)))
        save(folder, 3)
        assert number_of(model_directory.load(folder)) == 3
        assert roles(folder) == ["config.json", "history", "memory", "model"]  # nothing is left over
        if not died:
            break
    assert seen == sorted(seen)
    assert (
        seen.count(1) == 11
    )  # three files of three calls each, then the flush and the rename of config.json
    assert seen.count(2) >= 4  # the folder's flush and three removals


def test_first_save_that_crashes_leaves_no_model(tmp_path: Path, crashing: Callable[[int], Any]) -> None:
    with crashing(5):
        save(tmp_path, 1)
    with pytest.raises(UserError, match="is not a model directory"):
        model_directory.load(tmp_path)


def test_full_disk_keeps_the_old_state_and_leaves_nothing(
    tmp_path: Path, full_disk: Callable[[int], Any]
) -> None:
    with full_disk(300), pytest.raises(UserError, match="disk is full"):
        save(tmp_path, 1)
    assert not content(tmp_path)
    save(tmp_path, 1)
    names = content(tmp_path)
    for room in (0, 100, 300, 400, 500, 600):
        with full_disk(room), pytest.raises(UserError, match="disk is full"):
            save(tmp_path, 2)
        assert number_of(model_directory.load(tmp_path)) == 1
        assert content(tmp_path) == names


def test_readers_see_the_old_or_the_new_while_two_write(tmp_path: Path) -> None:
    save(tmp_path, 0)

    def write(first: int) -> None:
        for number in range(first, first + 25):
            save(tmp_path, number)

    seen = set()
    with ThreadPoolExecutor() as pool:
        writers = [pool.submit(write, first) for first in (1, 101)]
        while not all(writer.done() for writer in writers):
            seen.add(number_of(model_directory.load(tmp_path)))
    for writer in writers:
        writer.result()
    assert len(seen) > 1
    assert number_of(model_directory.load(tmp_path)) in (25, 125)
    assert roles(tmp_path) == ["config.json", "history", "memory", "model"]
