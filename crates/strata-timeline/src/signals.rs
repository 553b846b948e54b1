//! Finds out from the record of a signal whether a thread sent it.

const SIGCHLD: i64 = 17;
/// The values of `si_code` for kill(), sigqueue() and tgkill(). `OF_CHILD` has those of SIGCHLD, from CLD_EXITED to
/// CLD_CONTINUED.
const SENT: [i64; 3] = [0, -1, -6];
const OF_CHILD: std::ops::RangeInclusive<i64> = 1..=6;

/// Returns true if the running thread sends the signal, rather than a timer or an error of its own.
pub(crate) fn is_of_thread(signal: Option<i64>, code: Option<i64>) -> bool {
    code.is_some_and(|code| {
        SENT.contains(&code) || (signal == Some(SIGCHLD) && OF_CHILD.contains(&code))
    })
}
