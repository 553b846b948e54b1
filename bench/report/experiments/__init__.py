"""The experiments of the report, by their numbers."""

from experiments import ring

ALL = tuple(sorted((ring.SYNC, ring.THREADS, ring.PAPERS, ring.DORMANT), key=lambda experiment: experiment.number))
