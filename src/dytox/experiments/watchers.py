"""Observers of a whole run: its tasks, and the page that is written while it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dytox.data.scenario import Scenario
from dytox.engine.observer import Observer, Observers
from dytox.metrics import Step
from dytox.runs.run_directory import RunDirectory


class Watcher(Observer):
    """An observer of a run, which is also told of its tasks; this one does nothing."""

    def run_started(self, tasks: Scenario, run: RunDirectory) -> None:
        """The data are loaded and the first task begins."""

    def task_ended(self, step: Step) -> None:
        """A task was learned and measured."""


class Watchers(Observers, Watcher):
    """Several watchers as one."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        super().__init__(watchers)
        self.watchers = watchers

    def run_started(self, tasks: Scenario, run: RunDirectory) -> None:
        for each in self.watchers:
            each.run_started(tasks, run)

    def task_ended(self, step: Step) -> None:
        for each in self.watchers:
            each.task_ended(step)


class PageWriter(Watcher):
    """Writes `report.html` after every task, and the plots when the run is finished."""

    def __init__(self, notice: Callable[[str], None]) -> None:
        self.notice = notice
        self.run: RunDirectory | None = None

    def run_started(self, tasks: Scenario, run: RunDirectory) -> None:
        self.run = run if run.read_config().runtime.report else None

    def task_ended(self, step: Step) -> None:
        self.write(running=True)

    def write(self, *, running: bool) -> None:
        """Write the page as the run stands; an error there never ends a run."""
        if self.run is None:
            return
        try:
            from dytox.report.record import read_record  # matplotlib is slow to import
            from dytox.report.run_page import save_plots, write_run_page

            found = read_record(self.run.path)
            write_run_page(found, self.run.path / "report.html", running=running)
            if found.finished and not running:
                save_plots(found, self.run.path / "plots")
        except Exception as error:
            self.notice(f"The page was not written ({error}): `dytox report {self.run.path}` tries it again.")
