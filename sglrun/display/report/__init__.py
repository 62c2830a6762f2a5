"""The report: what came of a run, as one page that needs nothing else."""
