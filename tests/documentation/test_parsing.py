"""What the pages say of commands, config keys and files is so: a renamed option fails here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pages
import pytest
import typer.main

from dytox import recipes
from dytox.cli.main import app
from dytox.cli.options import config_keys
from dytox.config import Config

GROUP: Any = typer.main.get_command(app)
EVERYWHERE = {"--help", "-h", "--version", "--install-completion", "--show-completion"}
ON_PURPOSE = {"trian"}  # a page shows what becomes of it

KEY = re.compile(rf"(?:--set )?((?:{'|'.join(Config.model_fields)})\.[a-z_.]+)(?:[=:].*)?")


def name_of(path: Path) -> str:
    return str(path.relative_to(pages.ROOT))


def known_key(key: str) -> bool:
    """Whether it is a config key, or the beginning of some; a method's own are checked by the method."""
    keys = [each.rstrip("=") for each in config_keys("")]
    return key.startswith("method.") or any(each == key or each.startswith(f"{key}.") for each in keys)


def check_command(arguments: list[str], place: str) -> None:
    """Options, recipes, methods and keys of a command line exist."""
    if not arguments or arguments[0].startswith("-"):
        assert set(arguments) <= EVERYWHERE, place
        return
    name, *rest = arguments
    assert name in GROUP.commands, f"{place}: there is no dytox {name}"
    if EVERYWHERE & set(rest):
        return
    with GROUP.commands[name].make_context(name, rest) as context:  # refuses what it does not know
        given = context.params
    for each in given.get("overrides") or []:
        assert known_key(each.partition("=")[0]), f"{place}: there is no key {each}"
    recipe, method = given.get("recipe"), given.get("method")
    if recipe and re.fullmatch(r"[a-z0-9-]+", recipe):
        assert recipe in recipes.scenarios(), f"{place}: there is no recipe {recipe}"
    if method and re.fullmatch(r"[a-z0-9_-]+", method):
        assert method in recipes.methods(), f"{place}: there is no method {method}"


@pytest.mark.parametrize("path", [*pages.PAGES, *pages.OTHERS], ids=name_of)
def test_commands_in_blocks_are_accepted(path: Path) -> None:
    for block in pages.blocks(path):
        if block.comment.startswith("not run"):
            assert re.fullmatch(r"not run: .{10,}", block.comment, re.DOTALL), f"{block.place}: say why"
        if block.language == "python":
            compile(block.before + block.code, block.place, "exec")
        elif block.language in (*pages.SHELL, ""):
            for words in block.commands():
                arguments = pages.dytox_arguments(words)
                if arguments and not arguments[0].startswith("$"):
                    check_command(arguments, block.place)
                elif words[0] == "make":
                    makefile = (pages.ROOT / "Makefile").read_text(encoding="utf-8")
                    assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), f"{block.place}: {words}"


@pytest.mark.parametrize("path", [*pages.PAGES, *pages.OTHERS], ids=name_of)
def test_commands_and_keys_in_sentences_exist(path: Path) -> None:
    for code in pages.inline(path):
        words = code.split()
        if words[:1] == ["dytox"] and len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]):
            command = GROUP.commands.get(words[1])
            assert command or words[1] in ON_PURPOSE, f"{name_of(path)}: {code}"
            known = {option for each in command.params for option in each.opts} if command else set()
            given = {word.strip("[]…,").partition("=")[0] for word in words if word.startswith(("--", "[--"))}
            assert given <= known | EVERYWHERE, f"{name_of(path)}: {code}"
        key = KEY.fullmatch(code)
        if key and not code.endswith((".py", ".json", ".yaml", ".md")):
            assert known_key(key[1].rstrip(".")), f"{name_of(path)}: there is no key {code}"


@pytest.mark.parametrize("path", [*pages.PAGES, *pages.OTHERS], ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{name_of(path)}: {target}"


def test_recipes_in_the_pages_are_accepted(tmp_path: Path) -> None:
    found = [block for path in pages.PAGES for block in pages.blocks(path) if block.language == "yaml"]
    assert found
    for block in found:
        file = tmp_path / "own.yaml"
        file.write_text(block.code, encoding="utf-8")
        named = re.match(r"# (\S+\.yaml), for `dytox train \1", block.code)
        assert named, f"{block.place}: say in its first line which command takes it"
        assert recipes.compose(str(file)).recipe == "own", block.place


def test_pages_of_docs_say_what_a_block_is() -> None:
    for path in pages.PAGES[1:]:
        if "reference" not in path.parts:
            for block in pages.blocks(path):
                shown = block.language or "dytox " not in block.code
                assert shown, f"{block.place}: call it ```bash, so that it is run"
