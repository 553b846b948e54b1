//! The ways in which a process comes to the registry.

/// The way in which a process was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    /// The process was named by the user, or holds the command's socket and so claims to belong to the command.
    Invited,
    /// The process announced itself, and is recorded only if it belongs to this session.
    ByItself,
}
