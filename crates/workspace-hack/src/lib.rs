//! This crate has no code. Every crate depends on it, so that cargo builds their shared dependencies with the same features,
//! and therefore once. `Cargo.toml` has the features, and `docs/decisions/0109-one-set-of-features.md` the reason.
