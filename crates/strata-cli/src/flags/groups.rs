//! The flags that select processes by their control group: containers, and units of systemd.

use clap::Args;
use strata_kernel::filter::cgroup;
use strata_session::plan::Change;
use strata_session::{container_ids, Tracked};

use crate::units::clean;

/// The control groups whose processes are recorded.
#[derive(Clone, Debug, Default, Args)]
pub struct GroupFlags {
    /// Record the container NAME, by its name or id
    ///
    /// All processes that are in it or come into it. The first digits of an id are enough. Names of Docker and Podman are read from their files. May be repeated.
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with_all = ["command", "pid", "all"])]
    container: Vec<String>,

    /// Record a unit of systemd, such as ssh.service
    ///
    /// All processes that are in it or come into it. Without an ending a service is meant. May be repeated.
    #[arg(long, value_name = "UNIT", value_delimiter = ',', conflicts_with_all = ["command", "pid", "all"])]
    unit: Vec<String>,
}

impl GroupFlags {
    /// Returns the change that restricts a session to these groups, with remarks on which were found; `None` if no group is
    /// named.
    ///
    /// # Errors
    /// A name is that of no group, or of several.
    pub fn tracked(&self) -> anyhow::Result<Option<(Change, Vec<String>)>> {
        let (mut paths, mut remarks) = (Vec::new(), Vec::new());
        let mut add = |what: &str, name: &str, path: String| {
            if name != path {
                remarks.push(format!("{what} '{}' is {}", clean(name), clean(&path)));
            }
            if !paths.contains(&path) {
                paths.push(path);
            }
        };
        for name in &self.container {
            add("container", name, cgroup::find_container(name, &container_ids(name))?);
        }
        for name in &self.unit {
            add("unit", name, cgroup::find_unit(name)?);
        }
        let is_named = !paths.is_empty();
        let tracked = Tracked { cgroups: Some(paths), with_machine: true, ..Tracked::default() };
        Ok(is_named.then_some((Change::Track(tracked), remarks)))
    }
}
