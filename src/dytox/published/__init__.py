"""The figures printed in the paper and its erratum, and which of them a run may be put beside."""
