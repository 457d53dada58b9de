//! What the last renewal of a holder came to: it failed, or it was reported as kept in vain.

use lockstorm_platform::trace::Leg;

use crate::explain::evidence::Evidence;
use crate::explain::hold::StoryHold;
use crate::explain::mechanism::clock::ops;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::witness::Witness;
use crate::history::{Op, OpKind, Outcome};
use crate::quantity::moment;
use crate::reading::moment::Moment;

/// Whether the last renewal between two moments returned as kept but extended nothing.
pub fn lied(
    witness: &Witness<'_>,
    hold: &StoryHold<'_>,
    (from, to): (Moment, Moment),
) -> Option<Mechanism> {
    let is_kept = |op: &&Op| {
        matches!(op.outcome, Outcome::Kept { .. })
            && from <= op.call.into()
            && op.ret.is_some_and(|ret| Moment::from(ret) <= to)
    };
    let mut kept = ops(witness, hold).into_iter().filter(is_kept);
    let last = kept.rfind(|op| matches!(op.kind, OpKind::Extend { .. }))?;
    let lock_key = witness.reading.lock_key;
    if witness.history().keys.iter().any(|key| key.by == Some(last.id) && key.key == lock_key) {
        return None;
    }
    let who = &hold.grant.caller;
    let text = format!(
        "{who} learned at {} that its lease is extended, and the lock's key was not.",
        last.ret.map_or_else(String::new, |ret| moment(ret.at))
    );
    Some(Mechanism::new(How::RenewalLied, text, vec![Evidence::Op(last.id)]))
}

/// Whether the last renewal that was called before a moment failed.
pub fn renewal(witness: &Witness<'_>, hold: &StoryHold<'_>, at: Moment) -> Option<Mechanism> {
    let mut extends = ops(witness, hold)
        .into_iter()
        .filter(|op| matches!(op.kind, OpKind::Extend { .. }) && Moment::from(op.call) < at);
    let last = extends.next_back()?;
    if matches!(last.outcome, Outcome::Kept { .. }) {
        return None;
    }
    let mut requests = witness.history().requests.iter().enumerate();
    let refused = requests.rfind(|(_, request)| request.op == last.id && request.declined);
    let who = &hold.grant.caller;
    let is_background = matches!(last.kind, OpKind::Extend { background: true, .. });
    let extend = if is_background { "renewal" } else { "extend" };
    if let Some((index, request)) = refused {
        let what = request.answer.as_deref().unwrap_or("an error");
        let text = format!(
            "{} answered the {} of {who}'s {extend} at {} with {what}, and its lease ran out.",
            request.to,
            request.command,
            moment(last.call.at)
        );
        let evidence = vec![Evidence::Op(last.id), Evidence::Request(index)];
        let how = if what == "NOSCRIPT" { How::ScriptUnknown } else { How::RenewalFailed };
        return Some(Mechanism::new(how, text, evidence));
    }
    let what = match last.outcome {
        Outcome::Lost if let Some(what) = came_late(witness, last, at) => {
            let text = format!("{who}'s {extend} at {} {what}.", moment(last.call.at));
            return Some(Mechanism::new(How::RenewalFailed, text, vec![Evidence::Op(last.id)]));
        }
        Outcome::Lost => "was refused".to_owned(),
        Outcome::Unknown | Outcome::Pending => witness.answers(last).in_words(),
        _ => return None,
    };
    let text =
        format!("{who}'s {extend} at {} {what}, and its lease ran out.", moment(last.call.at));
    Some(Mechanism::new(How::RenewalFailed, text, vec![Evidence::Op(last.id)]))
}

/// Whether the first request of a renewal came to its node only after a moment, that of the end of
/// the lease.
fn came_late(witness: &Witness<'_>, renewal: &Op, over: Moment) -> Option<String> {
    let (_, first) = witness.history().first_request(renewal.id)?;
    let came = first.at(Leg::Applied).filter(|came| Moment::from(*came) > over)?;
    Some(format!("came to {} only at {}, after its lease had run out", first.to, moment(came.at)))
}
