//! A folder of sessions for one test.

use std::path::PathBuf;

use crate::Folder;

pub(crate) struct Bench {
    pub(crate) above: PathBuf,
    pub(crate) folder: Folder,
}

impl Bench {
    pub(crate) fn new(name: &str) -> Bench {
        let above =
            std::env::temp_dir().join(format!("strata-control-{name}-{}", std::process::id()));
        std::fs::create_dir(&above).unwrap();
        let folder = Folder::open_in(&above).unwrap();
        Bench { above, folder }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.above);
    }
}
