//! The ids of containers by the names that Docker and Podman have given them. Their control groups have ids only.
//!
//! The names are read from the runtimes' own files, which belong to root (or, without root, to the user who runs Podman). Files
//! that cannot be read, are too large or no JSON have no names in them.

use std::fs::{read_dir, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The most containers of a runtime whose names are read.
const CONTAINERS_MAX: usize = 4096;

/// The most bytes of a file that are read.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Folder of Docker with one folder for each container.
const DOCKER: &str = "/var/lib/docker/containers";

/// Folder of Podman, and of CRI-O, with the list of containers.
const CONTAINERS: &str = "/var/lib/containers/storage/overlay-containers";

/// Returns the ids of the containers that runtimes call by this name, each once.
#[must_use]
pub fn container_ids(name: &str) -> Vec<String> {
    let own = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/share"));
    let own = own.or_else(home).map(|data| data.join("containers/storage/overlay-containers"));
    let lists = [Some(PathBuf::from(CONTAINERS)), own].into_iter().flatten();
    ids(name, Path::new(DOCKER), lists)
}

fn ids(name: &str, docker: &Path, lists: impl Iterator<Item = PathBuf>) -> Vec<String> {
    let mut ids = of_docker(name, docker);
    for list in lists {
        ids.extend(of_podman(name, &list.join("containers.json")));
    }
    ids.retain(|id| is_id(id));
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn is_id(id: &str) -> bool {
    id.len() == 64 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the content of a JSON file; `None` if it is not JSON, or too large.
fn content(path: &Path) -> Option<Value> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    match bytes.len() as u64 > FILE_BYTES_MAX {
        true => None,
        false => serde_json::from_slice(&bytes).ok(),
    }
}

/// Returns the ids of Docker's containers with this name, from `ID/config.v2.json` of each. In these files, a `/`
/// precedes the name.
fn of_docker(name: &str, folder: &Path) -> Vec<String> {
    let folders = read_dir(folder).into_iter().flatten().flatten().take(CONTAINERS_MAX);
    let id = |entry: std::fs::DirEntry| {
        let config = content(&entry.path().join("config.v2.json"))?;
        let found = config.get("Name")?.as_str()?;
        let id = config.get("ID")?.as_str()?;
        (found.strip_prefix('/').unwrap_or(found) == name).then(|| id.to_owned())
    };
    folders.filter_map(id).collect()
}

/// Returns the ids of Podman's containers with this name, from the list `[{"id": …, "names": […]}, …]`.
fn of_podman(name: &str, list: &Path) -> Vec<String> {
    let Some(Value::Array(all)) = content(list) else { return Vec::new() };
    let has_name = |one: &&Value| {
        let names = one.get("names").and_then(Value::as_array);
        names.is_some_and(|names| names.iter().any(|other| other.as_str() == Some(name)))
    };
    let id = |one: &Value| Some(one.get("id")?.as_str()?.to_owned());
    all.iter().take(CONTAINERS_MAX).filter(has_name).filter_map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch_tests::Scratch;

    #[test]
    fn ids_are_of_containers_with_the_name_and_of_files_that_can_be_read() {
        let scratch = Scratch::new("container-ids");
        let (docker, podman) = (scratch.0.join("docker"), scratch.0.join("podman"));
        let id = |digit: &str| digit.repeat(64);
        let file = |path: &Path, text: String| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for (digit, name) in [("a", "/web"), ("b", "/web2"), ("c", "db")] {
            let text = format!("{{\"ID\": \"{}\", \"Name\": \"{name}\"}}", id(digit));
            file(&docker.join(id(digit)).join("config.v2.json"), text);
        }
        file(&docker.join("broken/config.v2.json"), "{\"Name\": \"/web\"".to_owned());
        file(
            &docker.join("no-id/config.v2.json"),
            "{\"ID\": \"../x\", \"Name\": \"/web\"}".to_owned(),
        );
        let list = format!(
            "[{{\"id\": \"{}\", \"names\": [\"shop\", \"web\"]}}, {{\"id\": \"{}\"}}, 7]",
            id("d"),
            id("e")
        );
        file(&podman.join("containers.json"), list);
        let found = |name: &str| ids(name, &docker, [podman.clone()].into_iter());
        assert_eq!(found("web"), [id("a"), id("d")]);
        assert_eq!((found("db"), found("shop")), (vec![id("c")], vec![id("d")]));
        assert!(found("we").is_empty() && found("").is_empty());
        file(&podman.join("containers.json"), "[".repeat(100_000));
        assert_eq!(found("web"), [id("a")]);
    }
}
