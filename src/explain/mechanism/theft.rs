//! Why a command could change the key of another caller.

use lockstorm_platform::trace::{KeyChange, Leg};

use crate::explain::evidence::Evidence;
use crate::explain::hold::{late_by, op};
use crate::explain::life::StoryLife;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::mechanism::reclaim::{Reclaim, reclaimed};
use crate::explain::witness::Witness;
use crate::history::{Key, Op, OpId, OpKind, Outcome, Request};
use crate::quantity::{length, moment};

/// Commands by which a caller may read the owner of a key.
const LOOKS: [&str; 20] = [
    "EXISTS",
    "GET",
    "GETRANGE",
    "HEXISTS",
    "HGET",
    "HGETALL",
    "HKEYS",
    "HLEN",
    "HMGET",
    "HSTRLEN",
    "HVALS",
    "LINDEX",
    "LRANGE",
    "MGET",
    "SISMEMBER",
    "SMEMBERS",
    "STRLEN",
    "SUBSTR",
    "ZRANGE",
    "ZSCORE",
];

/// Commands that delete or change a key only if it has a certain value.
const COMPARES: [&str; 2] = ["DELEX", "DELIFEQ"];

/// Why a command could change a key although the key was the victim's.
pub fn stolen(witness: &Witness<'_>, index: usize, victim: OpId) -> Option<Mechanism> {
    match reclaimed(witness, index, victim) {
        Some(Reclaim::Early(found)) => Some(found),
        _ => released_refused(witness, index, victim).or_else(|| unchecked(witness, index, victim)),
    }
}

/// A release of what its caller was refused, which struck the key of another.
fn released_refused(witness: &Witness<'_>, index: usize, victim: OpId) -> Option<Mechanism> {
    let key = witness.history().keys.get(index)?;
    let thief = op(witness.history(), key.by?)?;
    let OpKind::Release { grant } = thief.kind else { return None };
    let text = format!(
        "{} released at {} what it had been refused, and struck {}'s key on {}: the caller is \
         wrong here.",
        thief.caller,
        moment(thief.call.at),
        witness.caller(victim)?,
        key.node
    );
    let ops = [thief.id, grant, victim].map(Evidence::Op);
    let evidence = ops.into_iter().chain([Evidence::Key(index)]).collect();
    let is_refused = witness.reading.releases_refused(thief);
    is_refused.then(|| Mechanism::new(How::ReleasedRefused, text, evidence))
}

/// The change by which an extend that returned as kept struck only the key of another caller, and
/// the acquire of that one.
pub fn kept_by_another(witness: &Witness<'_>, extend: &Op) -> Option<(usize, OpId)> {
    let is_kept = matches!(extend.kind, OpKind::Extend { .. })
        && matches!(extend.outcome, Outcome::Kept { .. });
    let whose = |key: &Key| {
        let is_it = |life: &&StoryLife| life.node == key.node && life.from < key.at;
        let owner = witness.lives.iter().rfind(is_it)?.owner?;
        (witness.caller(owner) != Some(&extend.caller)).then_some(owner)
    };
    let keys = witness.history().keys.iter().enumerate();
    let by = keys.filter(|(_, key)| key.by == Some(extend.id) && witness.reading.is_of_lock(key));
    let own: Vec<(usize, Option<OpId>)> = by
        .filter(|(_, key)| matches!(key.change, KeyChange::Extended | KeyChange::Changed))
        .map(|(index, key)| (index, whose(key)))
        .collect();
    let (index, victim) = own.first().filter(|_| is_kept)?;
    own.iter().all(|(_, owner)| owner.is_some()).then_some((*index, (*victim)?))
}

/// Which operation sent a command, if it was no release, and how long the command was on its way: a
/// reader expects a release to free a key.
fn way(thief: &Op, key: &Key, last: &Request) -> String {
    let late = late_by(last).map(|ns| format!("{} on its way", length(ns)));
    let by = match thief.kind {
        OpKind::Acquire if key.change != KeyChange::Set => Some("sent by its acquire".to_owned()),
        OpKind::Extend { background: true, .. } => Some("sent by its renewal".to_owned()),
        OpKind::Extend { .. } => Some("sent by its extend".to_owned()),
        _ => None,
    };
    let aside: Vec<String> = by.into_iter().chain(late).collect();
    if aside.is_empty() { String::new() } else { format!(", {},", aside.join(", ")) }
}

/// What a script that changed another's key knew of the owner: one that puts the key back knew it.
fn passed(thief: &Op) -> &'static str {
    match thief.outcome {
        Outcome::NotMine => ", and reported that nothing was its own",
        Outcome::Refused { .. } => ", and its caller was refused",
        _ => ": if it checks the owner, the check passed",
    }
}

/// The same where no clock explains it: how the command checks the owner.
fn unchecked(witness: &Witness<'_>, index: usize, victim: OpId) -> Option<Mechanism> {
    let history = witness.history();
    let key = history.keys.get(index)?;
    let thief = op(history, key.by?)?;
    let evidence = vec![Evidence::Op(thief.id), Evidence::Op(victim), Evidence::Key(index)];
    let (who, whose) = (&thief.caller, witness.caller(victim)?);
    let token = |id: OpId| op(history, id)?.owner_value();
    // A refused acquire says no value; its caller's other acquires may show it.
    let others = || history.ops.iter().filter(|op| op.caller == thief.caller);
    let is_shown = || others().any(|op| op.token().is_some() && op.token() == token(victim));
    let own = thief.grant().and_then(token);
    let own = own.or_else(|| token(victim).filter(|_| thief.is_refused() && is_shown()));
    // The request went to the node itself, or to the master that it replicates.
    let all = witness.reading.requests_of(thief.id);
    let is_queried = all.iter().any(|r| r.to == key.node);
    let sent = all.iter().filter(|r| !is_queried || r.to == key.node);
    let mut requests = sent.filter(|r| r.at(Leg::Applied).is_some_and(|at| at.at <= key.at.at));
    let last = requests.next_back()?;
    // A look after the key was set saw that key, so only an earlier look was outdated.
    let born = witness.lives.iter().rfind(|life| life.node == key.node && life.from < key.at);
    let born = born.map(|life| life.from);
    let looks: Vec<_> =
        requests.filter(|request| LOOKS.contains(&request.command.as_str())).collect();
    let has_looked = looks.iter().any(|request| {
        request.at(Leg::Applied).is_some_and(|at| born.is_none_or(|born| at < born))
    });
    let way = way(thief, key, last);
    let (command, node) = (&last.command, &key.node);
    // EXEC counts as a script, but a transaction compares no values.
    let is_sent_whole = last.is_script() && command != "EXEC";
    let compares = is_sent_whole || COMPARES.contains(&command.as_str());
    // An extend that looked first took the key for its own; an acquire looks whether it is free.
    let overwrites = match thief.kind {
        OpKind::Acquire => true,
        OpKind::Extend { .. } => compares || !has_looked,
        _ => false,
    };
    let (how, text) = match compares {
        // Equal values deceive only a caller that compares them.
        _ if (compares || !looks.is_empty()) && own.is_some() && own == token(victim) => (
            How::SameOwner,
            format!(
                "{who}'s {command}{way} struck {whose}'s key on {node}: both have the same owner \
                 value."
            ),
        ),
        _ if overwrites && key.change == KeyChange::Set => (
            How::Overwritten,
            format!("{who}'s {command}{way} set the key on {node} over {whose}'s."),
        ),
        true => (
            How::BlindCommand,
            format!("{who}'s {command}{way} changed {whose}'s key on {node}{}.", passed(thief)),
        ),
        false if has_looked => (
            How::CheckedTooEarly,
            format!(
                "{who} checked the owner of the key before its {command}{way} and not in the same \
                 step: it struck {whose}'s on {node}."
            ),
        ),
        false => (
            How::BlindCommand,
            format!(
                "{who}'s {command}{way} does not check the owner of the key: it struck \
                 {whose}'s on {node}."
            ),
        ),
    };
    Some(Mechanism::new(how, text, evidence))
}
