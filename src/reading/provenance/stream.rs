//! The cause behind each place of each replication history: the cause of the command that ends
//! there.

use crate::reading::provenance::recent::Recent;

/// See the module documentation. Replication histories are identified by the numbers of their ids.
pub struct Streams<C> {
    causes: Recent<(u64, u64), Option<C>>,
    /// For each history, the earlier one that it continues, and the last offset of that one.
    earlier: Recent<u64, (u64, u64)>,
}

impl<C: Clone> Streams<C> {
    /// Keeps at most `most` places.
    pub fn bounded(most: usize) -> Streams<C> {
        Streams { causes: Recent::bounded(most), earlier: Recent::bounded(most) }
    }

    /// Records the cause of the command that ends at this offset.
    pub fn note(&mut self, history: u64, offset: u64, cause: Option<C>) {
        self.causes.insert((history, offset), cause);
    }

    /// Records that a history shares the beginning of an earlier one, up to an offset.
    pub fn go_on(&mut self, history: u64, earlier: u64, to: u64) {
        self.earlier.insert(history, (earlier, to));
    }

    /// The cause behind a place. A replica that learns of a promotion late uses the new id for the
    /// end of the old history.
    pub fn cause(&self, mut history: u64, offset: u64) -> Option<C> {
        // A history cannot continue itself, but a duplicate id must not make this loop endless.
        for _ in 0..self.earlier.count() {
            match self.earlier.get(&history) {
                Some((earlier, to)) if offset <= *to => history = *earlier,
                _ => break,
            }
        }
        self.causes.get(&(history, offset)).cloned().flatten()
    }
}
