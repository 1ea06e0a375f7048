"""What a wheel must hold, the one place of the version, and the files beside the code."""

from __future__ import annotations

import json
import re
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML

import dytox
from dytox import recipes

ROOT = Path(__file__).parents[1]


def test_package_data_is_found_where_the_package_is() -> None:
    package = files("dytox")
    for name in ("py.typed", "data/digits.LICENSE.md", "report/page.css"):
        assert package.joinpath(name).is_file(), name
    with package.joinpath("data/digits.npz").open("rb") as file:
        assert np.load(file)["images"].shape[0] == 1797
    orders = json.loads(package.joinpath("facts/class_orders.json").read_text(encoding="utf-8"))
    assert sorted(orders["cifar100_order1"]) == list(range(100))
    assert json.loads(package.joinpath("facts/paper_results.json").read_text(encoding="utf-8"))
    assert "digits" in recipes.scenarios()


def test_the_version_stands_in_one_place() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", dytox.__version__)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in project
    assert 'path = "src/dytox/__init__.py"' in project
    everything = [*(ROOT / "src").rglob("*.py"), ROOT / "CITATION.cff", ROOT / "pyproject.toml"]
    named = [path.name for path in everything if f'"{dytox.__version__}"' in path.read_text(encoding="utf-8")]
    assert named == ["__init__.py"]


def test_the_workflow_does_what_ci_run_does() -> None:
    workflow = YAML(typ="safe", pure=True).load(ROOT / ".github/workflows/ci.yml")
    steps = [step.get("run") for step in workflow["jobs"]["all"]["steps"]]
    assert ".ci/run" in steps
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    commands = (ROOT / ".ci" / "run").read_text(encoding="utf-8") + "\n".join(filter(None, steps))
    asked = re.findall(r"make ([a-z-]+)", commands)
    assert {"lint", "test", "demo"} <= set(asked) <= set(targets)


def test_the_citation_is_the_papers() -> None:
    citation = YAML(typ="safe", pure=True).load(ROOT / "CITATION.cff")
    paper = citation["preferred-citation"]
    assert [each["family-names"] for each in paper["authors"]] == ["Douillard", "Ramé", "Couairon", "Cord"]
    assert (citation["cff-version"], paper["year"]) == ("1.2.0", 2022)
    assert paper["title"] == "DyTox: Transformers for Continual Learning with DYnamic TOken eXpansion"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is in the standard library from 3.11 on")
def test_extras_that_messages_name_are_there() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"pip install 'dytox\[(\w+)\]'", text))
    assert named
    assert named <= set(project["optional-dependencies"])
