//! Renewals that took effect after their owner had released the lock, or that set the key again.

use lockstorm_platform::trace::Leg;

use crate::check::verdict::{Kind, Violation};
use crate::explain::evidence::Evidence;
use crate::explain::hold::op;
use crate::explain::story::{Beat, Weight};
use crate::explain::witness::Witness;
use crate::history::{OpKind, Outcome};
use crate::quantity::{list, moment};

/// The events that the violations of this kind rest on.
pub fn beats(witness: &Witness<'_>) -> Vec<Beat> {
    let late = witness.of_kind(Kind::RenewalAfterRelease);
    late.flat_map(|violation| [given_back(witness, violation), renewed(witness, violation)])
        .flatten()
        .collect()
}

fn given_back(witness: &Witness<'_>, violation: &Violation) -> Option<Beat> {
    let release = witness.release(violation)?;
    let ret = release.ret?;
    let (who, at) = (&release.caller, moment(release.call.at));
    let text = match release.outcome {
        Outcome::Unknown | Outcome::Pending => {
            format!("{who} begins to release the lock at {at}, and gives up on the reply here.")
        }
        _ => format!("{who} begins to release the lock at {at}, and receives the reply here."),
    };
    Some(Beat::new(Weight::Crux, ret.instant(), text, vec![Evidence::Op(release.id)]))
}

/// The renewal, with its path to the node if known.
fn renewed(witness: &Witness<'_>, violation: &Violation) -> Option<Beat> {
    let history = witness.history();
    let mut ops = violation.ops.iter().filter_map(|id| op(history, *id));
    let extend = ops.find(|op| matches!(op.kind, OpKind::Extend { .. }))?;
    let keys = violation.keys.iter().filter_map(|index| history.keys.get(*index));
    let mut nodes: Vec<String> = keys.map(|key| key.node.to_string()).collect();
    nodes.dedup();
    let mut evidence = vec![Evidence::Op(extend.id)];
    evidence.extend(violation.keys.iter().map(|index| Evidence::Key(*index)));
    let mut requests = history.requests.iter().enumerate();
    let sent = requests
        .find(|(_, request)| request.op == extend.id && nodes.iter().any(|n| *n == request.to));
    let sent = sent.and_then(|(index, request)| {
        let (leg, at) = request.legs.first()?;
        (*leg == Leg::Sent).then(|| {
            evidence.push(Evidence::Request(index));
            format!(", sent at {},", moment(at.at))
        })
    });
    let born = |index: &usize| witness.lives.iter().any(|life| life.born == *index);
    let does = match violation.keys.iter().any(born) {
        true => "sets the key again",
        false => "prolongs the key",
    };
    let text = format!(
        "{}'s renewal{} {does} on {}.",
        extend.caller,
        sent.unwrap_or_default(),
        list(&nodes)
    );
    Some(Beat::new(Weight::Crux, violation.from, text, evidence))
}
