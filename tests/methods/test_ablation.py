"""Each switch of the ablation changes what it says, and nothing else."""

from __future__ import annotations

import pytest
import torch

ALL = {
    "distillation": True,
    "finetuning": True,
    "token_expansion": True,
    "divergence": 0.1,
    "independent_heads": True,
}
ORDER = ["distillation", "finetuning", "token_expansion", "divergence", "independent_heads"]  # of the table


@pytest.fixture(scope="module")
def facts(taught):
    """What can be said of the second of two tasks of two classes: phases, loss terms, what moved, shapes."""
    known: dict[str, set[str]] = {}

    def of(*off: str, **over) -> set[str]:
        key = repr((sorted(off), over))
        if key not in known:
            options = {name: value for name, value in ALL.items() if name not in off}
            options |= {name: 0.0 if name == "divergence" else False for name in off}
            known[key] = observed(*taught(increments=(2, 2), method=options, **over))
        return known[key]

    return of


def observed(learner, diary) -> set[str]:
    found = set()
    for chapter in [each for each in diary.chapters if each.task == 1]:
        found.add(f"phase {chapter.name}")
        for step in chapter.steps:
            rows = len(step.batch.labels)
            for name, term in step.terms.items():
                found.add(f"{chapter.name}: {name}, weight {term.weight:g}, {term.count / rows:g} an image")
        if chapter.training:
            moved = chapter.moved("model.")
            found |= {f"{chapter.name}: {name} moves" for name, other in moved.items() if other}
    weights = learner.method.model.state_dict().items()
    return found | {f"{name} {tuple(weight.shape)}" for name, weight in weights}


def words(facts: set[str], *beginnings: str) -> set[str]:
    return {each for each in facts if each.startswith(beginnings)}


def test_distillation(facts):
    whole, without = facts(), facts("distillation")
    assert whole - without == {
        "phase teacher",
        "train: kd, weight 0.5, 2 an image",
        "train: clf, weight 0.5, 4 an image",
    }
    assert without - whole == {"train: clf, weight 1, 4 an image"}


def test_finetuning(facts):
    whole, without = facts(), facts("finetuning")
    assert whole - without == words(whole, "phase finetune", "finetune: ")
    assert "finetune: model.task_tokens.0 moves" in whole
    assert without <= whole


def test_divergence(facts):
    whole, without = facts(), facts("divergence")
    head = [f"train: model.divergence_head.{each} moves" for each in ("norm.weight", "norm.bias")]
    head += [f"train: model.divergence_head.linear.{each} moves" for each in ("weight", "bias")]
    assert whole - without == {"train: div, weight 0.1, 3 an image", *head}
    assert without <= whole


def test_independent_heads(facts):
    """Blocks of one classifier over both embeddings, (2, 2 · 12), in the place of heads over one each."""
    whole, without = facts(), facts("independent_heads")
    heads = ("heads.", "train: model.heads.", "finetune: model.heads.")
    assert whole - without == words(whole, *heads)
    assert without - whole == words(without, *heads)
    assert words(without, "train: model.heads.") == {
        f"train: model.heads.{each} moves"
        for each in ("tasks.1.weight", "tasks.1.bias", "norms.1.weight", "norms.1.bias")
    }
    assert {"heads.tasks.0.weight (2, 24)", "heads.tasks.1.weight (2, 24)"} <= without


def test_token_expansion(facts):
    """One token that goes on learning, one embedding, one norm; compared with one classifier as well."""
    two, one = facts("independent_heads"), facts("independent_heads", "token_expansion")
    assert two - one == {
        "task_tokens.1 (1, 12)",
        *(f"{phase}: model.task_tokens.1 moves" for phase in ("train", "finetune")),
        *(f"heads.norms.1.{each} (12,)" for each in ("weight", "bias")),
        *(f"heads.tasks.{task}.weight (2, 24)" for task in (0, 1)),
        *(f"{p}: model.heads.norms.1.{e} moves" for p in ("train", "finetune") for e in ("weight", "bias")),
    }
    assert one - two == {
        "train: model.task_tokens.0 moves",
        *(f"heads.tasks.{task}.weight (2, 12)" for task in (0, 1)),
        *(f"train: model.heads.norms.0.{each} moves" for each in ("weight", "bias")),
    }


def test_softmax(facts):
    """A term an image instead of one for each of its outputs; the distillation is a softmax's anyway."""
    sigmoid, softmax = facts(), facts(loss={"activation": "softmax"})
    assert sigmoid - softmax == {
        "train: clf, weight 0.5, 4 an image",
        "train: div, weight 0.1, 3 an image",
        "finetune: clf, weight 1, 4 an image",
    }
    assert softmax - sigmoid == {
        "train: clf, weight 0.5, 1 an image",
        "train: div, weight 0.1, 1 an image",
        "finetune: clf, weight 1, 1 an image",
    }


@pytest.mark.parametrize("row", range(6))
def test_the_rows_of_the_table(facts, row):
    """Row n has the first n components; the terms and phases are those of its components alone."""
    found = facts(*ORDER[row:])
    terms = {each.split(",")[0] for each in found if ", weight " in each}
    expected = {"train: clf"}
    expected |= {"train: kd"} if row > 0 else set()
    expected |= {"finetune: clf"} if row > 1 else set()
    expected |= {"train: div"} if row > 3 else set()
    assert terms == expected
    assert ("task_tokens.1 (1, 12)" in found) == (row > 2)
    assert ("heads.tasks.1.linear.weight (2, 12)" in found) == (row > 4)
    old = words(found, "train: model.heads.tasks.0.", *(["train: model.task_tokens.0"] if row > 2 else []))
    assert not old  # of the first task


def test_the_first_task_is_the_same_whatever_the_switches(taught):
    """There is nothing to forget yet."""
    scores = []
    for options in (ALL, {**ALL, "distillation": False, "finetuning": False, "divergence": 0.0}):
        learner, diary = taught(increments=(2,), method=options)
        assert [list(step.terms) for step in diary.chapter(0, "train").steps] == [["clf"]] * 4
        scores.append(learner.method.state_dict())
    assert all(torch.equal(scores[0][name], scores[1][name]) for name in scores[0])
