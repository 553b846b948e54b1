//! The viewer's side: a recording that grows, here or at a relay.

pub(crate) mod live_view;
pub(crate) mod lttng_live;
pub(crate) mod private_copy;
pub(crate) mod remote_view;
