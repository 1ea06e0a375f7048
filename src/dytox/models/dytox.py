"""The DyTox transformer (section 3): one encoder, one decoder, a token and a classifier a task."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from dytox.models import slots
from dytox.models.attention import Queries
from dytox.models.base import ContinualModel, Output
from dytox.models.decoders import Kind, PerTask, TaskAttentionBlock, make_decoder
from dytox.models.encoders import Attention, TransformerEncoder
from dytox.models.heads import Head, IndependentHeads, SingleHead
from dytox.models.original import translate
from dytox.models.prepared import Preparing


class DyTox(ContinualModel, Preparing[tuple[Tensor, Queries | None]]):
    """ŷ_i = Clf_i(TAB([θ_i, SABs(x)])) for every task i learned so far (algorithm 1).

    The ablations: without `token_expansion` there is one token for all tasks, without `independent_heads`
    one classifier over all embeddings. With `divergence` each task after the first has a second classifier
    on its own embedding, for training only, whose class 0 stands for all older classes. An `encoder` of
    one's own, (images, keep) -> (batch, tokens, dim), takes the place of the SABs, another `decoder` that of
    the TAB (`models/decoders.py`).
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
        decoder: Kind = "tab",
        encoder: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if image_size % patch_size:
            raise ValueError(f"image size {image_size} is not a multiple of patch size {patch_size}")
        if dim % heads:
            raise ValueError(f"dim {dim} is not a multiple of heads {heads}")
        if independent_heads and not token_expansion:
            raise ValueError("independent heads need a token a task")
        self.dim, self.token_expansion, self.divergence = dim, token_expansion, divergence
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
        self.tab = make_decoder(decoder, dim=dim, heads=heads, mlp_ratio=mlp_ratio)
        self.task_tokens = nn.ParameterList()  # θ_i, each (1, dim)
        self.heads = IndependentHeads(dim) if independent_heads else SingleHead(dim)
        self.divergence_head: Head | None = None
        self.drop_rates = torch.linspace(0, drop_path, depth + 1)  # the SABs', then the TAB's

    def expand(self, classes: int) -> None:
        """A new task: its token, its classifier and, from the second task on, its divergence classifier."""
        like = next(self.parameters(), torch.empty(0))
        if self.token_expansion or not self.task_tokens:
            self._add_token()
        if isinstance(self.heads, SingleHead):
            self.heads.expand(classes, embeddings=len(self.task_tokens))
        else:
            self.heads.expand(classes)
        self.divergence_head = Head(self.dim, classes + 1) if self.divergence and self.increments else None
        self.increments.append(classes)
        self.to(device=like.device, dtype=like.dtype)

    def _add_token(self) -> None:
        self.task_tokens.append(nn.Parameter(self.tab.new_token()))
        if isinstance(self.tab, PerTask):
            self.tab.expand()

    def forget(self, places: Collection[int]) -> None:
        """Without these classes; a task left empty loses its token where heads are independent."""
        assert self.divergence_head is None, "forgetting is not for the middle of a task"
        empty = self.heads.forget(places)
        self.increments = [layer.out_features for layer in self.heads.linears()]
        if isinstance(self.heads, IndependentHeads):
            left = [token for task, token in enumerate(self.task_tokens) if task not in empty]
            self.task_tokens = nn.ParameterList(left)
            if isinstance(self.tab, PerTask):
                self.tab.forget(empty)

    def drop_divergence_head(self) -> None:
        """It serves training alone."""
        self.divergence_head = None

    def tokens(self) -> Tensor:
        """θ_1 … θ_t as one tensor (tasks, dim); zeros in the place of a task that was forgotten."""
        tokens = list(self.task_tokens)
        if isinstance(self.heads, IndependentHeads):
            return self.heads.fill(tokens).flatten(0, 1)
        return torch.cat(tokens)

    def prepare(self) -> tuple[Tensor, Queries | None]:
        """The task tokens, and what they bring to the TAB."""
        tokens = self.tokens()
        return tokens, self.tab.queries(tokens) if isinstance(self.tab, TaskAttentionBlock) else None

    def forward(self, images: Tensor, draws: Mapping[str, Tensor] | None = None) -> Output:
        """Normalised images (batch, 3, height, width) as logits of all classes seen, and embeddings.

        `draws`, from `draw`, are what DropPath keeps in training; without them it keeps all.
        """
        draws = draws or {}
        patches = self.encoder(images, draws.get("sab_keep"))  # x_L (batch, patches, dim)
        embeddings = self._embed(patches, draws.get("tab_keep"))  # e_i (batch, tasks, dim)
        divergence = None if self.divergence_head is None else self.divergence_head(embeddings[:, -1])
        return Output(self.heads(embeddings), embeddings, divergence)

    def _embed(self, patches: Tensor, keep: Tensor | None) -> Tensor:
        tokens, queries = self.prepared()
        if isinstance(self.tab, PerTask):
            return self.tab(tokens, patches, keep, self._filled())
        return (
            self.tab(tokens, patches, keep) if queries is None else self.tab(tokens, patches, keep, queries)
        )

    def _filled(self) -> list[int]:
        """The places of the tokens whose task was not forgotten."""
        if isinstance(self.heads, SingleHead):
            return list(range(len(self.task_tokens)))
        return [place for place, slot in enumerate(self.heads.slots) if slot.rows]

    def attention(self, images: Tensor) -> Tensor | None:
        """Where each task token looks: (batch, tasks, patches); None where the decoder has no attention."""
        patches = self.encoder(images)
        if isinstance(self.tab, PerTask):
            return self.tab.attention(self.tokens(), patches, self._filled())
        return self.tab.attention(self.tokens(), patches)

    def newest_decoder(self) -> nn.Module:
        """What of the decoder a new task trains: all of one that is shared, else its own."""
        return self.tab.tasks[-1] if isinstance(self.tab, PerTask) else self.tab

    def draw(self, generator: torch.Generator, batch: int) -> dict[str, Tensor]:
        """DropPath: per image, block and branch; in the TAB per task too, as in one-by-one passes."""
        if not self.drop_rates.any():
            return {}
        depth, tasks = len(self.drop_rates) - 1, len(self.tokens())
        sab_rates, tab_rate = self.drop_rates[:depth, None], self.drop_rates[depth]
        sab = torch.rand(batch, depth, 2, generator=generator) >= sab_rates
        tab = torch.rand(batch, tasks, 2, generator=generator) >= tab_rate
        return {"sab_keep": sab / (1 - sab_rates), "tab_keep": tab / (1 - tab_rate)}

    def constant_parts(self) -> list[nn.Module]:
        """The encoder, and the decoder where only the number of its tokens grows."""
        return [self.encoder] if isinstance(self.tab, PerTask) else [self.encoder, self.tab]

    def structure(self) -> dict[str, Any]:
        """The tasks, and whether the divergence head is still there."""
        gaps = slots.to_json(self.heads.slots)
        tokens = {} if isinstance(self.heads, IndependentHeads) else {"tokens": len(self.task_tokens)}
        return {**super().structure(), "divergence": self.divergence_head is not None, **gaps, **tokens}

    def rebuild(self, structure: Mapping[str, Any]) -> None:
        """Grows to this structure."""
        super().rebuild(structure)
        if not structure["divergence"]:
            self.drop_divergence_head()
        self.heads.rebuild(structure)
        if isinstance(self.heads, SingleHead):  # of forgotten tasks only the tokens are left
            for _ in range(len(self.task_tokens), structure["tokens"]):
                self._add_token()
            self.heads.widen(len(self.task_tokens))

    def count_parameters(self) -> int:
        """Without the divergence head, which is not needed to predict."""
        head = self.divergence_head
        extra = sum(p.numel() for p in head.parameters()) if head is not None else 0
        return super().count_parameters() - extra

    @classmethod
    def from_original(cls, state: Mapping[str, Tensor], *, image_size: int, heads: int) -> DyTox:
        """The model of a state dict of the authors' code."""
        shape, weights = translate(state)
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
