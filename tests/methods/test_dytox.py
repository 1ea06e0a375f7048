"""DyTox: what is easily got wrong, each with its check, and what each option changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from dytox import ContinualLearner
from dytox.data.loader import Batch, mixed
from dytox.data.scenario import Task
from dytox.engine.phase import set_learning
from dytox.engine.update import Update
from dytox.errors import UserError
from dytox.methods.dytox import DyToxMethod

INCREMENTS = (2, 3, 2)
PLAIN = {"augment": {"pad": 0, "flip": 0.0, "randaugment": None}}  # so that a batch shows which images it has


@pytest.fixture(scope="module")
def run(taught):
    """Three tasks of two, three and two classes."""
    return taught("dytox", increments=INCREMENTS, **PLAIN)


@pytest.fixture(scope="module")
def diary(run):
    return run[1]


@pytest.fixture
def grown(midway):
    """DyTox in the middle of its last task's training, with its teacher."""

    def build(increments: list[int], **over) -> DyToxMethod:
        return midway("dytox", increments, **over)

    return build


def batch_of(labels: list[int], size: int = 8) -> Batch:
    images = torch.randn(len(labels), 3, size, size, generator=torch.Generator().manual_seed(0))
    return Batch.plain(images, torch.tensor(labels))


def images_of(steps) -> torch.Tensor:
    """The images of some updates as rows, in an order of their own."""
    rows = torch.cat([step.batch.images.flatten(1) for step in steps])
    return rows[torch.argsort(rows.double() @ torch.arange(1.0, rows.shape[1] + 1).double().sqrt())]


# The phases


def test_phases(diary):
    assert diary.phases(0) == ["expand", "train", "tidy", "memory"]  # no teacher, no finetuning
    later = ["teacher", "expand", "train", "tidy", "memory", "finetune"]
    assert diary.phases(1) == diary.phases(2) == later


@pytest.mark.parametrize("task", [1, 2])
def test_old_tokens_and_heads_stay_in_training_and_change_in_finetuning(diary, task):
    training, finetuning = diary.chapter(task, "train"), diary.chapter(task, "finetune")
    for old in range(task):
        for part in (f"model.task_tokens.{old}", f"model.heads.tasks.{old}."):
            assert not any(training.moved(part).values())
            assert all(finetuning.moved(part).values())
    for part in (f"model.task_tokens.{task}", f"model.heads.tasks.{task}.", "model.tab."):
        assert all(training.moved(part).values())
        assert all(finetuning.moved(part).values())


@pytest.mark.parametrize("task", [1, 2])
def test_the_encoder_learns_in_training_and_stays_in_finetuning(diary, task):
    assert not any(diary.chapter(task, "finetune").moved("model.encoder.").values())
    moved = diary.chapter(task, "train").moved("model.encoder.")
    assert {name.rpartition(".")[2] for name, other in moved.items() if not other} == {"pos_bias", "relative"}


@pytest.mark.parametrize("task", [1, 2])
def test_the_frozen_encoder_is_in_eval_mode_in_finetuning(diary, task):
    for step in diary.chapter(task, "finetune").steps:
        assert not any(mode for name, mode in step.modes.items() if name.startswith("model.encoder"))
        assert step.modes["model.tab"]
    for step in diary.chapter(task, "train").steps:
        assert step.modes["model.encoder"]


@pytest.mark.parametrize("task", [1, 2])
def test_the_teacher_is_the_model_as_it_was_and_stays_so(diary, task):
    before = diary.chapter(task, "teacher").before
    chapter = diary.chapter(task, "train")
    teacher = {name for name in chapter.before if name.startswith("teacher.")}
    model = {name for name in before if name.startswith("model.")}
    assert {name.removeprefix("teacher.") for name in teacher} == {
        name.removeprefix("model.") for name in model
    }
    for name in teacher:
        old = before[name.replace("teacher.", "model.", 1)]
        assert torch.equal(chapter.before[name], old)
        assert torch.equal(chapter.after[name], old)
    assert not any(name.startswith("teacher.") for name in diary.chapter(task, "tidy").after)
    assert not any("divergence_head" in name for name in diary.chapter(task, "tidy").after)
    assert any("divergence_head" in name for name in chapter.after)


def test_the_teacher_over_one_step(grown):
    method = grown([2, 3])
    set_learning(method, method.learns_in_training())
    before = {name: tensor.clone() for name, tensor in method.teacher.state_dict().items()}
    Update(method, method.config.training)(batch_of([0, 2, 3, 4]))
    assert all(torch.equal(tensor, before[name]) for name, tensor in method.teacher.state_dict().items())
    assert all(weight.grad is None and not weight.requires_grad for weight in method.teacher.parameters())
    assert not any(module.training for module in method.teacher.modules())
    assert not method.teach(batch_of([0, 1])).logits.requires_grad


def test_a_teacher_ignores_the_draws_of_its_student(grown):
    method = grown([2, 3])
    set_learning(method, method.learns_in_training())
    plain = batch_of([0, 1, 2])
    draws = method.model.draw(torch.Generator().manual_seed(0), 3)
    dropped = Batch(plain.images, plain.labels, plain.partners, plain.shares, draws)
    assert torch.equal(method.teach(dropped).logits, method.teach(plain).logits)


# The losses


def test_the_first_task_has_plain_binary_cross_entropy(diary, grown):
    for step in diary.chapter(0, "train").steps:
        (term,) = step.terms.values()
        assert list(step.terms) == ["clf"]
        assert (term.weight, term.count) == (1.0, len(step.batch.labels) * 2)
    method, batch = grown([4]), batch_of([3, 0, 1])
    output = method.model(batch.images)
    assert output.divergence is None
    targets = torch.eye(4)[[3, 0, 1]]
    term = method(batch)["clf"]
    torch.testing.assert_close(
        term.sum / term.count, binary_cross_entropy_with_logits(output.logits, targets)
    )


@pytest.mark.parametrize(("task", "alpha", "new"), [(1, 2 / 5, 3), (2, 5 / 7, 2)])
def test_the_terms_of_later_tasks(diary, task, alpha, new):
    seen = sum(INCREMENTS[: task + 1])
    for step in diary.chapter(task, "train").steps:
        rows = len(step.batch.labels)
        found = {name: (pytest.approx(term.weight), term.count) for name, term in step.terms.items()}
        assert found == {
            "clf": (1 - alpha, rows * seen),
            "kd": (alpha, rows * (seen - new)),
            "div": (0.1, rows * (new + 1)),
        }
    for step in diary.chapter(task, "finetune").steps:
        assert list(step.terms) == ["clf"]
        assert (step.terms["clf"].weight, step.terms["clf"].count) == (1.0, len(step.batch.labels) * seen)


def test_alpha_at_step_ten_of_ten(grown):
    terms = grown([10] * 10)(batch_of([0, 55, 99]))
    weights = {name: term.weight for name, term in terms.items()}
    assert weights == pytest.approx({"clf": 0.1, "kd": 0.9, "div": 0.1})


def test_the_scale_of_the_distillation_is_times_alpha(grown):
    method = grown([10] * 10, method={"distillation_scale": 4.0})
    assert method(batch_of([0, 55, 99]))["kd"].weight == pytest.approx(3.6)


def test_the_distillation_of_a_student_equal_to_its_teacher_is_zero(grown):
    """Right after the expansion the old logits are the teacher's."""
    method = grown([2, 3, 2])
    kd = method(batch_of([0, 3, 6]))["kd"]
    found = torch.autograd.grad(
        kd.sum, [method.model.encoder.tokenizer.pos_embed, method.model.tab.attn.q.weight]
    )
    assert abs(kd.sum.item()) < 1e-6
    assert all(gradient.abs().max() < 1e-5 for gradient in found)
    with torch.no_grad():
        method.model.task_tokens[0].neg_()
    assert method(batch_of([0, 3, 6]))["kd"].sum > 1e-4


def test_the_distillation_looks_at_old_logits_alone(grown):
    method = grown([2, 3])
    before = method(batch_of([0, 3]))["kd"].sum.item()
    with torch.no_grad():
        method.model.heads.tasks[1].linear.bias.add_(50.0)
    assert method(batch_of([0, 3]))["kd"].sum.item() == pytest.approx(before, abs=1e-6)


def test_the_temperature_reaches_the_distillation(grown):
    sums = []
    for temperature in (1.0, 4.0):
        method = grown([2, 3], method={"temperature": temperature})
        with torch.no_grad():
            method.model.task_tokens[0].neg_()
        sums.append(method(batch_of([0, 3]))["kd"].sum.item())
    assert sums[1] < sums[0] / 4


def test_the_distillation_as_a_mean_over_images(grown):
    """By default it is divided by the number of old classes too, here 5."""
    by_logit, by_image = grown([2, 3, 2]), grown([2, 3, 2], method={"distillation_mean": "images"})
    by_image.load_state_dict(by_logit.state_dict())
    images = batch_of([0, 2, 3, 4, 5, 6])
    perturbed = replace(by_logit.model(images.images), logits=torch.randn(6, 7))
    one, other = (each.losses(images, perturbed)["kd"] for each in (by_logit, by_image))
    torch.testing.assert_close(one.sum / one.count * 5, other.sum / other.count)


def test_the_prior_of_the_classes_is_added_to_the_logits_in_training(grown):
    """Balanced softmax: cross-entropy of z + log n_c / n."""
    softmax = {"activation": "softmax"}
    plain, balanced = grown([2, 1], loss=softmax), grown([2, 1], loss={**softmax, "prior": 1.0})
    balanced.load_state_dict(plain.state_dict())
    labels = torch.tensor([0, 0, 0, 1, 2, 2])
    balanced.count_classes(labels)
    images = batch_of([0, 1, 2, 0, 1, 2])
    output = plain.model(images.images)
    expected = cross_entropy(
        output.logits + torch.tensor([3 / 6, 1 / 6, 2 / 6]).log(), images.labels, reduction="sum"
    )
    torch.testing.assert_close(balanced.losses(images, output)["clf"].sum, expected)
    assert not torch.allclose(plain.losses(images, output)["clf"].sum, expected)


def test_a_prior_with_sigmoids_is_refused(tiny):
    with pytest.raises(UserError, match=r"loss\.prior 1 needs loss\.activation softmax"):
        tiny(loss={"activation": "sigmoid", "prior": 1.0})


def test_the_divergence_target_of_the_first_new_class_is_one(grown):
    """By the loss itself: the lower it is, the higher the right output."""
    method = grown([2, 3])
    head = method.model.divergence_head.linear
    with torch.no_grad():
        head.weight.zero_()
    for label, place in ((0, 0), (1, 0), (2, 1), (3, 2), (4, 3)):
        sums = []
        for output in range(4):
            with torch.no_grad():
                head.bias.copy_(torch.full((4,), -5.0)).index_fill_(0, torch.tensor(output), 5.0)
            sums.append(method(batch_of([label]))["div"].sum.item())
        assert min(range(4), key=sums.__getitem__) == place


def test_the_divergence_term_with_mixup_and_smoothing(grown):
    method = grown([2, 2], loss={"label_smoothing": 0.2})
    batch = mixed(batch_of([1, 3]), 0.75)
    output = method.model(batch.images)
    # smoothed: 0.05 for each of 4 classes, and 0.8 of the mixture 0.75 / 0.25
    targets = torch.tensor([[0.7, 0.05, 0.25], [0.3, 0.05, 0.65]])
    expected = binary_cross_entropy_with_logits(output.divergence, targets, reduction="sum")
    torch.testing.assert_close(method(batch)["div"].sum, expected)


def test_the_divergence_head_sees_the_new_embedding(grown):
    method = grown([2, 2, 2])
    div = method(batch_of([0, 5]))["div"].sum
    found = torch.autograd.grad(div, list(method.model.task_tokens))
    assert [bool(gradient.any()) for gradient in found] == [False, False, True]


def test_softmax_is_an_option_for_both_classifiers(grown):
    method = grown([2, 3], loss={"activation": "softmax"})
    terms = method(batch_of([0, 3, 4]))
    assert {name: term.count for name, term in terms.items()} == {"clf": 3, "kd": 6, "div": 3}
    output = method.model(batch_of([0, 3, 4]).images)
    expected = -output.divergence.log_softmax(dim=1)[torch.arange(3), torch.tensor([0, 2, 3])].sum()
    torch.testing.assert_close(terms["div"].sum, expected)


def test_an_embedding_is_independent_of_other_tokens_after_learning(run):
    model = run[0].method.model
    images = batch_of([0, 1]).images
    tokens = [token.clone().requires_grad_() for token in model.task_tokens]
    embeddings = model.tab(torch.cat(tokens), model.encoder(images).tokens)
    for i in range(3):
        found = torch.autograd.grad(embeddings[:, i].square().sum(), tokens, retain_graph=True)
        assert [bool(gradient.any()) for gradient in found] == [j == i for j in range(3)]


# The samples


def test_training_sees_every_new_image_and_every_exemplar_each_epoch(diary, made):
    for task in range(3):
        old, seen = sum(INCREMENTS[:task]), sum(INCREMENTS[: task + 1])
        parts = [made(old, seen).images]
        if task:
            parts.append(diary.chapter(task - 1, "memory").memory["images"])
        whole = Batch.plain((torch.cat(parts) / 255 - 0.5) / 0.5, torch.zeros(0))
        expected = images_of([type("Step", (), {"batch": whole})])
        for epoch in range(2):
            steps = [step for step in diary.chapter(task, "train").steps if step.epoch == epoch]
            torch.testing.assert_close(images_of(steps), expected)


@pytest.mark.parametrize("task", [1, 2])
def test_finetuning_visits_every_class_of_the_balanced_memory_each_epoch(diary, task):
    memory = diary.chapter(task, "memory").memory
    seen = sum(INCREMENTS[: task + 1])
    assert torch.bincount(memory["labels"]).tolist() == [14 // seen] * seen  # the new classes are in it
    for epoch in range(2):
        steps = [step for step in diary.chapter(task, "finetune").steps if step.epoch == epoch]
        labels = torch.cat([step.batch.labels for step in steps])
        assert torch.bincount(labels).tolist() == [14 // seen] * seen
        assert labels.tolist() != sorted(labels.tolist())  # shuffled
    assert all(step.batch.phase == "finetune" for step in diary.chapter(task, "finetune").steps)


def test_the_memory_is_selected_before_finetuning_and_stays(diary):
    for task in (1, 2):
        selected, kept = diary.chapter(task, "memory").memory, diary.chapter(task, "finetune").memory
        assert all(torch.equal(selected[name], kept[name]) for name in selected)


def test_the_memory_shrinks_to_a_prefix(diary):
    for task in (1, 2):
        before, after = (diary.chapter(each, "memory").memory for each in (task - 1, task))
        for label in range(sum(INCREMENTS[:task])):
            had, has = (each["images"][each["labels"] == label] for each in (before, after))
            assert torch.equal(has, had[: len(has)])


def test_mixup_is_on_in_finetuning_too(taught):
    _, diary = taught("dytox", increments=(2, 2), augment={"mixup": 0.8})
    for name in ("train", "finetune"):
        for step in diary.chapter(1, name).steps:
            assert 0 < step.batch.shares[0] < 1


def test_asam_is_off_in_the_first_task_and_in_finetuning(taught):
    _, diary = taught("dytox", increments=(2, 2), sam={"rho": 3.0})
    passes = [(each.task, each.name, step.passes) for each in diary.chapters for step in each.steps]
    assert set(passes) == {(0, "train", 1), (1, "train", 2), (1, "finetune", 1)}


def test_asam_in_every_phase_and_task_where_it_is_asked_for(taught):
    sam = {"rho": 3.0, "skip_first": False, "phases": ["train", "finetune"]}
    _, diary = taught("dytox", increments=(2, 2), sam=sam)
    assert {step.passes for each in diary.chapters for step in each.steps} == {2}


# The options


def terms_of(diary, task: int, phase: str = "train") -> list[str]:
    (names,) = {tuple(step.terms) for step in diary.chapter(task, phase).steps}
    return list(names)


def test_without_distillation(taught):
    _, diary = taught(increments=(2, 2), method={"distillation": False})
    assert "teacher" not in diary.phases(1)
    assert terms_of(diary, 1) == ["clf", "div"]
    assert diary.chapter(1, "train").steps[0].terms["clf"].weight == 1.0
    assert not any(name.startswith("teacher") for name in diary.chapter(1, "train").before)


def test_without_divergence(taught):
    _, diary = taught(increments=(2, 2), method={"divergence": 0.0})
    assert terms_of(diary, 1) == ["clf", "kd"]
    assert not any("divergence" in name for name in diary.chapter(1, "train").before)


def test_the_weight_of_the_divergence(taught):
    _, diary = taught(increments=(2, 2), method={"divergence": 0.7})
    assert diary.chapter(1, "train").steps[0].terms["div"].weight == 0.7


def test_without_finetuning(taught):
    _, diary = taught(increments=(2, 2), method={"finetuning": False})
    assert diary.phases(1) == ["teacher", "expand", "train", "tidy", "memory"]


def test_without_memory_there_is_nothing_to_finetune_on(taught):
    learner, diary = taught(increments=(2, 2), memory={"size": 0})
    assert "finetune" not in diary.phases(1)
    assert len(learner.memory) == 0
    labels = torch.cat([step.batch.labels for step in diary.chapter(1, "train").steps])
    assert labels.unique().tolist() == [2, 3]


def test_without_independent_heads(taught):
    """A token a task, one classifier over all embeddings, whose old rows and norms stay in training."""
    learner, diary = taught(increments=(2, 3), method={"independent_heads": False})
    model = learner.method.model
    assert model.tokens().shape == (2, 12)
    assert [block.weight.shape for block in model.heads.tasks] == [(2, 24), (3, 24)]
    training, finetuning = diary.chapter(1, "train"), diary.chapter(1, "finetune")
    for part in ("model.heads.tasks.0", "model.heads.norms.0", "model.task_tokens.0"):
        assert not any(training.moved(part).values())
        assert all(finetuning.moved(part).values())
    for part in ("model.heads.tasks.1", "model.heads.norms.1", "model.task_tokens.1"):
        assert all(training.moved(part).values())
    assert not training.after["model.heads.tasks.0.weight"][:, 12:].any()
    assert finetuning.after["model.heads.tasks.0.weight"][:, 12:].any()
    assert terms_of(diary, 1) == ["clf", "kd", "div"]


def test_without_token_expansion(taught):
    """One token, one classifier: the token goes on learning."""
    learner, diary = taught(increments=(2, 3), method={"token_expansion": False, "independent_heads": False})
    model = learner.method.model
    assert model.tokens().shape == (1, 12)
    assert [block.weight.shape for block in model.heads.tasks] == [(2, 12), (3, 12)]
    assert model(batch_of([0]).images).embeddings.shape == (1, 1, 12)
    training = diary.chapter(1, "train")
    assert training.moved("model.task_tokens.0")["model.task_tokens.0"]
    assert not any(training.moved("model.heads.tasks.0").values())
    assert all(training.moved("model.heads.norms.0").values())


def test_with_everything(taught):
    learner, diary = taught(increments=(2, 3))
    model = learner.method.model
    assert model.tokens().shape == (2, 12)
    assert [head.linear.weight.shape for head in model.heads.tasks] == [(2, 12), (3, 12)]
    assert terms_of(diary, 1) == ["clf", "kd", "div"]


def test_heads_without_tokens_are_refused(tiny):
    with pytest.raises(UserError, match=r"method.independent_heads needs method.token_expansion"):
        ContinualLearner(tiny(method={"token_expansion": False}))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"distilation": True}, "did you mean 'method.distillation'"),
        ({"divergence": -1.0}, "method.divergence"),
        ({"temperature": 0.0}, "method.temperature"),
        ({"finetuning": "maybe"}, "method.finetuning"),
    ],
)
def test_wrong_options_are_refused(tiny, option, message):
    with pytest.raises(UserError, match=message):
        ContinualLearner(tiny(method=option))


def test_what_a_report_shows(run):
    shown = run[0].method.introspect(batch_of([0, 1]).images)
    distances = shown["token_distances"]
    assert distances.shape == (3, 3)
    assert torch.equal(distances, distances.T)
    assert (distances.diagonal() == 0).all()
    tokens = run[0].method.model.tokens()
    torch.testing.assert_close(distances[0, 2], (tokens[0] - tokens[2]).norm())
    assert shown["attention"].shape == (2, 3, 4)


def test_phases_know_nothing_but_config_and_task(tiny):
    method = DyToxMethod(tiny())
    names = [[phase.name for phase in method.phases(Task(3, 6, 2))] for _ in range(2)]
    assert names[0] == names[1] == ["teacher", "expand", "train", "tidy", "memory", "finetune"]


def test_what_belongs_to_old_tasks_may_learn_in_training(grown):
    frozen, free = grown([2, 2]), grown([2, 2], method={"freeze_old": False})
    for method, learns in ((frozen, False), (free, True)):
        set_learning(method, method.learns_in_training())
        old = [method.model.task_tokens[0], method.model.heads.tasks[0].linear.weight]
        assert all(weight.requires_grad == learns for weight in old)


def test_the_weight_of_the_classification_without_alpha(grown):
    method = grown([10] * 10, method={"alpha": False, "distillation_scale": 2.0})
    weights = {name: term.weight for name, term in method(batch_of([0, 55, 99])).items()}
    assert weights == pytest.approx({"clf": 1.0, "kd": 1.8, "div": 0.1})
