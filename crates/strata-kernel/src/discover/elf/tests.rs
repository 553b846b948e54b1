//! Files that a compiler has just made, against what `nm`, `readelf` and the file itself say.

use super::*;
use std::io::Read;
use std::process::Command;
use strata_random::Random;

/// A folder of its own, gone with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("strata-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// `None`, and said so, without a compiler.
    pub(crate) fn compile(&self, name: &str, source: &Path, flags: &[&str]) -> Option<PathBuf> {
        let out = self.0.join(name);
        let mut gcc = Command::new("gcc");
        gcc.args(["-std=gnu11", "-g"]).args(flags).arg("-o").arg(&out).arg(source);
        match gcc.output() {
            Ok(output) if output.status.success() => Some(out),
            Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => {
                eprintln!("skip: gcc does not run: {error}");
                None
            }
        }
    }

    pub(crate) fn compile_text(&self, name: &str, text: &str, flags: &[&str]) -> Option<PathBuf> {
        let source = self.file(&format!("{name}.c"), text.as_bytes());
        self.compile(name, &source, flags)
    }

    /// The program that the whole system's test records.
    pub(crate) fn target(&self, flags: &[&str]) -> Option<PathBuf> {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/programs/uprobe_target.c");
        self.compile("target", Path::new(source), flags)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a tool and returns what it prints.
pub(crate) fn output(program: &str, arguments: &[&str], path: &Path) -> String {
    let output = Command::new(program).args(arguments).arg(path).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn nm(path: &Path, wanted: &str) -> u64 {
    let text = output("nm", &[], path);
    let line = text.lines().find(|line| line.split(' ').next_back() == Some(wanted)).unwrap();
    u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
}

const SOURCE: &str = r#"
__attribute__((noinline, used)) int plain(int x) { return x * 3; }
static __attribute__((noinline, used)) int hidden(int x) { return plain(x) + 1; }
int variable = 3;
extern int other(int);
static int chosen(void) { return 5; }
static void *choose(void) { return chosen; }
int indirect(void) __attribute__((ifunc("choose")));
__asm__(".text\n.globl sizeless\nsizeless: ret\n");
"#;

#[test]
fn symbol_of_every_kind_of_program_is_where_nm_and_the_file_have_it() {
    let main = format!("{SOURCE} int main(void) {{ return hidden(2) + indirect(); }}");
    for flags in [&["-O2"][..], &["-no-pie", "-fno-pie"], &["-static"], &["-Wl,-z,separate-code"]] {
        let folder = Folder::new("elf-place");
        let Some(path) = folder.compile_text("main", &main, flags) else { return };
        let elf = Elf::open(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let objdump = output("objdump", &["-d", "--no-show-raw-insn"], &path);
        for name in ["plain", "hidden", "main", "sizeless"] {
            let place = elf.symbol(name, 0).unwrap();
            assert_eq!(place.address, nm(&path, name), "{name}");
            assert_eq!(elf.address(place.address).unwrap(), place);
            assert!(objdump.contains(&format!("{:016x} <{name}>:", place.address)));
        }
        // The file's bytes there are the function's: `sizeless` is but one `ret`.
        let at = elf.symbol("sizeless", 0).unwrap().offset as usize;
        assert_eq!(bytes[at], 0xc3, "{flags:?}");
        let second = elf.symbol("plain", 1).unwrap();
        assert_eq!(second.offset, elf.symbol("plain", 0).unwrap().offset + 1);
        let functions = elf.functions().unwrap();
        assert!(["plain", "hidden", "main"].iter().all(|name| functions.contains(&(*name).into())));
    }
}

#[test]
fn symbol_that_is_no_function_is_refused_with_the_reason() {
    let folder = Folder::new("elf-kinds");
    let source = format!("{SOURCE} int uses(void) {{ return other(1) + hidden(1); }}");
    let Some(path) = folder.compile_text("lib.so", &source, &["-shared", "-fPIC"]) else { return };
    let elf = Elf::open(&path).unwrap();
    let message = |name, behind| elf.symbol(name, behind).unwrap_err().to_string();
    assert!(message("variable", 0).contains("'variable' of"), "{}", message("variable", 0));
    assert!(message("variable", 0).contains("is a variable"));
    assert!(message("other", 0).contains("calls 'other' and does not define it"));
    assert!(message("indirect", 0).contains("IFUNC"));
    assert!(message("plainn", 0).ends_with("has no function 'plainn'; similar: 'plain'"));
    assert!(message("nothing_like_it", 0).ends_with("has no function 'nothing_like_it'"));
    assert!(message("plain", 1000).contains("+0x3e8 is none of them"));
    assert!(message("sizeless", 1).contains("does not say where it ends"));
    let message = elf.address(1).unwrap_err().to_string();
    assert!(message.contains("has no code at 0x1"), "{message}");
    let variable = nm(&path, "variable");
    assert!(matches!(elf.address(variable), Err(ElfError::NoCode { .. })));
}

#[test]
fn symbol_of_a_stripped_library_is_found_if_it_is_exported() {
    let folder = Folder::new("elf-stripped");
    let source = format!("{SOURCE} int uses(void) {{ return hidden(1); }}");
    let flags = ["-shared", "-fPIC", "-s"];
    let Some(path) = folder.compile_text("lib.so", &source, &flags) else { return };
    let elf = Elf::open(&path).unwrap();
    assert!(elf.symbol("plain", 0).is_ok());
    let message = elf.symbol("hidden", 0).unwrap_err().to_string();
    assert!(
        message.contains("It is stripped, so that only exported functions have names"),
        "{message}"
    );
}

#[test]
fn symbol_with_versions_is_the_default_one_or_the_one_that_is_named() {
    let folder = Folder::new("elf-versions");
    let source = r#"
__attribute__((used)) int old(void) { return 1; }
__attribute__((used)) int new(void) { return 2; }
__asm__(".symver old,f@V1\n.symver new,f@@V2\n");
"#;
    let map = folder.file("map", b"V1 { global: f; local: *; }; V2 { global: f; } V1;");
    let script = format!("-Wl,--version-script={}", map.display());
    for strip in ["-g", "-s"] {
        let flags = ["-shared", "-fPIC", &script, strip];
        let Some(path) = folder.compile_text("lib.so", source, &flags) else { return };
        let elf = Elf::open(&path).unwrap();
        let dynamic = output("nm", &["-D"], &path);
        let address = |wanted: &str| {
            let line = dynamic.lines().find(|line| line.ends_with(wanted)).unwrap();
            u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
        };
        let (old, new) = (address(" f@V1"), address(" f@@V2"));
        assert_ne!(old, new);
        for (name, wanted) in [("f", new), ("f@V1", old), ("f@V2", new), ("f@@V2", new)] {
            assert_eq!(elf.symbol(name, 0).unwrap().address, wanted, "{name} {strip}");
        }
        let message = elf.symbol("f@V3", 0).unwrap_err().to_string();
        assert!(message.ends_with("has no 'f@V3'; versions: 'V1', 'V2'"), "{message}");
    }
}

#[test]
fn symbol_of_two_functions_of_one_name_says_where_they_are() {
    let folder = Folder::new("elf-twins");
    let one = "static __attribute__((noinline, used)) int twin(int x) { return x + N; }\nint NAME(int x) { return twin(x); }\n";
    let first = folder.file("one.c", one.replace("NAME", "a").replace('N', "1").as_bytes());
    let second = one.replace("NAME", "b").replace('N', "2")
        + "int a(int); int main(void) { return a(b(1)); }";
    let second = folder.file("two.c", second.as_bytes());
    let Some(path) = folder.compile("main", &first, &["-O0", second.to_str().unwrap()]) else {
        return;
    };
    let elf = Elf::open(&path).unwrap();
    match elf.symbol("twin", 0) {
        Err(ElfError::Ambiguous { addresses, .. }) => {
            assert_eq!(addresses.0.len(), 2);
            assert!(addresses.0.iter().all(|at| elf.address(*at).is_ok()));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn open_of_what_is_no_program_says_what_it_is() {
    let folder = Folder::new("elf-open");
    let message = |path: &Path| Elf::open(path).unwrap_err().to_string();
    let script = folder.file("script", b"#!/bin/sh\nexit 0\n");
    assert!(message(&script).contains("is a script. Name the program that runs it"));
    assert!(message(&folder.file("text", b"hello"))
        .ends_with("is no ELF file. Name a program or a library"));
    assert!(message(&folder.file("empty", b"")).contains("is no ELF file"));
    assert!(message(&folder.file("short", b"\x7fELF")).contains("is no ELF file"));
    assert!(message(Path::new("/dev/null")).contains("is no regular file"));
    assert!(message(Path::new("/")).contains("is no regular file"));
    assert!(message(Path::new("/no/such")).contains("No such file"));
    let Some(object) = folder.compile_text("object.o", SOURCE, &["-c"]) else { return };
    assert!(message(&object).contains("is an object file, not linked yet"));
    let mut other = std::fs::read(&object).unwrap();
    other[18..20].copy_from_slice(&elf::EM_AARCH64.to_le_bytes());
    assert!(message(&folder.file("arm", &other)).contains("is for arm64"));
    other[4] = elf::ELFCLASS32;
    other[18..20].copy_from_slice(&elf::EM_386.to_le_bytes());
    assert!(message(&folder.file("i386", &other)).contains("is for 32-bit x86"));
}

/// Calls all functions on a file.
fn ask_everything(path: &Path) {
    let Ok(elf) = Elf::open(path) else { return };
    let _ = elf.functions();
    let _ = elf.symbol("main", 0);
    let _ = elf.symbol("target_add@X", 3);
    let _ = elf.address(0x1000);
    let _ = elf.any_symbol("global");
    let _ = crate::discover::usdt::list(&elf);
    for location in crate::discover::usdt::locations(&elf).unwrap_or_default() {
        let _ = crate::discover::usdt::arguments(&elf, &location);
    }
}

#[test]
fn malicious_files_are_errors_and_never_a_panic() {
    let folder = Folder::new("elf-malicious");
    let Some(path) = folder.target(&["-O2"]) else { return };
    let whole = std::fs::read(&path).unwrap();
    let headers = u64::from_le_bytes(whole[40..48].try_into().unwrap()) as usize;
    let mut random = Random::new();
    for round in 0..600 {
        let mut bytes = whole.clone();
        match round % 4 {
            0 => bytes.truncate(random.below(whole.len())),
            // Where it matters: the file's header and those of the segments and sections.
            1 | 2 => {
                for _ in 0..1 + random.below(6) {
                    let at = if random.next() % 2 == 0 {
                        16 + random.below(64 * 14)
                    } else {
                        headers + random.below(whole.len() - headers)
                    };
                    bytes[at] = [0, 1, 0x7f, 0xff, random.next() as u8][random.below(5)];
                }
            }
            _ => {
                for _ in 0..200 {
                    let at = 6 + random.below(whole.len() - 6);
                    bytes[at] = random.next() as u8;
                }
            }
        }
        ask_everything(&folder.file("bad", &bytes));
    }
    let noise: Vec<u8> = (0..4096).map(|_| random.next() as u8).collect();
    for keep in [0, 4, 20, 64] {
        let mut bytes = noise.clone();
        bytes[..keep].copy_from_slice(&whole[..keep]);
        ask_everything(&folder.file("noise", &bytes));
    }
}

#[test]
fn malicious_code_is_probed_or_refused_and_never_a_panic() {
    let folder = Folder::new("elf-malicious-code");
    let Some(path) = folder.target(&["-O2"]) else { return };
    let whole = std::fs::read(&path).unwrap();
    let mut random = Random::new();
    // Instructions, `.eh_frame` and the symbols, and not the headers.
    let body = 0x1000..whole.len() - 64 * 40;
    for round in 0..120 {
        let mut bytes = whole.clone();
        for _ in 0..[10, 200, 2000][round % 3] {
            bytes[body.start + random.below(body.len())] = random.next() as u8;
        }
        let path = folder.file("bad", &bytes);
        for probe in ["uretprobe:{}:*(value:s64)", "uprobe:{}:target_add+3", "usdt:{}:*:*"] {
            let _ = crate::decide::uprobe::parse(&probe.replace("{}", &path.display().to_string()));
        }
    }
}

#[test]
fn malicious_sections_of_the_same_bytes_count_each() {
    let folder = Folder::new("elf-alike");
    let path = huge(&folder, (64, 24 * 100));
    let mut bytes = vec![0; (64 << 20) + 24 * 100];
    std::fs::File::open(&path).unwrap().read_exact(&mut bytes).unwrap();
    let number = 60_000u16;
    bytes[60..62].copy_from_slice(&number.to_le_bytes());
    let one = bytes[64 * 3..64 * 4].to_vec();
    // The names were there.
    bytes.copy_within(4096..4096 + 64, 32 << 20);
    bytes[64 * 2 + 24..64 * 2 + 32].copy_from_slice(&(32u64 << 20).to_le_bytes());
    for index in 3..usize::from(number) {
        bytes[64 * (index + 1)..64 * (index + 2)].copy_from_slice(&one);
    }
    // Entries without a name.
    bytes[64 << 20..].fill(0);
    let elf = Elf::open(&folder.file("alike", &bytes)).unwrap();
    let message = elf.functions().unwrap_err().to_string();
    assert!(message.contains("more symbols than the limit of 4194304"), "{message}");
}

/// Makes a file that claims enough to make a reader read or remember without bound: a header, sections, and so many
/// bytes of names and symbols.
fn huge(folder: &Folder, (names, symbols): (u64, u64)) -> PathBuf {
    use std::os::unix::fs::FileExt;
    let mut header = vec![0; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    header[16..18].copy_from_slice(&elf::ET_DYN.to_le_bytes());
    header[18..20].copy_from_slice(&elf::EM_X86_64.to_le_bytes());
    header[20] = 1;
    header[40..48].copy_from_slice(&64u64.to_le_bytes());
    for (at, value) in [(52, 64u16), (58, 64), (60, 3), (62, 1)] {
        header[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    let section = |kind: u32, at: u64, bytes: u64, link: u32, each: u64| {
        let mut section = vec![0; 64];
        section[4..8].copy_from_slice(&kind.to_le_bytes());
        section[24..32].copy_from_slice(&at.to_le_bytes());
        section[32..40].copy_from_slice(&bytes.to_le_bytes());
        section[40..44].copy_from_slice(&link.to_le_bytes());
        section[56..64].copy_from_slice(&each.to_le_bytes());
        section
    };
    header.extend(section(0, 0, 0, 0, 0));
    header.extend(section(elf::SHT_STRTAB, 4096, names, 0, 0));
    header.extend(section(elf::SHT_SYMTAB, 64 << 20, symbols, 1, 24));
    let path = folder.file("huge", &header);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    if names < 1 << 26 && symbols < 1 << 26 {
        // One name without an end, which all symbols have from their own place on.
        file.write_all_at(&vec![b'n'; names as usize], 4096).unwrap();
        let mut table = vec![0u8; symbols as usize];
        for (index, symbol) in table.chunks_exact_mut(24).enumerate() {
            symbol[..4].copy_from_slice(&(index as u32).to_le_bytes());
            symbol[4] = elf::STT_FUNC;
            symbol[6] = 1;
        }
        file.write_all_at(&table, 64 << 20).unwrap();
    }
    path
}

#[test]
fn malicious_sizes_are_refused_before_they_are_read() {
    let folder = Folder::new("elf-huge");
    let message = |sizes| {
        let elf = Elf::open(&huge(&folder, sizes)).unwrap();
        let message = elf.functions().unwrap_err().to_string();
        // What needs no symbols is still answered.
        assert!(matches!(elf.address(1), Err(ElfError::NoCode { .. })));
        message
    };
    let tables = "more bytes of tables than the limit of 268435456";
    assert!(message((4096, 24 << 34)).contains(tables));
    assert!(message((1 << 39, 24)).contains(tables));
    let beyond = message((4096, 1 << 41));
    assert!(beyond.contains("is damaged"), "{beyond}");
    let names = message((4 << 20, 24 << 20));
    assert!(names.contains("more bytes of symbols' names than the limit"), "{names}");
}
