"""Reports of runs: pages, plots and tables, made from run directories only."""
