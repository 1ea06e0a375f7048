"""Build wheel and sdist, install the wheel in a new environment elsewhere, and use it there.

    python tools/packaged.py [--out dist]

Needs the packages of the `dev` extra. The environment is made in a temporary folder and removed again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IN_WHEEL = (
    *("dytox/py.typed", "dytox/data/digits.npz", "dytox/data/digits.LICENSE.md", "dytox/report/page.css"),
    *("dytox/facts/class_orders.json", "dytox/facts/paper_results.json"),
    *("dytox/recipes/scenarios/digits.yaml", "dytox/recipes/methods/dytox-plus.yaml", "dytox/runs/files.py"),
    *("/licenses/LICENSE", "/licenses/src/dytox/data/digits.LICENSE.md", "/entry_points.txt"),
)
IN_SDIST = (
    "/pyproject.toml",
    "/LICENSE",
    "/README.md",
    "/constraints.txt",
    "/src/dytox/py.typed",
    "/docs/architecture.md",
)
SHORT = (
    "training.epochs=1",
    "training.schedule.warmup_epochs=0",
    "finetuning.epochs=1",
    "scenario.classes=4",
)


def build(folder: Path) -> Path:
    """Build wheel and sdist, check their contents, and return the wheel."""
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True, stdout=subprocess.DEVNULL
    )
    wheel, sdist = max(folder.glob("*.whl"), key=_age), max(folder.glob("*.tar.gz"), key=_age)
    with zipfile.ZipFile(wheel) as archive:
        _require(wheel, archive.namelist(), IN_WHEEL)
    with tarfile.open(sdist) as content:
        _require(sdist, content.getnames(), IN_SDIST)
    return wheel


def _age(path: Path) -> float:
    return path.stat().st_mtime


def _require(archive: Path, names: list[str], wanted: tuple[str, ...]) -> None:
    missing = [each for each in wanted if not any(name.endswith(each) for name in names)]
    if missing:
        sys.exit(f"{archive.name} lacks {', '.join(missing)}.")
    print(f"{archive.name}: {len(names)} files, {archive.stat().st_size / 1e6:.1f} MB")


def use(wheel: Path, folder: Path) -> None:
    """Install the wheel in a new environment and run the program from a folder outside the checkout."""
    venv.create(folder / "env", with_pip=True)
    scripts = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    constraints = ROOT / "constraints.txt"
    pip = [scripts / "python", "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "-c", constraints, wheel], check=True, cwd=folder)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    changes = [part for each in SHORT for part in ("--set", each)]
    for command in (
        ["--version"],
        ["--help"],
        ["recipes"],
        ["doctor"],
        ["train", "digits", *changes, "--out", "run"],
        ["info", "run/model"],
    ):
        print("$ dytox", *command, flush=True)
        subprocess.run([scripts / "dytox", *command], check=True, cwd=folder, env=environment)


def main() -> None:
    """Build and try the packages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder for wheel and sdist")
    wheel = build(parser.parse_args().out.resolve())
    with tempfile.TemporaryDirectory() as folder:
        use(wheel, Path(folder))
    print(f"{wheel} installs and runs.")


if __name__ == "__main__":
    main()
