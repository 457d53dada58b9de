//! The readings of each host's clocks over time, from the pieces in the history.

use std::collections::BTreeMap;

use lockstorm_platform::time::{Clock, Line, Nanos};

use crate::history::{ClockPiece, History};
use crate::reading::moment::Moment;

/// The pieces of every clock of every host, in order.
#[derive(Clone, Debug)]
pub struct Clocks<'a> {
    pieces: BTreeMap<&'a str, BTreeMap<Clock, Vec<&'a ClockPiece>>>,
}

impl<'a> Clocks<'a> {
    /// Sorts a history's pieces by host and clock.
    pub fn of(history: &'a History) -> Clocks<'a> {
        let mut pieces: BTreeMap<_, BTreeMap<_, Vec<&ClockPiece>>> = BTreeMap::new();
        for piece in &history.clocks {
            let host = pieces.entry(piece.host.as_str()).or_default();
            host.entry(piece.clock).or_default().push(piece);
        }
        Clocks { pieces }
    }

    /// The pieces of one clock.
    pub fn pieces(&self, host: &str, clock: Clock) -> &[&'a ClockPiece] {
        let of_host = self.pieces.get(host).and_then(|clocks| clocks.get(&clock));
        of_host.map_or(&[], Vec::as_slice)
    }

    /// The line of the clock at a moment, if the history contains it.
    pub fn line(&self, host: &str, clock: Clock, moment: Moment) -> Option<Line> {
        let pieces = self.pieces(host, clock);
        let later = pieces.partition_point(|piece| Moment::from(piece.from) <= moment);
        later.checked_sub(1).map(|index| pieces[index].line)
    }

    /// The first moment from `start` on at which the clock reads at least `reading`.
    pub fn reaches(
        &self,
        host: &str,
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

    /// The first moment from `start` on from which the clock reads at least `reading` until `end`.
    pub fn stays(
        &self,
        host: &str,
        clock: Clock,
        (start, end): (Moment, Moment),
        reading: Nanos,
    ) -> Option<Moment> {
        let from = self.reaches(host, clock, start, reading)?;
        let later = self.pieces(host, clock).iter().filter(|piece| {
            let at = Moment::from(piece.from);
            from < at && at < end
        });
        let back = later.rev().find(|piece| piece.line.at(piece.from.at) < reading);
        match back {
            Some(back) => self.reaches(host, clock, back.from.into(), reading),
            None => Some(from),
        }
    }
}

/// When the line first reads at least `reading`, from `from` on and before `until`.
pub fn passing(line: Line, from: Moment, until: Moment, reading: Nanos) -> Option<Moment> {
    if line.at(from.at.max(line.since)) >= reading {
        return Some(from);
    }
    let moment = Moment::passing(line.reaches(reading)?);
    (moment < until).then_some(moment)
}
