//! A reading of a history with the terms by which it is judged. Every check reads a case; none
//! changes it.

use std::ops::Deref;

use crate::check::terms::Terms;
use crate::history::History;
use crate::reading::history::Reading;

/// What is judged, and by which terms.
pub struct Case<'a> {
    /// What happened.
    pub reading: Reading<'a>,
    /// The terms.
    pub terms: &'a Terms,
}

impl<'a> Case<'a> {
    /// Prepares a history for the checks.
    pub fn new(history: &'a History, terms: &'a Terms) -> Case<'a> {
        let holders = (terms.holders, terms.reenters);
        Case { reading: Reading::of(history, &terms.lock_key, holders), terms }
    }
}

impl<'a> Deref for Case<'a> {
    type Target = Reading<'a>;

    fn deref(&self) -> &Reading<'a> {
        &self.reading
    }
}
