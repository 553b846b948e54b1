//! Tests of probes, from the text after `--probe` to events.

use super::*;
use crate::decide::event::KernelEvent;
use crate::decide::event::Probe;
use crate::discover::elf::tests::Folder;
use std::path::Path;
use strata_abi::kernel::{
    Part, CONSTANT, LENGTH_NUMBER, LENGTH_SIGNED, MEMORY, REGISTER, STRING, UNREAD,
};
use strata_model::{Base, FieldClass, UNREAD_FIELD};

fn target() -> Option<(Folder, PathBuf)> {
    // Each test has its own: they run at the same time.
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = Folder::new(&format!("uprobe-{number}"));
    let path = folder.target(&["-O2"])?;
    Some((folder, path))
}

fn names(event: &KernelEvent) -> Vec<&str> {
    event.fields.iter().map(|field| field.name.as_str()).collect()
}

fn parts(event: &KernelEvent) -> &[Part] {
    match &event.probe {
        Probe::Uprobe { parts, .. } => parts,
        other => panic!("{other:?}"),
    }
}

fn offset(event: &KernelEvent) -> u64 {
    match &event.probe {
        Probe::Uprobe { offsets, .. } => offsets[0],
        other => panic!("{other:?}"),
    }
}

#[test]
fn parse_of_a_uprobe_takes_arguments_from_the_registers_of_the_abi() {
    let Some((_folder, path)) = target() else { return };
    let spec =
        format!("uprobe:{}:target_add( a:u32, b:s64,text:str, _ ,d:x16,e:ptr)", path.display());
    let probes = parse(&spec).unwrap();
    let [event] = &probes.events[..] else { panic!("{probes:?}") };
    assert_eq!((event.name.as_str(), event.system.as_str()), ("uprobe_target_add", "uprobes"));
    assert!(event.is_followed);
    assert_eq!(names(event), ["ip", "a", "b", "text", "d", "e"]);
    let part = |kind, offset, bytes| Part { kind, offset, bytes, ..Part::default() };
    let wanted = [
        part(REGISTER, 128, 8),
        part(REGISTER, 112, 4),
        part(REGISTER, 104, 8),
        part(STRING, 96, 0),
        part(REGISTER, 72, 2),
        part(REGISTER, 64, 8),
    ];
    assert_eq!(parts(event), wanted);
    let elf = Elf::open(&path).unwrap();
    assert_eq!(offset(event), elf.symbol("target_add", 0).unwrap().offset);
    let integer = |index: usize| match &event.fields[index].class {
        FieldClass::Integer(integer) => (integer.bytes, integer.signed, integer.base),
        other => panic!("{other:?}"),
    };
    assert_eq!(integer(1), (4, false, Base::Ten));
    assert_eq!(integer(2), (8, true, Base::Ten));
    assert_eq!(integer(4), (2, false, Base::Sixteen));
    let sources: Vec<_> =
        event.sources.iter().map(|one| (one.field.as_str(), one.offset)).collect();
    assert_eq!(sources, [("ip", 128), ("a", 112), ("b", 104), ("d", 72), ("e", 64)]);
    assert!(event.fields.iter().all(|field| field.validate().is_ok()));
}

#[test]
fn parse_of_a_uretprobe_takes_the_value_from_rax() {
    let Some((_folder, path)) = target() else { return };
    let probes =
        parse(&format!("back=uretprobe:{}:target_negative(ret:s32)", path.display())).unwrap();
    let event = &probes.events[0];
    assert_eq!((event.name.as_str(), event.system.as_str()), ("back", "uretprobes"));
    assert_eq!(names(event), ["ret_ip", "ret"]);
    assert_eq!((parts(event)[1].offset, parts(event)[1].bytes), (80, 4));
    assert_eq!((parts(event)[0].kind, parts(event)[0].offset), (MEMORY, register::here().sp));
    let elf = Elf::open(&path).unwrap();
    let place = elf.symbol("target_negative", 0).unwrap();
    assert!(offset(event) > place.offset && offset(event) < place.offset + 64);
    assert_eq!(std::fs::read(&path).unwrap()[offset(event) as usize], 0xc3);
}

#[test]
fn parse_of_an_address_or_a_place_within_finds_the_same_bytes() {
    let Some((_folder, path)) = target() else { return };
    let elf = Elf::open(&path).unwrap();
    let place = elf.symbol("target_add", 0).unwrap();
    let at = |spec: String| offset(&parse(&spec).unwrap().events[0]);
    let path = path.display();
    assert_eq!(at(format!("uprobe:{path}:{:#x}(a:u32)", place.address)), place.offset);
    let within = at(format!("uretprobe:{path}:target_add")) - place.offset;
    assert_eq!(at(format!("uprobe:{path}:target_add+{within:#x}")), place.offset + within);
    assert_eq!(at(format!("uprobe:{path}:target_add+{within}")), place.offset + within);
    // Its first instruction is longer than that.
    let message = parse(&format!("uprobe:{path}:target_add+1")).unwrap_err().to_string();
    assert!(message.contains("0x1 is in the middle of an instruction"), "{message}");
    let middle = format!("uprobe:{path}:{:#x}", place.address + 1);
    let message = parse(&middle).unwrap_err().to_string();
    assert!(message.contains(&format!("It begins at {:#x}", place.address)), "{message}");
}

#[test]
fn parse_of_usdt_probes_has_one_event_for_all_places_of_the_same_fields() {
    let Some((_folder, path)) = target() else { return };
    let probes = parse(&format!("usdt:{}:target:places", path.display())).unwrap();
    let [first, second] = &probes.events[..] else { panic!("{probes:?}") };
    assert_eq!(first.name, "usdt_target_places");
    assert_eq!((&first.name, &first.fields), (&second.name, &second.fields));
    assert_ne!(offset(first), offset(second));
    // In another register each.
    assert_ne!(parts(first)[1], parts(second)[1]);
}

#[test]
fn parse_of_usdt_arguments_leaves_out_what_cannot_be_recorded_and_says_so() {
    let Some((_folder, path)) = target() else { return };
    let probes = parse(&format!("usdt:{}:tar*:odd", path.display())).unwrap();
    assert_eq!(names(&probes.events[0]), ["ip", "arg1", "arg3", "arg5", UNREAD_FIELD]);
    let part = parts(&probes.events[0])[2];
    assert_eq!(
        (part.kind, part.offset, part.scale, part.index, part.addend),
        (MEMORY, 40, 4, 88, 4)
    );
    assert_eq!(probes.remarks.len(), 2, "{:?}", probes.remarks);
    assert_eq!(
        probes.remarks[0],
        "USDT probe target:odd: arg2, 8f@%xmm0: it is in the floating-point register %xmm0, which \
         the kernel does not keep for probes. It is left out"
    );
    let probes = parse(&format!("usdt:{}:target:values", path.display())).unwrap();
    let kinds: Vec<u8> = parts(&probes.events[0]).iter().map(|part| part.kind).collect();
    assert_eq!((kinds.len(), kinds[9]), (10, UNREAD));
    assert_eq!(
        (kinds[3], kinds[4], kinds[5], kinds[6], kinds[7]),
        (CONSTANT, MEMORY, MEMORY, MEMORY, CONSTANT)
    );
    assert!(probes.remarks.is_empty());
}

#[test]
fn parse_of_a_text_with_a_length_names_the_part_that_has_it() {
    let Some((_folder, path)) = target() else { return };
    let path = path.display();
    let lengths = |spec: String| {
        let probes = parse(&spec).unwrap();
        parts(&probes.events[0]).iter().map(|part| part.bytes).collect::<Vec<_>>()
    };
    assert_eq!(
        lengths(format!("uprobe:{path}:target_add(n:u32,_,a:str(n),b:str( m ),m:s16,c:str(16))")),
        [8, 4, 2, LENGTH_SIGNED | 5, 2, LENGTH_NUMBER | 16]
    );
    let probes = parse(&format!("uretprobe:{path}:target_add(a:str(n),n:u64)")).unwrap();
    let offsets: Vec<u16> = parts(&probes.events[0]).iter().map(|part| part.offset).collect();
    assert_eq!(
        offsets,
        [register::here().sp, register::here().results[0], register::here().results[1]]
    );
    // arg7 is a constant.
    assert_eq!(
        lengths(format!("usdt:{path}:target:values(_,a:str(n),_,_,_,_,n,m:u32)")),
        [8, 3, 8, 4]
    );
    let error = parse(&format!("usdt:{path}:target:floats(n,_,a:str(n))")).unwrap_err();
    assert!(error.to_string().contains("there is no number 'n' in the list"), "{error}");
}

#[test]
fn parse_of_usdt_arguments_with_names_and_types_has_these() {
    let Some((_folder, path)) = target() else { return };
    let path = path.display();
    let probes = parse(&format!("usdt:{path}:target:values(a,_,c:s8,d)")).unwrap();
    assert_eq!(names(&probes.events[0]), ["ip", "a", "c", "d", UNREAD_FIELD]);
    let probes = parse(&format!("usdt:{path}:target:values(a,_,c:s8)")).unwrap();
    assert_eq!(names(&probes.events[0]), ["ip", "a", "c"]);
    let message = parse(&format!("usdt:{path}:target:values({UNREAD_FIELD})")).unwrap_err();
    assert!(message.to_string().contains(UNREAD_FIELD), "{message}");
    let probes = parse(&format!("usdt:{path}:target:wanted(text:str)")).unwrap();
    let part = parts(&probes.events[0])[1];
    assert_eq!((part.kind, part.bytes), (STRING, 0));
    assert!(matches!(probes.events[0].probe, Probe::Uprobe { semaphore: Some(_), .. }));
    let message = |spec: String| parse(&spec).unwrap_err().to_string();
    assert!(message(format!("usdt:{path}:target:values(a:str)"))
        .contains("has 4 bytes, and the type 8"));
    assert!(message(format!("usdt:{path}:target:wanted(a,b)"))
        .contains("has 1 arguments, and 2 are named"));
    // What is not asked for is no reason for a remark.
    let probes = parse(&format!("usdt:{path}:target:odd(_,_,_,_,last)")).unwrap();
    assert_eq!((names(&probes.events[0]), probes.remarks.len()), (vec!["ip", "last"], 0));
}

#[test]
fn parse_all_gives_different_events_different_names() {
    let Some((_folder, path)) = target() else { return };
    let path = path.display();
    let specs = [
        format!("uprobe:{path}:target_add"),
        format!("uprobe:{path}:target_add(a:u32)"),
        format!("uprobe:{path}:target_add"),
        format!("both=uprobe:{path}:target_add"),
        format!("both=uprobe:{path}:target_negative"),
    ];
    let events = parse_all(&specs).unwrap().events;
    let found: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    // The third is the first again.
    assert_eq!(found, ["uprobe_target_add", "uprobe_target_add_2", "both", "both"]);
    let taken = [&specs[3], &format!("both=uprobe:{path}:target_add(a:u32)")];
    let message = parse_all(&taken).unwrap_err().to_string();
    assert!(message.contains("two events 'both' with different fields"), "{message}");
    let message = parse(&format!("x=usdt:{path}:target:*")).unwrap_err().to_string();
    assert!(message.contains("7 probes match, and one name is for one"), "{message}");
}

#[test]
fn parse_of_a_pattern_takes_the_functions_that_fit_and_says_the_others() {
    let Some((_folder, path)) = target() else { return };
    let elf = Elf::open(&path).unwrap();
    let path = path.display();
    let probes = parse(&format!("uprobe:{path}:target_*(a:u32)")).unwrap();
    let found: Vec<&str> = probes.events.iter().map(|event| event.name.as_str()).collect();
    let functions = elf.functions().unwrap();
    let wanted: Vec<String> = functions
        .iter()
        .filter(|name| name.starts_with("target_"))
        .map(|name| format!("uprobe_{name}"))
        .collect();
    assert!(wanted.len() >= 2);
    assert_eq!(found, wanted);
    for event in &probes.events {
        assert_eq!(offset(event), elf.symbol(&event.kernel_name, 0).unwrap().offset);
        assert_eq!(names(event), ["ip", "a"]);
    }
    assert!(probes.remarks.is_empty(), "{:?}", probes.remarks);
    // One name for all, as they have the same fields.
    let probes = parse(&format!("all=uretprobe:{path}:target_*(ret:s64)")).unwrap();
    assert!(probes.events.len() == wanted.len());
    assert!(probes.events.iter().all(|event| event.name == "all"));

    // The C library's memcpy chooses what is called, and there are two of most names.
    let probes = parse("uprobe:c:mem*").unwrap();
    assert!(!probes.events.is_empty());
    let remark = &probes.remarks[0];
    assert!(remark.starts_with("probe uprobe:c:mem*: of ") && remark.contains("IFUNC"), "{remark}");
    let error = parse("uprobe:c:memcp*").unwrap_err().to_string();
    assert!(error.contains("none of them can be recorded") && error.contains("IFUNC"), "{error}");
    let error = parse("uprobe:c:*").unwrap_err().to_string();
    assert!(error.contains("functions match, limit 1000"), "{error}");
    let error = parse("uprobe:c:mem*+4").unwrap_err().to_string();
    assert!(error.contains("Leave +0x4 out"), "{error}");
    let error = parse(&format!("uprobe:{path}:zebra*")).unwrap_err().to_string();
    assert!(error.contains("has no function 'zebra*'"), "{error}");
}

#[test]
fn parse_of_a_name_in_the_source_finds_the_functions_that_have_it() {
    // This program itself is in Rust.
    let path = std::env::current_exe().unwrap();
    let path = path.display();
    let name = "strata_kernel::decide::uprobe::tests::probed_by_name";
    assert_eq!(probed_by_name(2) + other::probed_by_name(1), 4);
    let probes = parse(&format!("uprobe:{path}:{name}(a:u32)")).unwrap();
    assert_eq!(probes.events.len(), 1, "{:?}", probes.remarks);
    let event = &probes.events[0];
    assert_eq!(event.kernel_name, name);
    assert_eq!(event.name, "uprobe_strata_kernel__decide__uprobe__tests__probed_by_name");
    assert_eq!(names(event), ["ip", "a"]);
    let all =
        parse(&format!("uprobe:{path}:strata_kernel::decide::uprobe::tests::*probed_by_name"))
            .unwrap();
    let mut found: Vec<&str> = all.events.iter().map(|event| event.kernel_name.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, ["strata_kernel::decide::uprobe::tests::other::probed_by_name", name]);
    assert!(all.events.iter().any(|one| offset(one) == offset(event)));
    let error = parse(&format!("uprobe:{path}:strata_kernel::*")).unwrap_err().to_string();
    assert!(error.contains("functions match, limit 1000"), "{error}");
    let error = parse(&format!("uprobe:{path}:strata_kernel::zebra")).unwrap_err().to_string();
    assert!(error.contains("has no function 'strata_kernel::zebra'"), "{error}");
}

/// A function that a test looks for by its name.
#[inline(never)]
fn probed_by_name(a: u32) -> u32 {
    std::hint::black_box(a) + 1
}

mod other {
    /// Another function of the same name.
    #[inline(never)]
    pub(super) fn probed_by_name(a: u32) -> u32 {
        std::hint::black_box(a)
    }
}

#[test]
fn parse_of_a_pattern_of_usdt_probes_takes_those_that_have_the_arguments() {
    let Some((_folder, path)) = target() else { return };
    let path = path.display();
    let probes = parse(&format!("usdt:{path}:target:*(a,b,c)")).unwrap();
    let values =
        |event: &KernelEvent| event.fields.iter().filter(|one| one.name != UNREAD_FIELD).count();
    assert!(probes.events.iter().all(|event| values(event) <= 4));
    let found: Vec<&str> = probes.events.iter().map(|event| event.name.as_str()).collect();
    assert!(found.contains(&"usdt_target_values") && !found.contains(&"usdt_target_wanted"));
    let remark = &probes.remarks[0];
    assert!(remark.contains("of 7 that match, "), "{remark}");
    assert!(remark.contains("target:wanted: has 1 arguments, and 3 are named"), "{remark}");
    // Of one that is named, it is an error, as it is where none fits.
    assert!(parse(&format!("usdt:{path}:target:wanted(a,b,c)")).is_err());
    let error = parse(&format!("usdt:{path}:target:want*(a,b)")).unwrap_err().to_string();
    assert!(error.contains("1 match, and none of them"), "{error}");
}

#[test]
fn parse_of_what_is_no_probe_points_to_the_place() {
    let cases = [
        ("", 0..0, "the kind of probe is missing"),
        ("kprobe:a:b", 0..6, "'kprobe' is no kind of probe"),
        ("1x=uprobe:sh:main", 0..2, "'1x' is no name"),
        ("uprobe", 6..6, "the program or library is missing"),
        ("uprobe::main", 7..7, "the program or library is missing"),
        ("uprobe:sh", 9..9, "the function is missing"),
        ("uprobe:sh:", 10..10, "the function is missing"),
        ("uprobe:sh:+4", 10..10, "the function is missing"),
        ("uprobe:sh:f+x", 12..13, "'x' is no number"),
        ("uprobe:sh:0x1g", 10..14, "'0x1g' is no number"),
        ("uprobe:sh:f(a:u8", 11..16, "does not end with ')'"),
        ("uprobe:sh:f(a:u8)x", 11..18, "does not end with ')'"),
        ("uprobe:sh:f(a)", 12..13, "'a' has no type"),
        ("uprobe:sh:f(a:u8,)", 17..17, "'' has no type"),
        ("uprobe:sh:f(a:int)", 14..17, "'int' is no type"),
        ("uprobe:sh:f(a:u24)", 14..17, "'u24' is no type"),
        ("uprobe:sh:f(a:double)", 14..20, "vector registers"),
        ("uprobe:sh:f(4:u8)", 12..13, "'4' is no name"),
        ("uprobe:sh:f(a:u8, a:u8)", 18..19, "two fields 'a'"),
        ("uprobe:sh:f(ip:u8)", 12..14, "two fields 'ip'"),
        ("uprobe:sh:f(_,_,_,_,_,_,_)", 11..26, "7 arguments, limit 6"),
        ("uprobe:sh:f+4(a:u8)", 13..19, "arguments are in their registers"),
        ("uretprobe:sh:f+4", 13..16, "a return belongs to the whole function"),
        ("uretprobe:sh:f(a:u8,b:u8)", 14..25, "2 values, and a function returns one"),
        ("uretprobe:sh:f(a:str(b),b:u64,c:u8)", 14..35, "3 values, and a function returns one"),
        ("uprobe:sh:f(a:str(b))", 18..19, "there is no number 'b' in the list"),
        ("uprobe:sh:f(a:str(b),b:str)", 18..19, "there is no number 'b' in the list"),
        ("uprobe:sh:f(a:str(_),_)", 18..19, "there is no number '_' in the list"),
        ("uprobe:sh:f(a:str(0))", 18..19, "a text of 0 bytes cannot be recorded"),
        ("uprobe:sh:f(a:str(1024))", 18..22, "a text of 1024 bytes cannot be recorded"),
        ("uprobe:sh:f(a:str(1x))", 18..20, "'1x' is no number"),
        ("uprobe:sh:f(a:str()b)", 14..20, "'str()b' is no type"),
        ("uretprobe:sh:f(_)", 14..17, "'_' records nothing"),
        ("usdt:sh", 7..7, "the provider is missing"),
        ("usdt:sh:a", 9..9, "the probe's name is missing"),
        ("usdt:sh:a:", 10..10, "the probe's name is missing"),
        ("uprobe:/no/such:f", 7..15, "/no/such: No such file"),
        ("uprobe:no-such-program:f", 7..22, "there is no program 'no-such-program' in PATH"),
    ];
    for (spec, span, wanted) in cases {
        let error = parse(spec).unwrap_err();
        assert!(error.to_string().contains(wanted), "{spec}: {error}");
        assert_eq!(error.span(), span, "{spec}: {error}");
        assert!(error.to_string().starts_with(&format!("probe, column {}: ", span.start + 1)));
    }
    let error = parse("uprobe:sh:f(a:int)").unwrap_err();
    assert_eq!(error.caret(), "uprobe:sh:f(a:int)\n              ^^^");
}

#[test]
fn parse_of_probes_that_are_not_there_names_those_that_are() {
    let Some((_folder, path)) = target() else { return };
    let path = path.display();
    let message = |spec: String| parse(&spec).unwrap_err().to_string();
    assert!(message(format!("uprobe:{path}:target_ad")).contains("; similar: 'target_add'"));
    assert!(message(format!("usdt:{path}:target:place")).contains("; similar: 'target:places'"));
    assert!(message(format!("usdt:{path}:zzzzzz:places")).contains("; similar: 'target:places'"));
    assert!(message(format!("usdt:{path}:x:y"))
        .contains("It has target:floats, target:index, target:odd"));
    assert!(message("usdt:/bin/true:x:y".into()).contains("/true has no USDT probes"));
}

#[test]
fn list_has_functions_and_usdt_probes() {
    let Some((_folder, path)) = target() else { return };
    let listing = list(&path.display().to_string()).unwrap();
    assert!(listing.functions.contains(&"target_add".to_owned()));
    let found: Vec<&str> = listing.usdt.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(found, ["values", "odd", "index", "words", "floats", "places", "wanted"]);
    assert_eq!(listing.usdt[0].arguments[0], "arg1: s32");
    assert!(listing.usdt[1].arguments[1].starts_with("arg2: not recorded (8f@%xmm0: it is in the "));
    assert_eq!(listing.binary, Path::new(&path).canonicalize().unwrap());
}

#[test]
fn malicious_specs_are_errors_and_never_a_panic() {
    let mut random = strata_random::Random::from_seed(11);
    let words = [
        "uprobe",
        "usdt",
        "uretprobe",
        ":",
        "=",
        "(",
        ")",
        ",",
        "+",
        "0x",
        "é",
        "_",
        "sh",
        "a:u8",
        "*",
        " ",
    ];
    for _ in 0..20_000 {
        let text: String = (0..random.below(9)).map(|_| words[random.below(words.len())]).collect();
        if let Err(error) = parse(&text) {
            assert!(!error.caret().is_empty());
            assert!(text.get(error.span()).is_some(), "{text}: {:?}", error.span());
        }
    }
}

#[test]
fn probe_of_a_session_has_a_path_from_the_root_or_a_name() {
    let here = std::env::current_dir().unwrap();
    let here = here.display();
    for (text, whole) in [
        ("uprobe:c:malloc(size:u64, b:str)", "uprobe:c:malloc(size:u64, b:str)".to_owned()),
        ("usdt:/no/such:a:b(c:u8)", "usdt:/no/such:a:b(c:u8)".to_owned()),
        ("uprobe:./x:f(a:u8)", format!("uprobe:{here}/x:f(a:u8)")),
        ("n=usdt: a/../x :p:*(a:u8)", format!("n=usdt:{here}/a/../x:p:*(a:u8)")),
    ] {
        assert_eq!(absolute(text).unwrap(), whole);
        check(&whole, false).unwrap();
        // No file is looked at: it need not be there.
        assert_eq!(absolute(&whole).unwrap(), whole);
    }
    let error = check("uretprobe:./x:f", true).unwrap_err();
    assert!(error.to_string().contains("'./x' is a path from a folder"), "{error}");
    assert_eq!(error.span(), 10..13);
    // An address is one of this file alone.
    for (text, place) in [("uprobe:c:f+4", "'f+4'"), ("n=uprobe:/a:0x40(b:u8)", "'0x40'")] {
        let error = check(text, false).unwrap_err().to_string();
        assert!(error.contains(&format!("{place} is a place in the file")), "{error}");
        assert!(is_within(text));
        check(text, true).unwrap();
    }
    check("uprobe:c:f+0(b:u8)", false).unwrap();
    assert!(!is_within("uprobe:c:f") && !is_within("usdt:c:a:b") && !is_within("f+4"));
    for text in ["", "kprobe:./a:b", "uprobe:./a", "!uprobe:./a:b"] {
        assert!(absolute(text).is_err() && check(text, true).is_err(), "{text}");
    }
    assert_eq!(name_of("slow=uprobe:/a:b"), Some("slow"));
    assert_eq!((name_of("uprobe:/a:b=c"), name_of("slow")), (None, None));
}

#[test]
fn known_probe_stays_what_it_was_until_nobody_asks_for_it() {
    let Some((folder, path)) = target() else { return };
    let one = format!("uprobe:{}:target_add", path.display());
    let other = format!("{one}(a:u32)");
    let named = |text: &str, known: &mut KnownProbes| {
        let is_new = known.get(text).is_none();
        let probes = known.ask(text).unwrap();
        (probes.events[0].name.clone(), is_new)
    };
    let mut known = KnownProbes::default();
    assert_eq!(named(&one, &mut known), ("uprobe_target_add".to_owned(), true));
    assert_eq!(named(&other, &mut known), ("uprobe_target_add_2".to_owned(), true));
    // One that fails changes nothing, of names neither.
    let wrong = format!("x=uprobe:{}:target_ad", path.display());
    assert!(known.ask(&wrong).is_err() && known.get(&wrong).is_none());
    // The name leads to another file by now: the probe does not.
    let before = known.get(&other).unwrap();
    std::fs::rename(folder.file("none", b"no program"), &path).unwrap();
    known.keep(&[&other]);
    assert!(known.get(&one).is_none());
    assert_eq!(named(&other, &mut known), ("uprobe_target_add_2".to_owned(), false));
    assert_eq!(known.get(&other).unwrap().events, before.events);
    // Who comes back is looked at anew.
    assert!(known.ask(&one).unwrap_err().to_string().contains("no ELF file"));
    known.keep(&[]);
    assert!(known.ask(&other).is_err());
    let again = folder.target(&["-O0"]).unwrap();
    assert_eq!(again, path);
    assert_eq!(named(&other, &mut known), ("uprobe_target_add".to_owned(), true));
}
