//! Opcodes of tracepoints in the code of another process: `strata/abi/user.h`, "Where a tracepoint is".
//!
//! A process can map its code from a file system that never answers, and whoever reads it then waits for
//! ever. So that is done by a thread of its own; if it does not come back in time, it is left behind, and
//! the process is left alone.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use strata_abi::user;

use crate::error::Error;

/// How long the memory of an honest process may take to answer, swapped out as it may be.
const PATIENCE: Duration = Duration::from_secs(2);

/// Threads that may be left behind before no more is tried.
const LEFT_BEHIND_MAX: u32 = 64;

/// The process' memory did not answer once: nothing more is tried.
#[derive(Debug, Default)]
pub(crate) struct Stuck(AtomicBool);

/// One tracepoint's sites.
#[derive(Clone, Debug)]
pub(crate) struct Patch {
    /// Of the tracepoint.
    pub index: u32,
    pub sites: Vec<user::Site>,
}

/// Why a site was not changed.
#[derive(Debug)]
pub(crate) enum Cause {
    Differs([u8; 5]),
    System(io::Error),
}

/// A site that was not changed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub index: u32,
    pub site: user::Site,
    pub cause: Cause,
}

/// The code of another process.
pub(crate) trait Code: Send + Sync {
    /// Makes sure that it can be read and written, and that it is the code of that process: before any of it
    /// is. Does nothing the second time.
    fn open(&self) -> Result<(), Error>;
    fn read_exact_at(&self, bytes: &mut [u8], address: u64) -> io::Result<()>;
    fn write_all_at(&self, bytes: &[u8], address: u64) -> io::Result<()>;
}

/// Work for the thread.
struct Job {
    code: Arc<dyn Code>,
    patches: Vec<Patch>,
    opcode: u8,
    done: Sender<Result<Vec<Failure>, Error>>,
}

static WORKER: Mutex<Option<Sender<Job>>> = Mutex::new(None);
static MAKER: Mutex<Option<Sender<Request>>> = Mutex::new(None);
static LEFT_BEHIND: AtomicU32 = AtomicU32::new(0);

/// Writes `opcode` to all sites. Of a tracepoint with a failure, the sites behind it are left alone.
///
/// # Errors
/// [`Error::Stuck`], [`Error::System`]: no thread could be made. Those of [`Code::open`]: nothing was written.
pub(crate) fn set_opcodes(
    pid: u32,
    stuck: &Stuck,
    code: Arc<dyn Code>,
    patches: Vec<Patch>,
    opcode: u8,
) -> Result<Vec<Failure>, Error> {
    let waited_ms = PATIENCE.as_millis() as u64;
    if patches.is_empty() {
        return Ok(Vec::new());
    }
    if stuck.0.load(Ordering::Relaxed) || LEFT_BEHIND.load(Ordering::Relaxed) >= LEFT_BEHIND_MAX {
        return Err(Error::Stuck { pid, waited_ms });
    }
    let (done, result) = mpsc::channel();
    let mut worker = WORKER.lock().unwrap_or_else(PoisonError::into_inner);
    let sender = match worker.take() {
        Some(sender) => sender,
        None => {
            let what = "making a thread that reads its code";
            made_worker().map_err(|source| Error::System { pid, what, source })?
        }
    };
    // The thread ends only when this sender is gone.
    let _ = sender.send(Job { code, patches, opcode, done });
    match result.recv_timeout(PATIENCE) {
        Ok(result) => {
            *worker = Some(sender);
            result
        }
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            LEFT_BEHIND.fetch_add(1, Ordering::Relaxed);
            stuck.0.store(true, Ordering::Relaxed);
            Err(Error::Stuck { pid, waited_ms })
        }
    }
}

/// From now on processes' code is opened with the rights that this thread has, whoever asks for it.
///
/// # Errors
/// What the system said: no thread could be made.
pub fn open_code_with_these_rights() -> io::Result<()> {
    *MAKER.lock().unwrap_or_else(PoisonError::into_inner) = Some(start_maker()?);
    *WORKER.lock().unwrap_or_else(PoisonError::into_inner) = None;
    Ok(())
}

/// Where the new thread shall be sent.
type Request = Sender<io::Result<Sender<Job>>>;

/// A thread by the maker, with its rights: a thread has those of who makes it.
fn made_worker() -> io::Result<Sender<Job>> {
    let mut maker = MAKER.lock().unwrap_or_else(PoisonError::into_inner);
    let sender = match &*maker {
        Some(sender) => sender.clone(),
        None => maker.insert(start_maker()?).clone(),
    };
    let (answer, worker) = mpsc::channel();
    let _ = sender.send(answer);
    worker.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
}

/// It makes threads and does nothing else, so it always answers.
fn start_maker() -> io::Result<Sender<Request>> {
    let (sender, requests) = mpsc::channel::<Request>();
    let thread = std::thread::Builder::new().name("strata-maker".to_owned()).stack_size(64 << 10);
    thread.spawn(move || {
        while let Ok(answer) = requests.recv() {
            let _ = answer.send(start_worker());
        }
    })?;
    Ok(sender)
}

fn start_worker() -> io::Result<Sender<Job>> {
    let (sender, jobs) = mpsc::channel::<Job>();
    let thread = std::thread::Builder::new().name("strata-code".to_owned()).stack_size(64 << 10);
    thread.spawn(move || {
        while let Ok(job) = jobs.recv() {
            let opened = job.code.open();
            let result = opened.map(|()| set_opcodes_here(&*job.code, &job.patches, job.opcode));
            if job.done.send(result).is_err() {
                // Nobody waited: we had been left behind, and are back.
                LEFT_BEHIND.fetch_sub(1, Ordering::Relaxed);
            }
        }
    })?;
    Ok(sender)
}

fn set_opcodes_here(code: &dyn Code, patches: &[Patch], opcode: u8) -> Vec<Failure> {
    let mut failures = Vec::new();
    for patch in patches {
        for site in &patch.sites {
            if let Err(cause) = set_opcode(code, site, opcode) {
                failures.push(Failure { index: patch.index, site: *site, cause });
                break;
            }
        }
    }
    failures
}

/// Looks at the five bytes, and writes the first if they are what they should be.
fn set_opcode(code: &dyn Code, site: &user::Site, opcode: u8) -> Result<(), Cause> {
    let mut found = [0; 5];
    code.read_exact_at(&mut found, site.address).map_err(Cause::System)?;
    let [first, displacement @ ..] = found;
    if !matches!(first, user::SITE_DORMANT | user::SITE_ON)
        || i32::from_ne_bytes(displacement) != site.displacement
    {
        return Err(Cause::Differs(found));
    }
    if first != opcode {
        code.write_all_at(&[opcode], site.address).map_err(Cause::System)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Text;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    struct OwnCode(File);

    impl Code for OwnCode {
        fn open(&self) -> Result<(), Error> {
            Ok(())
        }

        fn read_exact_at(&self, bytes: &mut [u8], address: u64) -> io::Result<()> {
            self.0.read_exact_at(bytes, address)
        }

        fn write_all_at(&self, bytes: &[u8], address: u64) -> io::Result<()> {
            self.0.write_all_at(bytes, address)
        }
    }

    fn own_code() -> Arc<dyn Code> {
        let mem = std::fs::OpenOptions::new().read(true).write(true).open("/proc/self/mem");
        Arc::new(OwnCode(mem.unwrap()))
    }

    fn set(text: &Text, opcode: u8) -> Vec<Failure> {
        let patch = Patch { index: 5, sites: text.sites.clone() };
        set_opcodes(1, &Stuck::default(), own_code(), vec![patch], opcode).unwrap()
    }

    #[test]
    fn set_opcodes_writes_the_first_byte_of_each_site_only() {
        let text = Text::new(3);
        assert!(set(&text, user::SITE_ON).is_empty());
        assert_eq!(text.opcodes(), [user::SITE_ON; 3]);
        assert!(set(&text, user::SITE_ON).is_empty());
        assert!(set(&text, user::SITE_DORMANT).is_empty());
        assert_eq!(text.opcodes(), [user::SITE_DORMANT; 3]);
    }

    #[test]
    fn set_opcodes_of_other_code_leaves_it_and_says_what_is_there() {
        let text = Text::new(2);
        text.set(0, 0, 0xcc);
        text.set(1, 4, 0xcc);
        for _ in 0..2 {
            let failures = set(&text, user::SITE_ON);
            let [Failure { index: 5, cause: Cause::Differs(found), .. }] = &failures[..] else {
                panic!("{failures:?}");
            };
            assert!(found.contains(&0xcc));
            assert!(!text.opcodes().contains(&user::SITE_ON));
            text.set(0, 0, 0x90);
            text.set(0, 1, 0xcc);
        }
    }

    #[test]
    fn set_opcodes_of_an_address_that_is_not_mapped_says_what_the_system_said() {
        for address in [0, 8, 1 << 62, u64::MAX - 2] {
            let text = Text::new(1);
            let site = user::Site { address, ..text.sites[0] };
            let patch = Patch { index: 0, sites: vec![site] };
            let failures =
                set_opcodes(1, &Stuck::default(), own_code(), vec![patch], user::SITE_ON);
            let failures = failures.unwrap();
            assert!(matches!(failures[..], [Failure { cause: Cause::System(_), .. }]));
        }
    }

    /// Memory that does not answer.
    struct Hanging(Mutex<mpsc::Receiver<()>>);

    impl Code for Hanging {
        fn open(&self) -> Result<(), Error> {
            Ok(())
        }

        fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
            let _ = self.0.lock().unwrap().recv();
            Err(io::ErrorKind::Other.into())
        }

        fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
            unreachable!("nothing was read")
        }
    }

    #[test]
    fn malicious_memory_that_does_not_answer_is_left_behind_and_others_go_on() {
        let (release, hang) = mpsc::channel();
        let (stuck, text) = (Stuck::default(), Text::new(1));
        let code: Arc<dyn Code> = Arc::new(Hanging(Mutex::new(hang)));
        let patches = || vec![Patch { index: 0, sites: text.sites.clone() }];
        let begun = std::time::Instant::now();
        let result = set_opcodes(7, &stuck, code.clone(), patches(), user::SITE_ON);
        assert!(matches!(result, Err(Error::Stuck { pid: 7, waited_ms: 2000 })));
        assert!(begun.elapsed() >= PATIENCE);
        // No second wait for the same process.
        let begun = std::time::Instant::now();
        assert!(set_opcodes(7, &stuck, code, patches(), user::SITE_ON).is_err());
        assert!(begun.elapsed() < PATIENCE);
        assert!(set(&text, user::SITE_ON).is_empty());
        assert_eq!(text.opcodes(), [user::SITE_ON]);
        drop(release);
    }
}
