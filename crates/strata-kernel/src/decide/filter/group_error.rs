//! Reasons why a name stands for no control group.

use thiserror::Error;

/// Reason why a name stands for no control group.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum GroupError {
    /// The machine has no control groups of version 2 mounted.
    #[error(
        "control group '{name}': none of version 2 are mounted at /sys/fs/cgroup or /sys/fs/cgroup/unified. Mount them: \
         mount -t cgroup2 none /sys/fs/cgroup/unified"
    )]
    Unmounted {
        /// The name as it was written.
        name: String,
    },
    /// The name belongs to no group and no container.
    #[error(
        "control group '{name}': no group, and no container, is called so{near} Start what is in it first; \
         `systemd-cgls` lists all there are. Names that only Docker or Podman knows: `docker inspect -f \
         '{{{{.Id}}}}' NAME` says the id"
    )]
    None {
        /// The name as it was written.
        name: String,
        /// A text with similar names, for the message.
        near: String,
    },
    /// Several groups have this name.
    #[error(
        "control group '{name}': {found} are called so: {which}. Name one by its path, from '/' on"
    )]
    Several {
        /// The name as it was written.
        name: String,
        /// The number of control groups with this name.
        found: usize,
        /// Paths of some of these groups.
        which: String,
    },
}
