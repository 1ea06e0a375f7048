"""To and from a repository: a fake of the client, which keeps repositories as folders."""

from __future__ import annotations

import fnmatch
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dytox import ContinualLearner, hub
from dytox.config import Config
from dytox.data.samples import Samples
from dytox.errors import UserError


class FakeHub:
    """What of huggingface_hub is used, with its signatures."""

    def __init__(self, root: Path) -> None:
        self.root, self.private = root, {}
        self.HfApi = lambda: self

    def create_repo(self, repo_id: str, *, private: bool, exist_ok: bool) -> None:
        assert exist_ok
        self.private.setdefault(repo_id, private)
        (self.root / repo_id).mkdir(parents=True, exist_ok=True)

    def upload_folder(
        self,
        *,
        repo_id: str,
        folder_path: str,
        allow_patterns: list[str],
        delete_patterns: list[str],
        commit_message: str,
    ) -> str:
        assert commit_message
        for path in (self.root / repo_id).iterdir():
            if any(fnmatch.fnmatch(path.name, pattern) for pattern in delete_patterns):
                path.unlink()
        for path in Path(folder_path).iterdir():
            if any(fnmatch.fnmatch(path.name, pattern) for pattern in allow_patterns):
                shutil.copy(path, self.root / repo_id)
        return f"https://huggingface.co/{repo_id}"

    def snapshot_download(self, repo_id: str, *, local_dir: str, allow_patterns: list[str]) -> str:
        if not (self.root / repo_id).exists():
            raise OSError(f"404 Client Error.\nRepository Not Found: {repo_id}")
        (Path(local_dir) / ".cache" / "huggingface").mkdir(parents=True)
        for path in (self.root / repo_id).iterdir():
            if any(fnmatch.fnmatch(path.name, pattern) for pattern in allow_patterns):
                shutil.copy(path, local_dir)
        return local_dir


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    fake = FakeHub(tmp_path / "hub")
    client = SimpleNamespace(HfApi=fake.HfApi, snapshot_download=fake.snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", client)
    return fake


@pytest.fixture
def model(tiny: Callable[..., Config], made: Callable[..., Samples], tmp_path: Path) -> Path:
    learner = ContinualLearner(tiny())
    learner.learn(made(0, 3), held_out=0.2)
    learner.save(tmp_path / "model")
    (tmp_path / "model" / "private-notes.txt").write_text("mine")
    return tmp_path / "model"


def test_a_model_goes_there_and_comes_back(
    fake: FakeHub, model: Path, tmp_path: Path, made: Callable[..., Samples]
) -> None:
    assert hub.push(model, "me/digits", with_memory=True) == "https://huggingface.co/me/digits"
    assert fake.private == {"me/digits": True}
    assert not (fake.root / "me/digits" / "private-notes.txt").exists()
    hub.pull("me/digits", tmp_path / "back")
    there, back = ContinualLearner.load(model), ContinualLearner.load(tmp_path / "back")
    images = made(0, 3).images
    assert np.array_equal(there.predict_proba(images), back.predict_proba(images))
    for each in (there, back):
        each.learn(made(3, 4))
    assert np.array_equal(there.predict_proba(images), back.predict_proba(images))
    assert sorted(path.name.split("-")[0] for path in (tmp_path / "back").iterdir()) == [
        "README.md",
        "config.json",
        "history",
        "memory",
        "model",
    ]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_images_stay_at_home_unless_asked(
    fake: FakeHub, model: Path, tmp_path: Path, made: Callable[..., Samples]
) -> None:
    hub.push(model, "me/digits", private=False)
    assert fake.private == {"me/digits": False}
    assert not list((fake.root / "me/digits").glob("memory-*"))
    hub.pull("me/digits", tmp_path / "back")
    back = ContinualLearner.load(tmp_path / "back")
    assert len(back.predict(made(0, 3).images)) == 36
    with pytest.raises(UserError, match="has no memory"):
        back.learn(made(3, 4))


def test_a_second_push_leaves_nothing_old(
    fake: FakeHub, model: Path, tmp_path: Path, made: Callable[..., Samples]
) -> None:
    hub.push(model, "me/digits", with_memory=True)
    learner = ContinualLearner.load(model)
    learner.learn(made(3, 4))
    learner.save(model)
    hub.push(model, "me/digits")
    assert len(list((fake.root / "me/digits").glob("model-*"))) == 1
    assert not list((fake.root / "me/digits").glob("memory-*"))
    hub.pull("me/digits", tmp_path / "back")
    back = ContinualLearner.load(tmp_path / "back")
    assert back.classes_ == ["0", "1", "2", "3"]
    card = fake.root / "me/digits" / "README.md"
    assert "of 4 classes, learned in 2 tasks" in card.read_text(encoding="utf-8")
    assert not (model / "README.md").exists()
    back.forget("0")
    back.save(tmp_path / "back")
    hub.push(tmp_path / "back", "me/digits")  # the card that came with it is not its owner's
    assert "of 3 classes, learned in 2 tasks" in card.read_text(encoding="utf-8")


def test_the_card_says_what_it_is_and_somebodys_own_stays(fake: FakeHub, model: Path) -> None:
    hub.push(model, "me/digits")
    text = (fake.root / "me/digits" / "README.md").read_text(encoding="utf-8")
    assert text.startswith("---\nlibrary_name: dytox\npipeline_tag: image-classification\n")
    assert "An image classifier of 3 classes, learned in 1 tasks" in text
    assert "dytox pull me/digits model/" in text
    assert "\n- 0\n- 1\n- 2\n" in text
    (model / "README.md").write_text("my own")
    hub.push(model, "me/digits")
    assert (fake.root / "me/digits" / "README.md").read_text() == "my own"


def test_what_goes_wrong_is_one_sentence(fake: FakeHub, model: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^me/gone on Hugging Face: 404 Client Error\.$"):
        hub.pull("me/gone", tmp_path / "back")
    with pytest.raises(UserError, match="is not empty: pull into a new folder"):
        hub.pull("me/digits", model)
    with pytest.raises(UserError, match=r"private-notes\.txt is a file: pull into a new folder"):
        hub.pull("me/digits", model / "private-notes.txt")
    hub.push(model, "me/digits")
    config = fake.root / "me/digits" / "config.json"
    config.write_text(config.read_text().replace("dytox", "other", 1))
    with pytest.raises(UserError):
        hub.pull("me/digits", tmp_path / "back")
    assert not (tmp_path / "back").exists()
    with pytest.raises(UserError, match="There is no folder"):
        hub.push(tmp_path / "nowhere", "me/digits")


def test_without_the_extra_it_says_what_to_install(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for call in (lambda: hub.push(model, "me/x"), lambda: hub.pull("me/x", tmp_path / "back")):
        with pytest.raises(UserError, match=r"pip install 'dytox\[hub\]'"):
            call()


def test_the_client_has_what_is_used() -> None:
    real = pytest.importorskip("huggingface_hub")
    import inspect

    def names(function: Any) -> set[str]:
        return set(inspect.signature(function).parameters)

    assert {"repo_id", "private", "exist_ok"} <= names(real.HfApi.create_repo)
    wanted = {"repo_id", "folder_path", "allow_patterns", "delete_patterns", "commit_message"}
    assert wanted <= names(real.HfApi.upload_folder)
    assert {"repo_id", "local_dir", "allow_patterns"} <= names(real.snapshot_download)


@pytest.mark.parametrize("name", ["README.md", "config.json", "model-*.safetensors"])
def test_a_link_in_a_model_directory_is_not_uploaded(
    fake: FakeHub, model: Path, tmp_path: Path, name: str
) -> None:
    (linked,) = list(model.glob(name)) or [model / name]
    secret = tmp_path / "secret"
    if linked.exists():
        linked.rename(secret)
    else:
        secret.write_text("the user's own key")
    linked.symlink_to(secret)
    with pytest.raises(UserError, match=r"no links|only a file in its own folder"):
        hub.push(model, "me/flowers")
    uploaded = list((tmp_path / "hub").rglob("*")) if (tmp_path / "hub").exists() else []
    assert not [each for each in uploaded if each.is_file()]
