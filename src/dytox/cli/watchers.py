"""Those who watch a run besides the progress bar: the page that is written while it runs, and loggers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console

from dytox.cli.output import say
from dytox.data.scenario import Scenario
from dytox.engine.observer import Observers
from dytox.experiments.loggers import Logging
from dytox.experiments.train import Watcher
from dytox.metrics import Step
from dytox.runs.run_directory import RunDirectory


class Watchers(Observers, Watcher):
    """Several watchers as one."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        super().__init__(watchers)
        self.watchers = watchers

    def run_started(self, tasks: Scenario, run: RunDirectory) -> None:
        """To each."""
        for each in self.watchers:
            each.run_started(tasks, run)

    def task_ended(self, step: Step) -> None:
        """To each."""
        for each in self.watchers:
            each.task_ended(step)

    def noticed(self, sentence: str) -> None:
        """To each."""
        for each in self.watchers:
            each.noticed(sentence)


class PageWriter(Watcher):
    """Writes `report.html` after every task, and the plots when the run is finished."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.run: RunDirectory | None = None

    def run_started(self, tasks: Scenario, run: RunDirectory) -> None:
        """Where the page will be, if it is wanted."""
        self.run = run if run.read_config().runtime.report else None

    def task_ended(self, step: Step) -> None:
        """The page so far."""
        self.write(running=True)

    def write(self, *, running: bool) -> None:
        """The page as the run stands; a page that fails never ends a run."""
        if self.run is None:
            return
        try:
            from dytox.report.record import read_record
            from dytox.report.run_page import save_plots, write_run_page

            found = read_record(self.run.path)
            write_run_page(found, self.run.path / "report.html", running=running)
            if found.finished and not running:
                save_plots(found, self.run.path / "plots")
        except Exception as error:
            path = self.run.path
            say(self.console, f"The page was not written ({error}): `dytox report {path}` tries it again.")


@contextmanager
def watching(progress: Watcher, console: Console, *, main: bool) -> Iterator[Watcher]:
    """The progress bar and, in the main process, page and loggers, until the run is over or was cut off."""
    if not main:
        yield progress
        return
    pages, logging = PageWriter(console), Logging()
    try:
        yield Watchers([progress, pages, logging])
    finally:
        logging.close()
        pages.write(running=False)
