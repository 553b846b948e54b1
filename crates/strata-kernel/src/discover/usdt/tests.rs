//! Against `readelf -n`, which reads the notes without us.

use super::operand::OperandError;
use super::*;
use crate::discover::elf::tests::{output, Folder};
use std::path::Path;
use strata_abi::kernel::{CONSTANT, MEMORY, NO_REGISTER, REGISTER};

const SYMBOLS: [(&str, u64); 2] = [("global", 0x4050), ("_ZN3foo3barE", 0x5000)];

fn part(text: &str, is_fixed: bool) -> Result<(OperandClass, Part), OperandError> {
    let find = |name: &str| SYMBOLS.iter().find(|(known, _)| *known == name).map(|(_, at)| *at);
    let operand = UsdtOperand::parse(text)?;
    let part = operand.part(&OperandSymbols { find: &find, is_fixed, at: 0x1200 })?;
    Ok((operand.class, part))
}

#[test]
fn operand_of_every_form_is_read_from_its_place() {
    let cases: [(&str, &str, u8, u16, i64); 25] = [
        ("-4@%edi", "s32", REGISTER, 112, 0),
        ("8@%rax", "u64", REGISTER, 80, 0),
        ("1@%ah", "u8", REGISTER, 81, 0),
        ("-1@%r15b", "s8", REGISTER, 0, 0),
        ("2@%r8w", "u16", REGISTER, 72, 0),
        ("2@%rsi", "u16", REGISTER, 104, 0),
        ("8@%eax", "u64", REGISTER, 80, 0),
        ("-1@$-5", "s8", CONSTANT, 0, -5),
        ("8@$0x10", "u64", CONSTANT, 0, 16),
        ("8@$18446744073709551615", "u64", CONSTANT, 0, -1),
        ("-8@$-9223372036854775808", "s64", CONSTANT, 0, i64::MIN),
        ("-4@-20(%rbp)", "s32", MEMORY, 32, -20),
        ("8@(%rsp)", "u64", MEMORY, 152, 0),
        ("2@0x18(%rsp)", "u16", MEMORY, 152, 24),
        ("4f@8(%rsp)", "f32", MEMORY, 152, 8),
        ("8f@8(%rsp)", "f64", MEMORY, 152, 8),
        ("-8f@8(%rsp)", "f64", MEMORY, 152, 8),
        ("-4f@(%rsp)", "f32", MEMORY, 152, 0),
        ("-8f@%rax", "f64", REGISTER, 80, 0),
        ("4f@%edx", "f32", REGISTER, 96, 0),
        ("8@8+16(%rsp)", "u64", MEMORY, 152, 24),
        // Counted from the probe at 0x1200.
        ("8@global(%rip)", "u64", MEMORY, 128, 0x4050 - 0x1200),
        ("-4@global+8(%rip)", "s32", MEMORY, 128, 0x4058 - 0x1200),
        ("-4@8+global(%rip)", "s32", MEMORY, 128, 0x4058 - 0x1200),
        ("4@_ZN3foo3barE-16(%rip)", "u32", MEMORY, 128, 0x4ff0 - 0x1200),
    ];
    for (text, class, kind, offset, addend) in cases {
        let (found, part) = part(text, false).unwrap_or_else(|error| panic!("{text}: {error}"));
        let bytes = u16::from(found.bytes());
        assert_eq!(found.name(), class, "{text}");
        assert_eq!(part, Part { kind, offset, bytes, addend, ..Part::default() }, "{text}");
    }
}

#[test]
fn operand_of_a_program_at_a_fixed_address_may_be_an_address() {
    assert_eq!(part("8@$global", true).unwrap().1.addend, 0x4050);
    assert_eq!(part("8@global", true).unwrap().1.addend, 0x4050 - 0x1200);
    assert_eq!(part("8@0x4058", true).unwrap().1.addend, 0x4058 - 0x1200);
    let (_, table) = part("4@global+4(%rax)", true).unwrap();
    assert_eq!((table.offset, table.addend), (80, 0x4054));
    assert_eq!(part("8@$global", false), Err(OperandError::Address("global".into())));
    assert_eq!(part("4@global(%rax)", false), Err(OperandError::Moved));
    assert_eq!(part("4@global(,%rax,4)", false), Err(OperandError::Moved));
}

#[test]
fn operand_with_an_index_is_read_at_both_registers() {
    let cases: [(&str, u16, u8, u16, i64); 6] = [
        ("-4@8(%rax,%rbx,4)", 80, 4, 40, 8),
        ("4@(%rdi,%rsi)", 112, 1, 104, 0),
        ("8f@-16(%rsp,%rbp,8)", 152, 8, 32, -16),
        ("1@(%r12,%r13,1)", 24, 1, 16, 0),
        ("2@6(,%rcx,2)", NO_REGISTER, 2, 88, 6),
        ("4@global+4(,%rdx,4)", NO_REGISTER, 4, 96, 0x4054),
    ];
    for (text, offset, scale, index, addend) in cases {
        let (class, found) = part(text, true).unwrap_or_else(|error| panic!("{text}: {error}"));
        let bytes = u16::from(class.bytes());
        let wanted = Part { kind: MEMORY, offset, bytes, addend, scale, index };
        assert_eq!(found, wanted, "{text}");
    }
}

#[test]
fn operand_that_cannot_be_recorded_says_why() {
    let cases = [
        ("%rax", OperandError::NoSize),
        ("@%rax", OperandError::NoSize),
        ("3@%rax", OperandError::Size("3".into())),
        ("16@%rax", OperandError::Size("16".into())),
        ("2f@(%rax)", OperandError::Size("2f".into())),
        ("8@%xmm0", OperandError::Vector("xmm0".into())),
        ("8f@%ymm12", OperandError::Vector("ymm12".into())),
        ("8@%x0", OperandError::Register("x0".into())),
        ("8@(%rax,%rsp)", OperandError::Index),
        ("8@(%rax,%rip)", OperandError::Index),
        ("8@(%rax,%ebx)", OperandError::Index),
        ("8@(%rax,%rbx,3)", OperandError::Index),
        ("8@(%rax,%rbx,)", OperandError::Index),
        ("8@(%rip,%rbx)", OperandError::Syntax),
        ("8@(%rax,)", OperandError::Syntax),
        ("8@(%rax,%rbx,4,4)", OperandError::Syntax),
        ("8@(%rax,%xmm1,4)", OperandError::Vector("xmm1".into())),
        ("8@%fs:16", OperandError::Segment),
        ("8@16(%rip)", OperandError::Rip),
        ("8@nowhere(%rip)", OperandError::Symbol("nowhere".into())),
        ("8f@$4", OperandError::Syntax),
        ("8@", OperandError::Syntax),
        ("8@$", OperandError::Syntax),
        ("8@(%eax)", OperandError::Syntax),
        ("8@1x(%rax)", OperandError::Syntax),
        ("8@a+b(%rip)", OperandError::Syntax),
        ("8@0x10", OperandError::Syntax),
        ("8@$99999999999999999999", OperandError::Syntax),
    ];
    for (text, error) in cases {
        assert_eq!(part(text, false), Err(error), "{text}");
    }
    let small = OperandError::Small { register: "al".into(), found: 1, wanted: 4 };
    assert_eq!(part("4@%al", false), Err(small));
}

#[test]
fn malicious_operands_are_errors_and_never_a_panic() {
    let mut random = strata_random::Random::from_seed(7);
    let alphabet = b"-48f@$%raxip(),+0x1abc:";
    for _ in 0..200_000 {
        let text: String =
            (0..random.below(24)).map(|_| alphabet[random.below(alphabet.len())] as char).collect();
        let _ = part(&text, true);
        let _ = split(&text);
    }
}

#[test]
fn split_keeps_what_is_in_parentheses_together() {
    assert_eq!(
        split("  -4@%edi 8@8(%rax, %rbx, 4)  1@$5 "),
        ["-4@%edi", "8@8(%rax,%rbx,4)", "1@$5"]
    );
    assert!(split("").is_empty());
}

#[test]
fn parse_note_that_is_cut_is_none() {
    let mut note = vec![0; 24];
    note.extend(b"a\0b\0-4@%edi\0");
    let whole = parse_note(&note).unwrap();
    assert_eq!((whole.provider.as_str(), whole.name.as_str()), ("a", "b"));
    assert_eq!(whole.arguments, "-4@%edi");
    assert!((0..note.len()).all(|cut| parse_note(&note[..cut]).is_none()));
}

/// Lists the probes as `readelf -n` prints them: provider, name, location, semaphore, arguments.
fn by_readelf(path: &Path) -> Vec<(String, String, u64, u64, String)> {
    let text = output("readelf", &["-n"], path);
    let value =
        |line: &str, key: &str| line.trim().strip_prefix(key).map(|rest| rest.trim().to_owned());
    let number =
        |text: &str| u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).unwrap();
    let mut all: Vec<(String, String, u64, u64, String)> = Vec::new();
    for line in text.lines() {
        if let Some(provider) = value(line, "Provider:") {
            all.push((provider, String::new(), 0, 0, String::new()));
        }
        let Some(last) = all.last_mut() else { continue };
        if let Some(name) = value(line, "Name:") {
            last.1 = name;
        } else if let Some(rest) = value(line, "Location:") {
            let mut parts = rest.split(", ");
            last.2 = number(parts.next().unwrap());
            last.3 = number(parts.nth(1).unwrap().trim_start_matches("Semaphore: "));
        } else if let Some(arguments) = value(line, "Arguments:") {
            last.4 = arguments;
        }
    }
    all
}

fn check_against_readelf(path: &Path) -> usize {
    let elf = Elf::open(path).unwrap();
    let found = locations(&elf).unwrap();
    let wanted = by_readelf(path);
    assert_eq!(found.len(), wanted.len(), "{}", path.display());
    for (one, (provider, name, address, semaphore, arguments)) in found.iter().zip(&wanted) {
        assert_eq!((&one.provider, &one.name, one.address), (provider, name, *address));
        assert_eq!(
            one.arguments.join(" "),
            arguments.split_whitespace().collect::<Vec<_>>().join(" ")
        );
        assert_eq!(one.semaphore.is_some(), *semaphore != 0);
        assert_eq!(one.offset, elf.address(*address).unwrap().offset);
    }
    found.len()
}

#[test]
fn locations_of_a_program_are_those_of_readelf() {
    for flags in [&["-O2"][..], &["-O0"], &["-O2", "-no-pie", "-fno-pie"], &["-O3", "-static"]] {
        let folder = Folder::new("usdt");
        let Some(path) = folder.target(flags) else { return };
        // glibc's archive may bring its own.
        assert!(check_against_readelf(&path) >= 5, "{flags:?}");
        let elf = Elf::open(&path).unwrap();
        let all = locations(&elf).unwrap();
        let wanted = all.iter().find(|one| one.name == "wanted").unwrap();
        let bytes = std::fs::read(&path).unwrap();
        // The probe's instruction is a nop, and nobody wants it yet.
        assert_eq!(bytes[wanted.offset as usize], 0x90);
        let count = wanted.semaphore.unwrap() as usize;
        assert_eq!(bytes[count..count + 2], [0, 0]);
        let listed = list(&elf).unwrap();
        let places = listed.iter().find(|one| one.name == "places").unwrap();
        assert_eq!((places.locations, places.has_semaphore), (2, false));
        assert_eq!(places.arguments, ["arg1: u64"]);
    }
}

#[test]
fn locations_of_installed_programs_are_those_of_readelf() {
    let folder = std::fs::read_dir("/usr/lib/x86_64-linux-gnu").into_iter().flatten().flatten();
    let libraries = folder.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("libstdc++.so")
            || name.starts_with("libpython")
            || name.starts_with("libc.so")
    });
    let programs = ["/usr/bin/python3", "/usr/bin/perl"].map(Into::into);
    let mut probes = 0;
    for path in libraries.chain(programs).filter(|path| path.is_file()) {
        if Elf::open(&path).is_ok() {
            probes += check_against_readelf(&path);
        }
    }
    if probes == 0 {
        eprintln!("skip: none of the installed programs has USDT probes");
    }
}

/// The file is changed as prelink does: all addresses are greater, but not those in the notes.
#[test]
fn locations_of_a_file_that_was_moved_are_moved_with_it() {
    let folder = Folder::new("usdt-moved");
    let Some(path) = folder.target(&["-O2"]) else { return };
    let before = locations(&Elf::open(&path).unwrap()).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    // In the notes instead, all three addresses are less by as much.
    let marker = b"\x03\0\0\0stapsdt\0";
    let notes: Vec<usize> = (0..bytes.len() - 12)
        .filter(|at| bytes[*at..*at + 12] == marker[..])
        .map(|at| at + 12)
        .collect();
    assert_eq!(notes.len(), before.len());
    for note in notes {
        for word in [note, note + 8, note + 16] {
            let address = u64::from_le_bytes(bytes[word..word + 8].try_into().unwrap());
            if address != 0 {
                bytes[word..word + 8].copy_from_slice(&(address - 0x800).to_le_bytes());
            }
        }
    }
    let after = locations(&Elf::open(&folder.file("moved", &bytes)).unwrap()).unwrap();
    assert_eq!(before, after);
}
