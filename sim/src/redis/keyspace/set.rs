//! Sets.

use std::collections::BTreeSet;

use bytes::Bytes;

/// Members. Each is a copy of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set(pub BTreeSet<Bytes>);
