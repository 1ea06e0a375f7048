"""Runs: a learner is taught the tasks of a scenario and measured after each."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dytox import metrics
from dytox.config import Config
from dytox.data import datasets, scenario
from dytox.data.encoded import Encoded
from dytox.data.samples import Samples
from dytox.data.scenario import Scenario, Task
from dytox.engine.distributed import World
from dytox.engine.lesson import Lesson, refuse_unknown_phases
from dytox.engine.observer import Diverged, Observer, Observers, State
from dytox.engine.runtime import set_up
from dytox.experiments import loggers
from dytox.experiments.evaluation import evaluate_task
from dytox.experiments.watchers import PageWriter, Watcher, Watchers
from dytox.importing import confirm
from dytox.learner import ContinualLearner
from dytox.learner.continual import refuse_single_class
from dytox.learner.keeping import Keeper
from dytox.memory import exemplars_per_share
from dytox.methods import registry
from dytox.randomness import Position
from dytox.runs.checkpoints import Checkpoint
from dytox.runs.run_directory import RunDirectory


def prepare(config: Config) -> tuple[Config, Scenario]:
    """The config with everything resolved, and its scenario; what cannot work is refused here."""
    loggers.check_loggers(config)
    config = registry.complete(config)
    set_up(config.runtime)
    dataset = datasets.load(config.data)
    data = config.data.model_copy(update={"image_size": dataset.train.size})
    config = config.model_copy(update={"data": data})
    tasks = scenario.build(config.scenario, dataset)
    refuse_single_class(tasks.tasks[0], tasks.class_names)
    if config.memory.size:
        exemplars_per_share(config.memory, len(tasks.class_names))
    return config, tasks


def train(
    config: Config, out: Path, watcher: Watcher | None = None, world: World | None = None
) -> dict[str, Any]:
    """A new run in the directory `out`; returns the content of its `metrics.json`."""
    world = world or World()
    config, tasks = prepare(config)
    run = RunDirectory(out)
    learner = ContinualLearner(config, world)
    refuse_unknown_phases(learner.method)
    with run.locked() if world.main else nullcontext(), _attended(watcher or Watcher(), world) as everyone:
        if world.main:
            run.create(config)
        world.wait()
        everyone.run_started(tasks, run)
        return Benchmark(run, tasks, learner, everyone).finish()


def resume(
    out: Path,
    watcher: Watcher | None = None,
    world: World | None = None,
    *,
    trusted: Collection[str | None] = (),
) -> dict[str, Any]:
    """Continue a run where it was cut off, with the result that it would have had.

    A custom method or dataset (`module:name`) of the run is imported only if `trusted` names it.
    """
    world = world or World()
    run = RunDirectory(out)
    recorded = run.read_config()  # of an older version it lacks options that its method has now
    confirm(recorded.method.name, trusted, where=f"The run {out}", option="--method")
    confirm(recorded.data.dataset, trusted, where=f"The run {out}", option="--dataset")
    config, tasks = prepare(recorded)
    with run.locked() if world.main else nullcontext(), _attended(watcher or Watcher(), world) as everyone:
        checkpoint = run.checkpoints.newest()
        learner = ContinualLearner(config, world, saved=checkpoint is not None)
        benchmark = Benchmark(run, tasks, learner, everyone)
        done = run.read_metrics() if run.has_metrics() else None
        world.wait()
        if checkpoint is None and done is not None and len(done["steps"]) == len(tasks):
            everyone.noticed(f"{out} is finished: there is nothing left to do.")
            return done
        start = None if checkpoint is None else benchmark.restore(checkpoint)
        if world.main:
            run.create(recorded, resume=True)
            run.cut_log(start.position if start else Position())
        everyone.run_started(tasks, run)
        return benchmark.finish(start)


@contextmanager
def _attended(watcher: Watcher, world: World) -> Iterator[Watcher]:
    """The watcher and, in the main process, the report and the loggers, until the run ends or is cut off."""
    if not world.main:
        yield watcher
        return
    pages, logging = PageWriter(watcher.noticed), loggers.Logging()
    try:
        yield Watchers([watcher, pages, logging])
    finally:
        logging.close()
        pages.write(running=False)


def checksum(tasks: Scenario) -> str:
    """Of the training and test images and labels; where they lie does not matter."""
    digest = hashlib.blake2b(digest_size=16)
    for samples in (tasks.train_samples, tasks.test_samples):
        images = samples.images
        digest.update(
            images.fingerprint() if isinstance(images, Encoded) else images.contiguous().numpy().data
        )
        digest.update(samples.labels.numpy().data)
    return digest.hexdigest()


class Benchmark(Observer):
    """One run: what was measured so far, its log, and the checkpoints from which it can go on."""

    def __init__(
        self, run: RunDirectory, tasks: Scenario, learner: ContinualLearner, watcher: Watcher
    ) -> None:
        self.run, self.tasks, self.learner, self.watcher = run, tasks, learner, watcher
        self.main = learner.world.main  # the process that writes
        learned = {"data": checksum(tasks)}
        self.keeper = Keeper(run.checkpoints, learner, learned, "The run", self.progress)
        self.steps: list[metrics.Step] = []
        self.matrix: list[list[float]] = []
        self.seconds = 0.0  # of the present task, before the last resumption
        self.began = time.perf_counter()

    def finish(self, start: State | None = None) -> dict[str, Any]:
        """The tasks that are left."""
        for task in self.tasks.tasks[len(self.steps) :]:
            self.began = time.perf_counter()
            names = self.tasks.class_names[task.old : task.seen]
            observer = Observers([self, self.keeper, self.watcher])
            try:
                self.learner.learn_task(self.tasks.train(task), names, observer=observer, start=start)
            except Diverged as error:
                if self.main and error.position.step == 0:  # what was kept before it is spoiled too
                    self.run.checkpoints.remove(error.position)
                raise
            start = None
            self.measure(task)
        if self.main:
            self.run.checkpoints.clear()
        return self.summary()

    def measure(self, task: Task) -> None:
        """The figures after a task, and the model as it is now."""
        seen = list(self.tasks.tasks[: task.index + 1])
        found = evaluate_task(self.learner, self.tasks.test_seen(task), seen, self.elapsed())
        self.steps.append(found.step)
        self.matrix.append(found.row)
        self.seconds = 0.0
        if self.main:
            self.run.save_evaluation(task.index, found.tensors)
            self.run.write_metrics(self.summary())
            self.learner.save(self.run.model)
        self.watcher.task_ended(found.step)
        shares = self.learner.config.memory.shares
        if shares > 1:
            overlap = self.learner.memory.overlap()
            self.watcher.noticed(f"{overlap:.1f} % of the memory is in more than one of its {shares} shares.")

    def summary(self) -> dict[str, Any]:
        """The content of `metrics.json` so far."""
        config = self.learner.config
        return metrics.summary(
            method=config.method.name,
            dataset=config.data.dataset,
            seed=config.seed,
            order=config.scenario.order,
            steps=self.steps,
            accuracy_matrix=self.matrix,
            flipped=config.evaluation.flip,
        )

    def elapsed(self) -> float:
        """The seconds of the present task."""
        return self.seconds + time.perf_counter() - self.began

    def epoch_ended(self, lesson: Lesson, record: Mapping[str, Any]) -> None:
        if self.main:
            self.run.log(record)

    def progress(self) -> dict[str, Any]:
        """What a checkpoint of a run holds besides the lesson."""
        return {
            "steps": [asdict(step) for step in self.steps],
            "matrix": self.matrix,
            "history": self.learner.history,
            "seconds": self.elapsed(),
        }

    def restore(self, checkpoint: Checkpoint) -> State:
        """Put the run where a checkpoint of the same config and data is."""
        state = checkpoint.state
        start = self.keeper.restore(checkpoint, self.watcher.noticed, self.run.threads())
        self.steps = [metrics.Step(**step) for step in state["steps"]]
        self.matrix, self.seconds = state["matrix"], state["seconds"]
        done = self.tasks.tasks[: checkpoint.position.task]
        learner = self.learner
        learner.history = state["history"]
        learner.class_names = list(self.tasks.class_names[: sum(task.new for task in done)])
        if learner.method.needs_all_images and done:
            learner.earlier = Samples.concatenate([self.tasks.train(task) for task in done])
        return start
