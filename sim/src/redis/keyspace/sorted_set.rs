//! Sorted sets: members by their scores.

use std::collections::BTreeMap;

use bytes::Bytes;

/// Members with their scores. No score is NaN.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SortedSet(pub BTreeMap<Bytes, f64>);

impl Eq for SortedSet {}
