"""The parts of an evaluation pass: each kind of work timed alone, beside the bound of this machine.

The bound of matrix products is the speed of the linear layers' products alone; that of work which touches
every value once is a copy of as many bytes. Both are measured in the same run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from dytox.bench.steps import Ours, evaluating, grown, some_batch
from dytox.bench.timing import Settings, by_part, interleaved, peak
from dytox.checking import merge
from dytox.config import Config
from dytox.engine.precision import autocast
from dytox.models.attention import (
    GatedPositionalSelfAttention,
    SelfAttention,
    merge_heads,
    split_heads,
)
from dytox.models.decoders import TaskAttentionBlock
from dytox.models.transformer import SelfAttentionBlock, TransformerEncoder


class Part(NamedTuple):
    """A kind of work, how often a pass does it, and its operations or the bytes that it moves each time."""

    work: Callable[[], object]
    times: int
    operations: float = 0.0
    moved: int = 0  # read and written


def of_parts(config: Config, settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure a pass at one task and its parts: the share of each and how near it is to its bound."""
    say("the parts of an evaluation pass, in turn")
    config = Config.model_validate(merge(config.model_dump(), {"runtime": {"compile": False}}))
    method = grown(Ours, config, 1, settings.device)
    images = some_batch(method, settings.batch).images
    multiply, amount = peak(config, settings.batch, settings.device, torch.float32)
    with evaluating(method, images) as see, torch.no_grad(), autocast(method):
        parts = parts_of(method, images)
        work = {name: part.work for name, part in parts.items()}
        copies = {f"copy: {name}": _copying(part.moved, images) for name, part in parts.items() if part.moved}
        functions = {"pass": see, "products": multiply, **work, **copies}
        found = interleaved(functions, 3 * settings.repeats, settings.device)
    speed = amount / found["products"].median
    rows = list[dict[str, Any]]()
    for name, part in parts.items():
        seconds = part.times * found[name].median
        alone = found[f"copy: {name}"].median if part.moved else part.operations / speed
        rows.append(
            {
                "part": name,
                "seconds": seconds,  # of a pass
                "share": seconds / found["pass"].median,
                "spread": found[name].spread,
                "bounded_by": "copying" if part.moved else "products",
                "bound": part.times * alone,  # in seconds
                "of_bound": part.times * alone / seconds,
            }
        )
    return {
        "evaluation": found["pass"].rate(settings.batch),
        "products_per_second": speed,
        "bytes_per_second": parts["GELU"].moved / found["copy: GELU"].median,  # the largest of the copies
        "rows": rows,
        "rest": 1 - sum(row["share"] for row in rows),
    }


def parts_of(method: Ours, images: Tensor) -> dict[str, Part]:
    """Return the parts, with the model's own weights and shapes."""
    encoder, tab, heads = method.model.encoder, method.model.tab, method.model.heads
    assert isinstance(encoder, TransformerEncoder)
    assert isinstance(tab, TaskAttentionBlock)
    x, (tokens, queries) = encoder.tokenizer(images), method.model.constants()
    tokenizer, _, decoder = (len(images) * each for each in by_part(method.config, 1))
    return {
        **_of_sabs(encoder, x),
        "tokenizer": Part(lambda: encoder.tokenizer(images), 1, tokenizer),
        "TAB and heads": Part(lambda: heads(tab(tokens, x, None, queries)), 1, decoder),
    }


def _of_sabs(encoder: TransformerEncoder, x: Tensor) -> dict[str, Part]:
    sab, depth = encoder.sabs[0], len(encoder.sabs)
    assert isinstance(sab, SelfAttentionBlock)
    attention, mlp = sab.attn, sab.mlp
    wide = mlp[0](x)  # (batch, N, hidden)
    pairs = [(attention.qk, x), (attention.v, x), (attention.proj, x), (mlp[0], x), (mlp[2], wide)]
    operations = sum(2.0 * value.numel() * layer.out_features for layer, value in pairs)
    branch = torch.randn_like(x)
    return {
        "linear layers": Part(lambda: [layer(value) for layer, value in pairs], depth, operations),
        **_of_attention(attention, x, depth),
        "GELU": Part(lambda: mlp[1](wide), depth, moved=2 * _bytes(wide)),
        "norms": Part(lambda: sab.norm1(x), 2 * depth, moved=2 * _bytes(x)),
        "residual sums": Part(lambda: x + branch, 2 * depth, moved=3 * _bytes(x)),
    }


def _of_attention(attention: SelfAttention, x: Tensor, depth: int) -> dict[str, Part]:
    assert isinstance(attention, GatedPositionalSelfAttention)
    q, k = (split_heads(each, attention.heads) for each in attention.qk(x).chunk(2, dim=-1))
    v = split_heads(attention.v(x), attention.heads)
    by_content = scaled_dot_product_attention(q, k, v)
    by_head, maps = v.permute(1, 2, 0, 3).contiguous().flatten(2), attention.constants()
    by_position = torch.bmm(maps, by_head).unflatten(2, (len(x), -1)).permute(2, 0, 1, 3)
    gate, product = torch.sigmoid(attention.gate).view(-1, 1, 1), 2.0 * x.numel() * x.shape[1]  # 2 N² d each
    return {
        "attention by content": Part(lambda: scaled_dot_product_attention(q, k, v), depth, 2 * product),
        "attention by position": Part(lambda: torch.bmm(maps, by_head), depth, product),
        "values, head by head": Part(lambda: v.permute(1, 2, 0, 3).contiguous(), depth, moved=2 * _bytes(v)),
        "gate": Part(
            lambda: merge_heads(torch.lerp(by_content, by_position, gate)), depth, moved=3 * _bytes(v)
        ),
    }


def _copying(moved: int, like: Tensor) -> Callable[[], object]:
    source, target = torch.ones(2, moved // 8, dtype=torch.float32, device=like.device)  # 4 bytes each way
    return lambda: target.copy_(source)


def _bytes(values: Tensor) -> int:
    return values.numel() * values.element_size()
