//! The faults above the lanes, the links that they cut, and the stretch with too many holders.

use lockstorm_platform::fault::Verb;

use crate::check::verdict::{Kind, Violation};
use crate::explain::witness::Witness;
use crate::history::FaultInterval;
use crate::quantity::{length, mark, span};
use crate::report::svg::canvas::{Canvas, Side, Tenths, width_of};
use crate::report::svg::labels::{Label, LabelRow};
use crate::report::svg::layout::Lane;
use crate::report::svg::palette::{ALARM, ALARM_TEXT, GREY, INK};
use crate::report::svg::scale::{PLOT, Scale};

/// Height of one row of faults.
const ROW: i64 = 19;

/// Paints the faults in rows from `top` on; returns where the last row ends.
pub fn faults(canvas: &mut Canvas, witness: &Witness<'_>, scale: &Scale, top: i64) -> i64 {
    let mut rows: Vec<LabelRow> = Vec::new();
    for interval in &witness.history().fault_intervals {
        let end = interval.to.map_or(witness.history().end.at, |to| to.at);
        let Some(band) = scale.span(interval.from.at, end) else { continue };
        let text = describe(interval, end);
        let (taken, x, side) = placed(band, width_of(&text));
        let free = rows.iter_mut().position(|row| row.take(taken));
        let index = free.unwrap_or_else(|| {
            rows.push(LabelRow::default());
            rows.last_mut().expect("a row was pushed").take(taken);
            rows.len() - 1
        });
        let y = top + i64::try_from(index).unwrap_or(0) * ROW;
        band_of(canvas, band, y, witness.is_blamed(interval));
        let fill = if witness.is_blamed(interval) { ALARM_TEXT } else { INK };
        canvas.text((x, y + 12), side, "b", fill, &text);
    }
    if rows.is_empty() {
        canvas.text((PLOT.0, top + 12), Side::Start, "s", GREY, "none in this stretch");
        rows.push(LabelRow::default());
    }
    canvas.text((PLOT.0 - 100, top + 12), Side::End, "h", INK, "faults");
    top + i64::try_from(rows.len()).unwrap_or(1) * ROW + 2
}

/// The position of a band's text: on it if there is room, else to its right, else to its left.
fn placed(band: (Tenths, Tenths), width: Tenths) -> ((Tenths, Tenths), Tenths, Side) {
    match () {
        () if band.1 - band.0 > width + 90 => (band, band.0 + 70, Side::Start),
        () if band.1 + width + 60 < PLOT.1 => {
            ((band.0 - 40, band.1 + width + 60), band.1 + 60, Side::Start)
        }
        () => ((band.0 - width - 60, band.1 + 40), band.0 - 60, Side::End),
    }
}

fn band_of(canvas: &mut Canvas, band: (Tenths, Tenths), y: i64, blamed: bool) {
    let colour = if blamed { ALARM } else { GREY };
    if band.1 - band.0 < 30 {
        let (x, y) = (band.0, y * 10);
        let mark = [(x - 45, y + 30), (x + 45, y + 30), (x, y + 120)];
        canvas.polygon(&mark, &format!("fill=\"{colour}\""));
        return;
    }
    let style = format!("fill=\"{colour}\" fill-opacity=\".18\" rx=\"3\"");
    canvas.rect(band, y, 16, &style);
    canvas.rect((band.0, band.0 + 30), y, 16, &format!("fill=\"{colour}\""));
}

fn describe(interval: &FaultInterval, end: u64) -> String {
    let FaultInterval { verb, target, .. } = interval;
    let lasted = end.saturating_sub(interval.from.at);
    let who = target.to_string().replace("<->", "\u{2194}").replace("->", "\u{2192}");
    let lasted = if lasted == 0 { String::new() } else { format!(", {}", length(lasted)) };
    format!("{} {who}{}{lasted}", verb.word(), mark(&verb.figure()))
}

/// Draws a hatched rail along the lanes whose links a fault cuts, and dotted lines down from its
/// ends.
pub fn cuts(canvas: &mut Canvas, witness: &Witness<'_>, scale: &Scale, lanes: &[Lane]) {
    for interval in &witness.history().fault_intervals {
        if interval.verb != Verb::Partition {
            continue;
        }
        let end = interval.to.map_or(witness.history().end.at, |to| to.at);
        let Some(span) = scale.span(interval.from.at, end) else { continue };
        for lane in lanes.iter().filter(|lane| interval.touches(&lane.host)) {
            canvas.named_rect(span, lane.top + 1, 5, "fill=\"url(#cut)\"", "partitioned");
        }
    }
}

/// Shades the violations through all lanes.
pub fn shades(canvas: &mut Canvas, witness: &Witness<'_>, scale: &Scale, span: (i64, i64)) {
    let (top, bottom) = span;
    for violation in overlaps(witness) {
        let Some(band) = scale.span(violation.from.at, violation.to.at) else { continue };
        let style = format!("fill=\"{ALARM}\" fill-opacity=\".13\"");
        canvas.rect(band, top, bottom - top, &style);
        for x in [band.0, band.1] {
            let style = format!("stroke=\"{ALARM}\" stroke-width=\"1\" stroke-dasharray=\"3 3\"");
            canvas.line((x, top), (x, bottom), &style);
        }
    }
}

/// Names the shaded stretches, in a separate row.
pub fn shade_names(canvas: &mut Canvas, witness: &Witness<'_>, scale: &Scale, y: i64) {
    let mut row = LabelRow::default();
    for violation in overlaps(witness) {
        let Some(band) = scale.span(violation.from.at, violation.to.at) else { continue };
        let lasts = span(violation.to.at.saturating_sub(violation.from.at));
        let text = match violation.kind {
            Kind::Stuck => format!("nobody gets in, {lasts}"),
            Kind::DoubleGrant | Kind::StaleHolder => format!("two holders, {lasts}"),
            other => other.word().replace('-', " "),
        };
        let x = (band.0 + band.1) / 2;
        row.place(canvas, y, &Label { x, side: Side::Middle, fill: ALARM_TEXT, text });
    }
}

/// The violations to shade. Corruption is marked at the resource; an illegal order has no position.
fn overlaps<'a>(witness: &Witness<'a>) -> impl Iterator<Item = &'a Violation> {
    let unshaded = [Kind::Corruption, Kind::NotLinearizable];
    let horizon = witness.horizon();
    let shown = witness.violations().iter().filter(move |violation| violation.from < horizon);
    shown.filter(move |violation| !unshaded.contains(&violation.kind))
}
