//! The state without a network.
