use super::*;
use strata_abi::kernel::{BYTES, BYTES_REL, COPY, TEXT, TEXT_REL};
use strata_model::Flags;
use strata_random::Random;

/// A format file of a kernel 6.18.
macro_rules! saved {
    ($event:literal) => {
        include_str!(concat!("../../../tests/data/tracefs/events/", $event, "/format"))
    };
}

fn saved(text: &str) -> EventFormat {
    EventFormat::parse(text).expect("a saved format file")
}

fn layout(format: &EventFormat) -> EventLayout {
    format.layout(|field| field.name.clone()).expect("it can be recorded")
}

/// Kind, offset and bytes of each part.
fn parts(format: &EventFormat) -> Vec<(u8, u16, u16)> {
    layout(format).parts.iter().map(|part| (part.kind, part.offset, part.bytes)).collect()
}

/// A format file with these lines of fields, behind the common ones.
fn written(fields: &str, print: &str) -> String {
    format!(
        "name: mine\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\t\
         signed:0;\n\n{fields}\nprint fmt: {print}\n"
    )
}

/// The only field of a format file.
fn one(declaration: &str, bytes: u16, is_signed: u8, print: &str) -> FormatField {
    let line = format!("\tfield:{declaration};\toffset:8;\tsize:{bytes};\tsigned:{is_signed};\n");
    let format = EventFormat::parse(&written(&line, print)).expect(declaration);
    let [field] = format.fields.as_slice() else { panic!("{:?}", format.fields) };
    field.clone()
}

fn labels(format: &EventFormat, field: &str) -> Vec<(i64, String)> {
    let field = format.field(field).expect(field);
    field.labels.iter().map(|label| (label.from, label.label.clone())).collect()
}

fn base(format: &EventFormat, field: &str) -> Base {
    format.field(field).expect(field).base
}

fn named(pairs: &[(i64, &str)]) -> Vec<(i64, String)> {
    pairs.iter().map(|(value, label)| (*value, (*label).to_owned())).collect()
}

#[test]
fn parse_of_sched_switch_finds_fields_without_the_common_ones() {
    let format = saved(saved!("sched/sched_switch"));
    assert_eq!((format.name.as_str(), format.id), ("sched_switch", 372));
    let found: Vec<_> = format
        .fields
        .iter()
        .map(|field| (field.name.as_str(), field.c_type.as_str(), field.offset, field.bytes))
        .collect();
    let expected = [
        ("prev_comm", "char", 8, 16),
        ("prev_pid", "pid_t", 24, 4),
        ("prev_prio", "int", 28, 4),
        ("prev_state", "long", 32, 8),
        ("next_comm", "char", 40, 16),
        ("next_pid", "pid_t", 56, 4),
        ("next_prio", "int", 60, 4),
    ];
    assert_eq!(found, expected);
    // One state and a bit, and decimal as analyses have it.
    let state = format.field("prev_state").expect("prev_state");
    assert_eq!((state.base, state.flags), (Base::Ten, Some(Flags { low_bits: 8 })));
    let found = labels(&format, "prev_state");
    assert_eq!((&found[0], &found[1]), (&(0, "R".into()), &(1, "S".into())));
    assert_eq!((&found[8], &found[9..]), (&(128, "I".into()), &[(256, "+".into())][..]));
    assert_eq!(parts(&format), [(COPY, 8, 56)]);
}

#[test]
fn sources_of_sched_switch_are_numbers_and_texts() {
    let sources = layout(&saved(saved!("sched/sched_switch"))).sources;
    let found: Vec<_> = sources
        .iter()
        .map(|source| (source.field.as_str(), source.offset, source.bytes, source.is_signed))
        .collect();
    let expected = [
        ("prev_comm", 8, 16, false),
        ("prev_pid", 24, 4, true),
        ("prev_prio", 28, 4, true),
        ("prev_state", 32, 8, true),
        ("next_comm", 40, 16, false),
        ("next_pid", 56, 4, true),
        ("next_prio", 60, 4, true),
    ];
    assert_eq!(found, expected);
}

#[test]
fn data_loc_of_text_is_a_sequence_of_text() {
    let format = saved(saved!("irq/irq_handler_entry"));
    let text = Sequence { element: Element::Text, length_bytes: 2 };
    assert_eq!(format.field("name").map(FormatField::class), Some(FieldClass::Sequence(text)));
    assert_eq!(parts(&format), [(COPY, 8, 4), (TEXT, 12, 4)]);
    assert_eq!(layout(&format).sources.len(), 1);
}

#[test]
fn data_loc_of_anything_else_is_a_sequence_of_bytes() {
    let bytes = |format: &EventFormat, field| match format.field(field).map(FormatField::class) {
        Some(FieldClass::Sequence(sequence)) => (sequence.element.bytes(), sequence.length_bytes),
        other => panic!("{field}: {other:?}"),
    };
    let mask = saved(saved!("ipi/ipi_send_cpumask"));
    assert_eq!(bytes(&mask, "cpumask"), (1, 2));
    assert_eq!(parts(&mask), [(BYTES, 8, 4), (COPY, 16, 16)]);
    let map = saved(saved!("dma/dma_map_sg"));
    assert_eq!(bytes(&map, "dma_addrs"), (1, 2));
    let expected = [
        (TEXT, 8, 4),
        (COPY, 12, 9),
        (BYTES, 24, 4),
        (BYTES, 28, 4),
        (BYTES, 32, 4),
        (COPY, 36, 12),
    ];
    assert_eq!(parts(&map), expected);
    assert_eq!(parts(&saved(saved!("ras/arm_event"))).len(), 9);
}

#[test]
fn rel_loc_is_distinguished_from_data_loc() {
    let lines = "\tfield:__rel_loc char[] text;\toffset:8;\tsize:4;\tsigned:1;\n\
                 \tfield:__rel_loc u8[] raw;\toffset:12;\tsize:4;\tsigned:0;\n\
                 \tfield:__data_loc u16[] wide;\toffset:16;\tsize:4;\tsigned:0;\n";
    let format = saved(&written(lines, "\"%s\", __get_rel_str(text)"));
    assert_eq!(parts(&format), [(TEXT_REL, 8, 4), (BYTES_REL, 12, 4), (BYTES, 16, 4)]);
}

#[test]
fn bytes_between_fields_are_not_copied() {
    // 12 to 15 and 44 to 44 + 16 + 4 of block_rq_issue: nothing after `dev` until `sector`.
    assert_eq!(
        parts(&saved(saved!("block/block_rq_issue"))),
        [(COPY, 8, 4), (COPY, 16, 44), (TEXT, 60, 4)]
    );
}

#[test]
fn print_symbolic_of_a_field_gives_labels() {
    let format = saved(saved!("irq/softirq_entry"));
    let found = labels(&format, "vec");
    assert_eq!((found.len(), &found[0], &found[9]), (10, &(0, "HI".into()), &(9, "RCU".into())));
    let Some(FieldClass::Enumeration(class)) = format.field("vec").map(FormatField::class) else {
        panic!("no enumeration")
    };
    assert_eq!(class.integer, Integer::unsigned(4));

    let start = saved(saved!("writeback/writeback_start"));
    assert_eq!(labels(&start, "reason")[..2], named(&[(0, "background"), (1, "vmscan")]));
    let state = saved(saved!("sock/inet_sock_set_state"));
    assert_eq!(labels(&state, "family"), named(&[(2, "AF_INET"), (10, "AF_INET6")]));
    assert_eq!(labels(&state, "newstate").len(), 12);
    // The table's end, { -1, NULL }, is no label.
    assert_eq!(labels(&saved(saved!("xdp/xdp_exception")), "act").len(), 5);
}

#[test]
fn print_symbolic_of_names_only_the_compiler_knows_gives_an_integer() {
    let format = saved(saved!("timer/hrtimer_start"));
    let class = format.field("mode").map(FormatField::class);
    assert_eq!(class, Some(FieldClass::Integer(Integer::unsigned(4))));
}

#[test]
fn print_symbolic_of_enumerators_whose_values_are_reported_gives_labels() {
    let enumerator = |name: &str| match name {
        "HRTIMER_MODE_ABS" => Some(0),
        "HRTIMER_MODE_REL_SOFT" => Some(5),
        _ => None,
    };
    let format =
        EventFormat::parse_with(saved!("timer/hrtimer_start"), &enumerator).expect("saved");
    assert_eq!(labels(&format, "mode"), named(&[(0, "ABS"), (5, "REL|SOFT")]));
}

#[test]
fn print_symbolic_of_a_part_of_a_field_gives_no_labels() {
    assert!(labels(&saved(saved!("block/block_rq_issue")), "ioprio").is_empty());
    // One table for Intel's reasons, of 16 bits, and one for AMD's, of all.
    assert!(labels(&saved(saved!("kvm/kvm_exit")), "exit_reason").is_empty());
}

#[test]
fn print_symbolic_with_two_tables_or_flags_gives_no_labels() {
    let print = r#""%s%s", __print_symbolic(REC->x, {1, "a"}), __print_symbolic(REC->x, {1, "b"})"#;
    assert!(one("int x", 4, 1, print).labels.is_empty());
    let print = r#""%s", __print_symbolic(REC->x, {1, "a"}), __print_flags(REC->x, "|", {2, "b"})"#;
    assert!(one("int x", 4, 1, print).labels.is_empty());
    let print = r#""%s%s", __print_symbolic(REC->x, {1, "a"}), __print_symbolic(REC->x, {1, "a"})"#;
    assert_eq!(one("int x", 4, 1, print).labels.len(), 1);
}

#[test]
fn print_symbolic_of_values_the_field_cannot_have_leaves_them_out() {
    let print = r#""%s", __print_symbolic(REC->x, {-1, "a"}, {255, "b"}, {256, "c"}, {255, "d"})"#;
    let values = |field: &FormatField| -> Vec<_> {
        field.labels.iter().map(|label| (label.from, label.label.clone())).collect()
    };
    assert_eq!(values(&one("u8 x", 1, 0, print)), named(&[(255, "b")]));
    assert_eq!(values(&one("s8 x", 1, 1, print)), named(&[(-1, "a")]));
    // Of 8 bytes -1 is all bits.
    let print = r#""%s", __print_symbolic(REC->x, {-6ULL, "a"}, {0xffffffffffffffffULL, "b"})"#;
    assert_eq!(values(&one("u64 x", 8, 0, print)), named(&[(-6, "a"), (-1, "b")]));
    assert_eq!(values(&one("s64 x", 8, 1, print)), named(&[(-6, "a"), (-1, "b")]));
}

#[test]
fn print_symbolic_behind_a_cast_to_fewer_bytes_gives_no_labels() {
    let print = r#""%s", __print_symbolic((u8)REC->x, {1, "a"})"#;
    assert!(one("int x", 4, 1, print).labels.is_empty());
    let print = r#""%s", __print_symbolic((unsigned long)REC->x, {1, "a"})"#;
    assert_eq!(one("int x", 4, 1, print).labels.len(), 1);
}

#[test]
fn label_with_quotes_commas_and_braces_is_whole() {
    let print = r#""%s", __print_symbolic(REC->x, { (1 << 3), "a, \"b\"})" " c\n" }, { 2, "d" })"#;
    let field = one("int x", 4, 1, print);
    let found: Vec<_> = field.labels.iter().map(|label| (label.from, &*label.label)).collect();
    assert_eq!(found, [(8, "a, \"b\"}) c "), (2, "d")]);
}

#[test]
fn flags_and_pointers_are_hexadecimal_numbers() {
    let lock = saved(saved!("filelock/posix_lock_inode"));
    assert_eq!(base(&lock, "flags"), Base::Sixteen);
    assert_eq!(base(&lock, "owner"), Base::Sixteen);
    assert_eq!(base(&lock, "i_ino"), Base::Sixteen);
    assert_eq!(base(&lock, "pid"), Base::Ten);
    assert_eq!(labels(&lock, "type"), named(&[(0, "F_RDLCK"), (1, "F_WRLCK"), (2, "F_UNLCK")]));
    let page = saved(saved!("kmem/mm_page_alloc"));
    assert_eq!((base(&page, "gfp_flags"), base(&page, "order")), (Base::Sixteen, Base::Ten));
    assert_eq!(base(&saved(saved!("percpu/percpu_alloc_percpu")), "ptr"), Base::Sixteen);
}

#[test]
fn print_flags_of_a_field_gives_its_bits_labels() {
    let lock = saved(saved!("filelock/posix_lock_inode"));
    let flags = lock.field("flags").expect("flags");
    assert_eq!((flags.base, flags.flags), (Base::Sixteen, Some(Flags { low_bits: 0 })));
    let found = labels(&lock, "flags");
    assert_eq!(found[..3], named(&[(0, "none"), (1, "FL_POSIX"), (2, "FL_FLOCK")]));
    // Those of several bits are in front of theirs, as the kernel has them.
    let found = labels(&saved(saved!("kmem/mm_page_alloc")), "gfp_flags");
    let at = |name: &str| found.iter().position(|(_, label)| label == name).expect(name);
    assert_eq!((found[0].clone(), found[at("GFP_KERNEL")].0), ((0, "none".into()), 0xcc0));
    assert!(at("GFP_KERNEL") < at("__GFP_IO"));
}

#[test]
fn print_flags_with_shifts_casts_and_enumerators_gives_labels() {
    let lines = "	field:unsigned long x;	offset:8;	size:8;	signed:0;
";
    let print = r#""%s", (REC->x) ? __print_flags(( unsigned long) REC->x, "|", {(1UL << 3), "A"},
                 {(( some_t)((1UL) << (63))), "B"}, {KNOWN, "C"}, {NOT_KNOWN, "D"}) : "-""#;
    let text = written(lines, &print.replace('\n', " "));
    let enumerator = |name: &str| (name == "KNOWN").then_some(4);
    let format = EventFormat::parse_with(&text, &enumerator).expect("a format file");
    let expected = [(0, "none"), (8, "A"), (i64::MIN, "B"), (4, "C")];
    assert_eq!(labels(&format, "x"), named(&expected));
}

#[test]
fn print_flags_has_the_name_of_no_flag() {
    let print = r#""%s", (REC->x) ? __print_flags((REC->x), "|", {1, "a"}) : "nothing""#;
    let field = one("int x", 4, 1, print);
    assert_eq!((field.labels[0].from, &*field.labels[0].label), (0, "nothing"));
    let print = r#""%s", REC->y ? __print_flags(REC->x, "|", {1, "a"}) : "nothing""#;
    assert_eq!(one("int x", 4, 1, print).labels[0].label, "none");
    let print = r#""%s", __print_flags(REC->x, "|", {0, "zero"}, {1, "a"})"#;
    assert_eq!(one("int x", 4, 1, print).labels.len(), 2);
}

#[test]
fn print_flags_of_some_bits_leaves_out_flags_that_are_none_of_them() {
    let print = r#""%s", __print_flags(REC->x & (4 | 8), "|", {2, "a"}, {4, "b"}, {12, "c"})"#;
    let field = one("int x", 4, 1, print);
    let found: Vec<_> = field.labels.iter().map(|label| (label.from, &*label.label)).collect();
    assert_eq!(found, [(0, "none"), (4, "b"), (12, "c")]);
    assert_eq!(field.flags, Some(Flags { low_bits: 0 }));
    let print = r#""%u%s", REC->x & 7, __print_flags(REC->x & 8, "|", {8, "a"})"#;
    assert!(one("int x", 4, 1, print).labels.is_empty(), "a number with one bit");
}

#[test]
fn print_flags_of_the_highest_bit_of_a_signed_field_is_negative() {
    let print = r#""%s", __print_flags(REC->x, "|", {0x80000000, "top"}, {0x100000000, "none"})"#;
    let values =
        |field: FormatField| -> Vec<i64> { field.labels.iter().map(|label| label.from).collect() };
    assert_eq!(values(one("int x", 4, 1, print)), [0, i64::from(i32::MIN)]);
    assert_eq!(values(one("u32 x", 4, 0, print)), [0, 0x8000_0000]);
}

#[test]
fn print_flags_that_cannot_be_reported_gives_a_hexadecimal_number() {
    for print in [
        r#""%s%s", __print_flags(REC->x, "", {1, "a"}), __print_flags(REC->x, "", {1, "b"})"#,
        r#""%s", __print_flags((u8)REC->x, "", {1, "a"})"#,
        r#""%s", __print_flags(REC->x, "", {BIT, "a"})"#,
        r#""%s", __print_flags(REC->x, "", {0, "a"})"#,
        r#""%s", __print_flags(REC->x, "", TABLE)"#,
    ] {
        let field = one("int x", 4, 1, print);
        assert_eq!(
            (field.labels.len(), field.flags, field.base),
            (0, None, Base::Sixteen),
            "{print}"
        );
    }
    let print = r#""%s", __print_flags(1 << REC->x, "", {1, "a"})"#;
    assert_eq!(one("int x", 4, 1, print).class(), FieldClass::Integer(Integer::signed(4)));
}

#[test]
fn arrays_have_elements_of_their_type() {
    let array = |field: FormatField| match field.class() {
        FieldClass::Array(array) => (array.element.bytes(), array.count),
        other => panic!("{other:?}"),
    };
    let enter = saved(saved!("raw_syscalls/sys_enter"));
    assert_eq!(array(enter.field("args").expect("args").clone()), (8, 6));
    let neigh = saved(saved!("neigh/neigh_update"));
    assert_eq!(array(neigh.field("primary_key4").expect("key").clone()), (1, 4));
    assert_eq!(base(&neigh, "primary_key4"), Base::Ten);
    assert_eq!(base(&neigh, "primary_key6"), Base::Sixteen);
    for (declaration, bytes, expected) in [
        ("u8 mac[6]", 6, (1, 6)),
        ("__u32 x[4]", 16, (4, 4)),
        ("__u32 x[2][2]", 16, (4, 4)),
        ("some_t x[3]", 24, (8, 3)),
        ("some_t x[ETH_ALEN]", 6, (1, 6)),
        ("struct in6_addr x[2]", 32, (1, 32)),
        ("void *x[2]", 16, (8, 2)),
        ("unsigned long x[3]", 23, (1, 23)),
        ("struct timespec64 x", 16, (1, 16)),
        ("struct pair x", 8, (1, 8)),
        ("some_t x", 3, (1, 3)),
        ("__u8 x[sizeof(struct sockaddr_in6)]", 28, (1, 28)),
        ("u16 x[sizeof(*y)]", 8, (2, 4)),
    ] {
        assert_eq!(array(one(declaration, bytes, 0, "\"\"")), expected, "{declaration}");
    }
    assert_eq!(one("char x[10]", 10, 0, "\"\"").shape, FieldShape::Text);
    assert_eq!(one("const char x[10]", 10, 0, "\"\"").shape, FieldShape::Text);
}

#[test]
fn integers_have_their_size_sign_and_order() {
    let integer =
        |declaration, bytes, is_signed| match one(declaration, bytes, is_signed, "\"\"").class() {
            FieldClass::Integer(integer) => integer,
            other => panic!("{declaration}: {other:?}"),
        };
    assert_eq!(integer("long long x", 8, 1), Integer::signed(8));
    assert_eq!(integer("unsigned x", 4, 0), Integer::unsigned(4));
    assert_eq!(integer("enum some_kind x", 1, 0), Integer::unsigned(1));
    assert_eq!(integer("bool x", 1, 0), Integer { is_bool: true, ..Integer::unsigned(1) });
    let pointer = Integer { base: Base::Sixteen, ..Integer::unsigned(8) };
    assert_eq!(integer("const struct page * x", 8, 0), pointer);
    assert_eq!(integer("struct page *x", 8, 0), pointer);
    assert_eq!(integer("const void *const x", 8, 0), pointer);
    assert_eq!(integer("void (*x)(struct work_struct *)", 8, 0), pointer);
    let port = Integer { byte_order: FieldOrder::Big, ..Integer::unsigned(2) };
    assert_eq!(integer("__be16 x", 2, 0), port);
    let network = saved(&written("\tfield:__be16 x;\toffset:8;\tsize:2;\tsigned:0;\n", "\"\""));
    assert!(layout(&network).sources.is_empty(), "a filter would compare exchanged bytes");
}

#[test]
fn field_without_bytes_is_not_recorded() {
    let format = saved(saved!("ftrace/print"));
    assert_eq!(format.field("buf").map(|field| field.bytes), Some(0));
    let names: Vec<_> = layout(&format).fields.into_iter().map(|field| field.name).collect();
    assert_eq!(names, ["ip"]);
}

#[test]
fn text_at_the_event_s_end_has_no_source() {
    let short = "\tfield:char x[8];\toffset:8;\tsize:8;\tsigned:0;\n";
    let more = "\tfield:u64 y;\toffset:16;\tsize:8;\tsigned:0;\n";
    assert!(layout(&saved(&written(short, "\"\""))).sources.is_empty());
    assert_eq!(layout(&saved(&written(&format!("{short}{more}"), "\"\""))).sources.len(), 2);
}

#[test]
fn fields_are_recorded_by_where_they_are() {
    let lines = "\tfield:int b;\toffset:12;\tsize:4;\tsigned:1;\n\
                 \tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n\
                 \tfield:int same;\toffset:12;\tsize:4;\tsigned:1;\n";
    let format = saved(&written(lines, "\"\""));
    let layout = layout(&format);
    let names: Vec<_> = layout.fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "same"]);
    assert_eq!(parts(&format), [(COPY, 8, 8), (COPY, 12, 4)]);
}

#[test]
fn layout_of_too_many_places_is_refused() {
    let lines: String = (0..25)
        .map(|i| format!("\tfield:u8 x{i};\toffset:{};\tsize:1;\tsigned:0;\n", 8 + 2 * i))
        .collect();
    let error = saved(&written(&lines, "\"\"")).layout(|field| field.name.clone()).expect_err("25");
    assert_eq!(error, FormatError::TooManyParts { found: 25, limit: kernel::PARTS_MAX });
}

#[test]
fn layout_of_too_many_bytes_is_refused() {
    let line = "\tfield:u8 x[3073];\toffset:8;\tsize:3073;\tsigned:0;\n";
    let error = saved(&written(line, "\"\"")).layout(|field| field.name.clone()).expect_err("3073");
    assert_eq!(error, FormatError::TooBig { found: 3073, limit: 3072 });
}

#[test]
fn layout_of_a_field_programs_cannot_read_is_refused() {
    let line = "\tfield:int x;\toffset:4;\tsize:4;\tsigned:1;\n";
    let error = saved(&written(line, "\"\"")).layout(|field| field.name.clone()).expect_err("at 4");
    assert_eq!(error, FormatError::Unreadable { field: "x".into(), offset: 4 });
}

#[test]
fn parse_of_what_is_no_format_file_says_why() {
    assert_eq!(EventFormat::parse(""), Err(FormatError::NoLine { line: "name:" }));
    assert_eq!(EventFormat::parse("name: x\n"), Err(FormatError::NoLine { line: "ID:" }));
    assert_eq!(EventFormat::parse("name: x\nID: y\n"), Err(FormatError::NoLine { line: "ID:" }));
    assert_eq!(
        EventFormat::parse("name: x\nID: 1\n"),
        Err(FormatError::NoLine { line: "format:" })
    );
    for line in [
        "field:int x;\toffset:8;\tsigned:1;",
        "field:int x;\toffset:-8;\tsize:4;\tsigned:1;",
        "field:int x;\toffset:65535;\tsize:4;\tsigned:1;",
        "field:int;\toffset:8;\tsize:4;\tsigned:1;",
        "field:;\toffset:8;\tsize:4;\tsigned:1;",
        "field:int x[;\toffset:8;\tsize:4;\tsigned:1;\nfield:int x[;\toffset:8;\tsize:4;\tsigned:1;",
        "field:__data_loc char[] x;\toffset:8;\tsize:8;\tsigned:1;",
        "field:int x;\toffset:8;\tsize:4;\nfield:int x;\toffset:12;\tsize:4;",
    ] {
        let result = EventFormat::parse(&written(&format!("{line}\n"), "\"\""));
        assert!(matches!(result, Err(FormatError::Line { .. })), "{line}: {result:?}");
    }
}

#[test]
fn malicious_mutations_of_format_files_are_parsed_without_panic() {
    let mut random = Random::new();
    let files = [
        saved!("sched/sched_switch"),
        saved!("block/block_rq_issue"),
        saved!("dma/dma_map_sg"),
        saved!("btrfs/btrfs_reserve_extent"),
        saved!("neigh/neigh_update"),
        saved!("kmem/mm_page_alloc"),
    ];
    const TOKENS: [&str; 18] = [
        "(",
        ")",
        "{",
        "}",
        "\"",
        "\\",
        "[",
        "]",
        ";",
        "REC->",
        "__print_symbolic(",
        "__print_flags(",
        " ? ",
        "__data_loc ",
        "%",
        "ü",
        "-",
        "65535",
    ];
    let mut parsed = 0;
    for round in 0..6000 {
        let mut text = files[round % files.len()].to_owned();
        for _ in 0..=random.below(8) {
            let at = boundary(&mut random, &text);
            match random.below(4) {
                0 => text.truncate(at),
                1 => text.insert_str(at, TOKENS[random.below(TOKENS.len())]),
                2 => text.replace_range(at..boundary(&mut random, &text).max(at), ""),
                _ => {
                    let (from, to) = (boundary(&mut random, &text), boundary(&mut random, &text));
                    let piece = text[from.min(to)..from.max(to)].to_owned();
                    text.insert_str(at, &piece);
                }
            }
        }
        let Ok(format) = EventFormat::parse(&text) else { continue };
        parsed += 1;
        for field in &format.fields {
            // A name may be anything; what is recorded of it must be something that can be read.
            if let Err(error) = Field::new("x", field.class()).validate() {
                panic!("{error}: {field:?}");
            }
        }
        if let Ok(layout) = format.layout(|field| field.name.clone()) {
            check(&format, &layout);
        }
    }
    assert!(parsed > 500, "only {parsed} were format files at all");
}

/// Parts and fields are the same bytes, in order.
fn check(format: &EventFormat, layout: &EventLayout) {
    let recorded: Vec<&FormatField> =
        format.fields.iter().filter(|field| field.bytes > 0).collect();
    assert_eq!(recorded.len(), layout.fields.len());
    let mut copied: Vec<u16> = Vec::new();
    for part in &layout.parts {
        copied.extend(part.offset..part.offset + part.bytes);
    }
    let wanted: Vec<u16> =
        recorded.iter().flat_map(|field| field.offset..field.offset + field.bytes).collect();
    assert_eq!(copied, wanted);
}

/// Returns a random place between two characters of the text.
fn boundary(random: &mut Random, text: &str) -> usize {
    let mut at = random.below(text.len() + 1);
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
