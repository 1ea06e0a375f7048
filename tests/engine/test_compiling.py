"""Compiled parts: the same result, and nothing compiled again because a model grew."""

from __future__ import annotations

import copy

import torch

from dytox.engine import compiling
from dytox.methods.dytox import DyToxMethod


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
