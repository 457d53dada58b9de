//! Who is behind each place of each history: the command that ends at an offset.

use crate::reading::provenance::recent::Recent;

/// See the head of this file. Histories go by the numbers of their ids.
pub struct Streams<C> {
    causes: Recent<(u64, u64), Option<C>>,
    /// For a history the earlier one that it goes on from, and the last offset that is that one's.
    earlier: Recent<u64, (u64, u64)>,
}

impl<C: Clone> Streams<C> {
    /// Keeps so many places.
    pub fn bounded(most: usize) -> Streams<C> {
        Streams { causes: Recent::bounded(most), earlier: Recent::bounded(most) }
    }

    /// The command that ends at this offset has this cause.
    pub fn note(&mut self, history: u64, offset: u64, cause: Option<C>) {
        self.causes.insert((history, offset), cause);
    }

    /// A history has the beginning of an earlier one, up to an offset.
    pub fn go_on(&mut self, history: u64, earlier: u64, to: u64) {
        self.earlier.insert(history, (earlier, to));
    }

    /// Who is behind a place. A replica that learned of a promotion late calls the end of the old
    /// history by the new name.
    pub fn cause(&self, mut history: u64, offset: u64) -> Option<C> {
        // A history cannot go on from itself, but this must not hang if an id is given twice.
        for _ in 0..self.earlier.count() {
            match self.earlier.get(&history) {
                Some((earlier, to)) if offset <= *to => history = *earlier,
                _ => break,
            }
        }
        self.causes.get(&(history, offset)).cloned().flatten()
    }
}
