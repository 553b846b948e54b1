"""The experiments of the report, by their numbers."""

from experiments import cost, kernel, reading, ring, servers, size

ALL = tuple(sorted((
    cost.COST, ring.SYNC, kernel.LOAD, ring.THREADS, kernel.PRIMITIVES, kernel.COMPILE, kernel.PING, ring.PAPERS, ring.DORMANT, size.SIZE, cost.PROBES,
    reading.READING, servers.SERVERS_EXPERIMENT,
), key=lambda experiment: experiment.number))
