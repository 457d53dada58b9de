//! The lane of the guarded resource: a dot for each access, filled if it was accepted.

use crate::check::verdict::Violation;
use crate::explain::hold::op;
use crate::explain::naming::damage;
use crate::explain::story::access::{corruption, is_of_actor};
use crate::explain::witness::Witness;
use crate::history::{Access, AccessKind, RESOURCE};
use crate::quantity::moment;
use crate::report::svg::canvas::{Canvas, Side, Tenths, width_of};
use crate::report::svg::labels::LabelRow;
use crate::report::svg::layout::Lane;
use crate::report::svg::palette::{ALARM, ALARM_TEXT, FAINT, hue_of};
use crate::report::svg::scale::{PLOT, Scale};

/// With more accesses than this in view, ordinary ones are not named.
const MANY: usize = 24;
/// Base lines of the rows of labels, beneath the lane's line.
const ROWS: [i64; 3] = [20, 33, 46];
/// An access that is in flight for longer than this is drawn with its path.
const LATE: Tenths = 80;

/// Paints the resource's lane.
pub fn paint(
    canvas: &mut Canvas,
    witness: &Witness<'_>,
    scale: &Scale,
    lanes: &[Lane],
    lane: &Lane,
) {
    let y = lane.top + 13;
    canvas.line((PLOT.0, y), (PLOT.1, y), &format!("stroke=\"{FAINT}\""));
    let mut rows = [LabelRow::default(), LabelRow::default(), LabelRow::default()];
    let accesses = witness.history().accesses.iter().enumerate();
    let shown: Vec<(usize, &Access)> = accesses.filter(|(_, a)| scale.shows(a.at.at)).collect();
    let few = shown.len() <= MANY;
    for (index, access) in shown {
        let harm = corruption(witness, index);
        way(canvas, witness, scale, (lanes, y), access);
        if harm.is_some() || few || !access.accepted || is_of_actor(witness, access) {
            name(canvas, witness, scale, (y, &mut rows), (harm, access));
        }
        let place = (scale.x(access.at.at), y);
        dot(canvas, witness, place, access, harm.is_some());
    }
}

/// The path of a slow access, from its caller's lane.
fn way(
    canvas: &mut Canvas,
    witness: &Witness<'_>,
    scale: &Scale,
    (lanes, y): (&[Lane], i64),
    access: &Access,
) {
    let Some(sent) = op(witness.history(), access.op) else { return };
    let Some(from) = lanes.iter().find(|lane| lane.name == sent.caller) else { return };
    let (start, end) = (scale.x(sent.call.at), scale.x(access.at.at));
    if end - start >= LATE && scale.shows(sent.call.at) {
        let colour = hue_of(&access.caller).fill;
        let style = format!("stroke=\"{colour}\" stroke-width=\"1.2\" stroke-dasharray=\"2 3\"");
        canvas.line((start, from.middle()), (end, y), &style);
    }
}

fn dot(
    canvas: &mut Canvas,
    witness: &Witness<'_>,
    place: (Tenths, i64),
    access: &Access,
    corrupt: bool,
) {
    let hue = hue_of(&access.caller);
    if corrupt {
        let style = format!("fill=\"#ffffff\" stroke=\"{ALARM}\" stroke-width=\"2.5\"");
        canvas.circle(place, 90, &style, "the resource is corrupted");
    }
    let fill = if access.accepted { hue.fill } else { "#ffffff" };
    let style = format!("fill=\"{fill}\" stroke=\"{}\" stroke-width=\"1.6\"", hue.fill);
    let name = format!("{} {} at {}", access.caller, short(witness, access), moment(access.at.at));
    canvas.circle(place, 45, &style, &name);
}

fn name(
    canvas: &mut Canvas,
    witness: &Witness<'_>,
    scale: &Scale,
    (y, rows): (i64, &mut [LabelRow; 3]),
    (harm, access): (Option<&Violation>, &Access),
) {
    let x = scale.x(access.at.at);
    let (text, fill) = match harm {
        Some(harm) => {
            let did = damage(&witness.finding.plan.workload.kind, harm);
            (format!("{}: {did}", short(witness, access)), ALARM_TEXT)
        }
        None => (short(witness, access), hue_of(&access.caller).text),
    };
    let width = width_of(&text);
    let side = if x + width / 2 > PLOT.1 { Side::End } else { Side::Middle };
    let shift = if side == Side::End { 40 } else { 0 };
    // Corruptions are below the other labels, where their longer text covers nothing.
    let first = usize::from(harm.is_some());
    for (row, below) in rows.iter_mut().zip(ROWS).skip(first) {
        if row.take(side.span(x + shift, width)) {
            if below > ROWS[0] {
                let style = format!("stroke=\"{fill}\" stroke-width=\".8\"");
                canvas.line((x, y + 5), (x, y + below - 9), &style);
            }
            let class = if harm.is_some() { "a" } else { "s" };
            canvas.text((x + shift, y + below), side, class, fill, &text);
            return;
        }
    }
}

fn short(witness: &Witness<'_>, access: &Access) -> String {
    let word = match access.kind {
        AccessKind::Read => format!("R {}", access.value),
        AccessKind::Write => format!("W {}", access.value),
        AccessKind::Append => "A".to_owned(),
        AccessKind::Add => format!("+ {}", access.value),
        AccessKind::Expire => "E".to_owned(),
    };
    let fence = access.fence.map_or_else(String::new, |fence| format!(" #{fence}"));
    let refused = if access.accepted { "" } else { " refused" };
    let place = segment(witness, access);
    format!("{word}{place}{fence}{refused}")
}

/// The segment of an access, if the resource is in segments: one lane shows them all, and values of
/// one tell nothing of another.
fn segment(witness: &Witness<'_>, access: &Access) -> String {
    let object = op(witness.history(), access.op).map(|op| op.object.as_str());
    let nth = object.and_then(|object| object.strip_prefix(RESOURCE)?.strip_prefix(':'));
    nth.map_or_else(String::new, |nth| format!(" @{nth}"))
}
