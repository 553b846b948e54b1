//! The pod of Kubernetes for which a container is, by the files that containerd and CRI-O keep of containers that run.
//!
//! ```text
//! /run/containerd/io.containerd.runtime.v2.task/NAMESPACE/ID/config.json              containerd
//! /run/containers/storage/overlay-containers/ID/userdata/config.json                  CRI-O
//! /var/lib/containers/storage/overlay-containers/ID/userdata/config.json              CRI-O
//! ```
//!
//! These files belong to root. Without them, readers know a pod by the number in the path of its control groups. The result is a name for
//! people and decides nothing: whoever may make control groups can imitate the paths.

use std::collections::HashMap;
use std::fs::{read_dir, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::container_name::{is_id, named};

/// The most bytes of a file that are read; a container with hundreds of mounts has some 100 KiB.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The most namespaces of containerd that are searched; Kubernetes has one.
const NAMESPACES_MAX: usize = 64;
/// The most bytes of a name of Kubernetes.
const NAME_BYTES_MAX: usize = 253;

const CONTAINERD: &str = "run/containerd/io.containerd.runtime.v2.task";
const CRI_O: [&str; 2] =
    ["run/containers/storage/overlay-containers", "var/lib/containers/storage/overlay-containers"];

/// The annotations with the namespace and the name of the pod: containerd's and CRI-O's.
const ANNOTATIONS: [[&str; 2]; 2] = [
    ["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.cri.sandbox-name"],
    ["io.kubernetes.pod.namespace", "io.kubernetes.pod.name"],
];

/// The most containers whose pods are remembered.
const KNOWN_MAX: usize = 1 << 12;

/// Pods by folder and container: a container may have thousands of processes, and its owner chooses how long its description is. Nobody
/// uses an id twice.
static KNOWN: Mutex<Option<HashMap<(PathBuf, String), String>>> = Mutex::new(None);

/// Returns `NAMESPACE/NAME` of the Kubernetes pod to which a control group belongs. Empty if it belongs to none, or
/// the pod's name is not found.
pub(crate) fn pod_of(root: &Path, group: &[u8]) -> String {
    let is_of_kubernetes = group.windows(8).any(|part| part == b"kubepods");
    let id = named(group).filter(|id| is_of_kubernetes && is_id(id));
    id.map(|id| known_pod(root, id)).unwrap_or_default()
}

/// Returns the pod of a container as [`pod_of`] does. Reads the files once.
fn known_pod(root: &Path, id: String) -> String {
    let key = (root.to_owned(), id);
    let lock = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = lock().get_or_insert_default().get(&key) {
        return name.clone();
    }
    let name = files(root, &key.1).iter().find_map(|file| pod_in(file)).unwrap_or_default();
    let mut known = lock();
    let known = known.get_or_insert_default();
    if known.len() >= KNOWN_MAX {
        known.clear();
    }
    known.insert(key, name.clone());
    name
}

/// Returns the files in which container runtimes may describe the container `id`.
fn files(root: &Path, id: &str) -> Vec<PathBuf> {
    let namespaces = read_dir(root.join(CONTAINERD)).into_iter().flatten().flatten();
    let of_containerd = namespaces.take(NAMESPACES_MAX).map(|entry| entry.path().join(id));
    let of_containerd = of_containerd.map(|folder| folder.join("config.json"));
    let of_cri_o =
        CRI_O.iter().map(|folder| root.join(folder).join(id).join("userdata/config.json"));
    of_containerd.chain(of_cri_o).collect()
}

/// Reads the name of the pod from the description of a container.
fn pod_in(file: &Path) -> Option<String> {
    // What is no file, such as a pipe, would be waited for.
    file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    File::open(file).ok()?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return None;
    }
    let config: Value = serde_json::from_slice(&bytes).ok()?;
    let annotations = config.get("annotations")?;
    let name = |key: &str| annotations.get(key)?.as_str().filter(|name| is_name(name));
    ANNOTATIONS
        .iter()
        .find_map(|[namespace, pod]| Some(format!("{}/{}", name(namespace)?, name(pod)?)))
}

/// Returns whether Kubernetes allows the text as a name.
fn is_name(name: &str) -> bool {
    let is_allowed = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Root(PathBuf);

    impl Root {
        fn file(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn pod(&self, group: &str) -> String {
            pod_of(&self.0, group.as_bytes())
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn config(namespace: &str, pod: &str, keys: [&str; 2]) -> String {
        format!(
            "{{\"annotations\": {{\"{}\": \"{namespace}\", \"{}\": \"{pod}\"}}}}",
            keys[0], keys[1]
        )
    }

    #[test]
    fn pods_of_containers_are_what_their_runtime_has_noted() {
        let root = Root(std::env::temp_dir().join(format!("strata-pods-{}", std::process::id())));
        let id = |digit: &str| digit.repeat(64);
        let [containerd, cri_o] = ANNOTATIONS;
        let task = |digit: &str| format!("{CONTAINERD}/k8s.io/{}/config.json", id(digit));
        root.file(&task("a"), &config("shop", "web-5d9f", containerd));
        root.file(
            &format!("{}/{}/userdata/config.json", CRI_O[1], id("b")),
            &config("kube-system", "dns.0", cri_o),
        );
        let group = |digit: &str| {
            format!("/kubepods.slice/kubepods-podx.slice/cri-containerd-{}.scope", id(digit))
        };
        assert_eq!(root.pod(&group("a")), "shop/web-5d9f");
        // Its next processes do not read the file again.
        root.file(&task("a"), &config("shop", "other", containerd));
        assert_eq!(root.pod(&group("a")), "shop/web-5d9f");
        assert_eq!(pod_in(&root.0.join(task("a"))).unwrap(), "shop/other");
        assert_eq!(root.pod(&format!("/kubepods/burstable/podx/{}", id("b"))), "kube-system/dns.0");
        // The same container, and no pod of Kubernetes; a container that nobody describes; no container.
        for group in
            [&format!("/system.slice/docker-{}.scope", id("a")), &group("c"), "/kubepods.slice", ""]
        {
            assert_eq!(root.pod(group), "", "{group}");
        }
        // Names that are none, no JSON, too deep, too large, and no file.
        for text in [
            &config("shop", "../x", containerd)[..],
            &config("shop", "", containerd),
            &config("shop", &"x".repeat(300), containerd),
            &config("shop", "\\u001b[31m", containerd),
            "{\"annotations\": {\"io.kubernetes.cri.sandbox-name\": \"x\"}}",
            "{\"annotations\": 7}",
            "{",
            &"[".repeat(100_000),
            &format!(
                "{}{}",
                " ".repeat(FILE_BYTES_MAX as usize),
                config("shop", "web", containerd)
            ),
        ] {
            root.file(&task("d"), text);
            assert_eq!(pod_in(&root.0.join(task("d"))), None, "{:?}", text.get(..80));
        }
        std::fs::create_dir_all(root.0.join(task("e"))).unwrap();
        assert_eq!(root.pod(&group("e")), "");
    }
}
