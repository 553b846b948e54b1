//! The names of the errors that system calls return, as Linux has them on all machines but Alpha, MIPS, PA-RISC and
//! SPARC.

const NAMES: [&str; 134] = [
    "",
    "EPERM",
    "ENOENT",
    "ESRCH",
    "EINTR",
    "EIO",
    "ENXIO",
    "E2BIG",
    "ENOEXEC",
    "EBADF",
    "ECHILD",
    "EAGAIN",
    "ENOMEM",
    "EACCES",
    "EFAULT",
    "ENOTBLK",
    "EBUSY",
    "EEXIST",
    "EXDEV",
    "ENODEV",
    "ENOTDIR",
    "EISDIR",
    "EINVAL",
    "ENFILE",
    "EMFILE",
    "ENOTTY",
    "ETXTBSY",
    "EFBIG",
    "ENOSPC",
    "ESPIPE",
    "EROFS",
    "EMLINK",
    "EPIPE",
    "EDOM",
    "ERANGE",
    "EDEADLK",
    "ENAMETOOLONG",
    "ENOLCK",
    "ENOSYS",
    "ENOTEMPTY",
    "ELOOP",
    "",
    "ENOMSG",
    "EIDRM",
    "ECHRNG",
    "EL2NSYNC",
    "EL3HLT",
    "EL3RST",
    "ELNRNG",
    "EUNATCH",
    "ENOCSI",
    "EL2HLT",
    "EBADE",
    "EBADR",
    "EXFULL",
    "ENOANO",
    "EBADRQC",
    "EBADSLT",
    "",
    "EBFONT",
    "ENOSTR",
    "ENODATA",
    "ETIME",
    "ENOSR",
    "ENONET",
    "ENOPKG",
    "EREMOTE",
    "ENOLINK",
    "EADV",
    "ESRMNT",
    "ECOMM",
    "EPROTO",
    "EMULTIHOP",
    "EDOTDOT",
    "EBADMSG",
    "EOVERFLOW",
    "ENOTUNIQ",
    "EBADFD",
    "EREMCHG",
    "ELIBACC",
    "ELIBBAD",
    "ELIBSCN",
    "ELIBMAX",
    "ELIBEXEC",
    "EILSEQ",
    "ERESTART",
    "ESTRPIPE",
    "EUSERS",
    "ENOTSOCK",
    "EDESTADDRREQ",
    "EMSGSIZE",
    "EPROTOTYPE",
    "ENOPROTOOPT",
    "EPROTONOSUPPORT",
    "ESOCKTNOSUPPORT",
    "EOPNOTSUPP",
    "EPFNOSUPPORT",
    "EAFNOSUPPORT",
    "EADDRINUSE",
    "EADDRNOTAVAIL",
    "ENETDOWN",
    "ENETUNREACH",
    "ENETRESET",
    "ECONNABORTED",
    "ECONNRESET",
    "ENOBUFS",
    "EISCONN",
    "ENOTCONN",
    "ESHUTDOWN",
    "ETOOMANYREFS",
    "ETIMEDOUT",
    "ECONNREFUSED",
    "EHOSTDOWN",
    "EHOSTUNREACH",
    "EALREADY",
    "EINPROGRESS",
    "ESTALE",
    "EUCLEAN",
    "ENOTNAM",
    "ENAVAIL",
    "EISNAM",
    "EREMOTEIO",
    "EDQUOT",
    "ENOMEDIUM",
    "EMEDIUMTYPE",
    "ECANCELED",
    "ENOKEY",
    "EKEYEXPIRED",
    "EKEYREVOKED",
    "EKEYREJECTED",
    "EOWNERDEAD",
    "ENOTRECOVERABLE",
    "ERFKILL",
    "EHWPOISON",
];

/// Errors after which the kernel starts a call again. A program does not see them.
const RESTARTED: [(i64, &str); 4] = [
    (512, "ERESTARTSYS"),
    (513, "ERESTARTNOINTR"),
    (514, "ERESTARTNOHAND"),
    (516, "ERESTART_RESTARTBLOCK"),
];

/// Returns the name of the error that a return value stands for.
pub fn name(ret: i64) -> Option<&'static str> {
    let number = ret.checked_neg()?;
    let known = usize::try_from(number).ok().and_then(|number| NAMES.get(number));
    known.copied().filter(|name| !name.is_empty())
}

/// Returns the name of an error that the program does not see.
pub fn restarted(ret: i64) -> Option<&'static str> {
    let number = ret.checked_neg()?;
    RESTARTED.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_an_error_is_that_of_its_number() {
        for (ret, wanted) in [
            (-1, Some("EPERM")),
            (-2, Some("ENOENT")),
            (-11, Some("EAGAIN")),
            (-40, Some("ELOOP")),
            (-41, None),
            (-42, Some("ENOMSG")),
            (-61, Some("ENODATA")),
            (-84, Some("EILSEQ")),
            (-95, Some("EOPNOTSUPP")),
            (-110, Some("ETIMEDOUT")),
            (-111, Some("ECONNREFUSED")),
            (-133, Some("EHWPOISON")),
            (-134, None),
            (0, None),
            (2, None),
            (i64::MIN, None),
        ] {
            assert_eq!(name(ret), wanted, "{ret}");
        }
        assert_eq!(restarted(-516), Some("ERESTART_RESTARTBLOCK"));
        assert_eq!(restarted(i64::MIN), None);
    }

    /// The C library of this machine has the same ones.
    #[test]
    fn name_of_every_error_is_one_of_the_system() {
        let unknown = std::io::Error::from_raw_os_error(100_000).to_string();
        let prefix = unknown.split("100000").next().unwrap_or("").to_owned();
        for number in 1..NAMES.len() as i32 {
            let text = std::io::Error::from_raw_os_error(number).to_string();
            let is_known = !text.starts_with(&prefix);
            assert_eq!(is_known, name(-i64::from(number)).is_some(), "{number}: {text}");
        }
    }
}
