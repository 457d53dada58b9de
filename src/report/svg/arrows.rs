//! Messages as slanted arrows between lanes; a lost message ends in a cross on its way.

use std::collections::BTreeSet;

use lockstorm_platform::time::{Instant, Nanos};
use lockstorm_platform::trace::Leg;

use crate::explain::hold::op;
use crate::explain::witness::Witness;
use crate::history::{OpId, Request};
use crate::report::svg::canvas::{Canvas, Tenths};
use crate::report::svg::layout::Lane;
use crate::report::svg::palette::{ALARM, hue_of};
use crate::report::svg::scale::Scale;

/// With more requests than this in view, only the relevant ones are drawn.
const MANY: usize = 48;
/// How far a lost message is drawn to the right; how far it really came is unknown.
const DRIFT: Tenths = 40;

/// Paints the messages in view.
pub fn paint(canvas: &mut Canvas, witness: &Witness<'_>, scale: &Scale, lanes: &[Lane]) {
    let all: Vec<&Request> =
        witness.history().requests.iter().filter(|request| in_view(scale, request)).collect();
    for request in chosen(witness, all) {
        let lane = |name: &str| lanes.iter().find(|lane| lane.name == name);
        if let (Some(from), Some(to)) = (lane(sender(witness, request)), lane(&request.to)) {
            exchange(canvas, witness, scale, request, (from, to));
        }
    }
}

/// The caller that sent a request, or its host if that belongs to no operation.
fn sender<'a>(witness: &Witness<'a>, request: &'a Request) -> &'a str {
    let own = op(witness.history(), request.op).filter(|op| request.from == op.process);
    own.map_or(&*request.from, |op| &op.caller)
}

/// All requests if they are few; otherwise those of grants; otherwise those of the grants of the
/// story.
fn chosen<'a>(witness: &Witness<'_>, all: Vec<&'a Request>) -> Vec<&'a Request> {
    if all.len() <= MANY {
        return all;
    }
    let granted: BTreeSet<OpId> = witness.holds.iter().map(|hold| hold.grant.id).collect();
    let actors: BTreeSet<OpId> = witness.actors.iter().map(|grant| grant.id).collect();
    let of = |grants: &BTreeSet<OpId>| -> Vec<&'a Request> {
        all.iter().copied().filter(|request| serves(witness, request.op, grants)).collect()
    };
    let some = of(&granted);
    if some.len() <= 2 * MANY { some } else { of(&actors) }
}

fn in_view(scale: &Scale, request: &Request) -> bool {
    let at = |leg: Option<&(Leg, Instant)>| leg.map(|(_, at)| at.at);
    let (first, last) = (at(request.legs.first()), at(request.legs.last()));
    first.is_some_and(|first| first <= scale.to) && last.is_some_and(|last| last >= scale.from)
}

/// Whether an operation acquires, extends or releases one of these grants.
fn serves(witness: &Witness<'_>, id: OpId, grants: &BTreeSet<OpId>) -> bool {
    op(witness.history(), id).is_some_and(|op| {
        !op.kind.is_access() && op.grant().is_some_and(|grant| grants.contains(&grant))
    })
}

/// The height at which a message meets a client's lane: the edge of its bar while it holds,
/// otherwise the line.
fn edge(witness: &Witness<'_>, lane: &Lane, at: Nanos) -> i64 {
    let holds = witness
        .holds
        .iter()
        .any(|hold| hold.grant.caller == lane.name && hold.from.at <= at && at <= hold.until.at);
    if holds { lane.bar() + lane.bar_height() } else { lane.middle() + 5 }
}

fn exchange(
    canvas: &mut Canvas,
    witness: &Witness<'_>,
    scale: &Scale,
    request: &Request,
    ends: (&Lane, &Lane),
) {
    let (client, node) = ends;
    let at = |leg: Leg| request.at(leg).map(|at| at.at);
    let below = node.bar();
    let hue = hue_of(&client.name).fill;
    let mut way = |start: Option<Nanos>, end: Option<Nanos>, from: i64, to: i64| {
        let Some(start) = start else { return };
        match end {
            Some(end) if scale.shows(start) || scale.shows(end) => {
                arrow(canvas, (scale.x(start), from), (scale.x(end), to), hue);
            }
            None if scale.shows(start) => lost(canvas, (scale.x(start), from), to, hue),
            _ => {}
        }
    };
    let meets = |at: Option<Nanos>| at.map_or(client.middle() + 5, |at| edge(witness, client, at));
    way(at(Leg::Unsent), None, meets(at(Leg::Unsent)), below);
    way(at(Leg::Sent), at(Leg::Applied), meets(at(Leg::Sent)), below);
    way(at(Leg::Replied), at(Leg::Delivered), below, meets(at(Leg::Delivered)));
}

fn arrow(canvas: &mut Canvas, from: (Tenths, i64), to: (Tenths, i64), colour: &str) {
    let style = format!("stroke=\"{colour}\" stroke-width=\"1.1\" stroke-opacity=\".75\"");
    canvas.line(from, to, &style);
    let (dx, dy) = (to.0 - from.0, (to.1 - from.1) * 10);
    let long = (dx * dx + dy * dy).unsigned_abs().isqrt().max(1);
    let long = Tenths::try_from(long).unwrap_or(Tenths::MAX);
    let (tip_x, tip_y) = (to.0, to.1 * 10);
    let (back_x, back_y) = (tip_x - dx * 65 / long, tip_y - dy * 65 / long);
    let (side_x, side_y) = (dy * 26 / long, dx * 26 / long);
    let head =
        [(tip_x, tip_y), (back_x + side_x, back_y - side_y), (back_x - side_x, back_y + side_y)];
    canvas.polygon(&head, &format!("fill=\"{colour}\""));
}

fn lost(canvas: &mut Canvas, from: (Tenths, i64), to: i64, colour: &str) {
    let end = (from.0 + DRIFT, if to > from.1 { to - 9 } else { to + 9 });
    let style = format!("stroke=\"{colour}\" stroke-width=\"1.1\" stroke-dasharray=\"5 2\"");
    canvas.line(from, end, &style);
    let style = format!("stroke=\"{ALARM}\" stroke-width=\"2\" fill=\"none\"");
    canvas.cross(end, 40, &style);
}
