//! Finds out from the record of a signal whether a thread or a timer sent it.

const SIGCHLD: i64 = 17;
/// The values of `si_code` for kill(), sigqueue() and tgkill(). `OF_CHILD` has those of SIGCHLD, from CLD_EXITED to
/// CLD_CONTINUED.
const SENT: [i64; 3] = [0, -1, -6];
/// The value of `si_code` for a timer of timer_create(), and for what the kernel sends. Of setitimer()'s timers that is one
/// of `OF_TIMER`.
const SI_TIMER: i64 = -2;
const SI_KERNEL: i64 = 0x80;
/// SIGALRM, SIGVTALRM and SIGPROF.
const OF_TIMER: [i64; 3] = [14, 26, 27];
const OF_CHILD: std::ops::RangeInclusive<i64> = 1..=6;

/// Returns true if the running thread sends the signal, rather than a timer or an error of its own.
pub(crate) fn is_of_thread(signal: Option<i64>, code: Option<i64>) -> bool {
    code.is_some_and(|code| {
        SENT.contains(&code) || (signal == Some(SIGCHLD) && OF_CHILD.contains(&code))
    })
}

/// Returns true if a timer sends the signal: in an interrupt, whatever thread runs there.
pub(crate) fn is_of_timer(signal: Option<i64>, code: Option<i64>) -> bool {
    let is_alarm = signal.is_some_and(|signal| OF_TIMER.contains(&signal));
    code == Some(SI_TIMER) || (code == Some(SI_KERNEL) && is_alarm)
}
