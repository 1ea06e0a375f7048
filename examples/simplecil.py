"""SimpleCIL: the mean feature of each class on a frozen, pretrained encoder. Nothing is trained.

dytox train digits --method simplecil:SimpleCIL
dytox learn model photos --method simplecil:SimpleCIL
"""

from dytox.method import Action, CosineHead, Method, Preset, pooled, prototypes


class SimpleCIL(Method):
    """An image belongs to the class whose mean feature has the nearest direction."""

    name, summary = "simplecil", "class means on a frozen encoder"  # for `dytox methods`
    uses_memory = False
    preset = Preset(base="resnet", config={"model": {"encoder": "efficientnet-lite0", "frozen": True}})

    def build(self):
        """An encoder, and a head whose logits are cosines between features and the rows of classes."""
        return pooled(self.config, CosineHead)

    def phases(self, task):
        """Make room for the new classes, then set their rows."""
        return [Action("expand", self.expand), Action("means", self.set_means)]

    def set_means(self, lesson):
        """The row of a new class becomes the mean of its normalised features."""
        means = prototypes(lesson, lesson.new)  # (new classes, dim)
        self.model.head.linears()[-1].weight.copy_(means)
