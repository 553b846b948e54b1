//! Writes the program and the thread of a line, such as `redis-server/18939`, in a column.

use crate::render::line::TextSink;
use crate::render::{escape::tame_text, number};

/// The most bytes of a thread's name in the kernel.
const BYTES: usize = 16;

/// The width of the column with the thread \[columns\]. Longer names are not cut.
const WIDTH: usize = 22;

/// The name of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Comm {
    bytes: [u8; BYTES],
    len: u8,
}

impl Comm {
    /// Returns a name, cut to the length that the kernel keeps; `None` if it is empty.
    #[inline]
    pub(super) fn new(name: &[u8]) -> Option<Comm> {
        let name = name.get(..BYTES).unwrap_or(name);
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        let mut bytes = [0; BYTES];
        bytes[..end].copy_from_slice(&name[..end]);
        (end > 0).then_some(Comm { bytes, len: end as u8 })
    }

    /// Returns the name that the kernel gives to a thread which executes this file.
    pub(super) fn of_program(path: &[u8]) -> Option<Comm> {
        let name = path.rsplit(|&byte| byte == b'/').next()?;
        Comm::new(name.get(..BYTES - 1).unwrap_or(name))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

/// Writes the thread, and spaces up to the next column. An unknown name or number is written as `?`.
pub(super) fn write(out: &mut impl TextSink, name: Option<&[u8]>, tid: Option<i64>, colours: bool) {
    if colours {
        out.extend_from_slice(b"\x1b[36m");
    }
    let mut text = Vec::with_capacity(2 * WIDTH);
    match name {
        Some(name) if name.is_ascii() && !name.iter().any(u8::is_ascii_control) => {
            text.extend_from_slice(name);
        }
        Some(name) => tame_text(&mut text, name),
        None => text.push(b'?'),
    }
    if let Some(tid) = tid {
        text.push(b'/');
        number::signed(&mut text, tid);
    }
    out.extend_from_slice(&text);
    if colours {
        out.extend_from_slice(b"\x1b[0m");
    }
    let columns = text.utf8_chunks().map(|chunk| chunk.valid().chars().count()).sum::<usize>();
    const BLANKS: [u8; WIDTH + 1] = [b' '; WIDTH + 1];
    out.put(&BLANKS, 1 + WIDTH.saturating_sub(columns));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_column_and_commands_no_terminal() {
        let text = |name: Option<&[u8]>, tid| {
            let mut out = Vec::new();
            write(&mut out, name, tid, false);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(Some(b"cat"), Some(7)), format!("{:<23}", "cat/7"));
        assert_eq!(text(None, Some(7)), format!("{:<23}", "?/7"));
        assert_eq!(text(None, None), format!("{:<23}", "?"));
        let hostile = text(Some(b"a\x1b[2J\n\xc2\x9b\xff"), Some(1));
        assert_eq!(hostile.trim_end(), "a\\x1b[2J\\x0a\\xc2\\x9b\\xff/1");
        let long = text(Some("a name that is longer than all".as_bytes()), Some(4_194_304));
        assert_eq!(long, "a name that is longer than all/4194304 ");
    }

    #[test]
    fn comm_of_a_program_is_what_the_kernel_keeps_of_its_file_s_name() {
        let of =
            |path: &str| Comm::of_program(path.as_bytes()).map(|comm| comm.as_bytes().to_vec());
        assert_eq!(of("/usr/bin/cat"), Some(b"cat".to_vec()));
        assert_eq!(of("./a-name-of-twenty-bytes"), Some(b"a-name-of-twent".to_vec()));
        assert_eq!(of("/usr/bin/"), None);
        assert_eq!(Comm::new(b"sixteen bytes...more").unwrap().as_bytes(), b"sixteen bytes...");
        assert_eq!(Comm::new(b"ab\0cd").unwrap().as_bytes(), b"ab");
    }
}
