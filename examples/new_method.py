"""A method of your own: old and new classes are seen equally often, and the old model teaches the new one."""

from dytox import ContinualLearner
from dytox.data import datasets
from dytox.method import Action, Method, Training, distillation, network, select_memory


class Balanced(Method):
    name, summary = "balanced", "balanced rehearsal and distillation"  # for `dytox methods`

    def build(self):
        return network(self.config)

    def phases(self, task):
        how = self.config.training
        train = Training("train", lambda lesson: lesson.samples("new+memory").balanced(), self.learns, how)
        before = [Action("teacher", self.keep_teacher)] if task.index else []
        return [*before, Action("expand", self.expand), train, Action("memory", select_memory)]

    def losses(self, batch, output):
        terms = super().losses(batch, output)  # {"clf": the classification loss}
        if self.teacher is not None:
            old = self.teach(batch).logits  # (batch, old classes)
            terms["kd"] = distillation(output.logits[:, : old.shape[1]], old)
        return terms


config = {"model": {"encoder": "resnet8", "decoder": "pool"}, "training": {"epochs": 10}}
learner = ContinualLearner.create("digits", method=f"{__name__}:Balanced", config=config)
digits = datasets.load(learner.config.data)
for first in (0, 2, 4):
    new, test = digits.train.between(first, first + 2), digits.test.between(0, first + 2)
    learner.learn(new.images, new.labels)
    accuracy = learner.score(test.images, test.labels)
    print(f"{len(learner.classes_)} digits: {accuracy:.0%} right")
