"""Upload and download of model directories on Hugging Face (extra `hub`)."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from dytox.errors import UserError
from dytox.learner import ContinualLearner
from dytox.machine import open_regular
from dytox.runs import files, model_directory

CARD = "README.md"
MARK = "<!-- made by dytox push, and anew each time while this line is here -->"
PATTERNS = ["config.json", "model-*.safetensors", "memory-*.safetensors", "history-*.json", CARD]


def push(
    path: Path,
    repository: str,
    *,
    private: bool = True,
    with_memory: bool = False,
    method: str | None = None,
) -> str:
    """Upload a model with its README.md, or else a generated model card; return its address.

    The memory holds training images, so it is uploaded only `with_memory`. Without it, others can predict but
    cannot teach the model more.
    """
    learner = ContinualLearner.load(path, method=method)
    named = model_directory.files_of(path)
    if not with_memory:
        named.pop("memory", None)
    shown = _card(path, learner, repository, with_memory)
    with tempfile.TemporaryDirectory() as folder, _explained(repository) as hub:
        for name in ("config.json", *named.values()):
            with _own_file(path / name) as source, open(Path(folder) / name, "xb") as target:
                shutil.copyfileobj(source, target)
        (Path(folder) / CARD).write_bytes(shown)
        api = hub.HfApi()
        api.create_repo(repository, private=private, exist_ok=True)
        found = api.upload_folder(
            repo_id=repository,
            folder_path=folder,
            allow_patterns=["config.json", CARD, *named.values()],
            delete_patterns=PATTERNS,
            commit_message=f"{len(learner.classes_)} classes",
        )
    return str(found)


def _own_file(path: Path) -> BinaryIO:
    """Open a file of a model directory; refuse a link, which could make any file of the user public."""
    try:
        return open_regular(path, follow=False)
    except FileNotFoundError:
        raise UserError(f"{path} is missing: restore it from a copy.") from None
    except OSError as error:
        raise UserError(
            f"{path} is not uploaded ({error.strerror}): only regular files of the directory are, no links."
        ) from None


def _card(path: Path, learner: ContinualLearner, repository: str, with_memory: bool) -> bytes:
    """The README.md of the model directory if the user wrote one, else a card of the model as it is now."""
    own = MARK.encode()
    if os.path.lexists(path / CARD):
        with _own_file(path / CARD) as file:
            own = file.read()
    return card(learner, repository, with_memory).encode() if MARK.encode() in own else own


def pull(repository: str, path: Path, *, method: str | None = None) -> None:
    """Download a model into a new model directory, which is written after all files have been checked."""
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file: pull into a new folder.")
    if path.exists() and any(path.iterdir()):
        raise UserError(f"{path} is not empty: pull into a new folder.")
    files.make_folder(path.absolute().parent)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.absolute().parent) as temporary:
        folder = Path(temporary)
        with _explained(repository) as hub:
            hub.snapshot_download(repository, local_dir=temporary, allow_patterns=PATTERNS)
        ContinualLearner.load(folder, method=method)
        files.make_folder(path)
        names = [
            *model_directory.files_of(folder).values(),
            CARD,
            "config.json",
        ]  # it is a model with the last
        for name in names:
            if (folder / name).exists():
                with files.explained(path / name):
                    os.replace(folder / name, path / name)
        shutil.rmtree(folder / ".cache", ignore_errors=True)


def card(learner: ContinualLearner, repository: str, with_memory: bool) -> str:
    """The text of a model card."""
    measured = bool(len(learner.held_out))
    accuracy = f"{learner.assess(learner.held_out).top1:.1f} %" if measured else "not measured"
    classes = "\n".join(f"- {name}" for name in learner.classes_)
    memory = "with" if with_memory else "without"
    return f"""---
library_name: dytox
pipeline_tag: image-classification
tags: [continual-learning, {learner.config.method.name}]
---
{MARK}

# {repository}

An image classifier of {len(learner.classes_)} classes, learned in {len(learner.increments)} tasks with
[dytox](https://pypi.org/project/dytox/) ({learner.config.method.name}), for images of
{learner.size}×{learner.size} pixels. Accuracy on held-out images: {accuracy}. It comes {memory} the exemplars
that are needed to teach it more.

```
pip install 'dytox[hub]'
dytox pull {repository} model/
dytox predict model/ image.jpg
```

## Classes

{classes}
"""


@contextmanager
def _explained(repository: str) -> Iterator[Any]:
    """Give the client library, and turn all of its errors into one sentence."""
    try:
        import huggingface_hub
    except ImportError:
        raise UserError("Hugging Face needs one more package: pip install 'dytox[hub]'.") from None
    try:
        yield huggingface_hub
    except UserError:
        raise
    except Exception as error:  # of its network library, of its own, or of the system
        first = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise UserError(f"{repository} on Hugging Face: {first}.") from None
