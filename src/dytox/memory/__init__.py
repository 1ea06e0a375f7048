"""Which exemplars are kept for rehearsal, and how many."""
