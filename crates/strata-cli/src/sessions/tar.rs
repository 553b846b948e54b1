//! Writes a folder as a tar file (POSIX ustar), for a pipe. The format is simple enough to write here: one header of
//! 512 bytes for each file.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const BLOCK: usize = 512;
/// Size of the name in a header \[byte\].
const NAME: usize = 100;
const PREFIX: usize = 155;
/// The largest number that fits in 11 octal digits.
const OCTAL_MAX: u64 = (1 << 33) - 1;

/// Writes the folders and files in `folder`, which nobody changes while it is read. Follows no link.
pub fn write(folder: &Path, out: &mut dyn Write) -> io::Result<()> {
    add(folder, b"", out)?;
    // Two empty blocks end the file. Tapes had records of 20 blocks, which are not needed.
    out.write_all(&[0; 2 * BLOCK])?;
    out.flush()
}

fn add(folder: &Path, above: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, found) = (entry.path(), entry.metadata()?);
        let mut name = [above, entry.file_name().as_bytes()].concat();
        if found.is_dir() {
            name.push(b'/');
            out.write_all(&header(&name, &found, 0)?)?;
            add(&path, &name, out)?;
        } else if found.is_file() {
            let bytes = found.len();
            out.write_all(&header(&name, &found, bytes)?)?;
            let copied = io::copy(&mut File::open(&path)?.take(bytes), out)?;
            if copied != bytes {
                let what = format!("{}: has {copied} bytes, and had {bytes}", path.display());
                return Err(io::Error::other(what));
            }
            let padding = bytes.next_multiple_of(BLOCK as u64) - bytes;
            out.write_all(&[0; BLOCK][..padding as usize])?;
        }
    }
    Ok(())
}

/// Splits a name at a `/` into the values of its two fields.
fn parts(name: &[u8]) -> io::Result<(&[u8], &[u8])> {
    if name.len() <= NAME {
        return Ok((b"", name));
    }
    // The last `/` of a folder's name only ends the name.
    let end = name.len() - 1;
    let mut slashes = (1..end).filter(|&at| name[at] == b'/');
    let fits = |&at: &usize| at <= PREFIX && name.len() - at - 1 <= NAME;
    let too_long = || {
        let name = String::from_utf8_lossy(name);
        io::Error::other(format!("{name}: is too long a name for a tar file"))
    };
    let at = slashes.find(fits).ok_or_else(too_long)?;
    Ok((&name[..at], &name[at + 1..]))
}

fn header(name: &[u8], of: &Metadata, bytes: u64) -> io::Result<[u8; BLOCK]> {
    let mut block = [0; BLOCK];
    let (prefix, name) = parts(name)?;
    let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
    put(0, name);
    put(100, format!("{:07o}", of.mode() & 0o7777).as_bytes());
    // The files will belong to the user who unpacks them.
    put(108, b"0000000");
    put(116, b"0000000");
    match bytes {
        0..=OCTAL_MAX => put(124, format!("{bytes:011o}").as_bytes()),
        // As in GNU tar, bsdtar and Python: a byte with the highest bit set, followed by the number.
        _ => {
            put(124, &[0x80]);
            put(128, &bytes.to_be_bytes());
        }
    }
    let modified = u64::try_from(of.mtime()).unwrap_or(0).min(OCTAL_MAX);
    put(136, format!("{modified:011o}").as_bytes());
    put(148, &[b' '; 8]);
    put(156, if of.is_dir() { b"5" } else { b"0" });
    put(257, b"ustar\x0000");
    put(345, prefix);
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn tar_of_a_folder_is_what_tar_unpacks() {
        let scratch = std::env::temp_dir().join(format!("strata-tar-{}", std::process::id()));
        let (from, to) = (scratch.join("from"), scratch.join("to"));
        let deep = from.join("x".repeat(90)).join("y".repeat(90));
        fs::create_dir_all(&deep).unwrap();
        fs::create_dir_all(&to).unwrap();
        for (name, bytes) in [("a", 0), ("b", 511), ("c", 512), ("d", 70_001), (".e", 1)] {
            let text: Vec<u8> = (0..bytes).map(|n: u32| (n % 251) as u8).collect();
            fs::write(deep.join(name), &text).unwrap();
        }
        fs::create_dir(from.join("empty")).unwrap();
        let mut child =
            Command::new("tar").arg("x").current_dir(&to).stdin(Stdio::piped()).spawn().unwrap();
        write(&from, &mut child.stdin.take().unwrap()).unwrap();
        assert!(child.wait().unwrap().success());
        let same = Command::new("diff").arg("-r").args([&from, &to]).status().unwrap();
        fs::write(from.join("z".repeat(120)), "").unwrap();
        let error = write(&from, &mut Vec::new()).unwrap_err();
        fs::remove_dir_all(&scratch).unwrap();
        assert!(same.success());
        assert!(error.to_string().ends_with("is too long a name for a tar file"), "{error}");
    }

    #[test]
    fn size_of_more_than_8_gib_is_a_binary_number() {
        let of = fs::metadata(".").unwrap();
        let small = header(b"a", &of, OCTAL_MAX).unwrap();
        assert_eq!(&small[124..136], b"77777777777\0");
        let large = header(b"a", &of, OCTAL_MAX + 1).unwrap();
        assert_eq!(&large[124..136], &[0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]);
    }
}
