"""Datasets, scenarios (the order in which classes are learned), augmentation and batches."""
