"""Pages and pictures of runs, from their directories alone."""
