//! Programs and libraries that a trace names: their functions and lines, of any bytes.

use rustix::fs::{memfd_create, MemfdFlags};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use strata_analyze::debug_info::{SourceOptions, SymbolFiles};

/// What is at some addresses, the program's first instruction among them.
pub fn run(input: &[u8]) {
    let memory = memfd_create("symbols", MemfdFlags::CLOEXEC).expect("memory for a file");
    let mut file = File::from(memory);
    file.write_all(input).expect("memory for a file");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let entry =
        input.get(24..32).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    let files = SymbolFiles::default();
    // Nothing else is looked at, whatever build id or link the bytes have.
    let options = SourceOptions { folder: Some("/dev/null".into()), ..SourceOptions::default() };
    for address in [0, 1, 0x1000, 0x10_0001, entry, entry.wrapping_add(1), u64::MAX - 1, u64::MAX] {
        let (function, source) = files.at(&options, &path, address);
        for text in [function, source] {
            assert!(text.len() <= 4096, "{} bytes", text.len());
        }
    }
    for remark in files.remarks() {
        assert!(remark.len() < 10_000 && !remark.is_empty(), "{remark}");
    }
}
