"""From patch tokens to one embedding a task (sections 3.2 and 3.3)."""

from __future__ import annotations

from torch import Tensor, nn

from dytox.models.attention import TaskAttention
from dytox.models.encoders import Mlp, dropped


class TaskAttentionBlock(nn.Module):
    """TAB (eq. 4), for all task tokens in one pass: e_i = TAB([θ_i, x_L]) for every i (eq. 7)."""

    def __init__(self, *, dim: int, heads: int, mlp_ratio: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = TaskAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = Mlp(dim, int(dim * mlp_ratio))

    def forward(self, tokens: Tensor, patches: Tensor, keep: Tensor | None = None) -> Tensor:
        """tokens (tasks, dim), patches (batch, N, dim), keep (batch, tasks, 2) -> (batch, tasks, dim)."""
        attention_keep, mlp_keep = (None, None) if keep is None or not self.training else keep.unbind(dim=2)
        e = tokens + dropped(self.attn(self.norm1(tokens), self.norm1(patches)), attention_keep)
        return e + dropped(self.mlp(self.norm2(e)), mlp_keep)

    def attention(self, tokens: Tensor, patches: Tensor) -> Tensor:
        """Where each task token looks, averaged over the heads: (batch, tasks, patches)."""
        return self.attn.weights(self.norm1(tokens), self.norm1(patches))[..., 1:].mean(dim=1)
