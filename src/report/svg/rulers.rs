//! The ruler of true time beneath the lanes, and the rulers of clocks that differ from it.

use lockstorm_platform::time::{Clock, EPOCH, Line, Nanos};

use crate::explain::witness::Witness;
use crate::quantity::signed;
use crate::report::svg::canvas::{Canvas, Side, Tenths, width_of};
use crate::report::svg::labels::{Label, LabelRow};
use crate::report::svg::layout::Lane;
use crate::report::svg::palette::{ALARM, ALARM_TEXT, GREY, INK};
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
    let mut row = LabelRow::default();
    let step = scale.step();
    for at in ticks(scale) {
        let x = scale.x(at);
        canvas.line((x, y), (x, y + 5), &format!("stroke=\"{INK}\" stroke-width=\"1\""));
        let text = tick_label(i64::try_from(at).unwrap_or(i64::MAX), step);
        number(canvas, &mut row, (x, y + 18), INK, &text);
    }
    canvas.text((PLOT.0 - 100, y + 18), Side::End, "s", GREY, "true time");
}

fn ticks(scale: &Scale) -> impl Iterator<Item = Nanos> {
    let step = scale.step();
    let first = scale.from.div_ceil(step);
    (first..=scale.to / step).map(move |n| n * step)
}

/// The ruler of a lane whose clock differs: its ticks are where that clock reads round numbers, and
/// each jump is marked.
pub fn own(canvas: &mut Canvas, witness: &Witness<'_>, scale: &Scale, lane: &Lane) {
    let Some(clock) = lane.clock else { return };
    let y = lane.ruler() + 2;
    canvas.line((PLOT.0, y), (PLOT.1, y), &format!("stroke=\"{GREY}\" stroke-width=\".8\""));
    let name = match clock {
        Clock::Wall => "wall clock",
        Clock::Monotonic => "monotonic",
        Clock::Boot => "boot time",
    };
    canvas.text((PLOT.0 - 100, y + 14), Side::End, "s", GREY, name);
    let mut row = LabelRow::default();
    let pieces = witness.reading.clocks.pieces(&lane.host, clock);
    let lines: Vec<Line> = pieces.iter().map(|piece| piece.line).collect();
    for pair in lines.windows(2) {
        let since = pair[1].since;
        let by = i128::from(pair[1].reading) - i128::from(pair[0].at(since));
        if by != 0 && scale.shows(since) {
            let by = i64::try_from(by).unwrap_or(i64::MAX);
            jump(canvas, &mut row, (scale.x(since), y), &signed(by));
        }
    }
    let zero = if clock == Clock::Wall { EPOCH } else { 0 };
    for (index, line) in lines.iter().enumerate() {
        let until = lines.get(index + 1).map_or(scale.to, |next| next.since.min(scale.to));
        for (at, reading) in own_ticks(line, (line.since.max(scale.from), until), scale, zero) {
            let x = scale.x(at);
            canvas.line((x, y), (x, y + 4), &format!("stroke=\"{GREY}\""));
            number(canvas, &mut row, (x, y + 14), GREY, &tick_label(reading, scale.step()));
        }
    }
}

/// When, between two true times, a clock reads round numbers since `zero`, and these numbers.
fn own_ticks(
    line: &Line,
    (from, until): (Nanos, Nanos),
    scale: &Scale,
    zero: Nanos,
) -> Vec<(Nanos, i64)> {
    if from >= until {
        return Vec::new();
    }
    let since = |at: Nanos| i128::from(line.at(at)) - i128::from(zero);
    let step = i128::from(scale.step());
    let (first, last) = (since(from).div_euclid(step), since(until).div_euclid(step));
    let tick = |n: i128| {
        let reading = i64::try_from(n * step).ok()?;
        let at = line.reaches(zero.checked_add_signed(reading)?)?;
        (since(from) <= n * step && (from..=until).contains(&at)).then_some((at, reading))
    };
    (first..=last).filter_map(tick).collect()
}

/// A tick's number, kept inside the plot; left out if it would overlap another.
fn number(canvas: &mut Canvas, row: &mut LabelRow, at: (Tenths, i64), fill: &str, text: &str) {
    let width = width_of(text);
    let side = match at.0 {
        x if x - width / 2 < PLOT.0 - 30 => Side::Start,
        x if x + width / 2 > PLOT.1 + 30 => Side::End,
        _ => Side::Middle,
    };
    if row.take(side.span(at.0, width)) {
        canvas.text(at, side, "s", fill, text);
    }
}

fn jump(canvas: &mut Canvas, row: &mut LabelRow, at: (i64, i64), by: &str) {
    let (x, y) = at;
    canvas.line((x, y - 4), (x, y + 5), &format!("stroke=\"{ALARM}\" stroke-width=\"2\""));
    let text = format!("jumps {by}");
    row.place(canvas, y + 14, &Label { x, side: Side::Start, fill: ALARM_TEXT, text });
}

/// A faint line between two lanes.
pub fn separator(canvas: &mut Canvas, y: i64) {
    canvas.line((100, y), (PLOT.1, y), "stroke=\"#eaeef2\" stroke-width=\"1\"");
}
