"""SimpleCIL: the mean feature of each class on an encoder that is frozen after the first task.

dytox train digits --method simplecil:SimpleCIL
dytox learn model photos --method simplecil:SimpleCIL
"""

from dytox.method import Action, CosineHead, Method, Preset, Training, pooled, prototypes


class SimpleCIL(Method):
    """An image belongs to the class whose mean feature has the nearest direction."""

    name, summary = "simplecil", "class means on an encoder that the first task trains"  # for `dytox methods`
    uses_memory = False
    preset = Preset(base="resnet")  # its training and its encoder, at every scale

    def build(self):
        """An encoder, and a head whose logits are cosines between features and the rows of classes."""
        return pooled(self.config, CosineHead)

    def phases(self, task):
        """The first task trains the encoder, unless it is pretrained; then every class gets its mean."""
        learns = task.index == 0 and not self.config.model.frozen
        train = [Training("train", "new", self.learns, self.config.training)] if learns else []
        return [Action("expand", self.expand), *train, Action("means", self.set_means)]

    def set_means(self, lesson):
        """The row of a new class becomes the mean of its normalised features."""
        means = prototypes(lesson, lesson.new)  # (new classes, dim)
        self.model.head.linears()[-1].weight.copy_(means)
