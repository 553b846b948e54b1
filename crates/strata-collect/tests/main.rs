//! All integration tests of the crate, in one program: to link one for each file takes longer than to run them.

mod failures;
mod hostile;
mod killed;
mod left;
mod losses;
mod metadata;
mod pump;
mod read_back;
mod rotated;
mod support;
mod unfinished;
