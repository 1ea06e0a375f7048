"""The DyTox transformer (section 3): one encoder, one decoder, a token and a classifier for each task."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from dytox.models.attention import Queries
from dytox.models.base import ContinualModel, Encoder, Output
from dytox.models.cached import Cached
from dytox.models.decoders import make_decoder
from dytox.models.heads import IndependentHeads, SingleHead, TaskHead, TokenHeads
from dytox.models.original import translate_original
from dytox.models.transformer import Attention, TransformerEncoder

MOST_TOKENS = 10_000


class DyTox(ContinualModel, Cached[tuple[Tensor, Queries | None]]):
    """ŷ_i = Clf_i(TAB([θ_i, SABs(x)])) for every task i learned so far (algorithm 1).

    The ablations: without `token_expansion` there is one token for all tasks, without `independent_heads`
    one classifier over all embeddings. With `divergence` each task after the first has a second classifier
    on its own embedding, for training only, whose class 0 stands for all older classes. An `encoder` given
    here takes the place of the SABs, another `decoder` that of the TAB (`models/decoders.py`).
    """

    def __init__(
        self,
        *,
        image_size: int,
        patch_size: int = 4,
        dim: int = 384,
        heads: int = 12,
        depth: int = 5,
        attention: Attention = "gpsa",
        mlp_ratio: float = 4.0,
        drop_path: float = 0.1,
        locality_strength: float = 1.0,
        token_expansion: bool = True,
        independent_heads: bool = True,
        divergence: bool = True,
        decoder: str = "tab",
        encoder: Encoder | None = None,
    ) -> None:
        super().__init__()
        if independent_heads and not token_expansion:
            raise ValueError("independent heads need a token for each task")
        self.encoder = encoder or TransformerEncoder(
            image_size=image_size,
            patch_size=patch_size,
            dim=dim,
            heads=heads,
            depth=depth,
            attention=attention,
            mlp_ratio=mlp_ratio,
            locality_strength=locality_strength,
        )
        self.dim, self.token_expansion, self.divergence = self.encoder.dim, token_expansion, divergence
        if self.dim % heads:
            raise ValueError(f"dim {self.dim} is not a multiple of heads {heads}")
        self.tab = make_decoder(decoder, dim=self.dim, heads=heads, mlp_ratio=mlp_ratio)
        self.task_tokens = nn.ParameterList()  # θ_i, each (1, dim)
        self.heads: TokenHeads = IndependentHeads(self.dim) if independent_heads else SingleHead(self.dim)
        self.divergence_head: TaskHead | None = None
        self.drop_rates = torch.linspace(0, drop_path, depth + 1)  # of each SAB, then of the TAB

    def grow(self, classes: int) -> None:
        """Add a token, a classifier and, from the second task on, a divergence classifier."""
        if self.token_expansion or not self.task_tokens:
            self._add_token()
        self.heads.expand(classes, embeddings=len(self.task_tokens))
        later = self.divergence and self.sizes
        self.divergence_head = TaskHead(self.dim, classes + 1) if later else None

    def _add_token(self) -> None:
        self.task_tokens.append(nn.Parameter(self.tab.new_token()))
        self.tab.expand()

    def erase(self, outputs: Collection[int]) -> None:
        """Also set the token and the decoder of a task to zero if no output uses its embedding any more."""
        assert self.divergence_head is None, "forgetting is not for the middle of a task"
        unused = self.heads.forget(outputs)
        self.tab.forget(unused)
        with torch.no_grad():
            for task in unused:
                self.task_tokens[task].zero_()

    def newest(self) -> Iterable[nn.Module | nn.Parameter]:
        head = [] if self.divergence_head is None else [self.divergence_head]
        return [self.encoder, self.tab.newest(), self.task_tokens[-1], *self.heads.newest(), *head]

    def block_weights(self, block: int) -> Iterable[Tensor]:
        yield from self.heads.tasks[block].parameters()
        if len(self.task_tokens) == len(self.sizes):
            yield self.task_tokens[block]
            yield from self.tab.block_weights(block)

    def put_encoder(self, encoder: Encoder) -> None:
        self.encoder = encoder

    def encoder_parts(self) -> list[nn.Module]:
        return [self.encoder]

    def constant_parts(self) -> list[nn.Module]:
        """The encoder, and the decoder if only the number of its tokens grows."""
        return [self.encoder, *self.tab.constant_parts()]

    def drop_divergence_head(self) -> None:
        """Remove the divergence head, which is for training only."""
        self.divergence_head = None

    def tokens(self) -> Tensor:
        """θ_1 … θ_t as one tensor (tasks, dim)."""
        return torch.cat(list(self.task_tokens))

    def compute_constants(self) -> tuple[Tensor, Queries | None]:
        """The task tokens, and what they bring to the decoder."""
        tokens = self.tokens()
        return tokens, self.tab.prepare(tokens)

    def forward(self, images: Tensor, draws: Mapping[str, Tensor] | None = None) -> Output:
        """Compute logits of all classes seen, and embeddings, of normalised images (batch, 3, height, width).

        `draws`, from `draw`, say which branches DropPath keeps in training; without them all are kept.
        """
        draws = draws or {}
        patches = self.encoder(images, draws.get("sab_keep")).tokens  # x_L (batch, patches, dim)
        tokens, queries = self.constants()
        embeddings = self.tab(tokens, patches, draws.get("tab_keep"), queries)  # e_i (batch, tasks, dim)
        divergence = None if self.divergence_head is None else self.divergence_head(embeddings[:, -1])
        return Output(self.select(self.heads(embeddings)), embeddings, divergence)

    def encode(self, images: Tensor) -> Tensor:
        return self.encoder(images).tokens

    def attention(self, images: Tensor) -> Tensor | None:
        """Where each task token looks: (batch, tasks, patches); None if the decoder has no attention."""
        return self.tab.attention(self.tokens(), self.encoder(images).tokens)

    def draw(self, generator: torch.Generator, batch: int) -> dict[str, Tensor]:
        """Draw DropPath for each image, block and branch; in the TAB also for each task.

        That is as if the tasks passed through the TAB one by one.
        """
        if not self.drop_rates.any():
            return {}
        depth, tasks = len(self.drop_rates) - 1, len(self.task_tokens)
        sab_rates, tab_rate = self.drop_rates[:depth, None], self.drop_rates[depth]
        sab = torch.rand(batch, depth, 2, generator=generator) >= sab_rates
        tab = torch.rand(batch, tasks, 2, generator=generator) >= tab_rate
        return {"sab_keep": sab / (1 - sab_rates), "tab_keep": tab / (1 - tab_rate)}

    def structure(self) -> dict[str, Any]:
        """The tasks, the number of tokens, and whether the divergence head is still there."""
        head = self.divergence_head is not None
        return {**super().structure(), "divergence": head, "tokens": len(self.task_tokens)}

    def rebuild(self, structure: Mapping[str, Any]) -> None:
        super().rebuild(structure)
        if not structure["divergence"]:
            self.drop_divergence_head()
        tokens = structure.get(
            "tokens", len(self.task_tokens)
        )  # a single head may have more tokens than tasks
        if type(tokens) is not int or not len(self.task_tokens) <= tokens <= MOST_TOKENS:
            raise ValueError("its task tokens do not fit its tasks")
        while len(self.task_tokens) < tokens:
            self._add_token()
        if tokens:
            self.heads.widen(tokens)

    def count_parameters(self) -> int:
        """Without the divergence head, which is not needed to predict."""
        head = self.divergence_head
        extra = sum(p.numel() for p in head.parameters()) if head is not None else 0
        return super().count_parameters() - extra

    @classmethod
    def from_original(cls, state: Mapping[str, Tensor], *, image_size: int, heads: int) -> DyTox:
        """The model of a state dict of the authors' code."""
        shape, weights = translate_original(state)
        model = cls(
            image_size=image_size,
            patch_size=shape.patch_size,
            dim=shape.dim,
            heads=heads,
            depth=shape.depth,
            mlp_ratio=shape.mlp_ratio,
        )
        model.rebuild({"increments": shape.increments, "divergence": shape.divergence})
        model.load_state_dict(weights)
        return model
