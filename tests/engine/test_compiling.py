"""Compiled parts: the same result, and nothing compiled again because a model grew."""

from __future__ import annotations

import copy

import pytest
import torch

from dytox.bench import plain
from dytox.bench.steps import Ours, Plain, evaluating, grown, some_batch, training_step
from dytox.engine import compiling
from dytox.engine.compiling import is_compiled
from dytox.engine.phase import set_learning
from dytox.methods.dytox import DyToxMethod
from dytox.models.cached import cached, frozen

CPU = torch.device("cpu")


@pytest.fixture
def traced(monkeypatch):
    """Forward and backward are traced as for any compiler, and what was traced is run as it is."""
    monkeypatch.setattr(compiling, "BACKEND", "aot_eager")
    yield
    torch.compiler.reset()


def test_growing_compiles_at_most_once_a_task(tiny, monkeypatch):
    """One token and several are two cases for the TAB; the encoder, and a copy of all of it, are none."""
    compiled, used = [], []

    def backend(graph, inputs):
        compiled.append(graph)

        def run(*values):
            used.append(graph)
            return graph.forward(*values)

        return run

    monkeypatch.setattr(compiling, "BACKEND", backend)
    method = DyToxMethod(tiny(model={"depth": 1})).train()
    images, counts = torch.randn(4, 3, 8, 8), []
    for classes in (2, 3, 2, 4):
        method = copy.deepcopy(method)  # as a learner does for each task
        method.model.expand(classes)
        draws = method.model.draw(torch.Generator().manual_seed(0), 4)
        expected = method.model(images, draws).logits
        compiling.compile_parts(method)
        compiling.compile_parts(method)  # not twice
        before = len(compiled), len(used)
        torch.testing.assert_close(method.model(images, draws).logits, expected, atol=1e-5, rtol=1e-5)
        counts.append(len(compiled) - before[0])
        assert len(used) - before[1] == 2  # encoder and TAB, as compiled
    torch.compiler.reset()
    assert counts == [2, 1, 0, 0]


def test_compiled_learning_is_plain_learning(tiny, traced):
    """Losses and gradients within 1e-5 of the paper's formulation, of a training step and of finetuning.

    Compiled code also serves where something is cached: the teacher, and then the frozen encoder.
    """
    config = tiny(model={"depth": 1}, runtime={"compile": True})
    found = []
    for kind in (Plain, Ours):
        method = grown(kind, config, 2, CPU)
        batch = some_batch(method, 6)
        with training_step(method, batch) as step:
            assert [is_compiled(part) for part in parts(method)] == [kind is Ours] * 4
            found.append([step(), gradients(method)])
        method.tidy(None)
        method.zero_grad()
        set_learning(method, method.learns_in_finetuning())
        with cached(frozen(method.modules())):
            assert method.model.encoder.sabs[0].attn.cache is not None
            see = plain.forward if kind is Plain else type(method.model).__call__
            loss = DyToxMethod.losses(method, batch, see(method.model, batch.images, batch.draws))["clf"].sum
        loss.backward()
        found[-1] += [loss, gradients(method)]
    assert found[1][0].keys() == {"clf", "kd", "div", "total"}
    assert found[1][1].keys() >= {"model.encoder.tokenizer.proj.weight", "model.tab.attn.q.weight"}
    assert not any("encoder" in name for name in found[1][3])
    torch.testing.assert_close(found[1], found[0], atol=1e-5, rtol=1e-5)


def test_evaluation_is_measured_as_compiled(tiny):
    """Where `dytox bench` is asked to: ours, and never the plain form."""
    for kind in (Plain, Ours):
        method = grown(kind, tiny(runtime={"compile": True}), 1, CPU)
        with evaluating(method, some_batch(method, 2).images):
            assert [is_compiled(part) for part in parts(method)] == [kind is Ours] * 4


def parts(method):
    """What is compiled of the model and of its teacher."""
    return [*method.model.constant_parts(), *method.teacher.constant_parts()]


def gradients(method):
    """Of what learns, by name."""
    return {name: each.grad for name, each in method.named_parameters() if each.grad is not None}
