"""Model directories that somebody has tampered with: clear errors only, no code, nothing written outside."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import shutil
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from dytox import ContinualLearner
from dytox.cli.models import _show
from dytox.config import Config
from dytox.data.samples import Samples
from dytox.errors import UserError
from dytox.growing.description import describe_model
from dytox.runs import sealed, tensor_file

KIND = "dytox model"
MANY = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 20),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(
        ["dytox", "replay", "joint", "os:system", "meta", "cpu", "../x", "softmax", "bf16", "plain"]
    ),
    st.lists(st.integers(-2, 9), max_size=4),
    st.dictionaries(
        st.sampled_from(["increments", "sizes", "forgotten", "name", "sha256"]), st.integers(), max_size=3
    ),
)


@pytest.fixture(scope="module")
def good(tiny: Callable[..., Config], made: Callable[..., Samples], tmp_path_factory: Any) -> Path:
    """A model directory as it should be, with gaps and held-out images."""
    learner = ContinualLearner(tiny())
    for first, last in [(0, 3), (3, 5)]:
        learner.learn(made(first, last), held_out=0.2)
    learner.forget("1")
    path = tmp_path_factory.mktemp("good") / "model"
    learner.save(path)
    return path


@pytest.fixture
def model(good: Path, tmp_path: Path) -> Path:
    """A copy to tamper with."""
    return shutil.copytree(good, tmp_path / "model")


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value in a JSON file."""
    yield path
    if isinstance(content, dict):
        for key in content:
            yield from places(content[key], (*path, key))
    elif isinstance(content, list):
        for index in range(len(content)):
            yield from places(content[index], (*path, index))


def changed(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    content = copy.deepcopy(content)
    parent = content
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return content


def try_out(model: Path) -> None:
    """Loads and uses a model; whatever is wrong is one clear sentence."""
    names = set(model.parent.rglob("*"))
    modules = set(sys.modules)
    try:
        learner = ContinualLearner.load(model)
        images = torch.zeros(2, 3, learner.size, learner.size, dtype=torch.uint8)
        assert len(learner.predict(images)) == 2
        assert learner.predict_proba(images).shape == (2, len(learner.classes_))
        _show(Console(file=io.StringIO()), describe_model(model))
        if len(learner.held_out):
            learner.assess(learner.held_out)
            learner.threshold(0.05)
    except UserError as error:
        assert "\n" not in str(error)  # noqa: PT017
    assert set(model.parent.rglob("*")) == names
    assert not {
        name
        for name in set(sys.modules) - modules
        if not name.startswith(("torch", "dytox", "sympy", "rich"))
    }


@MANY
@given(data=st.data())
def test_any_value_of_config_json_may_be_another(good: Path, tmp_path: Path, data: st.DataObject) -> None:
    model = shutil.copytree(good, tmp_path / "model", dirs_exist_ok=True)
    content = sealed.read_sealed(model / "config.json", KIND)[0]
    ways = [path for path in places(content) if path]
    for _ in range(data.draw(st.integers(1, 2))):
        way = data.draw(st.sampled_from(ways))
        try:
            content = changed(content, way, data.draw(VALUES))
        except (KeyError, IndexError, TypeError):
            continue  # the first change took the second one's place away
    sealed.write_sealed(model / "config.json", KIND, content)
    try_out(model)


@MANY
@given(
    text=st.one_of(
        st.binary(max_size=60), st.recursive(VALUES, st.lists).map(lambda x: json.dumps(x).encode())
    )
)
@example(b"[" * 100_000)
@example(b'{"kind": "dytox model", "format": 1, "checksum": 1e999}')
def test_config_json_may_be_anything(good: Path, tmp_path: Path, text: bytes) -> None:
    model = shutil.copytree(good, tmp_path / "model", dirs_exist_ok=True)
    (model / "config.json").write_bytes(text)
    try_out(model)


HEADERS = st.one_of(
    VALUES,
    st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(["F32", "F64", "U8", "I64", "BOOL", "F16", "F8_E4M3", "X9"]),
            "shape": st.lists(st.integers(-1, 300), max_size=4),
            "data_offsets": st.lists(st.integers(-5, 5000), min_size=2, max_size=2),
        }
    ),
)


def reseal(model: Path, role: str, data: bytes) -> None:
    """A file with this content, properly named and with its checksum: only its meaning is wrong."""
    content = sealed.read_sealed(model / "config.json", KIND)[0]
    path = model / content["files"][role]["name"]
    path.write_bytes(data)
    content["files"][role]["sha256"] = hashlib.sha256(data).hexdigest()
    sealed.write_sealed(model / "config.json", KIND, content)


@MANY
@given(data=st.data(), role=st.sampled_from(["model", "memory"]))
def test_any_part_of_a_safetensors_header_may_be_another(
    good: Path, tmp_path: Path, data: st.DataObject, role: str
) -> None:
    model = shutil.copytree(good, tmp_path / "model", dirs_exist_ok=True)
    whole = next(model.glob(f"{role}-*")).read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header, body = json.loads(whole[8 : 8 + length]), whole[8 + length :]
    way = data.draw(st.sampled_from([path for path in places(header) if path]))
    if data.draw(st.booleans()):
        header = changed(header, way, data.draw(HEADERS))
    else:
        header[data.draw(st.text(max_size=9))] = header.pop(way[0])
    text = json.dumps(header).encode()
    size = data.draw(st.sampled_from([len(text), len(text), len(text), 0, 2**63, len(text) - 1]))
    reseal(model, role, struct.pack("<Q", size) + text + body)
    try_out(model)


@settings(MANY, max_examples=30)
@given(data=st.data())
def test_any_value_of_the_history_may_be_another(good: Path, tmp_path: Path, data: st.DataObject) -> None:
    model = shutil.copytree(good, tmp_path / "model", dirs_exist_ok=True)
    history = json.loads(next(model.glob("history-*")).read_bytes())
    way = data.draw(st.sampled_from([path for path in places(history) if path]))
    reseal(model, "history", json.dumps(changed(history, way, data.draw(VALUES))).encode())
    try_out(model)


@MANY
@given(data=st.binary(max_size=100), role=st.sampled_from(["model", "memory", "history"]))
def test_any_file_may_be_anything(good: Path, tmp_path: Path, data: bytes, role: str) -> None:
    model = shutil.copytree(good, tmp_path / "model", dirs_exist_ok=True)
    reseal(model, role, data)
    try_out(model)


def tampered(model: Path, change: Callable[[dict[str, Any]], Any]) -> str:
    content = sealed.read_sealed(model / "config.json", KIND)[0]
    change(content)
    sealed.write_sealed(model / "config.json", KIND, content)
    with pytest.raises(UserError) as error:
        ContinualLearner.load(model)
    return str(error.value)


def test_a_model_cannot_name_code_to_run(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil.py").write_text("open('ran', 'w').close()\nclass Method: pass\n")
    (model / "evil.py").write_text("open('ran', 'w').close()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    sentence = tampered(model, lambda content: content["config"]["method"].update(name="evil:Method"))
    assert "asks to run code from evil:Method" in sentence
    assert not (tmp_path / "ran").exists()


def test_a_small_file_cannot_ask_for_the_whole_machine(model: Path) -> None:
    for key, value in (("dim", 16384), ("depth", 256), ("mlp_ratio", 64.0)):
        sentence = tampered(model, lambda content, k=key, v=value: content["config"]["model"].update({k: v}))
        assert "cannot be used" in sentence
    assert "should be less than or equal" in tampered(
        model, lambda content: content["config"]["model"].update(depth=10**9)
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.update(classes=["a", "a", "b", "c"]), "its tasks do not fit its classes"),
        (lambda c: c.update(classes=["a"]), "its tasks do not fit its classes"),
        (lambda c: c.update(temperature=0.0), "its temperature must be"),
        (lambda c: c["structure"]["model"].update(increments=[9]), "its tasks do not fit its classes"),
        (
            lambda c: c["structure"]["model"].update(forgotten=[]),
            "its forgotten classes do not fit",
        ),
        (lambda c: c.pop("structure"), "structure"),
        (lambda c: c["config"].update(extra=1), "Unknown config key 'extra'"),
    ],
)
def test_parts_that_do_not_fit_each_other(model: Path, change: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        raise UserError(tampered(model, change))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": torch.tensor([0, 99])}, "labels|fit"),
        (
            {"images": torch.zeros(2, 3, 4, 4, dtype=torch.uint8)},
            "the images in its memory are not 8×8 pixels",
        ),
        ({"images": torch.zeros(2, 3, 8, 8)}, "its images and labels do not fit each other"),
        ({"shares": torch.tensor([0.5])}, "not one share an image"),
        ({"held_out.labels": torch.tensor([-1])}, "labels"),
    ],
)
def test_memories_that_do_not_fit(model: Path, change: dict[str, torch.Tensor], words: str) -> None:
    tensors, _ = tensor_file.decode_tensors(next(model.glob("memory-*")).read_bytes())
    reseal(model, "memory", b"".join(tensor_file.encode_tensors({**tensors, **change})))
    with pytest.raises(UserError, match=words):
        ContinualLearner.load(model)


def test_weights_that_are_no_numbers(model: Path) -> None:
    tensors, _ = tensor_file.decode_tensors(next(model.glob("model-*")).read_bytes())
    tensors["model.tab.norm1.weight"][0] = float("nan")
    reseal(model, "model", b"".join(tensor_file.encode_tensors(tensors)))
    with pytest.raises(UserError, match="some of its weights are not finite numbers"):
        ContinualLearner.load(model)
