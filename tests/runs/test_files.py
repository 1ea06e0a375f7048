"""Files are whole, or one sentence says what is wrong."""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from dytox.errors import UserError
from dytox.runs import files

TENSORS = {
    "half": torch.arange(3).bfloat16(),
    "wide": torch.arange(6, dtype=torch.float64).reshape(2, 3).T,  # not contiguous
    "one": torch.tensor(3.5),
    "none": torch.zeros(0, 3, dtype=torch.int64),
    "yes": torch.tensor([True, False]),
    "image": torch.arange(5, dtype=torch.uint8),
}


def same(mine: dict[str, torch.Tensor], yours: dict[str, torch.Tensor]) -> bool:
    return mine.keys() == yours.keys() and all(
        mine[name].dtype == yours[name].dtype and torch.equal(mine[name], yours[name]) for name in mine
    )


def test_json_comes_back(tmp_path: Path) -> None:
    content = {"a": [1, 2.5, None, True, "é\udcff"], "b": {"c": {}}}
    files.write_json(tmp_path / "x.json", content)
    assert files.read_json(tmp_path / "x.json") == content
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_json_never_holds_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        files.write_json(tmp_path / "x.json", {"a": math.nan})
    assert not list(tmp_path.iterdir())
    assert files.finite({"a": [math.nan, (1.0, -math.inf)]}) == {"a": [None, [1.0, None]]}


def test_tensors_come_back_with_their_types_and_metadata(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    sha256 = files.write_tensors(path, TENSORS, {"b": "é", "a": "1"})
    assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    tensors, metadata = files.read_tensors(path, sha256)
    assert same(tensors, TENSORS)
    assert metadata == {"a": "1", "b": "é"}


def test_tensors_are_written_as_the_library_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    files.write_tensors(path, TENSORS, {"key": "value"})
    packed = {name: tensor.contiguous() for name, tensor in TENSORS.items()}
    theirs = safetensors.torch.save(packed, {"key": "value"})
    assert len(path.read_bytes()) == len(theirs)
    assert same(safetensors.torch.load_file(path), packed)
    files.write_tensors(path, {})
    assert files.read_tensors(path) == ({}, {})


def test_tensors_that_share_memory_are_written_each(tmp_path: Path) -> None:
    weight = torch.arange(4.0).requires_grad_()
    files.write_tensors(tmp_path / "x", {"a": weight, "b": weight, "c": weight[1:]})
    tensors, _ = files.read_tensors(tmp_path / "x")
    assert tensors["b"].tolist() == [0, 1, 2, 3]
    assert tensors["c"].tolist() == [1, 2, 3]


def test_equal_tensors_are_equal_bytes(tmp_path: Path) -> None:
    metadata = {str(number): "x" for number in range(9)}
    first = files.write_tensors(tmp_path / "x", TENSORS, metadata)
    turned = dict(reversed(TENSORS.items()))
    assert files.write_tensors(tmp_path / "y", turned, dict(reversed(metadata.items()))) == first


def test_files_are_readable_for_whom_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        files.write_json(tmp_path / "x.json", {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x.json").stat().st_mode) == 0o640


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": 1', b"\xff\xfe", b"[" * 100_000, b'{"a": 1}}'])
def test_damaged_json_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"x\.json is damaged .* restore it"):
        files.read_json(path)


def test_json_without_keys_where_keys_are_needed(tmp_path: Path) -> None:
    files.write_json(tmp_path / "x.json", [1])
    with pytest.raises(UserError, match="keys and values"):
        files.read_mapping(tmp_path / "x.json")


def test_tensor_file_cut_at_any_place_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    sha256 = files.write_tensors(path, TENSORS)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"x\.safetensors is damaged"):
            files.read_tensors(path)
        with pytest.raises(UserError, match="checksum"):
            files.read_tensors(path, sha256)


def test_tensor_file_flipped_anywhere_is_refused_by_its_checksum_and_never_a_traceback(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.safetensors"
    sha256 = files.write_tensors(path, TENSORS)
    whole = bytearray(path.read_bytes())
    for place in range(len(whole)):
        whole[place] ^= 0x11
        path.write_bytes(whole)
        whole[place] ^= 0x11
        with pytest.raises(UserError, match=r"x\.safetensors is damaged"):
            files.read_tensors(path, sha256)
        try:
            files.read_tensors(path)
        except UserError as error:
            assert "x.safetensors" in str(error)  # noqa: PT017


def test_missing_unreadable_and_no_file(tmp_path: Path) -> None:
    with pytest.raises(files.MissingFile, match=r"x\.json is missing"):
        files.read_json(tmp_path / "x.json")
    with pytest.raises(UserError, match=r"Cannot read .*: Is a directory"):
        files.read_json(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="is not a file"):
        files.read_json(tmp_path / "pipe")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"Cannot read .*: Not a directory"):
        files.read_json(tmp_path / "file" / "x.json")


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Cannot write .*x\.json: No such file"):
        files.write_json(tmp_path / "nowhere" / "x.json", {})
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"Cannot write .*file"):
        files.make_folder(tmp_path / "file")


def test_crash_at_any_moment_leaves_the_old_or_the_new(
    tmp_path: Path, crashing: Callable[[int], Any]
) -> None:
    path = tmp_path / "x.json"
    seen = []
    for moment in range(10):
        files.write_json(path, "old")
        with crashing(moment) as died:
            files.write_json(path, "new")
        seen.append(files.read_json(path))
        if not died:
            break
    assert seen == [
        "old",
        "old",
        "new",
        "new",
    ]  # before the flush, the rename, the folder's flush; not at all
    strays = [path for path in tmp_path.iterdir() if path.name != "x.json"]
    assert len(strays) == 2
    assert all(files.is_temporary(path) for path in strays)


def test_full_disk_keeps_what_was_there(tmp_path: Path, full_disk: Callable[[int], Any]) -> None:
    path = tmp_path / "x.safetensors"
    files.write_tensors(path, TENSORS)
    for room in (0, 8, 300):
        with (
            full_disk(room),
            pytest.raises(UserError, match=r"disk is full.*x\.safetensors.*free some space"),
        ):
            files.write_tensors(path, {"large": torch.zeros(1000)})
        assert same(files.read_tensors(path)[0], TENSORS)
        assert [each.name for each in tmp_path.iterdir()] == ["x.safetensors"]


def test_append_adds_all_or_nothing(tmp_path: Path, full_disk: Callable[[int], Any]) -> None:
    path = tmp_path / "log"
    files.append(path, b"one\n")
    with full_disk(2), pytest.raises(UserError, match="disk is full"):
        files.append(path, b"two\n")
    files.append(path, b"three\n")
    assert path.read_bytes() == b"one\nthree\n"


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="Linux has it")
def test_a_really_full_device() -> None:
    with pytest.raises(UserError, match="disk is full"):
        files.append(Path("/dev/full"), json.dumps("x").encode())
