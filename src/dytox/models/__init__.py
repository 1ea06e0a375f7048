"""Networks that grow by a task at a time."""
