"""All that a method needs, in one module: custom methods and those of the package import from here.

`Method` has what a method may define, docs/add-a-method.md a whole one to start from.
"""

from __future__ import annotations

from pydantic import Field, model_validator

from dytox.config import OptimizerConfig, PhaseConfig, Preset, ScheduleConfig, Section
from dytox.data.loader import Batch
from dytox.data.samples import Samples
from dytox.data.scenario import Task
from dytox.engine.evaluate import features
from dytox.engine.lesson import Lesson
from dytox.engine.method import Method
from dytox.engine.moment import Moment
from dytox.engine.phase import Action, Phase, Training, freeze
from dytox.engine.schedule import learning_rate
from dytox.engine.selecting import select, select_memory
from dytox.errors import UserError
from dytox.losses import (
    Term,
    classification,
    cosine_distance,
    distillation,
    distillation_by_image,
    margin_ranking,
    nca,
    pod_spatial,
    soft_cross_entropy,
    sparsity,
)
from dytox.memory import exemplars_per_share
from dytox.methods.prototypes import prototypes
from dytox.models.base import ContinualModel, Output
from dytox.models.build import extractor_network, network, path_net, pooled, token_network
from dytox.models.linear_heads import BiasCorrectedHead, ClassMeans, CosineHead, LinearHead, ProxyHead
from dytox.models.pooled import PooledNet

__all__ = [
    "Action",
    "Batch",
    "BiasCorrectedHead",
    "ClassMeans",
    "ContinualModel",
    "CosineHead",
    "Field",
    "Lesson",
    "LinearHead",
    "Method",
    "Moment",
    "OptimizerConfig",
    "Output",
    "Phase",
    "PhaseConfig",
    "PooledNet",
    "Preset",
    "ProxyHead",
    "Samples",
    "ScheduleConfig",
    "Section",
    "Task",
    "Term",
    "Training",
    "UserError",
    "classification",
    "cosine_distance",
    "distillation",
    "distillation_by_image",
    "exemplars_per_share",
    "extractor_network",
    "features",
    "freeze",
    "learning_rate",
    "margin_ranking",
    "model_validator",
    "nca",
    "network",
    "path_net",
    "pod_spatial",
    "pooled",
    "prototypes",
    "select",
    "select_memory",
    "soft_cross_entropy",
    "sparsity",
    "token_network",
]
