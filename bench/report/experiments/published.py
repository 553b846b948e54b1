"""Figures as the papers print them. Each names its table, so that anybody can look it up."""

from tables import Published

LOCKLESS = "Desnoyers, Dagenais: Lockless Multi-Core High-Throughput Buffering Scheme for Kernel Tracing, 2012"
WAIT_FREE = "Desnoyers, Dagenais: Synchronization for Fast and Reentrant Operating System Kernel Tracing, 2010"
LAYERS = "Desnoyers, Dagenais: LTTng: Tracing across execution layers, from the Hypervisor to user-space, 2008"
LIBRARY = "Desnoyers: Generic Ring Buffer Library (v2), on LKML, 2010"
ARTICLE = "An article on the overhead of LTTng-UST 2.9.5, Xeon E5-1660 v4, Linux 4.13"

PROBE = Published(
    f"Table 1 of: {LOCKLESS}", ("LTTng 0.140, a record in the kernel", "cycles", "GHz", "ns"),
    (("Intel Pentium 4", "545", "3.0", "182"), ("AMD Athlon64 X2", "628", "2.0", "314"), ("Intel Core2 Xeon", "238", "2.0", "119"),
     ("ARMv7 OMAP3", "507", "0.5", "1014")),
    "A probe of two arguments in the kernel, interrupts off, in a loop of 20,000.")
INTERRUPTS = Published(
    f"Table 6 of: {LOCKLESS}", ("A record", "interrupts off [ns]", "lockless [ns]", "faster"),
    (("Intel Pentium 4", "212", "182", "14 %"), ("AMD Athlon64 X2", "381", "314", "34 %"), ("Intel Core2 Xeon", "128", "119", "7 %"),
     ("ARMv7 OMAP3", "1108", "1014", "8 %")))
CAS = Published(
    f"Table 1 of: {WAIT_FREE}", ("Cycles", "local CAS", "LOCK CAS", "interrupts on", "interrupts off", "(off and on) / local CAS"),
    (("Intel Pentium 4", "25", "81", "70", "61", "5.24"), ("AMD Athlon64 X2", "6", "24", "12", "11", "4.60"), ("Intel Core2", "8", "24", "21", "22", "5.37"),
     ("Intel Xeon E5405", "8", "24", "20", "22", "5.25"), ("PowerPC G5", "1", "2", "3", "1", "4.00"), ("POWER6", "9", "17", "14", "2", "1.77"),
     ("ARMv7 OMAP3", "71", "11", "25", "20", "4.09"), ("Itanium 2", "3", "3", "2", "2", "1.33"),
     ("UltraSPARC-IIIi", "0.394", "0.394", "0.094", "0.159", "0.64")),
    "In user space blocking signals takes the place of disabling interrupts.")
LOCKS = Published(
    f"Table 2 of: {WAIT_FREE}", ("Times faster than a spin lock with interrupts off", "sequence lock and CAS", "preemption off and local CAS"),
    (("Pentium 4", "3.2", "8.1"), ("AMD Athlon64 X2", "3.2", "5.3"), ("Intel Core2", "3.7", "5.0"), ("Intel Xeon E5405", "3.1", "4.3"),
     ("ARMv7 OMAP3", "1.2", "8.4")))
TBENCH_NETWORK = Published(
    f"Table 2 of: {LOCKLESS}", ("tbench over a network of 100 Mb/s", "MiB/s", "overhead", "thousand events/s"),
    (("Mainline Linux", "12.45", "0 %", ""), ("Instrumented", "12.56", "0 %", ""), ("Flight recorder", "12.49", "0 %", "104"),
     ("Tracing to disk", "12.44", "0 %", "107")))
TBENCH = Published(
    f"Table 3 of: {LOCKLESS}", ("tbench on loopback, 8 cores", "MiB/s", "overhead", "thousand events/s"),
    (("Mainline Linux", "2036.4", "0 %", ""), ("Instrumented", "2047.1", "-1 %", ""), ("Flight recorder", "1474.0", "28 %", "9768")))
DBENCH = Published(
    f"Table 4 of: {LOCKLESS}", ("dbench on disk, 8 threads", "MiB/s", "overhead", "thousand events/s"),
    (("Mainline Linux", "1334.2", "0 %", ""), ("Instrumented", "1373.2", "-2 %", ""), ("Flight recorder", "1297.0", "3 %", "2840"),
     ("Tracing to disk", "872.0", "35 %", "2562")),
    "21.8 million events were discarded while tracing to disk.")
SCALE = Published(
    f"Scalability, in: {LIBRARY}", ("CPU time for a record [ns]", "1 writer", "2 writers", "4 writers", "8 writers"),
    (("LTTng's library, no clock", "83", "116", "116", "118"), ("LTTng's library, trace_clock()", "191", "189", "260", "265"),
     ("ftrace, trace_clock_local()", "104", "165", "146", "153")),
    f"Xeon E5405, two cores share a second-level cache. Figure 7 of “{LOCKLESS}” shows tbench on 1 to 8 CPUs: the cost for each CPU stays the same.")
LMBENCH = Published(
    f"Section 5.6 of: {LOCKLESS}", ("lmbench", "untraced [µs]", "flight recorder [µs]", "for each event [ns]"),
    (("null call", "0.1752", "0.6057", "215"), ("read", "0.2138", "0.8043", "160 to 215"), ("page fault", "1.3512", "1.6433", "146"),
     ("fork and exit", "177.8", "211.5", "")))
COMPILE = Published(
    f"Table 5 of: {LOCKLESS}", ("Linux 2.6.30 compiled", "seconds", "overhead", "thousand events/s"),
    (("Mainline Linux", "85", "0 %", ""), ("Instrumented", "84", "-1 %", ""), ("Flight recorder", "87", "3 %", "822"),
     ("Tracing to disk", "90", "6 %", "816")))
PING = Published(
    f"Tables 3 and 4 of: {WAIT_FREE}", ("Ping, 100,000 round trips", "events a round trip", "mean [µs]", "deviation [µs]"),
    (("loopback, no tracing", "", "40.0", "12.8"), ("loopback, flight recorder", "27", "49.0", "14.3"),
     ("network of 100 Mb/s, no tracing", "", "256.10", "73.3"), ("network of 100 Mb/s, flight recorder", "7", "258.31", "73.3")),
    "There a compile of the kernel thrashed the caches, and 2 ms lay between two requests.")
RING = Published(
    f"Throughput, in: {LIBRARY}", ("1 MiB for each CPU, 4 bytes, one writer", "ns for a record", "read [million/s]"),
    (("overwrite, 512 KiB sub-buffers, no reader", "83", ""), ("overwrite, 128 KiB, no reader", "84", ""), ("overwrite, 4 KiB, no reader", "86", ""),
     ("overwrite, 512 KiB, reader each 100 ms", "89", "0.3"), ("overwrite, 128 KiB, reader each 100 ms", "111", "1.9"),
     ("overwrite, 4 KiB, reader each 100 ms", "199", "4.8"), ("discard, 128 KiB, reader: written", "257", "2.8"), ("discard, 128 KiB, reader: discarded", "96", ""),
     ("ftrace, overwrite, no reader", "103", ""), ("ftrace, read by page", "148", "6.6"), ("ftrace, read by event", "187", "0.4"), ("perf record", "423", "2.3")),
    "Xeon E5405, in the kernel, with a clock.")
OVERHEAD = Published(
    ARTICLE, ("The loop", "ns an iteration"),
    (("no tracepoint compiled in", "2.7"), ("tracepoint compiled in, no session", "3.4"), ("recorded, buffers well chosen", "113"),
     ("recorded, with discarded events", "125"), ("large buffers that could not be had: nothing recorded, no error", "5")),
    "64 GB of memory; sub-buffers of 4 KB to 256 MB, 2 to 256 of them.")
DORMANT = Published(
    f"Tables 1 and 2 of: {LAYERS}", ("Cycles added by what is off", "cached", "uncached", "cached, AMD64", "uncached, AMD64"),
    (("immediate value (patched code)", "0.002", "0.07", "-1.2", "0.2"), ("flag in memory", "0.004", "154.7", "-0.3", "41.8"),
     ("call replaced by NOPs, 6 local variables", "0.04", "0.6", "-0.5", "0.01"), ("the same, with a pointer read", "0.03", "222.8", "2.7", "51.8")),
    "The first two columns: Pentium 4, 3.0 GHz; the others: AMD64, 2.0 GHz.")
BREAKPOINT = Published(
    f"Section 5.8 of: {LOCKLESS}", ("Pentium 4, 3 GHz", "ns", "times an LTTng probe"),
    (("an empty kprobe (breakpoint and single step)", "1413", "7.8"), ("an LTTng probe, record written", "182", "1"), ("DTrace, a system call", "1180", "6.4")))
SIZE = Published(
    f"Sections 5.3 and 5.5 of: {LOCKLESS}", ("LTTng 0.140", "bytes an event"),
    (("tbench on loopback, average", "16"), ("dbench, average", "12")),
    "The paper on execution layers describes the compact event header in its section on the trace format, without a table.")
