//! Tests of install-boot that need no root.

use super::*;
use crate::flags::{Action, Flags};
use clap::Parser as _;
use std::os::unix::fs::PermissionsExt as _;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("strata-boot-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Scratch(path)
    }

    fn run(&self, words: &[&str]) -> Result<u8> {
        let root = self.0.to_str().unwrap();
        let all = ["strata", "install-boot", "--root", root];
        let words = all.iter().chain(words);
        match Flags::try_parse_from(words)?.action {
            Action::InstallBoot(flags) => install(&flags),
            _ => bail!("another one"),
        }
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap_or_default()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn said(done: Result<u8>) -> String {
    format!("{:#}", done.unwrap_err())
}

#[test]
fn what_is_installed_is_a_plan_units_and_links_and_goes_with_remove() {
    let scratch = Scratch::new("made");
    let words = [
        "b-1",
        "--size",
        "2M",
        "-o",
        "/srv/a b%$\"",
        "-k",
        "sched_*,!sched_stat_*",
        "-u",
        "shop:*",
    ];
    assert_eq!(scratch.run(&words).unwrap(), 0);
    let plan = Plan::from_json(&scratch.text("etc/strata/boot/b-1.json")).unwrap();
    let settle = plan.settle.clone().unwrap();
    assert_eq!((settle.size, settle.folder), (2 << 20, PathBuf::from("/srv/a b%$\"")));
    assert_eq!(plan.output, Some("/run/strata-boot/b-1".into()));
    assert_eq!(plan.channels.len(), 2);
    let unit = scratch.text("etc/systemd/system/strata-boot-b-1.service");
    assert!(unit.starts_with(files::MARK) && unit.contains("DefaultDependencies=no"), "{unit}");
    let settle = scratch.text("etc/systemd/system/strata-settle-b-1.service");
    assert!(settle.contains("RequiresMountsFor=\"/srv/a b%%$\\\"\""), "{settle}");
    let link = scratch.0.join("etc/systemd/system/sysinit.target.wants/strata-boot-b-1.service");
    assert!(fs::read_to_string(&link).unwrap() == unit);
    // Again, and then the other way.
    assert_eq!(scratch.run(&words).unwrap(), 0);
    assert_eq!(scratch.run(&["b-1", "--remove"]).unwrap(), 0);
    assert!(scratch.text("etc/systemd/system/service.d/strata-boot-b-1.conf").is_empty());
    assert!(said(scratch.run(&["b-1", "--remove"])).contains("nothing is installed"));
    let left: Vec<_> = fs::read_dir(scratch.0.join("etc/systemd/system")).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn what_is_somebody_else_s_stays_and_nothing_is_installed() {
    let scratch = Scratch::new("others");
    let units = scratch.0.join("etc/systemd/system");
    fs::create_dir_all(&units).unwrap();
    fs::write(units.join("strata-settle-b.service"), "[Unit]\n").unwrap();
    assert!(said(scratch.run(&["b"])).contains("was not made by install-boot"));
    assert!(!scratch.0.join("etc/strata").exists());
    fs::remove_file(units.join("strata-settle-b.service")).unwrap();
    // A link where a folder should be leads nowhere.
    let elsewhere = scratch.0.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, scratch.0.join("etc/strata")).unwrap();
    assert!(said(scratch.run(&["b"])).contains("is a link"));
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    fs::remove_file(scratch.0.join("etc/strata")).unwrap();
    // A file that is a link is not written through.
    let victim = scratch.0.join("victim");
    fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, units.join("strata-boot-b.service")).unwrap();
    assert!(said(scratch.run(&["b"])).contains("was not made by install-boot"));
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    fs::set_permissions(&units, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(said(scratch.run(&["b"])).contains("others could change"));
    assert!(said(scratch.run(&["../b"])).contains("not a name"));
    assert!(said(scratch.run(&["b", "--size", "4K"])).contains("--size"));
}
