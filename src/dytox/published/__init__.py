"""The figures and tables of the paper and its erratum, and which of them a run may be compared with."""
