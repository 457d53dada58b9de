//! The fuzz targets' bodies.

pub mod body;
