"""Write docs/reference/ from the code: the config from its schema, the commands from the program, the API
from its docstrings.

    python tools/reference [--check]

With --check it writes nothing, and fails where a page is not what it would write.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import api
import commands
import config

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
MADE = "<!-- Made by `make docs` (tools/reference). Change the code, not this page. -->\n"
PAGES = {"config.md": config.page, "commands.md": commands.page, "api.md": api.page}


def main() -> None:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is out of date")
    check = parser.parse_args().check
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        path, text = FOLDER / name, "\n".join([MADE, *make()]).rstrip() + "\n"
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"docs/reference/{name} is not what the code says: run `make docs`.")


if __name__ == "__main__":
    main()
