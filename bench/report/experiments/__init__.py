"""The experiments of the report, by their numbers."""

from experiments import article, cost, kernel, others, reading, ring, servers, size

ALL = tuple(sorted((
    cost.COST, ring.SYNC, kernel.LOAD, ring.THREADS, kernel.PRIMITIVES, kernel.COMPILE, kernel.PING, ring.PAPERS, article.ARTICLE, article.FOLLOW_UPS, ring.DORMANT,
    size.SIZE, cost.PROBES, reading.READING, others.SNAPSHOTS, others.GUESTS, others.LANGUAGES, servers.SERVERS_EXPERIMENT,
), key=lambda experiment: experiment.number))
