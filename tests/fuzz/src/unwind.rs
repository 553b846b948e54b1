//! Unwind tables of files, and recorded copies of stacks that are unwound by them, of any bytes.

use rustix::fs::{memfd_create, MemfdFlags};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use strata_analyze::debug_info::{SourceOptions, SymbolFiles};

/// The size of the headers of the file that is made; its table follows.
const HEAD: u64 = 64 + 2 * 56;
/// The number of registers that are recorded with a stack.
const REGISTERS: usize = 21;
/// The number that [`strata_analyze`] promises.
const FRAMES_MAX: usize = 1024;

/// Returns a file with an unwind table, and with an index of it.
fn file(table: &[u8], index: &[u8]) -> Vec<u8> {
    let names = b"\0.eh_frame\0";
    let (index_at, names_at) =
        (HEAD + table.len() as u64, HEAD + (table.len() + index.len()) as u64);
    let sections_at = names_at + names.len() as u64;
    let words =
        |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let halves =
        |halves: &[u16]| halves.iter().flat_map(|half| half.to_le_bytes()).collect::<Vec<_>>();
    // Address and offset are the same, so that pointers from the index to the table are as in a program.
    let segment =
        |kind: u64, at: u64, bytes: u64| words(&[5 << 32 | kind, at, at, at, bytes, bytes, 1]);
    let section = |name: u64, kind: u64, at: u64, bytes: u64| {
        words(&[kind << 32 | name, 2, at, at, bytes, 0, 1, 0])
    };
    [
        b"\x7fELF\x02\x01\x01".to_vec(),
        vec![0; 9],
        halves(&[3, 62, 1, 0]),
        words(&[0x1000, 64, sections_at]),
        halves(&[0, 0, 64, 56, 2, 64, 3, 2]),
        segment(1, 0, 1 << 40),
        segment(0x6474_e550, index_at, index.len() as u64),
        table.to_vec(),
        index.to_vec(),
        names.to_vec(),
        section(0, 0, 0, 0),
        section(1, 1, HEAD, table.len() as u64),
        section(0, 3, names_at, names.len() as u64),
    ]
    .concat()
}

/// Two sizes; the table and its index, which have them; the registers, and the words of the stack.
pub fn run(input: &[u8]) {
    let Some((sizes, rest)) = input.split_first_chunk::<4>() else { return };
    let [table_bytes, index_bytes] =
        [0, 2].map(|at| usize::from(u16::from_le_bytes([sizes[at], sizes[at + 1]])));
    let (table, rest) = rest.split_at(table_bytes.min(rest.len()));
    let (index, rest) = rest.split_at(index_bytes.min(rest.len()));
    let mut words: Vec<u64> = rest
        .chunks(8)
        .map(|part| part.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
        .collect();
    let stack = words.split_off(words.len().min(REGISTERS));
    words.resize(REGISTERS, 0);
    let memory = memfd_create("unwind", MemfdFlags::CLOEXEC).expect("memory for a file");
    let mut to = File::from(memory);
    to.write_all(&file(table, index)).expect("memory for a file");
    let path = PathBuf::from(format!("/proc/self/fd/{}", to.as_raw_fd()));
    let (files, recorded) = (SymbolFiles::default(), stack.len());
    let found = files.unwound(&SourceOptions::default(), &path, &words, stack);
    assert!(
        found.len() <= FRAMES_MAX.min(64 + recorded),
        "{} frames of {recorded} words",
        found.len()
    );
    assert!(files.remarks().iter().all(|remark| remark.len() < 10_000));
}
