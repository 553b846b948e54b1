//! Sessions that stay: `strata create` and the verbs that follow, each one request or a few to the session's process.
//!
//! ```text
//! strata create NAME                starts the session's process, waits until it is there
//!   strata create NAME --of-session  leaves the terminal, listens at its socket, does what it is asked
//! strata enable-event … start …      changes of its plan, and what it does
//! ```

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;

use anyhow::{bail, Context as _, Result};
use rustix::io::Errno;
use rustix::process::{getrlimit, Resource};
use serde_json::{json, Map, Value};
use strata_control::{ask, Claim, ControlError, Folder, Request, KERNEL, PLAN, SLOTS, VERDICT};
use strata_kernel::filter::cgroup;
use strata_session::command::Inherited;
use strata_session::plan::{Change, ChannelOf, LayerOf, Plan, CHANNEL};
use strata_session::report::Notice;
use strata_session::standing::LeftByKilled;
use strata_session::stop::Stop;
use strata_session::{controls, standing, Controls, KernelKept, Slots, Trusted};

use crate::flags::answer::AnswerFlags;
use crate::flags::kept::Planned;
use crate::flags::sessions::{
    sampling, CreateFlags, DestroyFlags, EnableEventFlags, OfSession, OneFlags, StartFlags,
    StopFlags, TrackFlags,
};
use crate::flags::{RecordFlags, SnapshotFlags};
use crate::record;
use crate::record::advised::{self, AdviceKey};
use crate::sessions::background::{SessionDesk, Until, LOOK_PERIOD};
use crate::sessions::facts::{names, number, text};
use crate::sessions::killed::KeptPlan;
use crate::talk;
use crate::talk::exit::FAILED;
use crate::talk::messages::{self, Message, Weight};
use crate::talk::units::{clean, counted, shell_word, size};

pub mod answer;
pub mod background;
pub mod facts;
pub mod killed;
pub mod missing;
pub mod preloaded;
pub mod saved;
pub mod service;
pub mod session_trace;
pub mod status;
pub mod tar;
pub mod top;
pub mod triggers;

const UNREAD: &str = "read what the session has said";

fn tell(text: String) {
    talk::message(&Message { weight: Weight::Talk, text });
}

/// The session that is meant: the only one there is, if none was named.
pub fn one_of(name: Option<&str>) -> Result<(Folder, String)> {
    if let Some(name) = name {
        return Ok((Folder::reaching(name)?, name.to_owned()));
    }
    let folder = Folder::open()?;
    match &names_of(&folder)?[..] {
        [name] => Ok((folder, name.clone())),
        [] => bail!("there is no session. `strata create NAME` makes one"),
        several => bail!("there are the sessions {}: say which", several.join(", ")),
    }
}

/// Those that run, and those that were killed.
pub fn names_of(folder: &Folder) -> Result<Vec<String>> {
    let mut names: Vec<String> = folder.entries()?.into_iter().map(|entry| entry.name).collect();
    names.extend(folder.killed()?);
    names.sort();
    names.dedup();
    Ok(names)
}

/// Print what a session has answered, or say it.
pub fn done(answer: &AnswerFlags, name: &str, facts: Map<String, Value>, text: String) -> u8 {
    if answer.is_json() {
        let mut all = Map::new();
        all.insert("session".into(), name.into());
        all.extend(facts);
        println!("{}", Value::Object(all));
    } else {
        tell(text);
    }
    0
}

/// `strata create`.
pub fn create(flags: &CreateFlags) -> Result<u8> {
    let mut plan = Plan::new(flags.snapshot, flags.output.as_deref().map(absolute).transpose()?);
    (plan.subbuf_size, plan.num_subbuf) = (flags.subbuf_size, flags.num_subbuf);
    (plan.keep, plan.stack) = (flags.keep, flags.stack);
    plan.rotation = flags.rotate.rotation();
    plan.max_memory = flags.max_memory;
    if let Some(rate) = flags.sample {
        plan = plan.changed(&sampling(rate, None))?;
    }
    if flags.auto {
        plan.advised = advised::of(AdviceKey::Session(&flags.name))?;
        if !flags.of_session {
            tell(advised::used(&plan.advised));
        }
    }
    plan.check()?;
    check_keep(&plan)?;
    match flags.of_session {
        true => {
            background::leave_terminal();
            stand(background::claim(&flags.name)?, KeptPlan::new(plan, flags.group.clone()), None)
        }
        false => {
            let next = format!("strata enable-event -s {} -u 'PROVIDER:*', then ", flags.name);
            begin(&flags.name, &next, &flags.answer)
        }
    }
}

/// # Errors
/// It is not for this user.
fn check_keep(plan: &Plan) -> Result<()> {
    if plan.keep && !rustix::process::geteuid().is_root() {
        bail!(
            "--keep: what goes on recording in the kernel is root's. Run this as root, or leave --keep out: programs' \
             records are kept in any case"
        );
    }
    Ok(())
}

/// `strata record --background NAME`: a session that stays, of what the flags say, and started at once. Where no plan
/// holds that, it is a recording that ends with its process.
pub fn record(flags: &RecordFlags) -> Result<u8> {
    let name = flags.background.as_deref().unwrap_or_default();
    // What nobody can be told of is not begun.
    let programs = match flags.has_command() {
        true => None,
        false => preloaded::programs(&flags.libc)?,
    };
    let mut begun = BegunSession { name, flags, remarks: Vec::new() };
    let Planned { mut plan, may_lack_kernel, no_kernel, remarks } = match flags.planned()? {
        Ok(planned) => planned,
        Err(_) if flags.of_session => return record::run(flags),
        Err(flag) => {
            let spawned = background::spawn(name, flags.has_command(), Until::Records)?;
            let no_plan = format!(
                ". It has no plan, because of {flag}: it stays as it is, and is not made again if it is killed"
            );
            begun.remarks.extend(programs);
            return begun.end(spawned, Some(&no_plan), None);
        }
    };
    plan.output = plan.output.as_deref().map(absolute).transpose()?;
    if flags.auto {
        plan.advised = advised::of(AdviceKey::Session(name))?;
        begun.remarks.push(advised::used(&plan.advised));
    }
    check_keep(&plan)?;
    if flags.of_session {
        background::leave_terminal();
        let kept = KeptPlan { stop_ends: true, ..KeptPlan::new(plan, flags.group.clone()) };
        return serve(background::claim(name)?, kept, may_lack_kernel);
    }
    let spawned = background::spawn(name, false, Until::Records)?;
    if let (Some(why), Ok(_)) = (&no_kernel, &spawned) {
        let weight = messages::weight_of_no_kernel(why);
        let text = messages::notice(&Notice::NoKernel(why.clone())).unwrap_or_default();
        if weight != Weight::Talk || begun.talks() {
            talk::message(&Message { weight, text });
        }
    }
    if flags.strict {
        begun.remarks.push(format!(
            "--strict: what is missing is known at the end. `strata stop --strict {name}` exits with 1 then"
        ));
    }
    begun.remarks.extend(remarks.into_iter().chain(programs));
    if flags.keep {
        begun.remarks.push(format!(
            "the kernel goes on if that is killed, and `strata start {name}` takes it up again"
        ));
    }
    begun.end(spawned, None, no_kernel.map(|one| one.why))
}

/// What `strata record --background` says of the session that it has begun.
struct BegunSession<'f> {
    name: &'f str,
    flags: &'f RecordFlags,
    /// What else there is to say, in whole sentences.
    remarks: Vec<String>,
}

impl BegunSession<'_> {
    /// To people, of what is not wrong.
    fn talks(&self) -> bool {
        !self.flags.of_session && !self.flags.quiet && !self.flags.answer.is_json()
    }

    /// `spawned`: its process, or its exit status. `no_plan`: what there is to say of a session without one. `no_kernel`:
    /// why the kernel is not recorded, as far as that is known.
    fn end(
        self,
        spawned: Result<u32, u8>,
        no_plan: Option<&str>,
        no_kernel: Option<String>,
    ) -> Result<u8> {
        let is_json = self.flags.answer.is_json();
        let (pid, state, status) = match spawned {
            Ok(pid) => (Some(pid), "recording", 0),
            // A command that was short, for example; what it has said was said.
            Err(status) if is_json && status < FAILED => (None, "ended", status),
            Err(status) => return Ok(status),
        };
        // In time to stop and type it anew.
        let said = said_so_far(self.name)?;
        if is_json {
            let facts = json!({
                "pid": pid, "state": state, "has_plan": no_plan.is_none(), "no_kernel": no_kernel,
                "remarks": self.remarks, "said": String::from_utf8_lossy(&said),
            });
            let facts = facts.as_object().cloned().unwrap_or_default();
            done(&self.flags.answer, self.name, facts, String::new());
            return Ok(status);
        }
        if no_plan.is_none() {
            io::stderr().write_all(&said).context("cannot write to stderr")?;
        }
        if let (true, Some(pid)) = (self.talks(), pid) {
            tell(background::began(self.name, pid) + no_plan.unwrap_or_default());
            self.remarks.into_iter().for_each(tell);
        }
        Ok(status)
    }
}

/// What the session has said until now.
fn said_so_far(name: &str) -> Result<Vec<u8>> {
    let said = background::said(&Folder::open()?, name).context(UNREAD)?;
    Ok(said.map(|(said, _)| said).unwrap_or_default())
}

/// As seen from any folder.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).context("find the working directory")
}

/// Start the process of a session, and wait until it is there; `next`: what is to be typed before it is started.
fn begin(name: &str, next: &str, answer: &AnswerFlags) -> Result<u8> {
    let spawned = background::spawn(name, false, Until::IsThere)?;
    Ok(spawned.map_or_else(|status| status, |pid| began(name, pid, next, answer)))
}

/// Say that the process of a session is there.
pub fn began(name: &str, pid: u32, next: &str, answer: &AnswerFlags) -> u8 {
    let facts = [("pid".to_owned(), pid.into())].into_iter().collect();
    let text =
        format!("session '{name}' is there, as process {pid}. Next: {next}strata start {name}");
    done(answer, name, facts, text)
}

/// The session in this process, started at once. `may_lack_kernel`: also without the kernel, if that is what fails.
pub fn serve(claim: Claim, kept: KeptPlan, may_lack_kernel: bool) -> Result<u8> {
    let name = claim.name().to_owned();
    let begin = AtOnce { may_lack_kernel, begun: OnceLock::new() };
    let status = stand(claim, kept, Some(&begin))?;
    match begin.begun.into_inner() {
        Some(Err(why)) => bail!("session '{name}': {why}"),
        // What is missing from its traces was said, and does not make it a failure that another begin mends.
        _ => Ok(if status == 1 { 0 } else { status }),
    }
}

/// A session that is started by itself.
pub struct AtOnce {
    may_lack_kernel: bool,
    /// What became of it.
    begun: OnceLock<Result<(), String>>,
}

impl AtOnce {
    fn has_failed(&self) -> bool {
        matches!(self.begun.get(), Some(Err(_)))
    }

    fn start(&self, controls: &Controls) -> Result<(), String> {
        let Err(why) = controls.start() else { return Ok(()) };
        if !self.may_lack_kernel {
            return Err(why);
        }
        let (layer, channel) = (LayerOf::Kernel, CHANNEL.to_owned());
        let without = controls.change(Change::DisableChannel(ChannelOf { layer, channel }));
        if without.and_then(|()| controls.start()).is_err() {
            return Err(why);
        }
        let text = format!("kernel not recorded: {}", clean(&why));
        talk::message(&Message { weight: Weight::Warning, text });
        Ok(())
    }
}

/// The session's own process.
pub fn stand(
    claim: Claim,
    KeptPlan { plan, group, stop_ends, file, goes_on, before: written }: KeptPlan,
    at_once: Option<&AtOnce>,
) -> Result<u8> {
    let name = claim.name().to_owned();
    if plan.keep {
        strata_session::prepare_pins()?;
    }
    let is_new = claim.kept(PLAN).is_err();
    let before = claim.kept(SLOTS).unwrap_or_default();
    let of_kernel = claim.kept(KERNEL).unwrap_or_default();
    let stop = Stop::on_signals()?;
    stop.outlive_others()?;
    let (controls, orders) = controls();
    let of = background::SessionOf::Plan { stop_ends };
    let desk = SessionDesk::open(claim, of, controls.clone(), &stop, (group.as_deref(), file))?;
    let noting = Arc::clone(&desk);
    let write = move |text: &str| noting.keep_open(SLOTS, text);
    let slots = Slots::new(Box::new(write), &before).ok();
    // What the trustee holds is open here, too.
    let inherited = Inherited::prepare().context("prepare this program")?;
    // As long as there are no other threads.
    let trusted = match &slots {
        Some(_) => trusted(&name, &desk)?,
        None => None,
    };
    let slots = match &trusted {
        Some(trusted) => slots.map(|slots| slots.entrusted(trusted)),
        None => slots,
    };
    let keeper = Arc::clone(&desk);
    let write = move |text: &str| keeper.keep(KERNEL, text);
    let kept = plan.keep.then(|| KernelKept::new(&name, &of_kernel, Box::new(write)));
    let mut hear = |notice| {
        let weight = match notice {
            Notice::Failed { .. } | Notice::LayerFailed { .. } => Weight::Failure,
            Notice::NoSuchEvent(_)
            | Notice::NotRotated { .. }
            | Notice::Remark(_)
            | Notice::NoRoom { .. }
            | Notice::WaitsForRoom { .. } => Weight::Warning,
            _ => return,
        };
        if let Some(text) = messages::notice(&notice) {
            talk::message(&Message { weight, text });
        }
    };
    let result = thread::scope(|scope| {
        let serve = || {
            // It answers for this user, and does nothing itself.
            strata_session::give_up_rights();
            desk.serve();
        };
        thread::Builder::new().name("strata-control".to_owned()).spawn_scoped(scope, serve)?;
        if let Some(at_once) = at_once {
            let begin = || {
                strata_session::give_up_rights();
                match at_once.begun.get_or_init(|| at_once.start(&controls)) {
                    Ok(()) => {
                        // It may go without the kernel.
                        desk.keep_plan();
                        service::is_ready();
                    }
                    Err(_) => stop.request(0),
                }
            };
            thread::Builder::new().name("strata-start".to_owned()).spawn_scoped(scope, begin)?;
        }
        let inherited = Some(inherited);
        let left =
            LeftByKilled { slots, kept, inherited, goes_on, is_again: !is_new, before: written };
        let result = standing::stand(&name, plan, left, &stop, &orders, &mut hear);
        // Who asks now is told that it is over, and does not wait.
        drop(orders);
        desk.close();
        Ok::<_, anyhow::Error>(result)
    });
    let result = result?;
    let has_failed = at_once.is_some_and(AtOnce::has_failed);
    if is_new || (result.is_ok() && !has_failed) {
        // Else it is still to be made again: what the killed one has left is taken over by who can start.
        // First: where the trustee cannot be told, it sees by it that nobody will come.
        desk.forget();
        if let Some(trusted) = trusted {
            trusted.end();
        }
    }
    let report = result?.report;
    if has_failed {
        // Nothing was recorded; who began it says why.
        return Ok(FAILED);
    }
    desk.keep_verdict(&report);
    advised::keep(AdviceKey::Session(&name), &report);
    record::say(&report, false);
    Ok(messages::exit_status(&report, false))
}

/// Who holds the memory of programs, should the session be killed.
///
/// # Errors
/// There is one, and what it holds does not find room here: this session would leave it for good.
fn trusted(name: &str, desk: &SessionDesk) -> Result<Option<Arc<Trusted>>> {
    match strata_session::trustee(desk.claim()) {
        Ok(trusted) => Ok(Some(Arc::new(trusted))),
        Err(error) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => {
            let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
            bail!(
                "session '{name}': its strata-trustee holds the memory of more programs than this process may have open \
                 ({limit} files). Raise that limit (ulimit -H -n), or give them up: strata destroy {name}"
            )
        }
        Err(error) => {
            let text = format!(
                "session '{name}': no process can hold programs' memory: {error}. If the session is killed, what programs \
                 that have ended had recorded, and nobody had written, is gone"
            );
            talk::message(&Message { weight: Weight::Warning, text });
            Ok(None)
        }
    }
}

/// `strata start`.
pub fn start(flags: &StartFlags) -> Result<u8> {
    let (folder, name) = one_of(flags.name.as_deref())?;
    if flags.of_session {
        background::leave_terminal();
        let claim = folder.claim(&name)?;
        let kept = KeptPlan::of(&claim)?;
        return stand(claim, kept.anew(), None);
    }
    let was_killed = folder.is_killed(&name);
    if was_killed {
        match begin_again(&folder, &name)? {
            Ok(text) => tell(text),
            Err(status) => return Ok(status),
        }
        // What the kill has cost.
        io::stderr().write_all(&said_so_far(&name)?).context("cannot write to stderr")?;
    }
    if flags.auto {
        let sizes = advised::of(AdviceKey::Session(&name))?;
        ask(&folder, &name, &request(&Change::Advise(sizes.clone()))?)?;
        tell(advised::used(&sizes));
    }
    let mut facts = ask(&folder, &name, &Request::Start)?;
    facts.insert("was_killed".into(), was_killed.into());
    let text = match facts.get("is_empty").and_then(Value::as_bool) {
        Some(true) if tracks_nobody(&ask(&folder, &name, &Request::Plan)?) => format!(
            "session '{name}' is started, and nobody is tracked: strata track -s {name} …"
        ),
        Some(true) => format!(
            "session '{name}' is started, and no rule selects anything yet: strata enable-event -s {name} …"
        ),
        _ => format!(
            "session '{name}' records{}. `strata status {name}` says how it is",
            memory_text(&facts)
        ),
    };
    Ok(done(&flags.answer, &name, facts, text))
}

/// Of one kind of what is tracked this plan has none.
fn tracks_nobody(plan: &Map<String, Value>) -> bool {
    let tracked = plan.get("tracked").and_then(Value::as_object);
    tracked.into_iter().flatten().any(|(_, some)| some.as_array().is_some_and(Vec::is_empty))
}

/// `. Buffers take 64.0 MiB, and at most 1.0 GiB`, where that is limited.
fn memory_text(facts: &Map<String, Value>) -> String {
    let number = |key| facts.get(key).and_then(Value::as_u64);
    number("max_memory").map_or_else(String::new, |max| {
        format!(". Buffers take {}, and at most {}", size(number("memory").unwrap_or(0)), size(max))
    })
}

/// The process of a session that was killed, from its plan: what is to be said of it, or with which status it did not
/// begin.
fn begin_again(folder: &Folder, name: &str) -> Result<Result<String, u8>> {
    let written = killed::written(folder, name)?;
    let arguments = ["start", background::OF_SESSION, name].map(Into::into);
    Ok(background::spawn_with(name, false, Until::IsThere, &arguments)?.map(|pid| {
        format!("session '{name}' was killed; {written}. It is made again from its plan, as process {pid}")
    }))
}

/// `strata stop`: a session of `strata record` ends, another one can be started again.
pub fn stop(flags: &StopFlags) -> Result<u8> {
    let (folder, name) = one_of(flags.name.as_deref())?;
    let facts = ask(&folder, &name, &Request::Stop)?;
    if text(&facts, "state") == "ended" {
        return Ok(u8::from(ended(&folder, &name, &flags.answer)? && flags.strict));
    }
    let is_missing = !names(&facts, "gaps").is_empty();
    if !flags.answer.is_json() {
        missing::missing(&facts).into_iter().for_each(|text| {
            talk::message(&Message { weight: Weight::Warning, text });
        });
    }
    let text = format!(
        "session '{name}' records nothing. `strata start {name}` goes on, `strata destroy {name}` ends it"
    );
    done(&flags.answer, &name, facts, text);
    Ok(u8::from(is_missing && flags.strict))
}

/// `strata rotate`.
pub fn rotate(flags: &OneFlags) -> Result<u8> {
    let (folder, name) = one_of(flags.name.as_deref())?;
    let facts = ask(&folder, &name, &Request::Rotate)?;
    let path = |facts: &Map<String, Value>, key: &str| {
        let path = facts.get(key).and_then(Value::as_str).unwrap_or_default();
        shell_word(&clean(path))
    };
    let goes_on = format!("recording goes on in {}", path(&facts, "present"));
    let text = match facts.get("part").and_then(Value::as_object) {
        Some(part) => format!(
            "{} in {}; {goes_on}",
            counted(number(part, "records"), "event record"),
            path(part, "folder")
        ),
        None => format!("nothing was recorded in the part before, which is gone; {goes_on}"),
    };
    Ok(done(&flags.answer, &name, facts, text))
}

/// Whether a session of this name runs, or was killed.
pub fn is_there(name: &str) -> bool {
    Folder::reaching(name).is_ok_and(|folder| folder.pid(name).is_some() || folder.is_killed(name))
}

/// Whether this user may ask a session of this name how it is: his own, or one of root's that is open to a group of his.
pub fn can_be_asked(name: &str) -> bool {
    is_there(name)
        || Folder::reaching(name).is_ok_and(|folder| ask(&folder, name, &Request::Status).is_ok())
}

/// `strata snapshot`.
pub fn snapshot(flags: &SnapshotFlags) -> Result<u8> {
    if let Some(word) = flags.name.as_deref().filter(|name| !is_there(name)) {
        if let Some(text) = messages::lttng::of_snapshot(word) {
            bail!("{text}");
        }
    }
    if let Some(word) = flags.more.first() {
        let word = clean(word);
        bail!("snapshot: what is '{word}'? One session is named; where the snapshot is written is said by -o DIR");
    }
    // LTTng's verb has a second word.
    let named = flags.name.as_deref().filter(|name| *name != "record" || is_there(name));
    let (folder, name) = match (named, flags.session.as_deref()) {
        (Some(one), Some(other)) => {
            bail!("snapshot: of '{}' or of '{}'? Name one session", clean(one), clean(other))
        }
        (one, other) => one_of(one.or(other))?,
    };
    background::snapshot(flags, &folder, &name)
}

/// Until it has ended, with its own words. Returns whether anything is missing; what nobody has said may be.
fn ended(folder: &Folder, name: &str, answer: &AnswerFlags) -> Result<bool> {
    while folder.entries()?.iter().any(|entry| entry.name == name) {
        thread::sleep(LOOK_PERIOD);
    }
    let verdict = folder.take_text(name, VERDICT).ok();
    let verdict = verdict.and_then(|text| serde_json::from_str::<Map<String, Value>>(&text).ok());
    let is_missing = verdict.as_ref().is_none_or(|facts| !names(facts, "gaps").is_empty());
    if answer.is_json() {
        let found = background::said(folder, name).context(UNREAD)?;
        let said = found.as_ref().map(|(said, _)| String::from_utf8_lossy(said));
        let all = json!({ "session": name, "state": "ended", "report": verdict, "said": said });
        println!("{all}");
        if let Some((_, log)) = found {
            folder.drop_said(name, &log);
        }
    } else {
        background::print_log(folder, name).context(UNREAD)?;
    }
    Ok(is_missing)
}

/// `strata destroy`.
pub fn destroy(flags: &DestroyFlags) -> Result<u8> {
    let (folder, names) = match flags.all {
        true => {
            let folder = Folder::open()?;
            let names = names_of(&folder)?;
            (folder, names)
        }
        false => {
            let (folder, name) = one_of(flags.name.as_deref())?;
            (folder, vec![name])
        }
    };
    let mut is_missing = false;
    for name in names {
        match end(&folder, &name, &flags.answer) {
            Ok(is_one) => is_missing |= is_one,
            // It has ended meanwhile.
            Err(error) if flags.all && is_absent(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(u8::from(is_missing && flags.strict))
}

fn is_absent(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ControlError::Absent { .. }))
}

/// End a session, or remove what one that was killed has left. Returns whether anything is missing.
pub fn end(folder: &Folder, name: &str, answer: &AnswerFlags) -> Result<bool> {
    match ask(folder, name, &Request::Destroy) {
        Ok(_) => ended(folder, name, answer),
        Err(ControlError::Killed { .. }) => {
            let text = killed::remove(folder, name)?;
            let facts = json!({ "state": "ended", "was_killed": true });
            done(answer, name, facts.as_object().cloned().unwrap_or_default(), text);
            // Nobody knows what it has not recorded.
            Ok(true)
        }
        Err(error) => Err(error.into()),
    }
}

/// Have a session record something else: all of it, or nothing.
pub fn change(of: &OfSession, changes: Vec<Change>) -> Result<u8> {
    let (name, facts) = changed(of, changes)?;
    Ok(done(&of.answer, &name, facts, format!("session '{name}' is changed")))
}

/// The same: its name, and how it is then.
fn changed(of: &OfSession, mut changes: Vec<Change>) -> Result<(String, Map<String, Value>)> {
    let (folder, name) = one_of(of.session.as_deref())?;
    let change = match changes.len() {
        1 => changes.remove(0),
        _ => Change::Several(changes),
    };
    let facts = ask(&folder, &name, &request(&change)?)?;
    Ok((name, facts))
}

/// `strata enable-event`: what programs do in libc is recorded of those that are started so.
pub fn enable_event(flags: &EnableEventFlags) -> Result<u8> {
    let programs = preloaded::programs(&flags.libc)?;
    let (name, mut facts) = changed(&flags.of, flags.changes()?)?;
    let mut text = format!("session '{name}' is changed");
    if let Some(programs) = programs {
        text = format!("{text}. {programs}");
        facts.insert("environment".to_owned(), preloaded::environment(&flags.libc)?);
    }
    Ok(done(&flags.of.answer, &name, facts, text))
}

/// `strata track`: of cgroups that were named, a session knows the paths.
pub fn track(flags: &TrackFlags) -> Result<u8> {
    let paths =
        flags.cgroup.iter().map(|name| cgroup::find(name)).collect::<Result<Vec<_>, _>>()?;
    for (name, path) in flags.cgroup.iter().zip(&paths).filter(|(name, path)| name != path) {
        tell(format!("cgroup '{}' is {}", clean(name), clean(path)));
    }
    change(&flags.of, flags.changes(&paths, false))
}

/// A change of what a session records, or does by itself.
pub fn request(change: &Change) -> Result<Request> {
    match serde_json::to_value(change)? {
        Value::Object(change) => Ok(Request::Change { change }),
        _ => bail!("this change cannot be told"),
    }
}

/// How sessions are: of this name, or all; those that have ended meanwhile are none. One of all that gives no answer has
/// the state `silent`, and says why: the others are told all the same.
pub fn statuses(name: Option<&str>) -> Result<Vec<Map<String, Value>>> {
    let folder = match name.map_or_else(Folder::open, Folder::reaching) {
        // Who has no place for sessions has none.
        Err(ControlError::NoRuntimeFolder) if name.is_none() => return Ok(Vec::new()),
        folder => folder?,
    };
    let names = match name {
        Some(name) => vec![name.to_owned()],
        None => names_of(&folder)?,
    };
    let mut all = Vec::new();
    for one in &names {
        match ask(&folder, one, &Request::Status) {
            Ok(facts) => all.push(facts),
            Err(ControlError::Killed { .. }) => all.push(killed::status(&folder, one)),
            Err(ControlError::Absent { .. }) if name.is_none() => {}
            Err(error) if name.is_none() => all.push(killed::silent(&folder, one, &error)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(all)
}
