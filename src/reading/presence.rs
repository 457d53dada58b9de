//! When a key keeps others out: while its node's wall clock has not reached the end of its time to
//! live, whether or not the node has noticed. If the clock is set back before the node notices, the
//! key is back; in between it did not exist.

use lockstorm_platform::time::{Clock, MILLISECOND};

use crate::reading::history::Reading;
use crate::reading::key_life::KeyLife;
use crate::reading::moment::Moment;

impl Reading<'_> {
    /// The stretches in which a key existed until the moment `gone`, in order; at least one.
    pub fn presence(&self, key: &KeyLife, gone: Moment) -> Vec<(Moment, Moment)> {
        let last = key.ended.map_or(self.history.keys.len(), |end| end.key);
        let changes = self.history.keys[key.born..last].iter();
        let own = changes.filter(|it| self.is_of_life(key, it));
        let terms: Vec<(Moment, Option<u64>)> =
            own.map(|change| (change.at.into(), change.until_ms)).collect();
        let mut found = Vec::new();
        for (index, (set, until)) in terms.iter().enumerate() {
            let next = terms.get(index + 1).map_or(gone, |(next, _)| *next);
            found.extend(self.unexpired(key, (*set, next), *until));
        }
        found
    }

    /// The stretches between two moments in which the wall clock of a key's node had not passed the
    /// expiry `until`.
    fn unexpired(
        &self,
        key: &KeyLife,
        (start, end): (Moment, Moment),
        until: Option<u64>,
    ) -> Vec<(Moment, Moment)> {
        let Some(until) = until else { return vec![(start, end)] };
        let over = until.saturating_add(1).saturating_mul(MILLISECOND);
        let (mut from, mut found) = (start, Vec::new());
        loop {
            let to = self.clocks.reaches(key.node, Clock::Wall, from, over);
            let to = to.unwrap_or(Moment::NEVER).min(end);
            found.push((from, to));
            let mut later = self.clocks.pieces(key.node, Clock::Wall).iter();
            let back = later.find(|piece| {
                let at = Moment::from(piece.from);
                to < at && at < end.min(key.to) && piece.line.at(piece.from.at) < over
            });
            let Some(back) = back else { return found };
            from = back.from.into();
        }
    }
}
