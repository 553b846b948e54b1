//! Programs that somebody wants to be probed.

use rustix::fs::{memfd_create, MemfdFlags};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use strata_kernel::elf::Elf;
use strata_kernel::usdt;
use strata_kernel::usdt::operand::UsdtOperand;

/// Its functions, their places, and its USDT probes.
pub fn run(input: &[u8]) {
    let memory = memfd_create("elf", MemfdFlags::CLOEXEC).expect("memory for a file");
    let mut file = File::from(memory);
    file.write_all(input).expect("memory for a file");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let elf = match Elf::open(&path) {
        Ok(elf) => elf,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for name in elf.functions().unwrap_or_default().iter().take(50) {
        if let Err(error) = elf.symbol(name, 3) {
            assert!(!error.to_string().is_empty());
        }
    }
    for name in ["main", "nothing_like_it"] {
        if let Err(error) = elf.symbol(name, 0) {
            assert!(!error.to_string().is_empty());
        }
    }
    let _ = elf.address(0x1000);
    let _ = usdt::list(&elf);
    for location in usdt::locations(&elf).unwrap_or_default() {
        location.arguments.iter().for_each(|text| drop(UsdtOperand::parse(text)));
    }
}
