"""One file for each method; `registry` finds them, and what several share has files of its own."""
