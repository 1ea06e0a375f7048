"""One update of the weights, with the only backward() of the package.

Optimisers, sharpness-aware minimisation, mixed precision, clipping and several processes are handled here for
every method.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from dytox.config import OptimizerConfig, PhaseConfig, SamConfig
from dytox.data.loader import Batch
from dytox.engine.averaging import Average
from dytox.engine.distributed import World
from dytox.engine.looksam import LookSam, gradients
from dytox.engine.method import Method
from dytox.engine.moment import Moment
from dytox.engine.precision import Scaler, autocast
from dytox.engine.schedule import learning_rate
from dytox.errors import UserError
from dytox.losses import Term

# What the names of their tensors in the state begin with; REST is everything but the encoder.
REST, ENCODER, SCALER, LOOKSAM, AVERAGE = "", "encoder.", "scaler.", "looksam.", "average."


def make_optimizer(
    parameters: list[nn.Parameter], config: OptimizerConfig, lr: float
) -> torch.optim.Optimizer:
    """Make an optimiser; it decays 1-D parameters (norms, biases, gates) only if the config says so."""
    decayed = [p for p in parameters if p.ndim > 1 or config.decay_vectors]
    vectors = [p for p in parameters if not (p.ndim > 1 or config.decay_vectors)]
    groups = [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if config.name == "sgd":
        return torch.optim.SGD(groups, lr=lr, momentum=config.momentum, nesterov=config.nesterov, fused=True)
    betas = (config.betas[0], config.betas[1])
    return torch.optim.AdamW(groups, lr=lr, betas=betas, eps=config.eps, fused=True)


def make_optimizers(method: Method, phase: PhaseConfig) -> dict[str, torch.optim.Optimizer]:
    """Make the optimisers of a phase: one for everything, or one for the encoder and one for the rest."""
    learning = [p for p in method.parameters() if p.requires_grad]
    if phase.encoder is None:
        return {REST: make_optimizer(learning, phase.optimizer, phase.effective_lr)}
    parts = method.model.encoder_parts()
    if not parts:
        raise UserError(
            f"Impossible config: the network of {method.name} has no encoder, so its phases cannot have "
            "an optimiser of the encoder; set training.encoder and finetuning.encoder to null."
        )
    encoder = {parameter for part in parts for parameter in part.parameters()}
    rest, own = [p for p in learning if p not in encoder], [p for p in learning if p in encoder]
    lr = phase.scaled(phase.encoder.lr)
    found = {}
    if rest:
        found[REST] = make_optimizer(rest, phase.optimizer, phase.effective_lr)
    if own:
        found[ENCODER] = make_optimizer(own, phase.encoder.optimizer, lr)
    return found


class Update:
    """Updates the parameters of a method that learn in a phase, one batch at a time."""

    def __init__(
        self, method: Method, phase: PhaseConfig, sam: SamConfig | None = None, world: World | None = None
    ) -> None:
        self.method, self.phase, self.sam = method, phase, sam
        self.world = world or World()
        self.losses = self.world.parallel(method)
        self.scaler = Scaler(method)
        self.parameters = [p for p in method.parameters() if p.requires_grad]
        self.optimizers = make_optimizers(method, phase)
        self.looksam = LookSam(self.parameters, sam) if sam is not None and sam.every > 1 else None
        self.average = None if phase.ema is None else Average(method, phase.ema)

    def follow_schedule(self, epoch: int, step: int = 0, steps: int = 1) -> float:
        """Set the learning rates of a step in an epoch of `steps`; returns that of all but the encoder."""
        lr = learning_rate(self.phase, epoch, step, steps)
        self.set_lr(lr)
        if self.phase.encoder is not None:
            peak = self.phase.scaled(self.phase.encoder.lr)
            self.set_lr(learning_rate(self.phase, epoch, step, steps, peak=peak), ENCODER)
        return lr

    def set_lr(self, lr: float, part: str = REST) -> None:
        """Set the learning rate of a part from now on."""
        if part in self.optimizers:
            for group in self.optimizers[part].param_groups:
                group["lr"] = lr

    def finish(self) -> None:
        """End the phase: the averaged weights replace the last ones, if the phase averages them."""
        if self.average is not None:
            self.average.replace_weights()

    def __call__(self, batch: Batch, moment: Moment | None = None) -> dict[str, Tensor]:
        """Make one step and return each loss term and the total, on the device.

        A returned term is this process's sum divided by the global count, so that the sum over all processes
        is the global mean. Each hook of the method is called once for each step, even if the step needs
        several passes. The hook on gradients sees them unscaled and summed over the processes.
        """
        moment = moment or Moment()
        self.method.before_forward(moment)
        means = self._gradients(batch)
        if self.sam is not None:
            self._sharpen(batch, self.sam)
        self.scaler.unscale(self.optimizers.values())
        self.method.after_backward(moment)
        if self.phase.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.phase.clip_norm)
        self.scaler.step(self.optimizers.values())
        self.method.after_update(moment)
        if self.average is not None:
            self.average.add()
        return means

    def _gradients(self, batch: Batch) -> dict[str, Tensor]:
        for optimizer in self.optimizers.values():
            optimizer.zero_grad()
        with autocast(self.method):
            terms: dict[str, Term] = self.losses(batch)
        counts = self.world.total([term.count for term in terms.values()])
        means = {  # a term that counts only some of the samples may find none of them in a batch
            name: term.sum / max(1, count) for (name, term), count in zip(terms.items(), counts, strict=True)
        }
        total = torch.stack([term.weight * means[name] for name, term in terms.items()]).sum()
        loss = total * self.world.size  # torch averages gradients over the processes, but they must be added
        self.scaler.scale(loss).backward()
        return {name: mean.detach() for name, mean in {**means, "total": total}.items()}

    def _sharpen(self, batch: Batch, sam: SamConfig) -> None:
        """Replace the gradients by those at the worst weights nearby, or by LookSAM's estimate of them."""
        if self.looksam is None or self.looksam.due():
            self.scaler.unscale_between(self.parameters)
            plain = gradients(self.parameters)
            with self._perturbed(sam), self._buffers_kept():
                self._gradients(batch)
            if self.looksam is not None:
                self.looksam.keep(plain)
        else:
            self.looksam.add()
        if self.looksam is not None:
            self.looksam.steps += 1

    @contextmanager
    def _perturbed(self, sam: SamConfig) -> Iterator[None]:
        """Within it, the weights are where the loss nearby is worst to first order.

        That is at w + ρ T²g / ‖T g‖, with T = |w| if SAM is adaptive and 1 otherwise.
        """
        with torch.no_grad():
            before = [p.clone() for p in self.parameters]
            plain = gradients(self.parameters)
            scales = [p.abs() if sam.adaptive else torch.ones_like(p) for p in self.parameters]
            norm = torch.stack([(t * g).norm() for t, g in zip(scales, plain, strict=True)]).norm()
            for p, t, g in zip(self.parameters, scales, plain, strict=True):
                p.add_(t.square() * g * (sam.rho / (norm + 1e-12)))
        yield
        with torch.no_grad():
            for p, value in zip(self.parameters, before, strict=True):
                p.copy_(value)

    @contextmanager
    def _buffers_kept(self) -> Iterator[None]:
        """Restore all buffers at the end: only the first pass of a step moves BatchNorm's statistics."""
        before = [each.clone() for each in self.method.buffers()]
        yield
        for each, value in zip(self.method.buffers(), before, strict=True):
            each.copy_(value)

    def state(self) -> dict[str, Tensor]:
        """Everything that the next steps depend on besides the weights, as flat tensors."""
        parts = {part: _flat(optimizer) for part, optimizer in self.optimizers.items()}
        parts[SCALER] = self.scaler.state()
        if self.looksam is not None:
            parts[LOOKSAM] = self.looksam.state()
        if self.average is not None:
            parts[AVERAGE] = self.average.state()
        return {f"{part}{name}": tensor for part, found in parts.items() for name, tensor in found.items()}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned; from nothing at the start of a phase."""
        parts: dict[str, dict[str, Tensor]] = {part: {} for part in (REST, ENCODER, SCALER, LOOKSAM, AVERAGE)}
        for name, tensor in tensors.items():
            part = next((each for each in parts if each and name.startswith(each)), REST)
            parts[part][name.removeprefix(part)] = tensor
        self.scaler.load_state(parts[SCALER])
        if self.looksam is not None:
            self.looksam.load_state(parts[LOOKSAM])
        if self.average is not None:
            self.average.load_state(parts[AVERAGE])
        for part, optimizer in self.optimizers.items():
            _load_flat(optimizer, parts[part])


def _flat(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of an optimiser: of the parameter at each place the tensors by their name."""
    return {
        f"{place}.{key}": torch.as_tensor(value)
        for place, values in optimizer.state_dict()["state"].items()
        for key, value in values.items()
        if value is not None
    }


def _load_flat(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """What `_flat` returned."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        place, key = name.split(".", 1)
        state.setdefault(int(place), {})[key] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
