"""Datasets, scenarios (which classes come when), augmentation and batches."""
