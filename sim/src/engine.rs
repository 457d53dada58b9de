//! What drives a world. Each engine implements [`crate::platform::Platform`] in its own way.

pub mod event;
