"""The schema of a run: every hyperparameter, typed and frozen, with its meaning in a comment.

Unknown keys, wrong types and impossible combinations are refused with the full name of the key. The options
of a method stand under `method:` and are checked by the `Options` of that method.
The defaults are the paper's, for CIFAR-100.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Section(BaseModel):
    """A part of the config: strict, frozen; rejects unknown keys, NaN and infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class DataConfig(Section):
    """Which images there are, and how they are prepared for the network."""

    dataset: str = (
        "digits"  # digits | cifar100 | imagenet… | folder | hf:NAME | huggingface | module:function
    )
    root: str | None = None  # the folder that holds the data (--data)
    image_size: int | None = Field(None, gt=0, le=4096)  # side in pixels; null: the dataset's own
    resize: int | None = Field(
        None, gt=0, le=8192
    )  # the short side, before the centre crop; null: no resizing
    on_demand: bool | None = None  # decode images when needed; null: for ImageNet and Hugging Face
    label: str | None = None  # the column with the class, if a table has several
    test_share: float = Field(0.2, gt=0, lt=1)  # of each class, if the dataset has no test set
    validation_share: float = Field(0.0, ge=0, lt=1)  # > 0: this share of the training set is the test set
    mean: list[float] = Field(
        [0.5, 0.5, 0.5], min_length=3, max_length=3
    )  # of red, green and blue, from 0 to 1
    std: list[Annotated[float, Field(gt=0)]] = Field(
        [0.5, 0.5, 0.5], min_length=3, max_length=3
    )  # likewise, above 0

    @model_validator(mode="after")
    def _crop_within(self) -> DataConfig:
        if self.resize is not None and (self.image_size is None or self.resize < self.image_size):
            least = "which is not given" if self.image_size is None else self.image_size
            raise ValueError(f"data.resize {self.resize} must be at least data.image_size, {least}")
        return self


class ScenarioConfig(Section):
    """Which classes belong to which task."""

    order: int | list[int] | Literal["natural"] = "natural"  # a number: the published order, else a shuffle
    classes: int | None = Field(None, gt=1)  # use only the first classes of the order; null: all
    first: int | None = Field(None, gt=0)  # classes of the first task; null: `increment`
    increment: int = Field(10, gt=0)  # classes of each later task; the last takes what is left
    increments: list[int] | None = None  # the classes of every task, instead of first and increment
    joint: bool = False  # all classes in one task


class MemoryConfig(Section):
    """How many exemplars are kept for rehearsal, and which."""

    size: int = Field(2000, ge=0)  # exemplars in all, divided among the classes seen; 0: no memory
    per_class: int | None = Field(None, gt=0)  # at most this many exemplars of each class
    selection: Literal["herding", "closest", "furthest", "random"] = "herding"  # how exemplars are chosen
    shares: int = Field(1, gt=0)  # > 1: this many sets, each selected with its own augmentation (the erratum)
    budget: Literal["split", "each"] = "split"  # whether the shares divide the size, or have it each


class RandAugmentConfig(Section):
    """RandAugment: operations on each image, drawn with replacement."""

    operations: int = Field(2, gt=0)  # drawn for each image
    magnitude: float = Field(9.0, ge=0, le=10)  # how strong they are
    magnitude_std: float = Field(0.5, ge=0)  # of the magnitude, drawn for each operation
    probability: float = Field(0.5, gt=0, le=1)  # that a drawn operation is applied


class AugmentConfig(Section):
    """The augmentation of training images, drawn for each image."""

    pad: int = Field(4, ge=0)  # random crop after padding by this many pixels; 0: no crop
    resized_crop: list[float] | None = Field(
        None, min_length=2, max_length=2
    )  # range of the area; replaces pad
    flip: float = Field(0.5, ge=0, le=1)  # probability of a horizontal flip
    brightness: float = Field(0.0, ge=0, le=1)  # pixels times a factor at most this far from 1
    randaugment: RandAugmentConfig | None = RandAugmentConfig()  # null: no RandAugment
    mixup: float = Field(0.0, ge=0)  # alpha of Beta(alpha, alpha); 0: no MixUp


class ModelConfig(Section):
    """The network: an encoder, and a decoder that reads it; heads are the method's.

    The defaults are the transformer of DyTox (table "DyTox's architectures").
    """

    encoder: str = (
        # dytox (SABs) | conv-tiny | conv-small | conv-medium | hybrid | resnet8 | resnet18 | resnet32 |
        "dytox"  # efficientnet-lite0 | efficientnet-lite1 | efficientnet-lite2 | vit | hf | own (your module)
    )
    decoder: Literal["tab", "tab-per-task", "film", "adapters", "pool"] = (
        "tab"  # from tokens to an embedding for each task; pool: one feature vector, without task tokens
    )
    weights: str | None = None  # encoder vit: its safetensors file; hf: hf:REPO or a folder; null: none
    frozen: bool = False  # whether a pretrained encoder stays as it is
    architecture: dict[str, Any] | None = None  # of encoder hf, as its config.json says it
    input_size: int | None = Field(None, gt=0, le=4096)  # side to which the network resizes images; null: not
    patch_size: int = Field(4, gt=0, le=4096)  # side in pixels
    dim: int = Field(384, gt=0, le=16384)  # length of a token
    heads: int = Field(12, gt=0, le=1024)  # of each attention; they divide dim
    depth: int = Field(5, gt=0, le=256)  # number of SABs
    attention: Literal["gpsa", "plain"] = "gpsa"  # of the SABs
    mlp_ratio: float = Field(4.0, gt=0, le=64)  # the hidden layer of a block, in times dim
    drop_path: float = Field(0.1, ge=0, lt=1)  # at the last block, growing linearly from 0
    locality_strength: float = Field(1.0, gt=0)  # of GPSA's initial positional attention
    hybrid: Literal["resnet8", "resnet18", "resnet32"] = "resnet18"  # of encoder hybrid: its first 3 stages
    stem: Literal["small", "large"] = "small"  # of a ResNet: 3×3, or 7×7 with stride 2 and max-pool
    last_relu: bool = True  # of a ResNet, or conv's last GELU: off, features may be negative

    @model_validator(mode="after")
    def _heads_divide_dim(self) -> ModelConfig:
        if self.dim % self.heads:
            raise ValueError(f"model.dim {self.dim} is not a multiple of model.heads {self.heads}")
        return self


class LossConfig(Section):
    """The classification loss."""

    activation: Literal["sigmoid", "softmax"] = "sigmoid"  # binary cross-entropy, or cross-entropy
    label_smoothing: float = Field(
        0.0, ge=0, lt=1
    )  # share of the target that is spread over all classes seen
    prior: float = Field(
        # balanced softmax, in training: this times log(share of the class's images) is added to each logit,
        0.0,  # so that frequent classes are not preferred; 0: off
        ge=0,
    )

    @model_validator(mode="after")
    def _prior_needs_softmax(self) -> LossConfig:
        if self.prior and self.activation != "softmax":
            raise ValueError(f"loss.prior {self.prior:g} needs loss.activation softmax")
        return self


class OptimizerConfig(Section):
    """One optimiser, made anew for each phase."""

    name: Literal["adamw", "sgd"] = "adamw"  # which optimiser
    weight_decay: float = Field(1e-6, ge=0)  # decoupled in adamw, in the gradient in sgd
    decay_vectors: bool = False  # whether 1-D parameters are decayed too
    betas: list[Annotated[float, Field(ge=0, lt=1)]] = Field(
        [0.9, 0.999], min_length=2, max_length=2
    )  # adamw
    eps: float = Field(1e-8, gt=0)  # of adamw
    momentum: float = Field(0.9, ge=0, lt=1)  # of sgd
    nesterov: bool = False  # of sgd: Nesterov's form of the momentum


class ScheduleConfig(Section):
    """The learning rate in the course of a phase."""

    name: Literal["cosine", "constant", "step", "linear"] = "constant"  # how it goes on after the warm-up
    per_step: bool = False  # whether it changes at every step; otherwise at every epoch
    warmup_epochs: int = Field(0, ge=0)  # in which it rises linearly
    warmup_share: float = Field(0.0, ge=0, lt=1)  # the warm-up as a share of the phase, not in epochs
    warmup_lr: float = Field(1e-6, ge=0)  # where the warm-up starts
    min_lr: float = Field(1e-5, ge=0)  # where the cosine and the linear schedule end
    milestones: list[int] = []  # of `step`: epochs at which the lr is multiplied by gamma
    gamma: float = Field(0.1, gt=0, le=1)  # of `step`


class EncoderPhaseConfig(Section):
    """The encoder's own learning rate and optimiser in a phase; batch and schedule are those of the phase."""

    lr: float = Field(0.1, gt=0)  # learning rate, before scaling
    optimizer: OptimizerConfig = OptimizerConfig(name="sgd", nesterov=True, weight_decay=5e-4)


class PhaseConfig(Section):
    """A training phase. Batch and learning rate are global figures, whatever the number of processes."""

    epochs: int = Field(500, ge=0)  # of each task
    first_epochs: int | None = Field(None, gt=0)  # of the first task; null: `epochs`
    batch: int = Field(256, gt=1)  # images a step, over all processes
    lr: float = Field(5e-4, gt=0)  # learning rate, before scaling
    lr_reference_batch: int | None = Field(512, gt=0)  # lr is scaled by batch / this; null: lr as it is
    repeats: int = Field(1, gt=0)  # repeated augmentation: an image so many times in a draw
    clip_norm: float | None = Field(None, gt=0)  # of the whole gradient; null: no clipping
    ema: float | None = Field(
        None, gt=0, lt=1
    )  # decay of a moving average that replaces the weights at the end
    cache_views: int | None = Field(
        # for a phase with a frozen encoder: so many augmented views of each image are encoded once and
        None,  # cached, and the epochs take them in turn; null: cached only if mirroring alone varies images
        gt=0,
    )
    optimizer: OptimizerConfig = OptimizerConfig()
    encoder: EncoderPhaseConfig | None = None  # lr and optimiser of the encoder; null: those of the phase
    schedule: ScheduleConfig = ScheduleConfig()

    @property
    def effective_lr(self) -> float:
        """The learning rate after scaling with the batch."""
        return self.scaled(self.lr)

    def scaled(self, lr: float) -> float:
        """This learning rate after scaling with the batch."""
        return lr if self.lr_reference_batch is None else lr * self.batch / self.lr_reference_batch

    def for_task(self, task: int) -> PhaseConfig:
        """The phase as it is in this task, counted from 0."""
        if task or self.first_epochs is None:
            return self
        return self.model_copy(update={"epochs": self.first_epochs})


class SamConfig(Section):
    """Sharpness-aware minimisation (DyTox++), for any method."""

    rho: float = Field(0.0, ge=0)  # 0: off
    adaptive: bool = True  # ASAM
    skip_first: bool = True  # not in the first task
    phases: list[str] = ["train"]  # the phases in which it is used
    every: int = Field(1, gt=0)  # > 1: LookSAM, which computes the perturbation every so many steps
    reuse: float = Field(0.7, ge=0)  # LookSAM's α, the weight of the last perturbation at the steps between


class MethodConfig(BaseModel):
    """The name of the method and its options, which are checked by the method."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    name: str = "dytox"  # see `dytox methods`; your own: module:Class

    @property
    def options(self) -> dict[str, Any]:
        """The options of the method: everything but its name."""
        return dict(self.model_extra or {})


class Preset(Section):
    """The values that a method brings along, nested as in a config; who overrides whom: `dytox.recipes`."""

    base: str = "transformer"  # transformer | resnet: whose values it starts from
    config: dict[str, Any] = {}  # at every scale
    scales: dict[str, dict[str, Any]] = {}  # by the scale of the scenario: demo, short, paper, fast
    large: dict[str, Any] = {}  # for images as large as ImageNet's
    tuned: dict[str, Any] = {}  # our own values instead of the paper's
    always: dict[str, Any] = {}  # whatever the scenario says


class RuntimeConfig(Section):
    """Where and how the run is computed; of these, a resumed run must keep only the precision."""

    device: str = "auto"  # auto | cpu | cuda | cuda:0 | mps
    precision: Literal["fp64", "fp32", "bf16", "fp16"] = "fp32"  # bf16, fp16: mixed, the weights stay fp32
    compile: bool = False  # torch.compile, for the parts of the model that do not grow
    deterministic: bool = False  # deterministic algorithms on a GPU
    threads: int | None = Field(None, gt=0)  # of torch; null: torch's own choice
    workers: int = Field(0, ge=0, le=256)  # decoding processes for each training process
    evaluation_batch: int | None = Field(
        None, gt=0
    )  # batch for evaluation; null: chosen by device and memory
    checkpoint_epochs: int = Field(1, gt=0)  # epochs between checkpoints; there is one after every phase too
    report: bool = True  # report.html after every task, plots/ at the end
    loggers: list[Literal["tensorboard", "wandb"]] = []  # which also receive what log.jsonl does


class EvaluationConfig(Section):
    """How predictions are made."""

    flip: bool = False  # whether the scores of an image and of its mirror image are averaged


class Config(Section):
    """The whole config of a run."""

    recipe: str = "custom"  # the recipe that it was composed from
    seed: int = Field(0, ge=0)  # of every random draw
    data: DataConfig = DataConfig()
    scenario: ScenarioConfig = ScenarioConfig()
    memory: MemoryConfig = MemoryConfig()
    method: MethodConfig = MethodConfig()
    model: ModelConfig = ModelConfig()
    augment: AugmentConfig = AugmentConfig()
    loss: LossConfig = LossConfig()
    training: PhaseConfig = PhaseConfig(
        schedule=ScheduleConfig(name="cosine", warmup_epochs=5),
    )
    finetuning: PhaseConfig = PhaseConfig(epochs=20, lr=5e-5)
    sam: SamConfig = SamConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    runtime: RuntimeConfig = RuntimeConfig()

    def decisive(self) -> dict[str, Any]:
        """The values that decide the result: not the place of the data; of the runtime, the precision."""
        values = self.model_dump(exclude={"data": {"root"}, "runtime": True})
        return {**values, "runtime": {"precision": self.runtime.precision}}

    @model_validator(mode="after")
    def _possible(self) -> Config:
        increments = self.scenario.increments
        if increments is not None and (not increments or min(increments) < 1):
            raise ValueError(f"scenario.increments {increments}: every task needs at least one class")
        for name, phase in (("training", self.training), ("finetuning", self.finetuning)):
            schedule = phase.schedule
            if phase.epochs and schedule.warmup_epochs >= min(
                phase.epochs, phase.first_epochs or phase.epochs
            ):
                raise ValueError(
                    f"{name}.schedule.warmup_epochs {schedule.warmup_epochs} must be below "
                    f"{name}.epochs {phase.epochs}"
                )
            if schedule.warmup_epochs and schedule.warmup_share:
                raise ValueError(
                    f"{name}.schedule has both warmup_epochs and warmup_share: set one of them to 0"
                )
            if schedule.name in ("cosine", "linear") and schedule.min_lr > phase.effective_lr:
                raise ValueError(
                    f"{name}.schedule.min_lr {phase.schedule.min_lr:g} is above the learning rate "
                    f"{phase.effective_lr:g}"
                )
        if (
            self.augment.resized_crop
            and not 0 < self.augment.resized_crop[0] <= self.augment.resized_crop[1] <= 1
        ):
            raise ValueError(
                f"augment.resized_crop {self.augment.resized_crop}: it must be two rising shares of the area"
            )
        return self
