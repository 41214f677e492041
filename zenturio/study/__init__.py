"""Studies: which points are run, in what order, at which place, and where results are kept."""
