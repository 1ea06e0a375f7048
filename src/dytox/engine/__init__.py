"""One loop, one backward(): what every method shares."""
