//! What a host's clock read when, from the history's pieces.

use std::collections::BTreeMap;

use lockstorm_sim::time::{Clock, Line, Nanos};

use crate::check::moment::Moment;
use crate::history::{ClockPiece, History};

/// The pieces of every clock of every host, in order.
pub struct Clocks<'a> {
    pieces: BTreeMap<(&'a str, Clock), Vec<&'a ClockPiece>>,
}

impl<'a> Clocks<'a> {
    /// Sorts a history's pieces by host and clock.
    pub fn of(history: &'a History) -> Clocks<'a> {
        let mut pieces: BTreeMap<_, Vec<&ClockPiece>> = BTreeMap::new();
        for piece in &history.clocks {
            pieces.entry((piece.host.as_str(), piece.clock)).or_default().push(piece);
        }
        Clocks { pieces }
    }

    /// The pieces of one clock.
    pub fn pieces(&self, host: &'a str, clock: Clock) -> &[&'a ClockPiece] {
        self.pieces.get(&(host, clock)).map_or(&[], Vec::as_slice)
    }

    /// The line that the clock is on at a moment, if the history knows.
    pub fn line(&self, host: &'a str, clock: Clock, moment: Moment) -> Option<Line> {
        let pieces = self.pieces(host, clock);
        let later = pieces.partition_point(|piece| Moment::from(piece.from) <= moment);
        later.checked_sub(1).map(|index| pieces[index].line)
    }

    /// The first moment from `start` on at which the clock reads at least `reading`.
    pub fn reaches(
        &self,
        host: &'a str,
        clock: Clock,
        start: Moment,
        reading: Nanos,
    ) -> Option<Moment> {
        let pieces = self.pieces(host, clock);
        let first = pieces.partition_point(|piece| Moment::from(piece.from) <= start);
        for index in first.saturating_sub(1)..pieces.len() {
            let from = start.max(Moment::from(pieces[index].from));
            let until = pieces.get(index + 1).map_or(Moment::NEVER, |next| next.from.into());
            if let Some(moment) = passing(pieces[index].line, from, until, reading) {
                return Some(moment);
            }
        }
        None
    }
}

/// When, from `from` on and before `until`, the line reads at least `reading`.
pub fn passing(line: Line, from: Moment, until: Moment, reading: Nanos) -> Option<Moment> {
    if line.at(from.at.max(line.since)) >= reading {
        return Some(from);
    }
    let moment = Moment::passing(line.reaches(reading)?);
    (moment < until).then_some(moment)
}
