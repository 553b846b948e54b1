//! Sessions' plans in files: `strata save` and `strata load`.

use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{bail, Context as _, Result};
use rustix::fs::OFlags;
use serde_json::Value;
use strata_control::{ask, ControlError, Folder, Request};
use strata_session::plan::{Plan, PLAN_BYTES_MAX};
use strata_session::RestorePlan;

use super::background::{self, Until};
use super::killed_sessions;
use super::{absolute, began, done, end, is_there, names_of, one_of, serve, stand, Ending};
use crate::exit_status::FAILED;
use crate::flags::output_format::AnswerFlags;
use crate::flags::sessions::{LoadFlags, SaveFlags};
use crate::stderr;
use crate::stderr::messages;
use crate::stdout;
use crate::units::{clean, shell_word};

/// Extension of the file of a saved plan.
const ENDING: &str = "json";

/// Returns the folder of saved plans.
fn kept_in() -> Result<PathBuf> {
    let set = |key| std::env::var_os(key).filter(|path| !path.is_empty()).map(PathBuf::from);
    let config = match (set("XDG_CONFIG_HOME"), set("HOME")) {
        (Some(config), _) if config.is_absolute() => config,
        (_, Some(home)) => home.join(".config"),
        _ => bail!("sessions' plans: neither XDG_CONFIG_HOME nor HOME is set. Name a file"),
    };
    Ok(config.join("strata/sessions"))
}

fn file_of(name: &str) -> Result<PathBuf> {
    Ok(kept_in()?.join(format!("{name}.{ENDING}")))
}

/// Calls `act` for each session, reports failures, and continues after them. Returns the highest exit status.
fn with_each(names: &[String], mut act: impl FnMut(&str) -> Result<u8>) -> u8 {
    let mut status = 0;
    for name in names {
        status = status.max(act(name).unwrap_or_else(|error| {
            stderr::failure(&messages::failure_line(error.chain()));
            FAILED
        }));
    }
    status
}

/// Runs `strata save`.
pub fn save(flags: &SaveFlags) -> Result<u8> {
    if flags.all {
        let folder = Folder::open()?;
        let names = names_of(&folder)?;
        if names.is_empty() {
            bail!("there is no session. `strata create NAME` makes one");
        }
        return Ok(with_each(&names, |name| save_one(flags, &folder, name)));
    }
    let (folder, name) = one_of(flags.name.as_deref())?;
    save_one(flags, &folder, &name)
}

fn save_one(flags: &SaveFlags, folder: &Folder, name: &str) -> Result<u8> {
    let facts = ask(folder, name, &Request::Plan)?;
    let plan: Plan = serde_json::from_value(Value::Object(facts))
        .context("the session's plan: it is of another version of strata")?;
    let path = match &flags.output {
        Some(path) if path.as_os_str() == "-" => {
            stdout::raw().write_all(plan.to_json().as_bytes()).context("cannot write to stdout")?;
            return Ok(0);
        }
        Some(path) => path.clone(),
        None => {
            let path = file_of(name)?;
            let above = path.parent().unwrap_or(Path::new("/"));
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(above);
            made.with_context(|| format!("cannot make the folder '{}'", above.display()))?;
            path
        }
    };
    write_plan(&path, &plan, flags.force)?;
    let shown = shell_word(&path.display().to_string());
    let facts = [("file".to_owned(), path.to_string_lossy().into())].into_iter().collect();
    Ok(done(&flags.answer, name, facts, format!("session '{name}' is saved in {shown}")))
}

/// Writes the plan's file completely, or not at all.
fn write_plan(path: &Path, plan: &Plan, force: bool) -> Result<()> {
    let shown = path.display();
    match path.symlink_metadata() {
        Ok(_) if !force => {
            bail!("file '{shown}': exists. Use --force to overwrite it, or another name")
        }
        // Renaming would replace it: a device such as /dev/null would be gone.
        Ok(found) if !found.is_file() => {
            bail!("file '{shown}': is there and is no regular file. Use another name")
        }
        _ => {}
    }
    let mut name = path.file_name().context("this is no name of a file")?.to_owned();
    name.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(name);
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(&beside);
    let written = file.and_then(|mut file| file.write_all(plan.to_json().as_bytes()));
    let written = written.and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written.with_context(|| format!("file '{shown}': cannot be written"))
}

/// Returns the names of the sessions whose plans are saved in this folder.
fn saved_in(folder: &Path) -> Result<Vec<String>> {
    let shown = || format!("folder '{}'", folder.display());
    let mut names = Vec::new();
    for entry in folder.read_dir().with_context(shown)? {
        let path = entry.with_context(shown)?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        if path.extension().is_some_and(|ending| ending == ENDING) {
            names.extend(name.filter(|name| strata_control::is_name(name)).map(str::to_owned));
        }
    }
    names.sort();
    Ok(names)
}

/// Runs `strata load`: makes new sessions from their files.
pub fn load(flags: &LoadFlags) -> Result<u8> {
    if !flags.all {
        return load_one(flags, flags.name.as_deref().unwrap_or_default());
    }
    let folder = kept_in()?;
    let names = saved_in(&folder)?;
    if names.is_empty() {
        bail!(
            "folder '{}': no session is saved there. `strata save NAME` saves one",
            folder.display()
        );
    }
    Ok(with_each(&names, |name| load_one(flags, name)))
}

fn load_one(flags: &LoadFlags, name: &str) -> Result<u8> {
    if !strata_control::is_name(name) {
        return Err(ControlError::Name { name: clean(name) }.into());
    }
    let path = match &flags.input {
        Some(path) => path.clone(),
        None => file_of(name)?,
    };
    let plan = read_plan(&path).with_context(|| {
        let own = flags.input.is_none() && Path::new(name).is_file();
        let hint = if own { " (to read a file by its path: --input FILE)" } else { "" };
        format!("file '{}'{hint}", path.display())
    })?;
    if plan.snapshot && flags.output.is_some() {
        bail!("file '{}': a flight recorder writes nothing. Leave out -o", path.display());
    }
    if flags.of_session || flags.foreground {
        let output = flags.output.as_deref().map(absolute).transpose()?;
        // A folder on the command line replaces the plan's relay.
        let to = plan.to.clone().filter(|_| output.is_none());
        let plan = Plan { output: output.or(plan.output.clone()), to, ..plan };
        let (claim, kept) = (background::claim(name)?, RestorePlan::new(plan, None));
        if flags.foreground {
            let kept = RestorePlan { file: Some(killed_sessions::name_of(&path)), ..kept };
            let kept = killed_sessions::goes_on(&claim, &path)?.unwrap_or(kept);
            return serve(claim, kept.beside(), (false, true));
        }
        background::leave_terminal();
        return stand(claim, kept, None, Ending::default());
    }
    if flags.force && is_there(name) {
        // The report of the old session is printed for people; the answer is that of the new session.
        end(&Folder::reaching(name)?, name, &AnswerFlags::default())?;
    }
    let spawned = match flags.all {
        true => {
            let words = ["load", background::OF_SESSION, name].map(OsString::from);
            background::spawn_with(name, false, Until::IsThere, &words)?
        }
        false => background::spawn(name, false, Until::IsThere)?,
    };
    Ok(spawned.map_or_else(|status| status, |pid| began(name, pid, "", &flags.answer)))
}

/// Reads a plan. A plan names folders, and commands that triggers run: so it must belong to this user or to root, and
/// nobody else may be able to change it.
fn read_plan(path: &Path) -> Result<Plan> {
    let flags = OFlags::NONBLOCK.union(OFlags::NOCTTY).bits() as i32;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        bail!("is no regular file. Save the plan in one, since it is read twice");
    }
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        bail!("belongs to user {owner}, who could have you write and run what he likes. Copy it, and read the copy");
    }
    if mode & 0o022 != 0 {
        bail!("others can write to it (mode {mode:o}), and have you write and run what they like. Use chmod go-w");
    }
    let (bytes, limit) = (found.len(), 8 * PLAN_BYTES_MAX as u64);
    if bytes > limit {
        bail!("has {bytes} bytes, and a plan at most {limit}. Is it another file?");
    }
    let mut text = String::new();
    file.take(limit).read_to_string(&mut text)?;
    Ok(Plan::from_json(&text)?)
}
