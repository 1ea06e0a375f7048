"""Benchmarks: a loop of tasks over one learner."""
