//! Why no control group is meant by a name.

use thiserror::Error;

/// Why no group is meant.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum GroupError {
    /// None are mounted.
    #[error(
        "control group '{name}': none of version 2 are mounted at /sys/fs/cgroup or /sys/fs/cgroup/unified. Mount them: \
         mount -t cgroup2 none /sys/fs/cgroup/unified"
    )]
    Unmounted {
        /// As it was asked for.
        name: String,
    },
    /// Nobody is called so.
    #[error(
        "control group '{name}': no group, and no container, is called so{near} Start what is in it first; \
         `systemd-cgls` lists all there are. Names that only Docker or Podman knows: `docker inspect -f \
         '{{{{.Id}}}}' NAME` says the id"
    )]
    None {
        /// As it was asked for.
        name: String,
        /// What was perhaps meant.
        near: String,
    },
    /// Several are.
    #[error(
        "control group '{name}': {found} are called so: {which}. Name one by its path, from '/' on"
    )]
    Several {
        /// As it was asked for.
        name: String,
        /// Control groups of this name.
        found: usize,
        /// Some of them.
        which: String,
    },
}
