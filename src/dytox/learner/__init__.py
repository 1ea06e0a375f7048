"""A classifier that is taught new classes, task after task."""

from dytox.learner.continual import ContinualLearner

__all__ = ["ContinualLearner"]
