"""`python -m dytox` is `dytox`."""

from dytox.cli.main import run

run()
