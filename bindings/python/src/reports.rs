//! Reports of `strata analyze` that are queries.

/// Names of reports, each with its query.
pub(crate) const REPORTS: [(&str, &str); 11] = [
    ("counters", "SELECT * FROM counters_by_name"),
    ("cpu", "SELECT * FROM cpu_times"),
    ("files", "SELECT * FROM files"),
    (
        "flame",
        "SELECT process, pid, frames, sum(count) AS count FROM stacks \
         WHERE is_sample = EXISTS (SELECT 1 FROM stacks WHERE is_sample) GROUP BY process, pid, frames ORDER BY count DESC",
    ),
    ("irq", "SELECT * FROM interrupts_by_name"),
    (
        "locks",
        "SELECT process, pid, kind, address, count(*) AS count, sum(duration_ns) AS total_ns, max(duration_ns) AS max_ns, \
         sum(CASE WHEN ended_by = 'timer' THEN duration_ns ELSE 0 END) AS timed_out_ns \
         FROM locks GROUP BY process, pid, kind, address ORDER BY total_ns DESC",
    ),
    (
        "offcpu",
        "SELECT process, pid, coalesce(frames, '[no stack]') AS frames, sum(duration_ns) AS total_ns \
         FROM states LEFT JOIN stack ON stack.id = states.stack WHERE state = 'blocked' \
         GROUP BY process, pid, 3 ORDER BY total_ns DESC",
    ),
    (
        "spans",
        "SELECT name, count(*) AS count, sum(duration_ns) AS total_ns, min(duration_ns) AS min_ns, \
         median(duration_ns) AS median_ns, percentile(duration_ns, 99) AS p99_ns, max(duration_ns) AS max_ns \
         FROM spans GROUP BY name ORDER BY total_ns DESC",
    ),
    (
        "syscalls",
        "SELECT name, count(*) AS count, count(error) AS errors, sum(duration_ns) AS total_ns, \
         min(duration_ns) AS min_ns, median(duration_ns) AS median_ns, percentile(duration_ns, 99) AS p99_ns, \
         max(duration_ns) AS max_ns FROM calls GROUP BY name ORDER BY total_ns DESC",
    ),
    ("threads", "SELECT * FROM thread_times"),
    ("wait", "SELECT * FROM waits"),
];
