"""DyTox with each decoder, and with the hybrid encoder: what learns when."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("kind", ["tab-per-task", "film", "adapters"])
def test_what_belongs_to_an_old_task_stays_in_training_and_learns_in_finetuning(taught, kind):
    learner, diary = taught(increments=(2, 2), model={"decoder": kind}, runtime={"compile": False})
    training, finetuning = diary.chapter(1, "train"), diary.chapter(1, "finetune")
    parts = ["model.task_tokens.{}", "model.heads.tasks.{}."]
    parts += [] if kind == "film" else ["model.tab.tasks.{}."]
    for part in parts:
        assert not any(training.moved(part.format(0)).values())
        assert all(training.moved(part.format(1)).values())
        assert all(finetuning.moved(part.format(0)).values())
        assert all(finetuning.moved(part.format(1)).values())
    shown = learner.method.introspect(training.steps[0].batch.images)
    assert ("attention" in shown) == (kind == "tab-per-task")
    assert shown["token_distances"].shape == (2, 2)


def test_the_hybrid_encoder_learns_in_training_and_stays_in_finetuning(taught):
    """Its BatchNorms too, statistics included."""
    _, diary = taught(
        increments=(2, 2), model={"encoder": "hybrid", "hybrid": "resnet8"}, training={"epochs": 1}
    )
    assert all(diary.chapter(1, "train").moved("model.encoder.").values())
    assert not any(diary.chapter(1, "finetune").moved("model.encoder.").values())
