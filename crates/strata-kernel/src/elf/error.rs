//! Why a place in an ELF file was not found.

use std::fmt;
use std::path::PathBuf;
use thiserror::Error;

/// Why a place in an ELF file was not found.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ElfError {
    /// No program or library of that name.
    #[error(
        "there is no program '{name}' in PATH, and no library of that name. Give its path, with a '/'"
    )]
    NotFound {
        /// As it was written.
        name: String,
    },
    /// More than one library could be meant.
    #[error("'{name}' may be {}. Name one of them", list(paths))]
    SeveralLibraries {
        /// As it was written.
        name: String,
        /// The libraries of that name.
        paths: Vec<String>,
    },
    /// It cannot be opened.
    #[error("{}: {error}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        error: std::io::Error,
    },
    /// Its owner has a lease.
    #[error(
        "{} is kept from being opened by a lease that its owner has taken (fcntl, F_SETLEASE). Copy it, or end \
         who holds the lease: see /proc/locks",
        path.display()
    )]
    Leased {
        /// The file.
        path: PathBuf,
    },
    /// More in it than is read.
    #[error("{} has more {what} than are read, limit {limit}. Name a smaller program or library", path.display())]
    Large {
        /// The file.
        path: PathBuf,
        /// Of what: "bytes of tables".
        what: &'static str,
        /// How many are read.
        limit: u64,
    },
    /// A folder, a device, a pipe.
    #[error("{} is no regular file. Name a program or a library", path.display())]
    NoFile {
        /// The file.
        path: PathBuf,
    },
    /// Not ELF.
    #[error("{} is {}", path.display(), if *is_script {
        "a script. Name the program that runs it: see its first line"
    } else {
        "no ELF file. Name a program or a library"
    })]
    NotElf {
        /// The file.
        path: PathBuf,
        /// It begins with `#!`.
        is_script: bool,
    },
    /// For another machine.
    #[error("{} is for {machine}; probes are for x86-64 only so far", path.display())]
    Machine {
        /// The file.
        path: PathBuf,
        /// That machine.
        machine: String,
    },
    /// ELF, but nothing that is run.
    #[error("{} is {kind}. Name a program or a library", path.display())]
    Kind {
        /// The file.
        path: PathBuf,
        /// What it is.
        kind: String,
    },
    /// Something in it does not fit together.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// No such symbol.
    #[error("{} has no function '{symbol}'{}{}", path.display(), similar_list(similar), if *is_full {
        ""
    } else {
        ". It is stripped, so that only exported functions have names: install its debug symbols, or \
         give an address (0x...)"
    })]
    NoSymbol {
        /// The object's path.
        path: PathBuf,
        /// As it was written.
        symbol: String,
        /// Names much the same.
        similar: Vec<String>,
        /// Functions that are not exported have names, too.
        is_full: bool,
    },
    /// There is one of that name, but not of that version.
    #[error("{} has no '{symbol}'; versions: {}", path.display(), list(versions))]
    NoVersion {
        /// The object's path.
        path: PathBuf,
        /// As it was written.
        symbol: String,
        /// Those that there are.
        versions: Vec<String>,
    },
    /// The symbol is defined elsewhere.
    #[error(
        "{} calls '{symbol}' and does not define it. Name the library that does (see `ldd`)",
        path.display()
    )]
    Imported {
        /// The object's path.
        path: PathBuf,
        /// As it was written.
        symbol: String,
    },
    /// IFUNC.
    #[error(
        "'{symbol}' of {} is a function that chooses, when the program starts, which one is called in its \
         place (IFUNC). Probe that one{}",
        path.display(),
        similar_list(similar)
    )]
    Indirect {
        /// The object's path.
        path: PathBuf,
        /// As it was written.
        symbol: String,
        /// What it may choose.
        similar: Vec<String>,
    },
    /// Not a function.
    #[error("'{symbol}' of {} is a variable. Name a function", path.display())]
    Variable {
        /// The object's path.
        path: PathBuf,
        /// As it was written.
        symbol: String,
    },
    /// Several functions of that name.
    #[error("{} has several functions '{symbol}'. Write one's address: {addresses}", path.display())]
    Ambiguous {
        /// The object's path.
        path: PathBuf,
        /// As it was written.
        symbol: String,
        /// Where they are.
        addresses: ListedAddresses,
    },
    /// Behind the function's end.
    #[error("'{symbol}' of {} has {size} bytes, +{behind:#x} is none of them{}", path.display(), if *size == 0 {
        ": the file does not say where it ends. Give an address (0x...)"
    } else {
        ""
    })]
    Beyond {
        /// The object's path.
        path: PathBuf,
        /// As it was written.
        symbol: String,
        /// Its size \[byte\].
        size: u64,
        /// What was asked for \[byte\].
        behind: u64,
    },
    /// No code there.
    #[error("{} has no code at {address:#x}. Addresses are those that `nm` and `objdump` print", path.display())]
    NoCode {
        /// The object's path.
        path: PathBuf,
        /// That address.
        address: u64,
    },
}

/// Some addresses, as a message has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedAddresses(pub Vec<u64>);

impl fmt::Display for ListedAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        let shown: Vec<String> = self.0.iter().take(SHOWN).map(|at| format!("{at:#x}")).collect();
        write!(f, "{}{}", shown.join(", "), if self.0.len() > SHOWN { ", ..." } else { "" })
    }
}

/// `'a', 'b'`.
pub(crate) fn list(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| strata_model::printable(name)).collect();
    names.join(", ")
}

/// `; similar: 'a', 'b'`, or nothing.
pub(crate) fn similar_list(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    format!("; similar: {}", list(names))
}
