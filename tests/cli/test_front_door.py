"""The way in: `doctor`, completion, nearest names, and what starting up imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from dytox import installation

Program = Callable[..., Any]
VERSIONS = {"torch": "2.13.0+cpu", "numpy": "1.25.9", "onnx": "1.23.2"}
HEAVY = ("torch", "numpy", "matplotlib", "PIL", "pydantic", "ruamel.yaml")
REQUIRES = [
    "torch>=2.6",
    "numpy>=1.26",
    "onnx>=1.16; extra == 'export'",
    'onnxruntime>=1.18; extra == "export"',
]


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Versions of packages that are said to be here, to be changed by the test."""
    found = dict(VERSIONS)

    def version(name: str) -> str:
        if name not in found:
            raise metadata.PackageNotFoundError(name)
        return found[name]

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(metadata, "requires", lambda _: REQUIRES)
    return found


def test_doctor_names_what_is_missing_and_what_mends_it(dytox: Program, packages: dict[str, str]) -> None:
    outcome = dytox("doctor", "--json")
    told = json.loads(outcome.out)
    assert (outcome.code, told["healthy"]) == (2, False)
    found = {(each["topic"], each["name"]): each for each in told["findings"]}
    assert found["version", "torch"]["good"]
    assert found["version", "numpy"] == {
        "topic": "version",
        "name": "numpy",
        "value": "1.25.9, older than 1.26",
        "good": False,
        "needed": True,
        "mend": "pip install 'numpy>=1.26'",
    }
    assert found["extra", "export"]["value"] == "missing onnxruntime"
    assert found["extra", "export"]["mend"] == "pip install 'dytox[export]'"
    assert {name for topic, name in found if topic == "disk"} == {"here", "temporary", "cache"}
    assert "threads" in found["device", "cpu"]["value"]

    packages["numpy"] = "2.0"
    outcome = dytox("doctor")
    assert outcome.code == 0  # an extra may be missing
    assert "  pip install 'dytox[export]'  # extra export\n" in outcome.out
    assert outcome.out.endswith("Everything that dytox needs is installed.\n")


def test_doctor_sees_a_folder_without_room_or_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "not" / "made" / "yet"
    assert installation._folder("cache", inside).good
    monkeypatch.setattr(installation, "LITTLE", float("inf"))
    assert installation._folder("cache", inside).mend == f"make room on the disk of {tmp_path}"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert installation._folder("cache", inside).value == f"{inside}, not writable"


def test_doctor_without_torch_still_speaks(dytox: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "dytox.data.cifar100", raising=False)
    outcome = dytox("doctor")
    assert outcome.code == 2
    assert "cannot be imported" in outcome.out
    assert "  pip install --force-reinstall torch  # device torch\n" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian", "digits"], "Did you mean 'train'?"),
        (["train", "digits", "--sed", "1"], "--seeds"),
        (["show", "cifar100-1O"], "Unknown recipe 'cifar100-1O': did you mean 'cifar100-10'?"),
        (
            ["show", "digits", "--set", "memory.selection=hearding"],
            "should be 'herding', 'closest', 'furthest' or 'random', not 'hearding': did you mean 'herding'?",
        ),
        (["show", "digits", "--set", "loss.activation=7"], "should be 'sigmoid' or 'softmax', not 7."),
        (["paper", "cifar10"], "did you mean 'cifar100'?"),
        (["show", "digits", "--set", "data.dataset=digit"], "did you mean 'digits'?"),
    ],
)
def test_the_nearest_name_is_suggested(dytox: Program, arguments: list[str], words: str) -> None:
    outcome = dytox(*arguments)
    assert outcome.code == 2
    assert words in " ".join(outcome.err.replace("│", "").split())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("dytox lea", ["learn"]),
        ("dytox train cifar100-b50-1", ["cifar100-b50-10", "cifar100-b50-10-fast"]),
        ("dytox show digits --method dytox-plus-p", ["dytox-plus-plus"]),
        ("dytox show digits --method dytox+", ["dytox+", "dytox++"]),
        ("dytox paper imagenet1", ["imagenet100", "imagenet1000"]),
        ("dytox reproduce cal", ["calibration"]),
        ("dytox reproduce ablation --scale s", ["short"]),
        ("dytox bench l", ["loading"]),
        ("dytox train digits --method ucir --set method.mar", ["margin="]),
        ("dytox train digits --set augment.randaugment.mag", ["magnitude=", "magnitude_std="]),
    ],
)
def test_a_shell_completes(
    dytox: Program, monkeypatch: pytest.MonkeyPatch, words: str, expected: list[str]
) -> None:
    monkeypatch.setenv("_DYTOX_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert [name.rpartition(".")[2] for name in dytox().out.split()] == expected


@pytest.mark.parametrize("command", ["--help", "--version", "recipes"])
def test_what_only_tells_imports_nothing_heavy(command: str) -> None:
    script = (
        "import sys\n"
        f"sys.argv = ['dytox', {command!r}]\n"
        "from dytox.cli.main import run\n"
        "try:\n    run()\nfinally:\n"
        f"    print([each for each in {HEAVY} if each in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")
