//! Keeps a server's token in a file, so that a page that is open stays valid when the server is started again.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::fs::{fstat, open, FileType, Mode, OFlags};

use crate::server::request_guard::Token;

/// Limit on the size of the file \[byte\].
const BYTES_MAX: u64 = 100;

/// Returns the token of a file. If there is no such file, makes it, with a new token and for this user alone.
///
/// # Errors
/// The file cannot be read or made; somebody else owns it or could read or change it; or it has no token.
pub fn token_of(path: &Path) -> io::Result<Token> {
    match read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        read => return read,
    }
    let token = Token::random()?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    match open(path, flags, Mode::RUSR | Mode::WUSR) {
        // Another server has made it just now.
        Err(rustix::io::Errno::EXIST) => read(path),
        Err(error) => Err(error.into()),
        Ok(file) => writeln!(File::from(file), "{}", token.text()).map(|()| token),
    }
}

fn read(path: &Path) -> io::Result<Token> {
    let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    // A pipe would be waited for.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty())?;
    let status = fstat(&file)?;
    let own = rustix::process::geteuid().as_raw();
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(wrong("it is no regular file".into()));
    }
    if status.st_uid != own {
        let owner = status.st_uid;
        return Err(wrong(format!("it belongs to user {owner}, and this is user {own}")));
    }
    let mode = status.st_mode & 0o777;
    if mode & 0o077 != 0 {
        return Err(wrong(format!("others may read or write it (mode {mode:04o}): chmod 600 it")));
    }
    let mut text = String::new();
    File::from(file).take(BYTES_MAX).read_to_string(&mut text)?;
    Token::from_text(text.trim_end()).ok_or_else(|| {
        wrong(
            "it has no token, which is 48 digits of 0-9 and a-f: remove it, and one is made".into(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{symlink, PermissionsExt};

    #[test]
    fn token_is_the_same_again_and_no_file_is_believed_that_others_may_have_written() {
        let folder = std::env::temp_dir().join(format!("strata-ui-token-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("token");
        let token = token_of(&path).unwrap();
        assert_eq!(token_of(&path).unwrap().text(), token.text());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let refused = |path: &Path, part: &str| {
            let text = token_of(path).map(|_| ()).unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        };
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o620)).unwrap();
        refused(&path, "mode 0620");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        for text in ["", "0123", &"A".repeat(48), &"0".repeat(49), &"a".repeat(1000)] {
            std::fs::write(&path, text).unwrap();
            refused(&path, "it has no token");
        }
        std::fs::write(&path, [0xff; 48]).unwrap();
        assert!(token_of(&path).is_err());
        std::fs::write(&path, "a".repeat(48)).unwrap();
        let link = folder.join("link");
        symlink(&path, &link).unwrap();
        assert!(token_of(&link).is_err());
        refused(&folder, "no regular file");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
