"""The newest whole checkpoint is found, whatever happened to those after it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dytox import __version__, upgrade
from dytox.errors import UserError
from dytox.randomness import Position
from dytox.runs import sealed
from dytox.runs.checkpoints import Checkpoint, Checkpoints


def save(checkpoints: Checkpoints, step: int, value: float | None = None) -> None:
    value = float(step) if value is None else value
    state = {"sums": {"loss": 0.1 * step}, "history": [1, None, {"a": "é"}], "value": value}
    checkpoints.save(Position(1, 2, 3, step), {"weight": torch.full((3,), value)}, state)


def step_of(checkpoint: Checkpoint | None) -> int:
    """The step all parts of a checkpoint agree on."""
    assert checkpoint is not None
    step = checkpoint.position.step
    assert checkpoint.position == Position(1, 2, 3, step)
    assert checkpoint.state["sums"] == {"loss": 0.1 * step}
    assert checkpoint.state["history"] == [1, None, {"a": "é"}]
    assert checkpoint.tensors["weight"].tolist() == [checkpoint.state["value"]] * 3
    return step


def newest_file(folder: Path, suffix: str) -> Path:
    return max(folder.glob(f"*{suffix}"))


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "checkpoints")


def test_none_at_first(checkpoints: Checkpoints) -> None:
    assert checkpoints.newest() is None
    checkpoints.clear()


def test_the_newest_comes_back_and_the_last_two_stay(checkpoints: Checkpoints) -> None:
    for step in (1, 2, 30, 4000):
        save(checkpoints, step)
        newest = checkpoints.newest()
        assert step_of(newest) == step
        assert newest is not None
        assert newest.skipped == []
    assert len(list(checkpoints.folder.iterdir())) == 4
    checkpoints.clear()
    assert checkpoints.newest() is None
    assert not list(checkpoints.folder.iterdir())


def test_newest_is_by_position_and_numbers_are_compared_as_numbers(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=9)
    places = [
        Position(0, 9, 9, 9),
        Position(1, 0, 0, 0),
        Position(1, 0, 99_999, 0),
        Position(1, 0, 123_456, 0),
    ]
    for position in places:
        checkpoints.save(position, {}, {})
        newest = checkpoints.newest()
        assert newest is not None
        assert newest.position == position


def test_a_save_before_others_makes_them_untrue(checkpoints: Checkpoints) -> None:
    for step in (5, 6, 2):
        save(checkpoints, step)
    assert step_of(checkpoints.newest()) == 2
    assert len(list(checkpoints.folder.iterdir())) == 2


def test_a_second_save_at_one_position_replaces_the_first(checkpoints: Checkpoints) -> None:
    save(checkpoints, 1, value=7.0)
    save(checkpoints, 1, value=8.0)
    newest = checkpoints.newest()
    assert step_of(newest) == 1
    assert newest is not None
    assert newest.state["value"] == 8.0
    assert len(list(checkpoints.folder.iterdir())) == 2


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
def test_flipped_byte_anywhere_falls_back_and_says_so(checkpoints: Checkpoints, suffix: str) -> None:
    save(checkpoints, 1)
    save(checkpoints, 2)
    path = newest_file(checkpoints.folder, suffix)
    whole = bytearray(path.read_bytes())
    fell_back = 0
    for place in range(len(whole)):
        whole[place] ^= 0x01
        path.write_bytes(whole)
        whole[place] ^= 0x01
        newest = checkpoints.newest()
        assert newest is not None
        if step_of(newest) == 1:
            assert len(newest.skipped) == 1
            assert path.name in newest.skipped[0]
            fell_back += 1
        else:
            assert suffix == ".json"  # a blank became another blank
    assert fell_back > len(whole) // 2


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
def test_cut_or_missing_falls_back(checkpoints: Checkpoints, suffix: str) -> None:
    save(checkpoints, 1)
    save(checkpoints, 2)
    path = newest_file(checkpoints.folder, suffix)
    path.write_bytes(path.read_bytes()[:-5])
    assert step_of(checkpoints.newest()) == 1
    path.unlink()
    newest = checkpoints.newest()
    assert step_of(newest) == 1
    assert newest is not None
    assert bool(newest.skipped) == (suffix == ".safetensors")  # without its JSON there is no checkpoint


def test_going_on_after_a_fall_back(checkpoints: Checkpoints) -> None:
    save(checkpoints, 1)
    save(checkpoints, 9)
    newest_file(checkpoints.folder, ".json").write_text("{")
    assert step_of(checkpoints.newest()) == 1
    save(checkpoints, 5)
    newest = checkpoints.newest()
    assert step_of(newest) == 5
    assert newest is not None
    assert newest.skipped == []
    assert len(list(checkpoints.folder.iterdir())) == 4


def test_a_damaged_one_keeps_its_tensors_while_it_is_among_the_last(checkpoints: Checkpoints) -> None:
    save(checkpoints, 1)
    path = newest_file(checkpoints.folder, ".json")
    whole = path.read_bytes()
    path.write_text("{")
    save(checkpoints, 2)
    path.write_bytes(whole)  # restored from a copy
    newest_file(checkpoints.folder, ".json").unlink()
    assert step_of(checkpoints.newest()) == 1


def test_all_damaged_is_the_user_s_to_know(checkpoints: Checkpoints) -> None:
    save(checkpoints, 1)
    save(checkpoints, 2)
    for path in checkpoints.folder.glob("*.safetensors"):
        path.write_bytes(b"x")
    with pytest.raises(
        UserError, match=r"No checkpoint in .* can be used, start the run anew \(newest: .*0002"
    ):
        checkpoints.newest()


def test_a_newer_format_is_refused_and_no_older_checkpoint_is_taken_instead(
    checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(checkpoints, 1)
    with monkeypatch.context() as newer:
        newer.setattr(upgrade, "STEPS", [*upgrade.STEPS, upgrade.FormatStep()])
        newer.setattr(sealed, "__version__", "9.9")
        save(checkpoints, 2)
    formats = upgrade.current() + 1, upgrade.current()
    with pytest.raises(upgrade.NewerFormat) as refused:
        checkpoints.newest()
    assert str(refused.value).endswith(
        f" was written by dytox 9.9 in format {formats[0]}, and this is dytox {__version__}, which reads "
        f"formats up to {formats[1]}: update dytox."
    )


def test_strays_are_cleaned_and_other_people_s_files_stay(checkpoints: Checkpoints) -> None:
    save(checkpoints, 1)
    stem = "checkpoint-001-002-00003-0000007"
    (checkpoints.folder / f"{stem}-00000000.safetensors").touch()
    (checkpoints.folder / ".0123456789abcdef.dytox-tmp").touch()
    (checkpoints.folder / "notes.txt").touch()
    save(checkpoints, 2)
    names = {path.name for path in checkpoints.folder.iterdir()}
    assert len(names) == 5
    assert "notes.txt" in names


def test_crash_at_any_moment_leaves_the_one_before_or_the_new(
    tmp_path: Path, crashing: Callable[[int], Any]
) -> None:
    seen = []
    for moment in range(100):
        checkpoints = Checkpoints(tmp_path / str(moment))
        for step in (1, 2):
            save(checkpoints, step)
        with crashing(moment) as died:
            save(checkpoints, 3)
        newest = checkpoints.newest()
        seen.append(step_of(newest))
        assert newest is not None
        assert newest.skipped == []
        save(checkpoints, 4)
        assert len(list(checkpoints.folder.iterdir())) == 4  # nothing is left over
        if not died:
            break
    assert seen == sorted(seen)
    assert set(seen) == {2, 3}


def test_full_disk_keeps_what_was_there(checkpoints: Checkpoints, full_disk: Callable[[int], Any]) -> None:
    save(checkpoints, 1)
    names = sorted(checkpoints.folder.iterdir())
    for room in (0, 50, 200):
        for step in (1, 2):
            with full_disk(room), pytest.raises(UserError, match="disk is full"):
                save(checkpoints, step, value=99.0)
            assert step_of(checkpoints.newest()) == 1
            assert sorted(checkpoints.folder.iterdir()) == names


def test_floats_of_the_state_come_back_bit_by_bit(checkpoints: Checkpoints) -> None:
    values = [0.1 + 0.2, 1e-310, 1 / 3, 1e22, -0.0]
    checkpoints.save(Position(), {}, {"sums": values})
    newest = checkpoints.newest()
    assert newest is not None
    assert [value.hex() for value in newest.state["sums"]] == [value.hex() for value in values]
