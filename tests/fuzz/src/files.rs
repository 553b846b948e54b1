//! A folder for one trace, which is used again for the next.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Metadata, a zero byte, bytes.
pub fn metadata_and_more(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = input.iter().position(|&byte| byte == 0)?;
    Some((&input[..end], &input[end + 1..]))
}

/// Where TMPDIR says; whoever runs the program removes it.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("strata-fuzz-{}", std::process::id()));
        fs::create_dir_all(path.join("index")).expect("a folder for the traces");
        path
    })
}

/// A trace in files, which are there as long as this is.
pub struct Files(Vec<PathBuf>);

impl Files {
    pub fn new() -> Files {
        Files(Vec::new())
    }

    pub fn folder(&self) -> &'static Path {
        root()
    }

    pub fn add(&mut self, name: &str, bytes: &[u8]) {
        let path = root().join(name);
        fs::write(&path, bytes).expect("a file of the trace");
        self.0.push(path);
    }

    /// A trace whose streams are so many equal parts of the bytes.
    pub fn add_streams(&mut self, metadata: &[u8], streams: usize, bytes: &[u8]) {
        self.add("metadata", metadata);
        let part = bytes.len().div_ceil(streams).max(1);
        for (name, bytes) in ["a", "b"].iter().zip(bytes.chunks(part).take(streams)) {
            self.add(name, bytes);
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}
