//! Lists.

use std::collections::VecDeque;

use bytes::Bytes;

/// Elements from the left to the right. Each is a copy of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List(pub VecDeque<Bytes>);
