//! A reading of a history with the terms that it is judged by. Every check reads from here; none
//! changes it.

use std::ops::Deref;

use crate::check::terms::Terms;
use crate::history::History;
use crate::reading::history::Reading;
use crate::reading::tenure;

/// What is judged, and by what.
pub struct Case<'a> {
    /// What happened.
    pub reading: Reading<'a>,
    /// What it is judged by.
    pub terms: &'a Terms,
}

impl<'a> Case<'a> {
    /// Makes a history ready to be judged.
    pub fn new(history: &'a History, terms: &'a Terms) -> Case<'a> {
        let nests = tenure::nest(terms.reenters, terms.holders);
        Case { reading: Reading::of(history, &terms.lock_key, nests), terms }
    }
}

impl<'a> Deref for Case<'a> {
    type Target = Reading<'a>;

    fn deref(&self) -> &Reading<'a> {
        &self.reading
    }
}
