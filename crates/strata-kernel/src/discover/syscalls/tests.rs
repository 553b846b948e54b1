use super::table::table_of;
use super::table_parser::CallLine;
use super::values::VALUES;
use super::*;
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use strata_abi::kernel::{
    ARG_EVENTS, ARG_LAYOUT, ARG_MESSAGES, ARG_OPTION, ARG_POLL, ARG_SET, CALL_UNKNOWN, COMPAT,
    COMPAT_UNKNOWN, ELEMENTS_MAX, MEMORY_MAX, NAME_MAX, OPTION_MAX, PAYLOAD_MAX, TEXT_MAX,
};
use strata_model::{EventClass, Flags};

fn call(name: &str) -> &'static Syscall {
    find(name).unwrap_or_else(|| panic!("no system call {name}"))
}

fn entry_of(event: &KernelEvent) -> kernel::Syscall {
    match event.probe {
        Probe::Syscall { entry, .. } => entry,
        ref other => panic!("{other:?}"),
    }
}

fn events() -> Vec<KernelEvent> {
    table().iter().chain(compat::table()).map(event).chain([unknown()]).collect()
}

fn named<'a>(fields: &'a [Field], name: &str) -> &'a Field {
    fields.iter().find(|field| field.name == name).unwrap_or_else(|| panic!("no field {name}"))
}

/// Bytes that the programs write for a kind when everything that it points to is empty.
fn least_bytes(kind: u8) -> u64 {
    match kind {
        ARG_NONE => 0,
        ARG_U32 => 4,
        ARG_U64 => 8,
        ARG_PATH => 1,
        ARG_NAME => 1,
        ARG_SOCKADDR | ARG_MESSAGE => 2 + 2 + 1,
        ARG_STRINGS => 2,
        ARG_TIMEOUT => 8 + 16,
        ARG_TIMEOUT_NARROW => 8 + 8,
        ARG_OPTION | ARG_SET => 1,
        ARG_POLL | ARG_EVENTS => 1 + 1,
        ARG_MESSAGES => 2 + 2 + 1 + 4,
        layout if layout & (ARG_MEMORY | ARG_LAYOUT) == ARG_LAYOUT => {
            let layout = layouts()[usize::from(layout & !ARG_LAYOUT)];
            layout.piece.iter().map(|piece| u64::from(piece.bytes)).sum()
        }
        memory if memory & ARG_MEMORY != 0 => u64::from(memory & !ARG_MEMORY),
        other => panic!("kind {other}"),
    }
}

fn most_bytes(kind: u8) -> u64 {
    match kind {
        ARG_PATH => u64::from(TEXT_MAX) + 1,
        ARG_STRINGS => u64::from(TEXT_MAX) + 2,
        ARG_NAME => NAME_MAX.into(),
        ARG_SOCKADDR | ARG_MESSAGE => 2 + 2 + 1 + 126,
        ARG_MESSAGES => 2 + 2 + 1 + 126 + 4,
        ARG_OPTION => 1 + u64::from(OPTION_MAX),
        ARG_SET => 1 + 2 * u64::from(ELEMENTS_MAX),
        ARG_POLL => 2 + (4 + 2) * u64::from(ELEMENTS_MAX),
        ARG_EVENTS => 2 + (4 + 8) * u64::from(ELEMENTS_MAX),
        other => least_bytes(other),
    }
}

#[test]
fn table_every_line_is_a_system_call_in_order_and_once() {
    for machine in arch::ALL {
        let mut lines = 0;
        for (line, parsed) in table_parser::own_or_named(machine.calls) {
            assert!(parsed.is_some(), "{line}");
            lines += 1;
        }
        let table = table_of(machine);
        assert_eq!(table.len(), lines, "{}: each has arguments", machine.name);
        assert!(table.len() > 310, "{}", table.len());
        assert!(table.windows(2).all(|two| two[0].number < two[1].number));
        let names: HashSet<_> = table.iter().map(|syscall| syscall.name).collect();
        assert_eq!(names.len(), table.len());
        assert!(table.iter().all(|syscall| syscall.number < COMPAT));
    }
}

#[test]
fn compat_table_every_line_is_a_system_call_in_order_and_once() {
    let of_x86 = table_of(arch::X86_64);
    for machine in arch::ALL {
        let mut lines = 0;
        for (line, parsed) in table_parser::own_or_named(machine.compat_calls) {
            lines += 1;
            match parsed.unwrap_or_else(|| panic!("{line}")) {
                CallLine::Own(_) => (),
                CallLine::As { call, .. } => {
                    assert!(of_x86.iter().any(|known| known.name == call), "{line}");
                }
            }
        }
        let table = compat::table_of(machine, &table_of(machine));
        assert_eq!(table.len(), lines);
        assert!(table.windows(2).all(|two| two[0].number < two[1].number));
        let names: HashSet<_> = table.iter().map(|syscall| syscall.name).collect();
        assert_eq!(names.len(), lines);
        assert!(table.iter().all(|syscall| syscall.place() < COMPAT_UNKNOWN));
    }
}

#[test]
fn compat_value_of_64_bits_is_in_two_registers() {
    let long = ["u64", "__u64", "loff_t"];
    let of = |machine| compat::table_of(machine, &table_of(machine));
    for syscall in arch::ALL.into_iter().flat_map(of) {
        for argument in &syscall.args {
            let name = (syscall.name, argument.name);
            assert!(!long.contains(&argument.c_type), "{name:?}: {}", argument.c_type);
            assert_ne!(argument.kind(), ARG_U64, "{name:?}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn compat_structures_are_those_of_a_32_bit_program() {
    let kinds = |name: &str| {
        let call = compat::find(name).unwrap_or_else(|| panic!("no {name}"));
        let of = |kind: fn(&Argument) -> u8| call.args.iter().map(kind).collect::<Vec<_>>();
        (of(Argument::kind), of(Argument::exit_kind))
    };
    let memory = |bytes: u8| ARG_MEMORY | bytes;
    assert_eq!(kinds("compat_nanosleep").0, [memory(8), ARG_U32]);
    assert_eq!(kinds("compat_clock_nanosleep_time64").0[2], memory(16));
    assert_eq!(kinds("compat_epoll_pwait2").0[3], memory(16));
    assert_eq!(kinds("compat_setitimer").0[1], memory(16));
    assert_eq!(kinds("compat_setrlimit").0[1], memory(8));
    assert_eq!(
        kinds("compat_prlimit64"),
        (vec![ARG_U32, ARG_U32, memory(16), ARG_U32], vec![0, 0, 0, memory(16)])
    );
    assert_eq!(kinds("compat_openat2").0[2], memory(24));
    assert_eq!(kinds("compat_rt_sigaction").0[1], memory(20));
    assert_eq!(kinds("compat_rt_sigaction").1[2], memory(20));
    assert_eq!(kinds("compat_sigaction"), (vec![ARG_U32; 3], vec![ARG_NONE; 3]));
    assert_eq!(kinds("compat_futex").0[3], ARG_TIMEOUT_NARROW);
    assert_eq!(kinds("compat_futex_time64").0[3], ARG_TIMEOUT);
    assert_eq!(kinds("compat_statfs").1[1], memory(28));
    assert_eq!(kinds("compat_statfs64").1[2], memory(48));
    assert_eq!(kinds("compat_times").1[0], memory(16));
    // Of 16 bits each, and by two numbers: registers only.
    assert_eq!(kinds("compat_getresuid"), (vec![ARG_U32; 3], vec![ARG_NONE; 3]));
    assert_eq!(kinds("compat_getresuid32").1, [memory(4); 3]);
    assert_eq!(kinds("compat_pread64").0, [ARG_U32; 5]);
    assert_eq!(kinds("compat_mmap").0, [ARG_U32]);
    assert_eq!(kinds("compat_select").0, [ARG_U32]);
    assert_eq!(kinds("compat__newselect").0[4], memory(8));
    // Not in the order of x86-64's.
    let clone = compat::find("compat_clone").expect("clone");
    assert_eq!(clone.args[3].name, "tls");
}

/// Offset of each piece.
#[cfg(target_arch = "x86_64")]
#[test]
fn compat_structures_of_a_call_are_those_of_its_own_name() {
    for (name, wanted) in [
        ("compat_stat", &[4, 12, 20, 40][..]),
        ("compat_fstat64", &[88, 16, 24, 44, 72]),
        ("compat_fstatat64", &[88, 16, 24, 44, 72]),
        ("compat_statx", &[0, 20, 32, 112]),
        ("compat_waitid", &[0, 8]),
        ("compat_getrusage", &[0, 32, 64]),
        ("compat_sysinfo", &[0, 16, 32, 52]),
        ("compat_uname", &[65, 130, 260]),
        ("compat_sendmmsg", &[28]),
        ("compat_oldstat", &[]),
        ("compat_olduname", &[]),
        ("compat_oldolduname", &[]),
    ] {
        let call = compat::find(name).unwrap_or_else(|| panic!("no {name}"));
        let is_layout = |kind: &u8| kind & (ARG_MEMORY | ARG_LAYOUT) == ARG_LAYOUT;
        let kind = call.args.iter().map(Argument::exit_kind).find(is_layout);
        let layout = kind.map(|kind| layouts()[usize::from(kind & !ARG_LAYOUT)]);
        let layout = layout.unwrap_or_default();
        let pieces = layout.piece.iter().take(layout.nr_pieces as usize);
        let found: Vec<u16> = pieces.map(|piece| piece.offset).collect();
        assert_eq!(found, wanted, "{name}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn compat_arguments_have_the_labels_that_they_have_elsewhere() {
    for (name, argument, label) in [
        ("compat_clone", "clone_flags", "CLONE_VM"),
        ("compat_fallocate", "mode", "FALLOC_FL_KEEP_SIZE"),
        ("compat_fadvise64", "advice", "POSIX_FADV_RANDOM"),
        ("compat_fadvise64_64", "advice", "POSIX_FADV_RANDOM"),
        ("compat_sync_file_range", "flags", "SYNC_FILE_RANGE_WRITE"),
        ("compat_waitpid", "options", "WNOHANG"),
        ("compat_getrlimit", "resource", "RLIMIT_NOFILE"),
        ("compat__llseek", "whence", "SEEK_END"),
        ("compat_signal", "sig", "SIGUSR1"),
        ("compat_sigaction", "sig", "SIGUSR1"),
        ("compat_sigprocmask", "how", "SIG_BLOCK"),
        ("compat_openat", "flags", "O_CREAT"),
    ] {
        let call = compat::find(name).unwrap_or_else(|| panic!("no {name}"));
        let found = call.args.iter().find(|arg| arg.name == argument);
        let found = found.unwrap_or_else(|| panic!("no {name}.{argument}"));
        assert!(found.labels.iter().any(|one| one.label == label), "{name}.{argument}: {label}");
    }
    let mode = compat::find("compat_fallocate").expect("fallocate").args[1].fields();
    let FieldClass::Enumeration(mode) = &mode[0].class else { panic!("{mode:?}") };
    assert_eq!(mode.integer, Integer { base: Base::Sixteen, ..Integer::unsigned(4) });
}

#[test]
fn compat_is_taken_for_there_unless_the_settings_can_be_seen_without_it() {
    let folder = std::env::temp_dir().join(format!("strata-settings-{}", std::process::id()));
    assert!(compat::are_there_by(&folder), "masked");
    fs::create_dir_all(folder.join("kernel")).expect("a folder");
    let without = compat::are_there_by(&folder);
    fs::create_dir_all(folder.join("abi")).expect("a folder");
    let with = compat::are_there_by(&folder);
    fs::remove_dir_all(&folder).expect("removed");
    assert_eq!((without, with), (false, true));
}

#[test]
fn compat_names_have_their_prefix_and_nothing_is_in_a_copied_register() {
    assert_eq!(recorded_names("openat"), ["syscall_entry_openat", "syscall_exit_openat"]);
    let names = ["compat_syscall_entry_openat", "compat_syscall_exit_openat"];
    assert_eq!(recorded_names("compat_openat"), names);
    for event in ["openat", "compat_openat"] {
        let of = recorded_names(event).map(|name| event_of(&name));
        assert_eq!(of, [Some(event.to_owned()), Some(event.to_owned())]);
        assert_eq!(event_of(event), None);
    }
    for syscall in compat::table() {
        let event = event(syscall);
        assert_eq!(compat::find(&event.name), Some(syscall));
        let entry = entry_of(&event);
        assert_eq!((entry.fixed_bytes, entry.offset), (0, [0; 6]), "{}", event.name);
    }
    assert_eq!(compat::find("openat"), None);
}

#[test]
fn no_call_has_more_than_four_arguments_in_memory() {
    for event in events() {
        let kinds = entry_of(&event).kind;
        let memory = kinds.iter().filter(|kind| is_read_again(**kind)).count();
        assert!(memory <= 4, "{}", event.name);
    }
}

#[test]
fn tables_have_every_number_of_the_installed_headers() {
    let folders = ["/usr/include/x86_64-linux-gnu/asm", "/usr/x86_64-linux-gnu/include/asm"];
    let x86 = table_of(arch::X86_64);
    has_every_number(&folders, "unistd_64.h", &x86);
    has_every_number(&folders, "unistd_32.h", &compat::table_of(arch::X86_64, &x86));
    for machine in arch::ALL {
        let name = machine.name;
        // What its compiler makes of its own header, where that is not one with all numbers.
        if name == arch::X86_64.name {
            continue;
        }
        let done = std::process::Command::new(format!("{name}-linux-gnu-gcc"))
            .args(["-E", "-dM", "-include", "asm/unistd.h", "-x", "c", "/dev/null"])
            .output();
        match done.map(|done| String::from_utf8_lossy(&done.stdout).into_owned()) {
            Ok(text) => has_every_line(name, &text, &table_of(machine)),
            Err(_) => eprintln!("skipped: missing tool: {name}-linux-gnu-gcc"),
        }
    }
}

fn has_every_number(folders: &[&str], header: &str, table: &[Syscall]) {
    let mut headers = folders.iter().map(|folder| Path::new(folder).join(header));
    let Some(text) = headers.find_map(|path| fs::read_to_string(path).ok()) else {
        eprintln!("skipped: no asm/{header} (linux-libc-dev)");
        return;
    };
    has_every_line(header, &text, table);
}

fn has_every_line(header: &str, text: &str, table: &[Syscall]) {
    let mut found = 0;
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let ["#define", define, number] = words[..] else { continue };
        let Some(name) = define.strip_prefix("__NR_") else { continue };
        // Of another call: __NR_fcntl is __NR3264_fcntl in headers that serve machines of both sizes.
        let Ok(number) = number_in(text, number).parse::<u32>() else { continue };
        if matches!(name, "syscalls" | "arch_specific_syscall" | "sync_file_range2") {
            continue;
        }
        let syscall = table.iter().find(|syscall| syscall.number == number);
        assert_eq!(syscall.map(|syscall| syscall.name), Some(name), "{header}: number {number}");
        found += 1;
    }
    assert!(found > 300, "{found} in the header");
}

/// Returns the number for which a name stands in the text.
fn number_in<'t>(text: &'t str, name: &'t str) -> &'t str {
    let of_name =
        |line: &'t str| line.strip_prefix("#define ")?.strip_prefix(name)?.strip_prefix(' ');
    match name.starts_with("__NR3264_") {
        true => text.lines().find_map(of_name).unwrap_or(name),
        false => name,
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn rules_name_only_arguments_that_there_are() {
    let all: Vec<_> = table_parser::values(VALUES, arch::here_or_any().values)
        .map(|values| values.expect("a paragraph"))
        .collect();
    let of_values = all.iter().flat_map(|values| values.of.iter().copied());
    let mut seen = HashSet::new();
    for (syscall, argument) in of_values {
        assert!(seen.insert((syscall, argument)), "{syscall}.{argument} twice");
    }
    let mut ruled = HashSet::new();
    for ((syscall, argument), _) in argument_meaning::named() {
        assert!(ruled.insert((syscall, argument)), "{syscall}.{argument} twice");
    }
    let all = || table().iter().chain(compat::table());
    for (syscall, argument) in seen.union(&ruled) {
        let mut named = all().filter(|call| [call.name, call.kernel_name].contains(syscall));
        let is_there = named.any(|call| call.args.iter().any(|arg| arg.name == *argument));
        assert!(is_there, "{syscall}.{argument}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn labels_are_of_arguments_that_are_registers() {
    let all: Vec<_> = table_parser::values(VALUES, arch::here_or_any().values).flatten().collect();
    for (syscall, argument) in all.iter().flat_map(|values| &values.of) {
        // Some are of 32-bit programs only.
        let mut all = table().iter().chain(compat::table());
        let known = all.find(|call| [call.name, call.kernel_name].contains(syscall));
        let args = &known.unwrap_or_else(|| panic!("no {syscall}")).args;
        let argument = args.iter().find(|arg| arg.name == *argument).expect("an argument");
        let fields = argument.fields();
        assert!(
            matches!(&fields[..], [Field { class: FieldClass::Enumeration(_), .. }]),
            "{syscall}.{}",
            argument.name
        );
    }
}

#[test]
fn every_event_is_valid_at_both_ends() {
    for event in events() {
        for (end, fields) in [("entry", &event.fields), ("exit", &event.exit_fields)] {
            let class = EventClass {
                id: 1,
                name: format!("{}_{end}", event.name),
                provider: String::new(),
                loglevel: None,
                emf_uri: None,
                context: Vec::new(),
                fields: fields.clone(),
            };
            class.validate().unwrap_or_else(|error| panic!("{}: {error}", class.name));
        }
    }
}

#[test]
fn every_field_has_the_bytes_that_the_program_writes() {
    for event in events() {
        let entry = entry_of(&event);
        let extra = u64::from(entry.flags & CALL_UNKNOWN) * 8;
        let at_entry: u64 = event.fields.iter().map(Field::min_bytes).sum();
        let at_exit: u64 = event.exit_fields.iter().map(Field::min_bytes).sum();
        let sum = |kinds: &[u8; 6]| kinds.iter().map(|kind| least_bytes(*kind)).sum::<u64>();
        assert_eq!(at_entry, sum(&entry.kind) + extra, "{} at entry", event.name);
        assert_eq!(at_exit, sum(&entry.exit_kind) + extra + 8, "{} at exit", event.name);
        assert_eq!(event.exit_fields[0].name, "ret");
    }
}

#[test]
fn fixed_bytes_and_offsets_follow_from_the_kinds() {
    for event in events() {
        let entry = entry_of(&event);
        let is_number = |kind: &u8| matches!(*kind, ARG_NONE | ARG_U32 | ARG_U64);
        let read: Vec<u8> = entry.kind.into_iter().filter(|kind| !is_number(kind)).collect();
        let is_native = !event.name.starts_with("compat_");
        let is_short = match read[..] {
            [ARG_SOCKADDR] => true,
            // The programs look for the register of a timeout in this argument only.
            [ARG_TIMEOUT] => !is_native || entry.kind[3] == ARG_TIMEOUT,
            [kind] => kind & ARG_MEMORY != 0 && kind & 127 <= kernel::READS_MAX,
            _ => false,
        };
        let reads = is_native && is_short;
        assert_eq!(entry.flags & kernel::CALL_READS != 0, reads, "{}", event.name);
        let is_copied = is_native && (read.is_empty() || is_short);
        let mut end = 0;
        for (kind, offset) in entry.kind.iter().zip(entry.offset) {
            if *kind != ARG_NONE {
                assert_eq!(u64::from(offset), if is_copied { end } else { 0 }, "{}", event.name);
                end += least_bytes(*kind);
            }
        }
        assert_eq!(u64::from(entry.fixed_bytes), if is_copied { end } else { 0 }, "{}", event.name);
        let last = entry.kind.iter().rposition(|kind| *kind != ARG_NONE).map_or(0, |last| last + 1);
        assert_eq!(usize::from(entry.nr_args), last, "{}", event.name);
        assert_eq!((entry.entry_id, entry.exit_id), (NO_ID, NO_ID));
    }
    let reads = ["epoll_ctl", "futex", "clock_nanosleep", "sendto", "connect"];
    for name in reads {
        let entry = entry_of(&event(find(name).unwrap()));
        assert_ne!(entry.flags & kernel::CALL_READS, 0, "{name}");
    }
}

#[test]
fn calls_that_give_one_address_or_events_say_where() {
    let given = |name: &str| {
        let entry = entry_of(&event(find(name).unwrap()));
        let at = (entry.flags / kernel::CALL_GIVES_AT) & 7;
        (entry.flags & kernel::CALL_GIVES != 0).then_some((at, entry.exit_kind[at as usize]))
    };
    assert_eq!(given("epoll_wait"), Some((1, ARG_EVENTS)));
    assert_eq!(given("recvfrom"), Some((4, ARG_SOCKADDR)));
    assert_eq!(given("accept4"), Some((1, ARG_SOCKADDR)));
    assert_eq!(given("fstat"), None);
    assert_eq!(given("read"), None);
}

#[test]
fn longest_record_of_every_event_fits() {
    for event in events() {
        let entry = entry_of(&event);
        for kinds in [&entry.kind, &entry.exit_kind] {
            let most: u64 = 8 + 8 + kinds.iter().map(|kind| most_bytes(*kind)).sum::<u64>();
            assert!(most <= u64::from(PAYLOAD_MAX), "{}: {most} bytes", event.name);
        }
    }
}

#[test]
fn address_of_a_socket_has_its_length_in_the_next_argument() {
    for syscall in table() {
        for (index, argument) in syscall.args.iter().enumerate() {
            let next = syscall.args.get(index + 1);
            if [ARG_SOCKADDR, ARG_OPTION].contains(&argument.kind()) {
                assert_eq!(next.map(|next| next.c_type), Some("int"), "{}", syscall.name);
            }
            if [ARG_SOCKADDR, ARG_OPTION].contains(&argument.exit_kind()) {
                assert_eq!(next.map(|next| next.c_type), Some("int *"), "{}", syscall.name);
            }
        }
    }
}

#[test]
fn strings_and_structures_are_of_pointers_to_them() {
    for syscall in table().iter().chain(compat::table()) {
        for argument in &syscall.args {
            let (name, of) = (syscall.name, argument.c_type);
            match argument.kind() {
                ARG_PATH | ARG_NAME => assert!(of.ends_with("char *"), "{name}: {of}"),
                ARG_STRINGS => assert_eq!(of, "const char *const *", "{name}"),
                ARG_MESSAGE => {
                    assert!(of == "struct user_msghdr *" || of == "struct mmsghdr *", "{name}");
                }
                ARG_TIMEOUT | ARG_TIMEOUT_NARROW => assert!(of.ends_with("timespec *"), "{name}"),
                ARG_POLL => assert_eq!(of, "struct pollfd *", "{name}"),
                ARG_SET => assert_eq!(of, "fd_set *", "{name}"),
                ARG_OPTION => assert_eq!(of, "char *", "{name}"),
                ARG_U32 => assert!(syscall.is_compat || !of.contains('*'), "{name}: {of}"),
                _ => (),
            }
            for kind in [argument.kind(), argument.exit_kind()] {
                if kind & ARG_MEMORY != 0 {
                    let bytes = kind & !ARG_MEMORY;
                    assert!(of.ends_with('*') && bytes % 4 == 0, "{name}: {of}");
                    assert!((4..=MEMORY_MAX).contains(&bytes), "{name}: {bytes}");
                    let is_time = of.contains("timespec") || of.contains("timeval");
                    let is_rest = argument.name == "rmtp";
                    let flags = entry_of(&event(syscall)).flags;
                    assert_eq!(is_rest, is_rest && flags & kernel::CALL_INTERRUPTED != 0, "{name}");
                    assert!(!is_time || [8, 16, 32].contains(&bytes), "{name}: {of}");
                }
            }
            match argument.exit_kind() {
                ARG_PATH => assert_eq!(of, "char *", "{name}"),
                ARG_EVENTS => assert_eq!(of, "struct epoll_event *", "{name}"),
                ARG_MESSAGES => assert_eq!(of, "struct mmsghdr *", "{name}"),
                ARG_NONE | ARG_SOCKADDR | ARG_MESSAGE | ARG_OPTION | ARG_POLL | ARG_SET => (),
                kind => {
                    assert!(kind & (ARG_MEMORY | ARG_LAYOUT) != 0, "{name}: {kind}");
                    assert!(of.starts_with("struct ") || kind & ARG_MEMORY != 0, "{name}: {of}");
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn types_that_are_not_known_are_pointers_behind_a_name() {
    let types = table().iter().flat_map(|syscall| &syscall.args).map(|argument| argument.c_type);
    let unknown: HashSet<_> = types
        .filter(|c_type| {
            !c_type.contains('*') && argument_meaning::of_type(c_type) == number::POINTER
        })
        .collect();
    let pointers =
        ["aio_context_t", "cap_user_header_t", "cap_user_data_t", "const cap_user_data_t"];
    assert_eq!(unknown, HashSet::from(pointers));
}

#[test]
fn sources_are_the_registers_of_fields_of_the_same_size() {
    for event in events() {
        for source in &event.sources {
            let field = named(&event.fields, &source.field);
            assert_eq!(field.min_bytes(), u64::from(source.bytes), "{}", event.name);
            let (signed, labels) = match &field.class {
                FieldClass::Integer(integer) => (integer.signed, 0),
                FieldClass::Enumeration(of) => (of.integer.signed, of.labels.len()),
                other => panic!("{}: {other:?}", event.name),
            };
            assert_eq!((signed, labels), (source.is_signed, source.labels.len()));
            let index = usize::from(source.offset / 8);
            assert!(index < usize::from(entry_of(&event).nr_args));
        }
        assert_eq!(event.exit_sources, [ret_source()]);
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn openat_has_its_fields_in_order_and_the_name_as_text() {
    let event = event(call("openat"));
    let names: Vec<_> = event.fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["dfd", "filename", "flags", "mode"]);
    assert_eq!(event.fields[0].class, FieldClass::Integer(Integer::signed(4)));
    assert_eq!(event.fields[1].class, FieldClass::String);
    let base = |base| Integer { base, ..Integer::unsigned(4) };
    let FieldClass::Enumeration(flags) = &event.fields[2].class else { panic!("no labels") };
    assert_eq!((flags.integer, flags.flags), (base(Base::Sixteen), Some(Flags { low_bits: 2 })));
    assert_eq!(event.fields[3].class, FieldClass::Integer(base(Base::Eight)));
    assert_eq!(entry_of(&event).kind, [ARG_U32, ARG_PATH, ARG_U32, ARG_U32, 0, 0]);
    let offsets: Vec<_> =
        event.sources.iter().map(|source| (source.field.as_str(), source.offset)).collect();
    assert_eq!(offsets, [("dfd", 0), ("flags", 16), ("mode", 24)]);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn accept_has_the_address_at_exit_and_the_pointer_at_entry() {
    let event = event(call("accept4"));
    let entry = entry_of(&event);
    assert_eq!(entry.kind, [ARG_U32, ARG_U64, ARG_U64, ARG_U32, 0, 0]);
    assert_eq!(entry.exit_kind, [0, ARG_SOCKADDR, 0, 0, 0, 0]);
    assert_eq!((entry.fixed_bytes, entry.offset), (24, [0, 4, 12, 20, 0, 0]));
    let names: Vec<_> = event.exit_fields.iter().map(|field| field.name.as_str()).collect();
    let of = ["family", "port", "addr"].map(|part| format!("upeer_sockaddr_{part}"));
    assert_eq!(names, [&["ret".to_owned()][..], &of[..]].concat());
}

#[cfg(target_arch = "x86_64")]
#[test]
fn contents_of_buffers_are_never_recorded() {
    for (name, argument) in [
        ("write", "buf"),
        ("read", "buf"),
        ("pwrite64", "buf"),
        ("sendto", "buff"),
        ("recvfrom", "ubuf"),
        ("execve", "envp"),
        ("setxattr", "value"),
        ("add_key", "_payload"),
        ("mount", "data"),
        ("mq_timedsend", "u_msg_ptr"),
        ("getrandom", "ubuf"),
        ("readv", "vec"),
        ("ioctl", "arg"),
    ] {
        let found = call(name).args.iter().find(|arg| arg.name == argument);
        let found = found.unwrap_or_else(|| panic!("no {name}.{argument}"));
        assert_eq!((found.kind(), found.exit_kind()), (ARG_U64, ARG_NONE), "{name}.{argument}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn flags_that_may_come_with_a_value_are_in_its_label() {
    let label = |name: &str, argument: &str, value: i64| {
        let argument = call(name).args.iter().find(|arg| arg.name == argument).expect("argument");
        let label = argument.labels.iter().find(|label| label.from == value);
        label.map(|label| label.label.clone())
    };
    let stream = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    assert_eq!(
        label("socket", "type", stream.into()).as_deref(),
        Some("SOCK_STREAM|SOCK_NONBLOCK|SOCK_CLOEXEC")
    );
    let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    assert_eq!(label("futex", "op", wake.into()).as_deref(), Some("FUTEX_WAKE|FUTEX_PRIVATE_FLAG"));
    let cloexec = libc::F_DUPFD_CLOEXEC;
    assert_eq!(label("fcntl", "cmd", cloexec.into()).as_deref(), Some("F_DUPFD_CLOEXEC"));
    assert_eq!(label("tgkill", "sig", libc::SIGIO.into()).as_deref(), Some("SIGIO"));
}

/// A reader takes the bits of the first that it finds.
#[test]
fn flags_of_several_bits_are_in_front_of_theirs() {
    for values in table_parser::values(VALUES, arch::here_or_any().values).flatten() {
        let Some(flags) = values.flags else { continue };
        let bits = |label: &Label| label.from as u64 & !flags.number();
        assert!(values.labels.iter().any(|label| bits(label) != 0), "{:?}", values.of);
        for (index, label) in values.labels.iter().enumerate() {
            let of = format!("{:?} {}", values.of, label.label);
            let (here, low) = (bits(label), label.from as u64 & flags.number());
            assert!(here == 0 || low == 0, "{of} is a value and a flag");
            let is_hidden = |before: &Label| here & bits(before) == bits(before) && here != 0;
            let before = &values.labels[..index];
            assert!(!before.iter().any(|one| bits(one) != 0 && is_hidden(one)), "{of}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn find_takes_either_name() {
    assert_eq!(find("newstat"), find("stat"));
    assert_eq!(call("umount2").kernel_name, "umount");
    assert_eq!(find("uname").map(|syscall| syscall.number), Some(63));
    assert_eq!(find("sys_read"), None);
    assert_eq!(not_in_table(["newstat", "no_such_call", "read"]), ["no_such_call"]);
}

#[test]
fn unknown_has_its_number_and_interface_before_six_registers() {
    let event = unknown();
    let names: Vec<_> = event.fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["nr", "abi", "arg0", "arg1", "arg2", "arg3", "arg4", "arg5"]);
    let exit: Vec<_> = event.exit_fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(exit, ["ret", "nr", "abi"]);
    let entry = entry_of(&event);
    assert_eq!((entry.fixed_bytes, entry.nr_args, entry.flags), (48, 6, 1));
    assert_eq!(event.sources[5].offset, 40);
}

/// "const char *name" and "const char * name" alike.
#[cfg(target_arch = "x86_64")]
fn declaration(text: &str) -> Vec<String> {
    text.replace('*', " * ").split_whitespace().map(str::to_owned).collect()
}

/// Kernels rename arguments now and then, but never change how many there are: the table's own kernel must
/// agree in all, every other in that.
#[cfg(target_arch = "x86_64")]
#[test]
fn table_agrees_with_the_running_kernel() {
    let Some(folder) = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .map(|mounted| Path::new(mounted).join("events/syscalls"))
        .into_iter()
        .find(|folder| fs::read_dir(folder).is_ok())
    else {
        eprintln!("skipped: no tracefs, no right to read it, or no CONFIG_FTRACE_SYSCALLS");
        return;
    };
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let is_own = release.starts_with("6.18.");
    let (mut compared, mut differ) = (0, 0);
    for syscall in table() {
        let path = folder.join(format!("sys_enter_{}/format", syscall.kernel_name));
        let Ok(format) = fs::read_to_string(&path) else { continue };
        let of_kernel: Vec<_> = format.lines().filter_map(argument_of_format).collect();
        assert_eq!(of_kernel.len(), syscall.args.len(), "{}", syscall.name);
        compared += 1;
        for (found, ours) in of_kernel.iter().zip(&syscall.args) {
            let ours = format!("{} {}", ours.c_type, ours.name);
            if declaration(found) != declaration(&ours) {
                eprintln!("{}: '{found}' here, '{ours}' in the table", syscall.name);
                differ += 1;
            }
        }
    }
    assert!(compared > 300, "{compared} compared");
    assert!(!is_own || differ == 0, "{differ} arguments differ from Linux {release}");
    eprintln!("{compared} system calls compared with Linux {}", release.trim());
    if is_own {
        let names: Vec<_> = fs::read_dir(&folder)
            .expect("the folder")
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| name.strip_prefix("sys_enter_").map(str::to_owned))
            .collect();
        assert_eq!(not_in_table(names.iter().map(String::as_str)), [""; 0]);
    }
}

/// An argument's declaration in a `format` file; those before offset 16 are not the call's own.
#[cfg(target_arch = "x86_64")]
fn argument_of_format(line: &str) -> Option<&str> {
    let (field, rest) = line.trim().strip_prefix("field:")?.split_once(';')?;
    let (_, offset) = rest.split_once("offset:")?;
    let offset: u32 = offset.split_once(';')?.0.parse().ok()?;
    (offset >= 16).then_some(field)
}

#[cfg(target_arch = "x86_64")]
#[test]
fn records_of_what_is_read_again_name_the_calls_that_have_it() {
    let expected = [
        ("syscall_text", 1, ["openat", "compat_openat"], "connect"),
        ("syscall_address", 2 + 2 + 1, ["connect", "compat_sendmsg"], "openat"),
        ("syscall_memory", 1, ["nanosleep", "compat_futex"], "connect"),
    ];
    for ((name, fields), (wanted, bytes, calls, other)) in again_classes().into_iter().zip(expected)
    {
        assert_eq!(name, wanted);
        let class = EventClass {
            id: 1,
            name: name.to_owned(),
            provider: String::new(),
            loglevel: None,
            emf_uri: None,
            context: Vec::new(),
            fields: fields.clone(),
        };
        class.validate().unwrap_or_else(|error| panic!("{error}"));
        let names: Vec<_> = fields.iter().take(2).map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["call", "argument"]);
        assert_eq!(fields.iter().map(Field::min_bytes).sum::<u64>(), 4 + 1 + bytes);
        let FieldClass::Enumeration(of) = &fields[0].class else { panic!("{:?}", fields[0]) };
        let label = |name: &str| of.labels.iter().find(|label| label.label == name);
        for call in calls {
            let known = compat::find(call).or_else(|| find(call)).expect("a call");
            assert_eq!(label(call).map(|label| label.from), Some(known.place().into()), "{name}");
        }
        assert_eq!(label(other), None, "{name}");
        assert_eq!(label("read"), None, "{name}");
    }
}

/// A reader has the fields' names only: records of what is read again name arguments by their numbers.
#[test]
fn reader_finds_the_arguments_of_every_call_in_its_fields() {
    use strata_ctf::{metadata, read};
    use strata_model::syscalls::{arguments, ArgumentKind};
    use strata_model::{ByteOrder, ClockClass, RecordHeader, StreamClass, Trace, Uuid};

    let calls: Vec<&Syscall> = table().iter().chain(compat::table()).collect();
    let class = |(id, call): (usize, &&Syscall)| EventClass {
        id: id as u32,
        name: recorded_names(&call.event_name())[0].clone(),
        provider: String::new(),
        loglevel: None,
        emf_uri: None,
        context: Vec::new(),
        fields: call.args.iter().flat_map(Argument::fields).collect(),
    };
    let stream = StreamClass {
        id: 0,
        name: "channel".to_owned(),
        header: RecordHeader::Large,
        context: Vec::new(),
        events: calls.iter().enumerate().map(class).collect(),
    };
    let trace = Trace {
        uuid: Uuid([1; 16]),
        byte_order: ByteOrder::Little,
        environment: Vec::new(),
        clock: ClockClass::monotonic(None, 0),
        streams: vec![stream],
    };
    let schema =
        read::metadata::parse(metadata::write(&trace).as_bytes()).expect("our own metadata");
    let read = &schema.streams[0].events;
    assert_eq!(read.len(), calls.len());
    let mut compared = 0;
    for (call, class) in calls.iter().zip(read) {
        let payload = class.payload.clone().unwrap_or_default();
        let name = |at: &usize| payload.members[*at].name.clone();
        let found = arguments(&payload).into_iter();
        let found = found.map(|one| (one.kind, one.members.iter().map(name).collect()));
        let found: Vec<(ArgumentKind, Vec<String>)> = found.collect();
        let wanted = call.args.iter().map(|argument| {
            let mut fields = argument.fields();
            if matches!(argument.kind(), ARG_TIMEOUT | ARG_TIMEOUT_NARROW) {
                // The pointer is no part of what is behind it.
                fields.remove(0);
            }
            let kind = match argument.kind() {
                ARG_PATH | ARG_NAME | ARG_STRINGS => ArgumentKind::Text,
                ARG_SOCKADDR | ARG_MESSAGE => ArgumentKind::Address,
                kind if is_words(kind) && fields.len() > 1 => ArgumentKind::Structure,
                _ => ArgumentKind::Single,
            };
            (kind, fields.into_iter().map(|field| field.name).collect())
        });
        let wanted: Vec<_> = wanted.collect();
        assert_eq!(found, wanted, "{}", call.event_name());
        compared += found.len();
    }
    assert!(compared > 1000, "{compared} arguments");
}
