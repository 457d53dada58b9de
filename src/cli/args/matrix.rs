//! The arguments of `matrix`.

use std::ops::RangeInclusive;

use clap::{Args, ValueEnum};

use crate::cli::values::{locks, words};
use crate::hunt::matrix::FAMILIES;
use crate::scenario::seed_range;

/// The arguments of `matrix`.
#[derive(Args, Debug)]
pub struct MatrixArguments {
    /// The locks and client libraries, instead of all locks of the catalogue
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = locks())]
    pub locks: Vec<String>,
    /// The families of faults, instead of all
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        value_parser = words(&FAMILIES.map(|family| family.name))
    )]
    pub faults: Vec<String>,
    /// Seeds of each cell, inclusive
    #[arg(long, value_name = "A..B", value_parser = seed_range, default_value = "1..200")]
    pub seeds: RangeInclusive<u64>,
    /// How the matrix is printed
    #[arg(long, value_enum, default_value_t)]
    pub format: MatrixFormat,
    /// Number of parallel runs; by default one per core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}

/// How a matrix is printed.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum MatrixFormat {
    /// A table of marks, and a line for each violation
    #[default]
    Text,
    /// A page for a pull request
    Markdown,
    /// A page for a browser
    Html,
    /// Data for a program
    Json,
}
