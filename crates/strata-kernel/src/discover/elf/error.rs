//! Reasons why a place in an ELF file was not found.

use std::fmt;
use std::path::PathBuf;
use thiserror::Error;

/// Reason why a place in an ELF file was not found.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ElfError {
    /// Neither a program in PATH nor a library has this name.
    #[error(
        "there is no program '{name}' in PATH, and no library of that name. Give its path, with a '/'"
    )]
    NotFound {
        /// The name as it was written.
        name: String,
    },
    /// More than one library has the name.
    #[error("'{name}' may be {}. Name one of them", list(paths))]
    SeveralLibraries {
        /// The name as it was written.
        name: String,
        /// The libraries of that name.
        paths: Vec<String>,
    },
    /// The file cannot be opened.
    #[error("{}: {error}", path.display())]
    Open { path: PathBuf, error: std::io::Error },
    /// The file is leased by its owner, so that it cannot be opened now.
    #[error(
        "{} is kept from being opened by a lease that its owner has taken (fcntl, F_SETLEASE). Copy it, or end \
         who holds the lease: see /proc/locks",
        path.display()
    )]
    Leased { path: PathBuf },
    /// The file has more of something than is read.
    #[error("{} has more {what} than the limit of {limit}. Name a smaller program or library", path.display())]
    Large {
        path: PathBuf,
        /// The unit of the limit, such as "bytes of tables".
        what: &'static str,
        /// The greatest number that is read.
        limit: u64,
    },
    /// The path is no regular file, but a folder, a device or a pipe.
    #[error("{} is no regular file. Name a program or a library", path.display())]
    NoFile { path: PathBuf },
    /// The file is not ELF.
    #[error("{} is {}", path.display(), if *is_script {
        "a script. Name the program that runs it: see its first line"
    } else {
        "no ELF file. Name a program or a library"
    })]
    NotElf {
        path: PathBuf,
        /// True if the file begins with `#!`.
        is_script: bool,
    },
    /// The file is for another machine.
    #[error("{} is for {machine}; probes are in programs of this machine, {}, of 64 bits", path.display(), std::env::consts::ARCH)]
    Machine {
        path: PathBuf,
        /// The machine for which the file is made.
        machine: String,
    },
    /// The file is ELF, but neither a program nor a library.
    #[error("{} is {kind}. Name a program or a library", path.display())]
    Kind {
        path: PathBuf,
        /// The kind of ELF file that it is.
        kind: String,
    },
    /// The file contradicts itself, or is cut off.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        path: PathBuf,
        /// The contradiction that was found.
        what: String,
    },
    /// The file has no such symbol.
    #[error("{} has no function '{symbol}'{}{}", path.display(), similar_list(similar), if *is_full {
        ""
    } else {
        ". It is stripped, so that only exported functions have names: install its debug symbols, or \
         give an address (0x...)"
    })]
    NoSymbol {
        path: PathBuf,
        /// The symbol as it was written.
        symbol: String,
        /// Similar names.
        similar: Vec<String>,
        /// True if the file also has the names of functions that are not exported.
        is_full: bool,
    },
    /// The symbol exists, but not in the requested version.
    #[error("{} has no '{symbol}'; versions: {}", path.display(), list(versions))]
    NoVersion {
        path: PathBuf,
        /// The symbol as it was written.
        symbol: String,
        /// Versions that the symbol has.
        versions: Vec<String>,
    },
    /// The file uses the symbol, but another file defines it.
    #[error(
        "{} calls '{symbol}' and does not define it. Name the library that does (see `ldd`)",
        path.display()
    )]
    Imported {
        path: PathBuf,
        /// The symbol as it was written.
        symbol: String,
    },
    /// The symbol is an IFUNC, which chooses the called function when the program starts.
    #[error(
        "'{symbol}' of {} is a function that chooses, when the program starts, which one is called in its \
         place (IFUNC). Probe that one{}",
        path.display(),
        similar_list(similar)
    )]
    Indirect {
        path: PathBuf,
        /// The symbol as it was written.
        symbol: String,
        /// Names of the functions of which the program chooses one for this symbol when it starts.
        similar: Vec<String>,
    },
    /// The symbol is a variable.
    #[error("'{symbol}' of {} is a variable. Name a function", path.display())]
    Variable {
        path: PathBuf,
        /// The symbol as it was written.
        symbol: String,
    },
    /// Several functions have the name.
    #[error("{} has several functions '{symbol}'. Write one's address: {addresses}", path.display())]
    Ambiguous {
        path: PathBuf,
        /// The symbol as it was written.
        symbol: String,
        /// The addresses of the functions of this name.
        addresses: ListedAddresses,
    },
    /// The offset lies beyond the function's end.
    #[error("'{symbol}' of {} has {size} bytes, +{behind:#x} is none of them{}", path.display(), if *size == 0 {
        ": the file does not say where it ends. Give an address (0x...)"
    } else {
        ""
    })]
    Beyond {
        path: PathBuf,
        /// The symbol as it was written.
        symbol: String,
        /// The function's size \[byte\].
        size: u64,
        /// The requested offset \[byte\].
        behind: u64,
    },
    /// The address is not within code.
    #[error("{} has no code at {address:#x}. Addresses are those that `nm` and `objdump` print", path.display())]
    NoCode { path: PathBuf, address: u64 },
}

/// A list of addresses that a message shows, shortened if it is long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedAddresses(pub Vec<u64>);

impl fmt::Display for ListedAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        let shown: Vec<String> = self.0.iter().take(SHOWN).map(|at| format!("{at:#x}")).collect();
        write!(f, "{}{}", shown.join(", "), if self.0.len() > SHOWN { ", ..." } else { "" })
    }
}

/// Formats names for a message: `'a', 'b'`.
pub(crate) fn list(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| strata_model::printable(name)).collect();
    names.join(", ")
}

/// Formats similar names for the end of a message: `; similar: 'a', 'b'`, or an empty text.
pub(crate) fn similar_list(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    format!("; similar: {}", list(names))
}
