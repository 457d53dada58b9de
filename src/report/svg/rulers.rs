//! The ruler of true time beneath the lanes, and the rulers of clocks that differ from it.

use lockstorm_sim::time::{Clock, EPOCH, Nanos};

use crate::explain::hold::pieces;
use crate::explain::quantity::signed;
use crate::explain::witness::Witness;
use crate::report::svg::canvas::{Canvas, Side, width_of};
use crate::report::svg::labels::{Label, Row};
use crate::report::svg::layout::Lane;
use crate::report::svg::palette::{ALARM, ALARM_TEXT, FAINT, GREY, INK};
use crate::report::svg::scale::{PLOT, Scale, tick_label};

/// Faint lines through all lanes at the ticks of true time.
pub fn grid(canvas: &mut Canvas, scale: &Scale, top: i64, bottom: i64) {
    for at in ticks(scale) {
        let x = scale.x(at);
        canvas.line((x, top), (x, bottom), "stroke=\"#eef1f4\" stroke-width=\"1\"");
    }
}

/// The ruler of true time.
pub fn true_time(canvas: &mut Canvas, scale: &Scale, y: i64) {
    canvas.line((PLOT.0, y), (PLOT.1, y), &format!("stroke=\"{INK}\" stroke-width=\"1\""));
    let mut row = Row::default();
    let step = scale.step();
    for at in ticks(scale) {
        let x = scale.x(at);
        canvas.line((x, y), (x, y + 5), &format!("stroke=\"{INK}\" stroke-width=\"1\""));
        let text = tick_label(i64::try_from(at).unwrap_or(i64::MAX), step);
        if row.take(Side::Middle.span(x, width_of(&text))) {
            canvas.text((x, y + 18), Side::Middle, "s", INK, &text);
        }
    }
    canvas.text((PLOT.0 - 100, y + 18), Side::End, "s", GREY, "true time");
}

fn ticks(scale: &Scale) -> impl Iterator<Item = Nanos> {
    let step = scale.step();
    let first = scale.from.div_ceil(step);
    (first..=scale.to / step).map(move |n| n * step)
}

/// The ruler of a lane whose clock differs: its ticks stand where that clock reads round
/// numbers, and where it jumps there is a mark.
pub fn own(canvas: &mut Canvas, witness: &Witness<'_>, scale: &Scale, lane: &Lane) {
    let Some(clock) = lane.clock else { return };
    let y = lane.ruler() + 2;
    canvas.line((PLOT.0, y), (PLOT.1, y), &format!("stroke=\"{GREY}\" stroke-width=\".8\""));
    let name = match clock {
        Clock::Wall => "wall clock",
        Clock::Monotonic => "monotonic",
        Clock::Boot => "boot time",
    };
    canvas.text((PLOT.0 - 100, y + 11), Side::End, "s", GREY, name);
    let mut row = Row::default();
    let history = witness.history();
    let all: Vec<_> = pieces(history, &lane.name, clock).collect();
    for (index, piece) in all.iter().enumerate().skip(1) {
        let since = piece.line.since;
        let by = i128::from(piece.line.reading) - i128::from(all[index - 1].line.at(since));
        if by != 0 && scale.shows(since) {
            let by = i64::try_from(by).unwrap_or(i64::MAX);
            jump(canvas, &mut row, (scale.x(since), y), &signed(by));
        }
    }
    for (index, piece) in all.iter().enumerate() {
        let until = all.get(index + 1).map_or(scale.to, |next| next.line.since.min(scale.to));
        let zero = if clock == Clock::Wall { EPOCH } else { 0 };
        let begin = piece.line.since.max(scale.from);
        if begin < until {
            let readings = (piece.line.at(begin), piece.line.at(until));
            let step = scale.step();
            let first = i128::from(readings.0) - i128::from(zero);
            let last = i128::from(readings.1) - i128::from(zero);
            let mut at = first.div_euclid(i128::from(step)) * i128::from(step);
            while at <= last {
                let reading = u64::try_from(at + i128::from(zero)).unwrap_or(0);
                let reached = piece.line.reaches(reading).filter(|_| at >= first);
                if let Some(when) = reached.filter(|when| (begin..=until).contains(when)) {
                    let x = scale.x(when);
                    canvas.line((x, y), (x, y + 4), &format!("stroke=\"{GREY}\""));
                    let text = tick_label(i64::try_from(at).unwrap_or(i64::MAX), step);
                    if row.take(Side::Middle.span(x, width_of(&text))) {
                        canvas.text((x, y + 14), Side::Middle, "s", GREY, &text);
                    }
                }
                at += i128::from(step);
            }
        }
    }
}

fn jump(canvas: &mut Canvas, row: &mut Row, at: (i64, i64), by: &str) {
    let (x, y) = at;
    canvas.line((x, y - 4), (x, y + 5), &format!("stroke=\"{ALARM}\" stroke-width=\"2\""));
    let text = format!("jumps {by}");
    row.place(canvas, y + 14, &Label { x: x + 30, side: Side::Start, fill: ALARM_TEXT, text });
}

/// A faint line between two lanes.
pub fn separator(canvas: &mut Canvas, y: i64) {
    canvas.line((100, y), (PLOT.1, y), &format!("stroke=\"{FAINT}\" stroke-width=\"1\""));
}
