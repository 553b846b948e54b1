"""The experiments of the report, by their numbers."""

from experiments import cost, reading, ring, servers

ALL = tuple(sorted((cost.COST, ring.SYNC, ring.THREADS, ring.PAPERS, ring.DORMANT, cost.PROBES, reading.READING, servers.SERVERS_EXPERIMENT),
                   key=lambda experiment: experiment.number))
