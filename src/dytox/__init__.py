"""DyTox: continual image classification, task after task."""

__version__ = "0.1.0"
