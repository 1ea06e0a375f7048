"""Run and model directories: atomic files, checksums, no code in them."""
