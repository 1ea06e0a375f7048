"""The paper's tables, run row by row."""
