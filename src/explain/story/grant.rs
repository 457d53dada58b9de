//! Which callers were granted the lock, how long the grants were valid, and when too many held it.

use lockstorm_platform::time::{Instant, Nanos};
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::check::verdict::Kind;
use crate::explain::answers::Answers;
use crate::explain::evidence::Evidence;
use crate::explain::hold::{StoryHold, op};
use crate::explain::life::StoryLife;
use crate::explain::share;
use crate::explain::story::{Beat, Weight};
use crate::explain::votes::votes;
use crate::explain::witness::Witness;
use crate::history::{Key, Op, OpId, Outcome};
use crate::quantity::{list, moment, span};
use crate::reading::hold::HoldEnd;

/// The grants of the story, and their overlap.
pub fn beats(witness: &Witness<'_>) -> Vec<Beat> {
    let mut beats: Vec<Beat> =
        witness.cast().into_iter().filter_map(|grant| granted(witness, grant)).collect();
    beats.extend(overlap(witness));
    beats.extend(of_harm(witness));
    beats.extend(fences(witness));
    beats.extend(gives_up(witness));
    beats
}

/// The grants that no other beat shows, of two kinds: those of the last two accesses of the
/// corruption (the access that was undone, and the one that undid it), and those of a fence
/// regress. The overlap that loses an update need not be the first one.
fn of_harm(witness: &Witness<'_>) -> Vec<Beat> {
    let accesses = witness.harm().map_or(&[][..], |harm| &harm.accesses);
    let last = accesses.iter().rev().take(2);
    let grants = last.filter_map(|access| witness.history().accesses[*access].grant);
    let regress = witness.of_kind(Kind::FenceRegress).next();
    let grants = grants.chain(regress.iter().flat_map(|regress| regress.ops.iter().copied()));
    let cast = witness.cast();
    let is_in_cast =
        |grant: OpId| cast.iter().any(|member| witness.reading.are_one(member.id, grant));
    let mut missing: Vec<OpId> = grants.filter(|grant| !is_in_cast(*grant)).collect();
    missing.sort_unstable();
    missing.dedup();
    let ops = missing.into_iter().filter_map(|grant| op(witness.history(), grant));
    let beats = ops.filter_map(|grant| granted(witness, grant));
    beats.map(|beat| Beat { weight: Weight::Cause, ..beat }).collect()
}

/// The sentence for one grant: on which nodes it set the key, and until when it is valid.
pub fn granted(witness: &Witness<'_>, grant: &Op) -> Option<Beat> {
    let hold = witness.hold(grant.id)?;
    let (nodes, mut evidence) = nodes_of(witness, grant.id, hold.from);
    evidence.insert(0, Evidence::Op(grant.id));
    let on = match nodes.is_empty() {
        true => shared_key(witness, grant, &mut evidence)
            .or_else(|| read_key(witness, grant, &mut evidence))
            .unwrap_or_default(),
        false => format!(" on {}", list(&nodes)),
    };
    let beside = witness.holds.iter().find(|other| {
        other.grant.caller != grant.caller && other.from < hold.from && hold.from < other.until
    });
    let also = match beside {
        Some(other) if witness.overlap().is_none() => {
            evidence.push(Evidence::Op(other.grant.id));
            let (other, shared) = (&other.grant.caller, grant.shared && other.grant.shared);
            match witness.finding.promise.holders > 1 || shared {
                true => format!(", beside {other}"),
                false => format!(", while {other} still believes it holds it"),
            }
        }
        _ => String::new(),
    };
    let what = if grant.keys.is_empty() { "the lock".to_owned() } else { list(&grant.keys) };
    // Of a group, the nodes are those of the key that the violation concerns.
    let on = match &violation_key(witness) {
        Some(key) if !on.is_empty() => format!(" ({key}{on})"),
        _ => on,
    };
    let mode = if grant.shared { " in shared mode" } else { "" };
    let term = term(witness, hold);
    let text = format!("{} is granted {what}{mode}{on}{also}{term}.", grant.caller);
    let weight = if witness.is_actor(grant.id) { Weight::Crux } else { Weight::Cause };
    Some(Beat::new(weight, hold.from, text, evidence))
}

/// The node that let an acquire in by a key that another had set, and whose key that was.
fn shared_key(witness: &Witness<'_>, grant: &Op, evidence: &mut Vec<Evidence>) -> Option<String> {
    let (node, at) = share::decided(witness, grant)?;
    let life = share::key_of(witness, grant, (node, at)).filter(|life| at < life.until)?;
    let owner = op(witness.history(), life.owner?).filter(|owner| owner.id != grant.id)?;
    evidence.push(Evidence::Key(life.born));
    let whose = match owner.caller == grant.caller {
        true => "its own older key".to_owned(),
        false => format!("{}'s key", owner.caller),
    };
    Some(format!(" on {node}, sharing {whose}"))
}

/// The node that let an acquire in by a key of another with the same owner value.
fn read_key(witness: &Witness<'_>, grant: &Op, evidence: &mut Vec<Evidence>) -> Option<String> {
    let life = share::read_as_own(witness, grant)?;
    evidence.push(Evidence::Key(life.born));
    let whose = witness.caller(life.owner?)?;
    Some(format!(" on {}, by {whose}'s key with the same owner value", life.node))
}

fn violation_key(witness: &Witness<'_>) -> Option<String> {
    witness.primary.and_then(|primary| primary.key.clone())
}

/// That a key was set with no time to live. Of a member, only its collection can have one.
pub fn endless(witness: &Witness<'_>, life: &StoryLife) -> &'static str {
    let is_member = witness.history().keys[life.born].of.is_some();
    if life.until_ms.is_none() && !is_member { ", with no time to live" } else { "" }
}

/// The sentence for a key that an acquire set before it returned, or although it was never granted.
pub fn early_key(witness: &Witness<'_>, owner: &Op, life: &StoryLife) -> Beat {
    let term = endless(witness, life);
    let end = match (&owner.outcome, owner.ret) {
        (Outcome::Granted { .. }, Some(ret)) => format!("is granted at {}", moment(ret.at)),
        (Outcome::Pending, _) => "never returns".to_owned(),
        (Outcome::Unknown, ret) => {
            let is_over = ret.filter(|ret| ret.instant() < life.from);
            match (witness.answers(owner), is_over) {
                (Answers::None, None) => "ends without an answer".to_owned(),
                (Answers::None, Some(ret)) => {
                    format!("had ended without an answer at {}", moment(ret.at))
                }
                (_, None) => "returns with an unknown outcome".to_owned(),
                (_, Some(ret)) => {
                    format!("had returned with an unknown outcome at {}", moment(ret.at))
                }
            }
        }
        _ => "is refused all the same".to_owned(),
    };
    let sets = match witness.history().keys[life.born].change {
        KeyChange::Changed => "takes over",
        _ => "sets",
    };
    let (who, node) = (&owner.caller, &life.node);
    let text = format!("{who}'s acquire {sets} the key on {node}{term}; it {end}.");
    let evidence = vec![Evidence::Op(owner.id), Evidence::Key(life.born)];
    Beat::new(Weight::Crux, life.from, text, evidence)
}

/// The nodes on which an acquire's own requests set the key before it returned: those of its votes
/// if it needed a quorum. Nodes that received the key by replication are left out.
fn nodes_of(witness: &Witness<'_>, grant: OpId, until: Instant) -> (Vec<String>, Vec<Evidence>) {
    let set = witness.history().keys.iter().enumerate().filter(|(_, key)| {
        let is_set = || key.change == KeyChange::Set || share::takes_permit(witness, key);
        key.by == Some(grant) && key.at < until && is_set()
    });
    let (mut nodes, mut evidence) = (Vec::<String>::new(), Vec::new());
    let votes = votes(witness, grant);
    let counts = |index: usize| votes.as_ref().is_none_or(|votes| votes.contains(&index));
    for (index, key) in set {
        let lock = witness.reading.lock_key;
        let is_lock = key.key == lock || key.of.as_deref() == Some(lock);
        if is_lock
            && counts(index)
            && !nodes.iter().any(|node| *node == key.node)
            && set_by_request(witness, grant, key)
        {
            nodes.push(key.node.to_string());
            evidence.push(Evidence::Key(index));
        }
    }
    (nodes, evidence)
}

/// Whether it was a request of the acquire to that node that set the key.
fn set_by_request(witness: &Witness<'_>, grant: OpId, key: &Key) -> bool {
    witness.reading.requests_of(grant).iter().any(|request| {
        let sent = request.legs.first().is_some_and(|(_, at)| *at < key.at);
        let done = request.at(Leg::Applied).is_some_and(|at| at >= key.at);
        request.to == key.node && !request.declined && sent && done
    })
}

fn term(witness: &Witness<'_>, hold: &StoryHold<'_>) -> String {
    let Outcome::Granted { deadline, fence, .. } = &hold.grant.outcome else {
        return String::new();
    };
    let fence = fence.map_or_else(String::new, |fence| format!(" with fence {fence}"));
    match (deadline, hold.lease) {
        (None, _) => format!("{fence}, without a lease"),
        (_, Some(lease)) if lease <= hold.from.at => {
            format!("{fence}; the grant is dead on arrival")
        }
        (_, Some(lease)) => {
            let mut kept = witness.reading.ops_of(hold.grant.id);
            let first = match kept.any(|op| matches!(op.outcome, Outcome::Kept { .. })) {
                true => "first lease",
                false => "lease",
            };
            let goes = match as_it_ran(witness, hold) == Some(lease) {
                true => "",
                false => " by its own clock",
            };
            format!("{fence}; its {first} runs until {}{goes}", moment(lease))
        }
        (_, None) => format!("{fence}; its lease never ends by its own clock, which has stopped"),
    }
}

/// When the granted lease would have ended if its clock had gone on as it went at the acquire's
/// call.
fn as_it_ran(witness: &Witness<'_>, hold: &StoryHold<'_>) -> Option<Nanos> {
    let Outcome::Granted { deadline: Some((clock, deadline)), .. } = hold.grant.outcome else {
        return None;
    };
    let clocks = &witness.reading.clocks;
    clocks.line(&hold.grant.process, clock, hold.grant.call.into())?.reaches(deadline)
}

fn overlap(witness: &Witness<'_>) -> Option<Beat> {
    let (from, to) = witness.overlap()?;
    let mut holds: Vec<&StoryHold<'_>> =
        witness.actors.iter().filter_map(|grant| witness.hold(grant.id)).collect();
    holds.sort_by_key(|hold| hold.from);
    let mut who: Vec<String> = Vec::new();
    for hold in &holds {
        if !who.contains(&hold.grant.caller) {
            who.push(hold.grant.caller.clone());
        }
    }
    let who = match holds[..] {
        [_, _] => format!("{} both", list(&who)),
        _ if witness.finding.promise.holders > 1 => {
            format!("more than {} of {}", witness.finding.promise.holders, list(&who))
        }
        _ => format!("more than one of {}", list(&who)),
    };
    let mut evidence: Vec<Evidence> = holds.iter().map(|h| Evidence::Op(h.grant.id)).collect();
    let (begun, over) = together(&holds, witness.finding.promise.holders as usize)?;
    let (at, text) = match leased(witness, &holds, (from.at, to.at)) {
        Some(text) => (from, text),
        None => (begun, believed(&who, begun, over, &mut evidence)),
    };
    // The grant that begins the overlap has the same instant and must come first in the story.
    let at = Instant { seq: at.seq.saturating_add(1), at: at.at };
    Some(Beat::new(Weight::Crux, at, text, evidence))
}

/// When more callers than allowed begin to hold the lock, and the hold whose end ends that.
fn together<'a, 'b>(
    holds: &[&'b StoryHold<'a>],
    most: usize,
) -> Option<(Instant, &'b StoryHold<'a>)> {
    let are_too_many = |at: Instant| {
        let open = || holds.iter().filter(|hold| hold.from <= at && at < hold.until);
        // Any number may share the lock.
        open().count() > most && !open().all(|hold| hold.grant.shared)
    };
    let begun = holds.iter().map(|hold| hold.from).find(|at| are_too_many(*at))?;
    let mut ends: Vec<&&StoryHold<'_>> = holds.iter().filter(|hold| hold.until > begun).collect();
    ends.sort_by_key(|hold| hold.until);
    ends.into_iter().find(|hold| !are_too_many(hold.until)).map(|hold| (begun, *hold))
}

/// The sentence for two holders that are both within their leases until one lease expires, before
/// either hold ends.
fn leased(
    witness: &Witness<'_>,
    holds: &[&StoryHold<'_>],
    (from, to): (Nanos, Nanos),
) -> Option<String> {
    let [one, other] = holds else { return None };
    let is_double = witness.primary?.kind == Kind::DoubleGrant;
    let part = |hold: &StoryHold<'_>| {
        hold.covered.iter().copied().find(|(begun, end)| *begun <= from && to <= *end)
    };
    let (first, second) = (part(one)?, part(other)?);
    let ends = if first.1 == to { one } else { other };
    let is_over = first.1.min(second.1) == to && to < one.until.at.min(other.until.at);
    (is_double && is_over && from < to).then(|| {
        format!(
            "From here on {} and {} both have the lock within their leases, for {}, until {}'s \
             lease is over at {}.",
            one.grant.caller,
            other.grant.caller,
            span(to - from),
            ends.grant.caller,
            moment(to),
        )
    })
}

fn believed(
    who: &str,
    begun: Instant,
    over: &StoryHold<'_>,
    evidence: &mut Vec<Evidence>,
) -> String {
    evidence.extend(match over.end {
        HoldEnd::Released(id) | HoldEnd::Lost(id) => Some(Evidence::Op(id)),
        HoldEnd::Died(interval) => interval.map(Evidence::FaultInterval),
        HoldEnd::Open => None,
    });
    let why = match over.end {
        HoldEnd::Released(_) => format!("{} releases it", over.grant.caller),
        HoldEnd::Lost(_) => format!("{} learns of its loss", over.grant.caller),
        HoldEnd::Died(_) => format!("{} dies", over.grant.caller),
        HoldEnd::Open => "the run ends".to_owned(),
    };
    format!(
        "From here on {who} believe they hold the lock, for {}, until {why} at {}.",
        span(over.until.at.saturating_sub(begun.at)),
        moment(over.until.at),
    )
}

/// The end of a hold that outlived its lease and made no access since another caller was granted
/// the lock.
fn gives_up(witness: &Witness<'_>) -> Option<Beat> {
    let hold = witness.idle()?;
    let (who, what) = (&hold.grant.caller, "without an access since another was let in");
    let (text, id) = match hold.end {
        HoldEnd::Released(id) => (format!("{who} releases the lock, {what}."), id),
        HoldEnd::Lost(id) => (format!("{who} learns that the lock is lost, {what}."), id),
        HoldEnd::Died(_) | HoldEnd::Open => return None,
    };
    let evidence = vec![Evidence::Op(hold.grant.id), Evidence::Op(id)];
    Some(Beat::new(Weight::Cause, hold.until, text, evidence))
}

fn fences(witness: &Witness<'_>) -> Option<Beat> {
    let violation = witness.of_kind(Kind::FenceRegress).next()?;
    let [(first, larger), (second, smaller)] = witness.regress(violation)?;
    let text = format!(
        "{}'s fence {smaller} is not above {}'s fence {larger}.",
        second.caller, first.caller,
    );
    let evidence = vec![Evidence::Op(first.id), Evidence::Op(second.id)];
    Some(Beat::new(Weight::Crux, second.ret?.instant(), text, evidence))
}
