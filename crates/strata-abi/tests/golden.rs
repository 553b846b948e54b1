//! The mirror and `abi/golden/` say the same, line by line.

use std::fmt::Write;
use std::mem::{align_of, size_of, size_of_val};

use strata_abi::{count, filter, kernel, loaded, ring, user};

/// Appends the golden file's lines for a struct: each field, as the C program lists it.
macro_rules! layout {
    ($out:expr, $c_name:literal, $struct:ty, $($field:ident)*) => {{
        let value = <$struct>::default();
        let begin = &value as *const $struct as usize;
        writeln!($out, "struct {} size {} align {}", $c_name, size_of::<$struct>(),
            align_of::<$struct>()).unwrap();
        $(
            let offset = &value.$field as *const _ as usize - begin;
            writeln!($out, "field {}.{} offset {} size {}", $c_name, stringify!($field), offset,
                size_of_val(&value.$field)).unwrap();
        )*
    }};
}

/// Appends the constants of a module, under their names in C.
macro_rules! constants {
    ($out:expr, $module:ident, $prefix:literal, $($name:ident)*) => {
        $(writeln!($out, concat!("constant ", $prefix, "{} {}"), stringify!($name), $module::$name)
            .unwrap();)*
    };
}

/// Appends the golden file's lines for strings.
macro_rules! texts {
    ($out:expr, $module:ident, $prefix:literal, $($name:ident)*) => {
        $(writeln!($out, concat!("text ", $prefix, "{} {}"), stringify!($name), $module::$name)
            .unwrap();)*
    };
}

fn ring_mirror() -> String {
    let mut out = String::new();
    writeln!(out, "version {}", ring::VERSION).unwrap();
    constants!(out, ring, "STRATA_ABI_RING_", MAGIC PAGE SUBBUF_BYTES_MIN SUBBUF_BYTES_MAX
        NR_SUBBUFS_MIN NR_SUBBUFS_MAX NR_STREAMS_MAX TAIL_BYTES DISCARD OVERWRITE BY_COMMIT BY_POSITION ENTRY_FRAME ENTRY_HELD
        ENTRY_TAG_SHIFT);
    layout!(out, "strata_abi_ring_channel", ring::Channel,
        magic version loss_mode publish nr_streams subbuf_bytes nr_subbufs header_bytes
        stream_stride total_bytes record_align global start_position);
    layout!(out, "strata_abi_ring_stream", ring::Stream,
        write_count records full_timestamp last_timestamp limit frame reserved0 discarded_full
        discarded_too_big discarded_nested overwritten_records overwritten_packets cancelled
        discarded_no_stream reserved1 read_count waiting wake_sequence finalized reclaimed_records reclaimed_packets reserved2);
    layout!(out, "strata_abi_ring_subbuf", ring::Subbuf, commit published entry committed);
    layout!(out, "strata_abi_ring_frame", ring::Frame,
        position timestamp_begin timestamp_end content_bytes records records_before discarded
        reserved);
    out
}

fn filter_mirror() -> String {
    let mut out = String::new();
    writeln!(out, "version {}", filter::VERSION).unwrap();
    constants!(out, filter, "STRATA_ABI_FILTER_", MAGIC BYTES TEXT_MAX TESTS_MAX PASS REJECT NUMBER TEXT HAS PAIR
        EQUAL NOT_EQUAL LESS LESS_OR_EQUAL GREATER GREATER_OR_EQUAL NEGATED NAME LOGLEVEL CPU FIELD PAYLOAD
        CONTEXT WHOLE);
    layout!(out, "strata_abi_filter_term", filter::Term, subject text_bytes text index mask);
    layout!(out, "strata_abi_filter_test", filter::Test, kind op flags yes no left right least
        greatest from to low high);
    layout!(out, "strata_abi_filter", filter::Filter, magic version bytes nr_tests);
    out
}

fn user_mirror() -> String {
    let mut out = String::new();
    writeln!(out, "version {}", user::VERSION).unwrap();
    constants!(out, user, "STRATA_ABI_USER_", MAGIC NR_SESSIONS NR_STATES SESSIONS_OFFSET
        STATES_OFFSET DESCRIPTIONS_OFFSET FILTERS_OFFSET RULES_OFFSET CHANNELS_OFFSET DESCRIPTIONS_BYTES RULES_BYTES
        NAME_BYTES);
    texts!(out, user, "STRATA_ABI_USER_", MEMFD MEMFD_REFUSED SOCKETS_ROOT SOCKETS_USER
        SOCKETS_TMP ENVIRONMENT SOCKET_END REQUEST);
    constants!(out, user, "STRATA_ABI_USER_", REQUEST_BYTES NO_SESSION_NO_REQUEST NO_SESSION_SECURE NO_SESSION_UNKNOWN NO_SESSION_SOCKET CLOCK_VDSO CLOCK_TSC NR_CLOCK_SLOTS SESSION_FREE
        SESSION_SETUP SESSION_ACTIVE SESSION_ENDING DEAD_NS SESSION_INHERIT SESSION_LARGE_HEADER
        SESSION_OVERWRITE SESSION_VTID SESSION_SPANS CONTEXTS_MAX CTX_VPID CTX_PROCNAME CTX_THREADNAME CTX_PTHREAD_ID
        CTX_CPU_ID CTX_VUID CTX_VSGID CTX_IP CTX_CALLSTACK CTX_CGROUP_NS CTX_UTS_NS
        CTX_PAGE_FAULT CTX_MINOR CTX_MAJOR CTX_SWITCHES CTX_TASK_CLOCK CTX_CGROUP CALLSTACK_MAX COMM_BYTES STATE_PRESENT STATE_FLAG NO_ID
        SITE_DORMANT SITE_ON INTEGER FLOAT STRING ARRAY SEQUENCE TEXT FIELD_SIGNED FIELD_NETWORK FIELD_BOOL FIELDS_MAX NAME_MAX
        LEVEL_MAX);
    layout!(out, "strata_abi_user_clock_slot", user::ClockSlot, base_cycles multiplier base_ns
        index);
    layout!(out, "strata_abi_user_control", user::Control, magic version pid publish nr_cpus
        nr_states descriptions_bytes generation started_ns refused patch_errno clock_kind
        parent_pid name clock_index claimed_sessions without_clock objects objects_refused
        objects_unseen no_session no_session_errno reserved clock);
    layout!(out, "strata_abi_user_session", user::Session, status flags generation heartbeat_ns
        channel_offset channel_bytes subbuf_bytes nr_subbufs next_id discarded_unmapped
        discarded_unstaged self_stopped rules_bytes create_errno discarded_no_clock
        filter_bytes rules_version other_rules_bytes nr_contexts replaces contexts reserved cgroup_id rules);
    layout!(out, "strata_abi_user_state", user::State, enabled flags description
        description_bytes sites nr_sites reserved ids);
    layout!(out, "strata_abi_user_site", user::Site, address displacement reserved);
    layout!(out, "strata_abi_user_announcement", user::Announcement, magic version pid);
    layout!(out, "strata_abi_user_absence", user::Absence, magic version error generation);
    out
}

fn loaded_mirror() -> String {
    let mut out = String::new();
    constants!(out, loaded, "STRATA_ABI_LOADED_", PIC PROGRAM NR_MAX PATH_MAX BUILD_ID_MAX);
    layout!(out, "strata_abi_loaded", loaded::Loaded, address bytes loaded_ns unloaded_ns older
        look path_bytes build_id_bytes flags text);
    out
}

fn kernel_mirror() -> String {
    let mut out = String::new();
    constants!(out, kernel, "STRATA_ABI_KERNEL_", SLACK PAYLOAD_MAX TEXT_MAX ARGV_MAX PARTS_MAX TESTS_MAX EARLY_MAX
        SYSCALLS COMPAT COMPAT_UNKNOWN UNKNOWN SWITCHES ON ON_TRACKED ON_TELLS ON_ASKS
        TOLD_WORDS TRACK_PID
        TRACK_UID TRACK_GID TRACK_NAME TRACK_CGROUP TRACK_NAMED TRACK_PREFIXES TRACK_FOLLOWED TRACK_GENERATION TRACK_MAX TRACK_LEVELS
        CONTEXT_PID CONTEXT_PPID CONTEXT_PROCNAME CONTEXT_UID CONTEXT_GID CONTEXT_PRIO CONTEXT_CGROUP
        CONTEXT_VPID CONTEXT_VTID CONTEXT_VPPID CONTEXT_CGROUP_NS CONTEXT_IPC_NS CONTEXT_MNT_NS CONTEXT_NET_NS
        CONTEXT_PID_NS CONTEXT_TIME_NS CONTEXT_USER_NS CONTEXT_UTS_NS CONTEXT_COUNTER CONTEXT_STACK CONTEXT_USER_STACK
        CONTEXT_OWN COUNTERS STACK_FRAMES CONTEXT_MAX
        CONTEXT_STACK_COPY COPY_UNIT COPY_MAX COPY_REGISTERS COPY_SLACK
        FOLLOW_TASKS FOLLOW_NONE FOLLOW_AT_EXEC FOLLOW_ALL COPY TEXT TEXT_REL BYTES
        BYTES_REL REGISTER MEMORY CONSTANT STRING STRING_AT UNREAD LENGTH_NUMBER LENGTH_SIGNED LENGTH_PART NO_REGISTER SLOWER_NONE FIELD PID TID CPU CGROUP COMM CHARS
        EQUAL LESS LESS_OR_EQUAL LESS_SIGNED LESS_EQ_SIGNED PASS REJECT ARG_NONE ARG_U32 ARG_U64
        ARG_PATH ARG_SOCKADDR ARG_MESSAGE ARG_STRINGS ARG_NAME ARG_TIMEOUT ARG_TIMEOUT_NARROW
        ARG_OPTION ARG_POLL ARG_SET ARG_EVENTS ARG_MESSAGES ARG_LAYOUT ARG_MEMORY
        MEMORY_MAX NAME_MAX ELEMENTS_MAX POLL_MAX OPTION_MAX LAYOUTS PIECES_MAX PIECE_MAX
        CALL_UNKNOWN CALL_MEMORY CALL_INTERRUPTED CALL_NOT_ZERO CALL_ENTRY
        CALL_EXIT CALL_MOVES CALL_READS CALL_GIVES
        CALL_GIVES_AT READS_MAX NO_ID);
    layout!(out, "strata_abi_kernel_track", kernel::Track, kind generation bytes reserved value);
    layout!(out, "strata_abi_kernel_control", kernel::Control, tracked following tracer changing turn
        unreadable cut unread uncounted full busy on);
    layout!(out, "strata_abi_kernel_part", kernel::Part, kind scale offset bytes index
        addend);
    layout!(out, "strata_abi_kernel_test", kernel::Test, operand comparison bytes is_signed
        offset yes no mask value mask_high value_high);
    layout!(out, "strata_abi_kernel_filter", kernel::Filter, nr_tests nr_early test);
    layout!(out, "strata_abi_kernel_event", kernel::Event, id followed nr_parts reads_again reserved
        contexts switch_at slower every at_most part
        filter);
    layout!(out, "strata_abi_kernel_sampled", kernel::Sampled, seen left_out);
    layout!(out, "strata_abi_kernel_syscall", kernel::Syscall, entry_id exit_id kind exit_kind
        fixed_bytes nr_args offset flags);
    layout!(out, "strata_abi_kernel_piece", kernel::Piece, offset bytes);
    layout!(out, "strata_abi_kernel_layout", kernel::Layout, nr_pieces bytes piece);
    out
}

fn count_mirror() -> String {
    let mut out = String::new();
    constants!(out, count, "STRATA_ABI_COUNT_", KEYS_MAX PART_BYTES NAME DURATION UID GID ABSENT PAIRED VALUE SPREAD
        SIGNED BUCKETS);
    layout!(out, "strata_abi_count_part", count::Part, what at_exit);
    layout!(out, "strata_abi_count", count::Count, nr_keys flags key value);
    layout!(out, "strata_abi_count_key", count::Key, absent part);
    layout!(out, "strata_abi_count_value", count::Value, count sum least most bucket);
    out
}

/// Says which lines of the golden file and of the mirror differ.
fn compare(header: &str, golden: &str, mirror: &str) {
    let wanted: Vec<&str> = golden.lines().filter(|line| !line.starts_with('#')).collect();
    let found: Vec<&str> = mirror.lines().collect();

    let missing: Vec<_> = wanted.iter().filter(|line| !found.contains(line)).collect();
    let surplus: Vec<_> = found.iter().filter(|line| !wanted.contains(line)).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "crates/strata-abi/src/{header}.rs differs from abi/golden/{header}.txt.\n\
         Only in the golden file: {missing:#?}\nOnly in the mirror: {surplus:#?}\n\
         The C header is the source: correct the mirror, and list new fields in this test."
    );
    assert_eq!(wanted, found, "the same facts, in another order");
}

#[test]
fn ring_layout_is_that_of_the_golden_file() {
    compare("ring", include_str!("../../../abi/golden/ring.txt"), &ring_mirror());
}

#[test]
fn filter_layout_is_that_of_the_golden_file() {
    compare("filter", include_str!("../../../abi/golden/filter.txt"), &filter_mirror());
}

#[test]
fn user_layout_is_that_of_the_golden_file() {
    compare("user", include_str!("../../../abi/golden/user.txt"), &user_mirror());
}

#[test]
fn loaded_layout_is_that_of_the_golden_file() {
    compare("loaded", include_str!("../../../abi/golden/loaded.txt"), &loaded_mirror());
}

#[test]
fn count_layout_is_that_of_the_golden_file() {
    compare("count", include_str!("../../../abi/golden/count.txt"), &count_mirror());
}

#[test]
fn kernel_layout_is_that_of_the_golden_file() {
    compare("kernel", include_str!("../../../abi/golden/kernel.txt"), &kernel_mirror());
}
