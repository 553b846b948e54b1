//! Data that all tables of a database share.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use strata_analyze::debug_info::SourceOptions;
use strata_analyze::derived_facts::DerivedFacts;
use strata_ctf::read::{AskedWords, Event, Reader, Slice, TimeRange};
use strata_export::sql::TimelineNames;

use crate::catalog::{Catalog, OWN_NAMES};
use crate::choice::Choice;
use crate::findings::Findings;
use crate::scan_cache::ScanCache;

/// Function that returns true if the user has asked to stop.
pub type StopCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// Function that gets a remark for the user while a query runs.
pub type Remark = Box<dyn FnMut(&str) + Send>;

/// The traces, their tables, and results that are computed once.
pub(crate) struct Shared {
    pub reader: Arc<Reader>,
    pub catalog: Catalog,
    pub findings: Findings,
    pub stop: StopCheck,
    /// Options for finding the names of functions.
    pub names: SourceOptions,
    pub choice: Choice,
    /// True if a statement of the query reads numbers of rows.
    pub reads_numbers: Arc<AtomicBool>,
    /// Rows of scans that a query repeats.
    pub cache: ScanCache,
    /// Called with a remark on a query that takes long.
    pub remark: Mutex<Option<Remark>>,
    slices: OnceLock<Option<Vec<Slice>>>,
    facts: Mutex<Option<Arc<DerivedFacts>>>,
    /// Number of files of all streams before a stream, by index of the stream.
    files: Vec<u64>,
}

/// Number of bits of a record's number that are its offset in a file: files of up to 1 TiB, of which there may be 2^20
/// \[bit\].
const PLACE_BITS: u32 = 43;
/// The least size of a slice, the most slices, and the size above which a slice is not read backward, which may take
/// several passes \[byte\].
const SLICE_BYTES: u64 = if cfg!(test) { 1 << 10 } else { 1 << 20 };
const SLICES: u64 = 4096;
const SLICE_BYTES_MAX: u64 = 1 << 30;

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("reader", &self.reader).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(
        reader: Arc<Reader>,
        names: SourceOptions,
        choice: Choice,
        stop: StopCheck,
    ) -> Shared {
        let taken = TimelineNames::all().chain(OWN_NAMES);
        let catalog = Catalog::new(&reader, taken);
        let mut before = 0;
        let of_stream = reader.streams().iter().map(|stream| {
            let files = stream.files().len() as u64;
            before += files;
            before - files
        });
        let files = of_stream.collect();
        let (findings, facts) = (Findings::default(), Mutex::new(None));
        let slices = OnceLock::new();
        let reads_numbers = Arc::default();
        Shared {
            reader,
            catalog,
            findings,
            stop,
            names,
            choice,
            reads_numbers,
            cache: ScanCache::default(),
            remark: Mutex::new(None),
            slices,
            facts,
            files,
        }
    }

    /// Returns the traces in slices of time, which can be read from the last to the first; `None` if packets have no
    /// times, or are so large that records would have to be read many times. The first call reads the headers of all
    /// packets.
    pub(crate) fn slices(&self) -> Option<&[Slice]> {
        let slices = self.slices.get_or_init(|| {
            let bytes = self.reader.streams().iter().map(|stream| stream.bytes());
            let bytes = bytes.fold(0, u64::saturating_add);
            let slices = self.reader.slices(TimeRange::ALL, (bytes / SLICES).max(SLICE_BYTES));
            let fit = slices.map(|slice| (slice.bytes() <= SLICE_BYTES_MAX).then_some(slice));
            fit.collect()
        });
        slices.as_deref()
    }

    /// Returns the number of a record, which is the same in every scan and which no other record has: SQLite uses it to
    /// recognize rows that two scans have both found.
    #[inline]
    pub(crate) fn id(&self, event: &Event<'_>) -> i64 {
        let packet = event.packet();
        let before = self.files.get(packet.stream).copied().unwrap_or_default();
        let file = before.saturating_add(packet.file as u64);
        (file << PLACE_BITS | event.bit()) as i64
    }

    /// Returns who made each record, and the names of threads over time. The first call reads the traces. Returns
    /// `None` if the user has stopped it.
    pub(crate) fn facts(&self) -> Option<Arc<DerivedFacts>> {
        let mut known = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() {
            let asked = AskedWords::default();
            let stop = || (self.stop)();
            let facts = DerivedFacts::read(&self.reader, &asked, None, TimeRange::ALL, &stop);
            *known = facts.map(Arc::new);
        }
        known.clone()
    }

    /// Tells the user, once, that the present query reads the traces again and again.
    pub(crate) fn tell_of_scans(&self) {
        let Some(scans) = self.cache.scans_to_tell() else { return };
        let remark = self.remark.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut remark) = remark {
            remark(&format!(
                "the query reads event records again for each row of another table: {scans} times so far. Ctrl-C ends it. Select \
                 the records once, WITH few AS MATERIALIZED (SELECT time_ns, tid FROM events WHERE name = '…'), and use the \
                 table 'few' in their place; or write a JOIN"
            ));
        }
    }

    /// Returns true if nobody has asked for [`Shared::facts`] yet.
    pub(crate) fn lacks_facts(&self) -> bool {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Keeps facts that another pass over all records has found.
    pub(crate) fn set_facts(&self, facts: DerivedFacts) {
        let mut known = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert_with(|| Arc::new(facts));
    }
}
