//! Guesses the container of a control group from the paths that container managers use. Any user who may create control
//! groups can imitate such paths: the result is a name for people and decides nothing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// Number of digits of a container's id that are shown, as in `docker ps`.
const SHOWN: usize = 12;

/// Prefixes of containers' ids in the names of systemd's scopes.
const SCOPES: [&str; 6] =
    ["docker-", "crio-", "libpod-", "cri-containerd-", "nerdctl-", "containerd-"];

/// Returns the name, or the first digits of the id, of the innermost container to which the control group belongs.
/// Empty if it belongs to none.
pub(crate) fn container_of(path: &[u8]) -> String {
    let mut name = named(path).unwrap_or_default();
    if is_id(&name) {
        name.truncate(SHOWN);
    }
    name
}

/// Returns the name or the full id of the container.
pub(crate) fn named(path: &[u8]) -> Option<String> {
    let path = Path::new(OsStr::from_bytes(path));
    let parts: Vec<&str> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    (0..parts.len()).rev().find_map(|at| {
        let before = at.checked_sub(1).map(|before| parts[before]);
        by_id(parts[at]).or_else(|| by_name(before, parts[at]))
    })
}

pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the id in `docker-ID.scope`, or in `ID` alone, as kubelet and docker without systemd have it. The scope
/// `libpod-conmon-ID.scope` has only a process that watches a container, and does not count.
fn by_id(part: &str) -> Option<String> {
    let id = match part.strip_suffix(".scope") {
        Some(scope) => SCOPES.iter().find_map(|maker| scope.strip_prefix(maker))?,
        None => part.strip_prefix("libpod-").unwrap_or(part),
    };
    is_id(id).then(|| id.to_owned())
}

/// Returns the name that users have given a container of LXC or a machine of systemd.
fn by_name(before: Option<&str>, part: &str) -> Option<String> {
    let machine = |text: &str| Some(unescaped(text)).filter(|name| !name.is_empty());
    if let Some(name) = part.strip_prefix("lxc.payload.") {
        return machine(name);
    }
    match before {
        Some("lxc" | "lxc.payload") => machine(part),
        Some("machine.slice") => {
            let scope = part.strip_prefix("machine-").and_then(|rest| rest.strip_suffix(".scope"));
            let nspawn = part.strip_prefix("systemd-nspawn@");
            machine(scope.or_else(|| nspawn.and_then(|rest| rest.strip_suffix(".service")))?)
        }
        _ => None,
    }
}

/// Replaces each `\x2d`, by which systemd writes a `-`, in a name.
fn unescaped(text: &str) -> String {
    text.replace("\\x2d", "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_of_known_forms_is_its_id_or_name() {
        let id = "0123456789abcdef".repeat(4);
        let short = "0123456789ab";
        for (path, wanted) in [
            (format!("/system.slice/docker-{id}.scope"), short),
            (format!("/docker/{id}"), short),
            (format!("/docker/{id}/system.slice/cron.service"), short),
            (format!("/machine.slice/libpod-{id}.scope/container"), short),
            (format!("/user.slice/user-1000.slice/libpod_parent/libpod-{id}"), short),
            (format!("/kubepods.slice/kubepods-pod1.slice/crio-{id}.scope"), short),
            (format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope"), short),
            (format!("/kubepods/besteffort/pod1/{id}"), short),
            ("/lxc/web".to_owned(), "web"),
            ("/lxc.payload.web/init.scope".to_owned(), "web"),
            ("/machine.slice/machine-web\\x2done.scope".to_owned(), "web-one"),
            ("/machine.slice/systemd-nspawn@web.service/payload".to_owned(), "web"),
            // A container in a container: the inner one.
            (format!("/lxc/web/docker/{id}"), short),
            // Looks like a container's, and is none.
            (format!("/machine.slice/libpod-conmon-{id}.scope"), ""),
            ("/system.slice/docker.service".to_owned(), ""),
            (format!("/docker/{}", &id[..63]), ""),
            (format!("/docker/{}", id.to_uppercase()), ""),
            ("/machine-web.scope".to_owned(), ""),
            ("/lxc".to_owned(), ""),
            ("/".to_owned(), ""),
            (String::new(), ""),
        ] {
            assert_eq!(container_of(path.as_bytes()), wanted, "{path}");
        }
        assert_eq!(container_of(b"/lxc/\xff"), "");
    }
}
