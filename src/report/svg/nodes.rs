//! Lanes of nodes: which owner's key existed when, and how it ended.

use lockstorm_platform::time::Nanos;
use lockstorm_platform::trace::KeyChange;

use crate::explain::hold::op;
use crate::explain::life::StoryLife;
use crate::explain::witness::Witness;
use crate::quantity::moment;
use crate::report::svg::canvas::{Canvas, Side};
use crate::report::svg::clients::inscribe;
use crate::report::svg::labels::{Label, LabelRow};
use crate::report::svg::layout::Lane;
use crate::report::svg::palette::{ALARM, ALARM_TEXT, FAINT, GREY, INK, hue_of_owner};
use crate::report::svg::scale::{PLOT, Scale};

/// With more ends of keys than this in view, ordinary ones are not named.
const MANY: usize = 8;

/// Paints one node's lane.
pub fn paint(canvas: &mut Canvas, witness: &Witness<'_>, scale: &Scale, lane: &Lane) {
    let mut row = LabelRow::default();
    let middle = lane.middle();
    canvas.line((PLOT.0, middle), (PLOT.1, middle), &format!("stroke=\"{FAINT}\""));
    let lives: Vec<&StoryLife> =
        witness.lives.iter().filter(|life| life.node == lane.name).collect();
    for life in &lives {
        bar(canvas, witness, scale, lane, life);
    }
    down(canvas, witness, scale, lane, &mut row);
    // Releases by owners are ordinary; many of them need no words.
    let few = lives.iter().filter(|life| scale.shows(life.until.at)).count() <= MANY;
    for pass in [true, false].into_iter().take(if few { 2 } else { 1 }) {
        for life in &lives {
            ending(canvas, witness, scale, lane, &mut row, (life, pass));
        }
    }
}

fn bar(canvas: &mut Canvas, witness: &Witness<'_>, scale: &Scale, lane: &Lane, life: &StoryLife) {
    let Some(span) = scale.span(life.from.at, seen_until(witness, life)) else { return };
    let hue = hue_of_owner(witness, life.owner);
    let owner = life.owner.and_then(|owner| witness.caller(owner)).unwrap_or("nobody");
    let (y, height) = (lane.bar(), lane.bar_height());
    let name = format!("{owner}'s key from {} to {}", moment(life.from.at), moment(life.until.at));
    let style = format!("fill=\"{}\" rx=\"2\"", hue.fill);
    let span = (span.0, span.1.max(span.0 + 15));
    canvas.named_rect(span, y, height, &style, &name);
    let forever = life.until_ms.is_none() && life.end.is_none();
    let text =
        if forever { format!("{owner}'s key, no time to live") } else { format!("{owner}'s key") };
    inscribe(canvas, span, y + 12, hue.ink, &text);
}

/// When the key ended, or its node went down for the rest of the key's life.
fn seen_until(witness: &Witness<'_>, life: &StoryLife) -> Nanos {
    let until = life.until.at;
    let fault_intervals = witness.history().fault_intervals.iter();
    let mut kills = fault_intervals.filter(|c| c.verb.kills() && c.strikes(&life.node));
    let last = kills.rfind(|c| life.from < c.from && c.from.at < until);
    let down = last.filter(|c| c.to.is_none_or(|to| to.at >= until));
    down.map_or(until, |interval| interval.from.at)
}

/// Marks and names the end of a key; with `pass` true, only ends that the owner did not cause.
fn ending(
    canvas: &mut Canvas,
    witness: &Witness<'_>,
    scale: &Scale,
    lane: &Lane,
    row: &mut LabelRow,
    (life, pass): (&StoryLife, bool),
) {
    let Some(key) = life.end.and_then(|end| witness.history().keys.get(end)) else { return };
    if !scale.shows(key.at.at) {
        return;
    }
    let owner = life.owner.and_then(|owner| witness.caller(owner));
    let by = key.by.and_then(|by| witness.caller(by));
    let command = key.by.and_then(|by| op(witness.history(), by));
    let foreign = by.filter(|_| command.and_then(|op| op.grant()) != life.owner);
    let is_older = command.is_some_and(|command| witness.is_older(command, life));
    let (text, fill) = match (key.change, foreign) {
        (KeyChange::Deleted, None) => ("released".to_owned(), GREY),
        (KeyChange::Deleted, Some(by)) if Some(by) == owner => {
            let old = if is_older { "old " } else { "" };
            (format!("deleted by {by}'s {old}release"), ALARM_TEXT)
        }
        (KeyChange::Deleted, Some(by)) => (format!("deleted by {by}"), ALARM_TEXT),
        (KeyChange::Set, Some(_)) if life.owner.is_none() => return,
        (KeyChange::Set, Some(by)) => (format!("overwritten by {by}"), ALARM_TEXT),
        (KeyChange::Set, None) => return,
        (KeyChange::Expired, _) if seen_until(witness, life) < key.at.at => return,
        (KeyChange::Expired, _) => ("expired".to_owned(), INK),
        (KeyChange::Evicted, _) => ("removed".to_owned(), ALARM_TEXT),
        (KeyChange::LostAtRestart, _) => ("forgotten at restart".to_owned(), ALARM_TEXT),
        (KeyChange::LostAtFailover, _) => ("lost at its resync".to_owned(), ALARM_TEXT),
        (KeyChange::Changed, Some(by)) => (format!("taken over by {by}"), INK),
        (KeyChange::Changed, None) | (KeyChange::Extended, _) => return,
    };
    if pass != (fill != GREY) {
        return;
    }
    let x = scale.x(key.at.at);
    let (y, bottom) = (lane.bar() - 2, lane.bar() + lane.bar_height() + 2);
    if fill != GREY {
        let colour = if fill == ALARM_TEXT { ALARM } else { INK };
        canvas.line((x, y), (x, bottom), &format!("stroke=\"{colour}\" stroke-width=\"2.5\""));
    }
    row.place(canvas, lane.caption(), &Label { x, side: Side::Middle, fill, text });
}

fn down(
    canvas: &mut Canvas,
    witness: &Witness<'_>,
    scale: &Scale,
    lane: &Lane,
    row: &mut LabelRow,
) {
    let fault_intervals = witness.history().fault_intervals.iter();
    for interval in fault_intervals.filter(|c| c.verb.kills() && c.touches(&lane.name)) {
        let end = interval.to.map_or(witness.history().end.at, |to| to.at);
        let Some(span) = scale.span(interval.from.at, end) else { continue };
        let (y, height) = (lane.bar() - 3, lane.bar_height() + 6);
        canvas.rect(span, y, height, "fill=\"#ffffff\" fill-opacity=\".75\"");
        canvas.named_rect(span, y, height, "fill=\"url(#still)\"", interval.verb.word());
        let style = format!("stroke=\"{ALARM}\" stroke-width=\"2.5\" fill=\"none\"");
        canvas.cross((span.0, lane.middle()), 60, &style);
        let text = interval.verb.word().to_owned();
        let label = Label { x: span.0, side: Side::End, fill: ALARM_TEXT, text };
        row.place(canvas, lane.caption(), &label);
    }
}
