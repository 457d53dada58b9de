//! Lanes of clients: when each was acquiring, believed that it held the lock, or was halted.

use lockstorm_platform::fault::Verb;
use lockstorm_platform::time::Nanos;

use crate::explain::hold::StoryHold;
use crate::explain::witness::Witness;
use crate::history::{OpKind, Outcome};
use crate::quantity::{length, moment};
use crate::reading::hold::HoldEnd;
use crate::report::svg::canvas::{Canvas, Side, Tenths, width_of};
use crate::report::svg::labels::{Label, LabelRow};
use crate::report::svg::layout::Lane;
use crate::report::svg::palette::{ALARM, ALARM_TEXT, FAINT, GREY, INK, hue_of};
use crate::report::svg::scale::{PLOT, Scale};

/// With more holds than this in view, ordinary ones have no caption.
const MANY: usize = 6;
/// Waiting that is narrower than this is not drawn.
const SHORT: Tenths = 30;
/// Minimum distance between diamonds.
const DIAMOND: Tenths = 120;

/// Paints one caller's lane.
pub fn paint(canvas: &mut Canvas, witness: &Witness<'_>, scale: &Scale, lane: &Lane) {
    let mut row = LabelRow::default();
    let middle = lane.middle();
    canvas.line((PLOT.0, middle), (PLOT.1, middle), &format!("stroke=\"{FAINT}\""));
    for hold in witness.holds.iter().filter(|hold| hold.grant.caller == lane.name) {
        bar(canvas, scale, lane, hold);
    }
    attempts(canvas, witness, scale, lane);
    stillness(canvas, witness, scale, lane, &mut row);
    let holds = || witness.holds.iter().filter(|hold| hold.grant.caller == lane.name);
    let few = holds().filter(|hold| scale.shows(hold.from.at)).count() <= MANY;
    for hold in holds().filter(|hold| few || witness.is_actor(hold.grant.id)) {
        captions(canvas, scale, lane, &mut row, hold);
    }
}

fn bar(canvas: &mut Canvas, scale: &Scale, lane: &Lane, hold: &StoryHold<'_>) {
    let hue = hue_of(&hold.grant.caller);
    let Some(whole) = scale.span(hold.from.at, hold.until.at) else { return };
    let whole = (whole.0, whole.1.max(whole.0 + 20));
    let (y, height) = (lane.bar(), lane.bar_height());
    let name = format!(
        "{} believes it holds the lock{} from {} to {}",
        hold.grant.caller,
        if hold.grant.shared { " in shared mode" } else { "" },
        moment(hold.from.at),
        moment(hold.until.at)
    );
    let style =
        format!("fill=\"url(#bare{})\" stroke=\"{}\" stroke-width=\"1.5\"", hue.number, hue.fill);
    canvas.named_rect(whole, y, height, &style, &name);
    for (from, to) in &hold.covered {
        let Some(span) = scale.span(*from, *to) else { continue };
        canvas.rect(span, y, height, &format!("fill=\"{}\"", hue.fill));
        inscribe(canvas, span, y + 14, hue.ink, &held_text(hold));
    }
    if let Some(span) = hold.bare_from().and_then(|bare| scale.span(bare, hold.until.at)) {
        plate(canvas, span, y, height, hue.text, "lease over");
    }
}

fn held_text(hold: &StoryHold<'_>) -> String {
    let verb = if hold.grant.shared { "shares" } else { "holds" };
    match &hold.grant.outcome {
        Outcome::Granted { fence: Some(fence), .. } => format!("{verb}, fence {fence}"),
        _ => verb.to_owned(),
    }
}

/// Text in the middle of a bar, if there is room.
pub fn inscribe(canvas: &mut Canvas, span: (Tenths, Tenths), y: i64, fill: &str, text: &str) {
    if span.1 - span.0 >= width_of(text) + 80 {
        canvas.text(((span.0 + span.1) / 2, y), Side::Middle, "b", fill, text);
    }
}

/// Text on a white plate in the middle of a hatched bar, if there is room.
fn plate(canvas: &mut Canvas, span: (Tenths, Tenths), y: i64, height: i64, fill: &str, text: &str) {
    let width = width_of(text) + 60;
    if span.1 - span.0 < width + 40 {
        return;
    }
    let middle = (span.0 + span.1) / 2;
    let around = (middle - width / 2, middle + width / 2);
    canvas.rect(around, y + 3, height - 6, "fill=\"#ffffff\" rx=\"3\"");
    canvas.text((middle, y + 14), Side::Middle, "b", fill, text);
}

/// Draws thin lines while the client waits for replies, and diamonds where it was refused. Signs
/// that would overlap earlier ones are left out.
fn attempts(canvas: &mut Canvas, witness: &Witness<'_>, scale: &Scale, lane: &Lane) {
    let y = lane.middle();
    let (mut line_end, mut diamond) = (Tenths::MIN, Tenths::MIN);
    let ops = witness.history().ops.iter();
    for op in ops.filter(|op| op.caller == lane.name && op.kind == OpKind::Acquire) {
        let hue = hue_of(&op.caller);
        let end = op.ret.map_or(witness.history().end.at, |ret| ret.at);
        let Some(span) = scale.span(op.call.at, end) else { continue };
        if span.1 > line_end && span.1 - span.0 >= SHORT {
            line_end = span.1 + 10;
            let dashes = if op.ret.is_none() { " stroke-dasharray=\"4 3\"" } else { "" };
            let style = format!("stroke=\"{}\" stroke-width=\"3\"{dashes}", hue.fill);
            canvas.line((span.0, y), (span.1, y), &style);
        }
        let refused = op.is_refused() && scale.shows(end);
        if refused && span.1 >= diamond {
            diamond = span.1 + DIAMOND;
            let (x, y) = (span.1, y * 10);
            let points = [(x, y - 45), (x + 45, y), (x, y + 45), (x - 45, y)];
            let style = format!("fill=\"#ffffff\" stroke=\"{}\" stroke-width=\"1.4\"", hue.fill);
            canvas.polygon(&points, &style);
        }
    }
}

/// Draws hatched bands while the process does not run, and a cross where it dies.
fn stillness(
    canvas: &mut Canvas,
    witness: &Witness<'_>,
    scale: &Scale,
    lane: &Lane,
    row: &mut LabelRow,
) {
    for interval in &witness.history().fault_intervals {
        if !interval.touches(&lane.host) || !(interval.verb.halts() || interval.verb.kills()) {
            continue;
        }
        let (from, to) = witness.reading.lasts(interval);
        let Some(span) = scale.span(from.at, to.at) else { continue };
        let lasted = length(to.at.saturating_sub(from.at));
        if interval.verb.halts() {
            let (y, height) = (lane.bar() - 5, lane.bar_height() + 10);
            canvas.named_rect(span, y, height, "fill=\"url(#still)\"", interval.verb.word());
            let word = if interval.verb == Verb::Pause { "paused" } else { "asleep" };
            let text = format!("{word} {lasted}");
            let x = (span.0 + span.1) / 2;
            row.place(
                canvas,
                lane.caption() + 1,
                &Label { x, side: Side::Middle, fill: INK, text },
            );
        } else {
            let (y, x) = (lane.middle(), span.0);
            canvas.rect(span, y - 3, 6, "fill=\"#ffffff\"");
            let style = format!("stroke=\"{GREY}\" stroke-width=\"1.5\" stroke-dasharray=\"3 4\"");
            canvas.line((span.0, y), (span.1, y), &style);
            let style = format!("stroke=\"{ALARM}\" stroke-width=\"3\" fill=\"none\"");
            canvas.cross((x, y), 70, &style);
            let text = format!("dies, back after {lasted}");
            let label = Label { x, side: Side::Start, fill: ALARM_TEXT, text };
            row.place(canvas, lane.caption(), &label);
        }
    }
}

fn captions(
    canvas: &mut Canvas,
    scale: &Scale,
    lane: &Lane,
    row: &mut LabelRow,
    hold: &StoryHold<'_>,
) {
    let hue = hue_of(&hold.grant.caller);
    let y = lane.caption() + 1;
    let mut caption = |at: Nanos, side: Side, text: String| {
        if scale.shows(at) {
            row.place(canvas, y, &Label { x: scale.x(at), side, fill: hue.text, text });
        }
    };
    caption(hold.from.at, Side::Start, format!("granted {}", moment(hold.from.at)));
    let end = match hold.end {
        HoldEnd::Released(_) => "releases",
        HoldEnd::Lost(_) => "learns of its loss",
        HoldEnd::Died(_) | HoldEnd::Open => return,
    };
    caption(hold.until.at, Side::End, format!("{end} {}", moment(hold.until.at)));
}
