//! The call stacks that an event's records have.

use crate::decide::contexts::{Contexts, STACK_COPY_BYTES, STACK_COPY_DEFAULT};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The call stacks that an event's records have. Later variants contain earlier ones.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(from = "StacksJson", into = "StacksJson")]
pub enum CallStacks {
    /// No stacks.
    #[default]
    None,
    /// The stacks of the kernel and the program, the latter by frame pointers.
    FramePointers,
    /// The stacks of `FramePointers`, the program's registers, and a copy of at most this many bytes of its stack. A
    /// reader unwinds the copy by the unwind tables that all compilers write.
    Copied(u32),
}

/// The form of [`CallStacks`] in JSON: `true`, `false` or `{"dwarf": 8192}`.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StacksJson {
    Any(bool),
    Copied { dwarf: u32 },
}

impl From<StacksJson> for CallStacks {
    fn from(json: StacksJson) -> CallStacks {
        match json {
            StacksJson::Any(false) => CallStacks::None,
            StacksJson::Any(true) => CallStacks::FramePointers,
            StacksJson::Copied { dwarf } => CallStacks::Copied(dwarf),
        }
    }
}

impl From<CallStacks> for StacksJson {
    fn from(stacks: CallStacks) -> StacksJson {
        match stacks {
            CallStacks::Copied(dwarf) => StacksJson::Copied { dwarf },
            other => StacksJson::Any(other.is_any()),
        }
    }
}

/// Reasons why a text does not name call stacks.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CallStacksError {
    /// The word is unknown.
    #[error("'{found}' is no way to record stacks. Use 'fp' (frame pointers, the default), 'dwarf', or 'dwarf,BYTES' for programs without frame pointers")]
    Unknown {
        /// The text as it was written.
        found: String,
    },
    /// The size of the copy is no number, or is out of range.
    #[error(
        "'{found}' is no size of a copy of the stack: a power of two from {} to {}",
        STACK_COPY_BYTES.start(),
        STACK_COPY_BYTES.end()
    )]
    Size {
        /// The size as the user wrote it.
        found: String,
    },
}

impl CallStacks {
    /// Parses `fp`, `dwarf` or `dwarf,BYTES`.
    ///
    /// # Errors
    /// The text is none of these, or the size cannot be recorded.
    pub fn parse(text: &str) -> Result<CallStacks, CallStacksError> {
        match text.split_once(',').unwrap_or((text, "")) {
            ("fp", "") if text == "fp" => Ok(CallStacks::FramePointers),
            ("dwarf", "") if text == "dwarf" => Ok(CallStacks::Copied(STACK_COPY_DEFAULT)),
            ("dwarf", size) => {
                let number = match size.strip_suffix(['K', 'k']) {
                    Some(number) => number.parse::<u32>().ok().and_then(|it| it.checked_mul(1024)),
                    None => size.parse::<u32>().ok(),
                };
                let stacks = number.map(CallStacks::Copied).filter(|it| it.is_valid());
                stacks.ok_or_else(|| CallStacksError::Size { found: size.to_owned() })
            }
            _ => Err(CallStacksError::Unknown { found: text.to_owned() }),
        }
    }

    /// Returns whether the size of the copy of the stack, if there is one, is allowed.
    #[must_use]
    pub fn is_valid(self) -> bool {
        match self {
            CallStacks::Copied(bytes) => {
                bytes.is_power_of_two() && STACK_COPY_BYTES.contains(&bytes)
            }
            _ => true,
        }
    }

    /// Returns whether records have any stack.
    #[must_use]
    pub fn is_any(self) -> bool {
        self != CallStacks::None
    }

    /// Returns whether records have no call stack.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
    #[must_use]
    pub fn is_none(&self) -> bool {
        !self.is_any()
    }

    /// Returns these stacks without the copy.
    #[must_use]
    pub fn without_copy(self) -> CallStacks {
        self.min(CallStacks::FramePointers)
    }

    /// Returns the contexts with these stacks added.
    #[must_use]
    pub fn added_to(self, contexts: &Contexts) -> Contexts {
        match self {
            CallStacks::None => contexts.clone(),
            CallStacks::FramePointers => contexts.with_stacks(),
            CallStacks::Copied(bytes) => contexts.with_stacks().with_stack_copy(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_what_was_written() {
        for (text, wanted) in [
            ("fp", CallStacks::FramePointers),
            ("dwarf", CallStacks::Copied(8192)),
            ("dwarf,1024", CallStacks::Copied(1024)),
            ("dwarf,64K", CallStacks::Copied(65536)),
        ] {
            let found = CallStacks::parse(text).unwrap();
            assert_eq!(found, wanted);
            assert_eq!(CallStacks::from(StacksJson::from(found)), found);
        }
    }

    #[test]
    fn wrong_text_or_size_is_reported_with_what_there_is() {
        for text in
            ["", "lbr", "fp,1", "dwarf,", "dwarf,0", "dwarf,512", "dwarf,3000", "dwarf,128K"]
        {
            let error = CallStacks::parse(text).unwrap_err().to_string();
            assert!(error.contains("dwarf") || error.contains("65536"), "{text}: {error}");
        }
        assert!(!CallStacks::Copied(0).is_valid() && !CallStacks::Copied(u32::MAX).is_valid());
    }

    #[test]
    fn the_most_that_is_asked_for_is_recorded() {
        let all = [CallStacks::FramePointers, CallStacks::Copied(2048), CallStacks::Copied(1024)];
        assert_eq!(all.into_iter().max(), Some(CallStacks::Copied(2048)));
        assert_eq!(CallStacks::Copied(1).without_copy(), CallStacks::FramePointers);
        assert_eq!(CallStacks::None.without_copy(), CallStacks::None);
    }
}
