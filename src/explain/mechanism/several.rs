//! How one caller too many came to hold a lock that several callers may hold: some are in shared
//! mode, or there are several permits.
//!
//! Either each holder has a member of the lock's key, or they share the key. A shared key may be
//! that of another caller: see [`share`](crate::explain::share).

use lockstorm_platform::time::Instant;
use lockstorm_platform::trace::KeyChange;

use crate::check::verdict::{Kind, Violation};
use crate::explain::evidence::Evidence;
use crate::explain::hold::{StoryHold, op};
use crate::explain::life::StoryLife;
use crate::explain::mechanism::at_once;
use crate::explain::mechanism::belief::{belief, dead};
use crate::explain::mechanism::ending::{KeyEnding, ending};
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::share;
use crate::explain::witness::Witness;
use crate::history::{Key, Op, OpKind};
use crate::quantity::{count, list, moment};
use crate::reading::moment::Moment;

/// How one caller more than allowed was granted the lock: a holder was past its lease, or else what
/// the holders had the lock by was gone, or admitted one too many. `set` has the first change by
/// which a tenure got the lock, with its index.
pub fn mechanism<'a>(
    witness: &Witness<'a>,
    violation: &Violation,
    set: impl Fn(&StoryHold<'_>) -> Option<(usize, &'a Key)>,
) -> Option<Mechanism> {
    let last = newcomer(witness, violation)?;
    let at = match violation.kind {
        Kind::DoubleGrant => last.from.into(),
        _ => Moment::from(violation.from),
    };
    let named = witness.tenures.iter().filter(|hold| {
        let mut ops = violation.ops.iter();
        let is_other = hold.grant.id != last.grant.id && hold.from <= violation.to;
        is_other && ops.any(|op| witness.is_of(hold, *op))
    });
    let named: Vec<&StoryHold<'a>> = named.collect();
    let conflicts = |hold: &StoryHold<'_>| !hold.grant.shared || !last.grant.shared;
    let is_within = |hold: &&StoryHold<'_>| {
        conflicts(hold) && hold.from <= last.from && covers(witness, hold, at)
    };
    // It is also called a double grant if a grant was dead on arrival: too few were within theirs.
    let within = named.iter().filter(|hold| is_within(hold)).count();
    let most = witness.finding.promise.holders as usize;
    let is_stale = violation.kind != Kind::DoubleGrant || within < most;
    let is_past = |hold: &&&StoryHold<'_>| {
        let is_one = violation.kind != Kind::DoubleGrant || conflicts(hold);
        is_stale && is_one && hold.from.at <= at.at && !covers(witness, hold, at)
    };
    let mut past = named.iter().filter(is_past);
    if let Some(found) = past.clone().find_map(|hold| dead(hold)) {
        return Some(found);
    }
    if let Some(past) = past.next() {
        return Some(belief(witness, past, (Moment::default(), at)));
    }
    let admission = Admission::of(witness, last, set(last))?;
    let held = named.into_iter();
    let held: Vec<&StoryHold<'a>> =
        held.filter(|hold| hold.from <= last.from && covers(witness, hold, at)).collect();
    let found = match witness.reading.by_member {
        true => of_members(witness, &held, (&admission, at)),
        false => of_shared_key(witness, &held, (&admission, at)),
    };
    Some(found.unwrap_or_else(|| too_many(witness, &held, &admission)))
}

/// The last holder: where and when it was let in, and by which change of the lock's key, if any.
struct Admission<'b, 'a> {
    last: &'b StoryHold<'a>,
    node: &'a str,
    at: Instant,
    index: Option<usize>,
}

impl<'b, 'a> Admission<'b, 'a> {
    fn of(
        witness: &Witness<'a>,
        last: &'b StoryHold<'a>,
        set: Option<(usize, &'a Key)>,
    ) -> Option<Admission<'b, 'a>> {
        let (node, at, index) = match set {
            Some((index, key)) => (key.node.as_str(), key.at, Some(index)),
            None => {
                let (node, at) = share::decided(witness, last.grant)?;
                (node, at, None)
            }
        };
        Some(Admission { last, node, at, index })
    }
}

/// The holder that came last, when there were too many.
fn newcomer<'b, 'a>(witness: &'b Witness<'a>, violation: &Violation) -> Option<&'b StoryHold<'a>> {
    // Only holders within their leases count: in an earlier overlap one may be past its lease.
    let is_one_too_many = |last: &&StoryHold<'_>| {
        let at = Moment::from(last.from);
        let there = witness
            .tenures
            .iter()
            .filter(|hold| hold.from <= last.from && covers(witness, hold, at));
        let there: Vec<_> = there.collect();
        let is_exclusive = there.iter().any(|hold| !hold.grant.shared);
        there.len() > witness.finding.promise.holders as usize && is_exclusive
    };
    let mut double = witness.tenures.iter().filter(|_| violation.kind == Kind::DoubleGrant);
    double.find(is_one_too_many).or_else(|| {
        let last = last_in(witness)?;
        witness.tenures.iter().find(|hold| witness.is_of(hold, last.id))
    })
}

fn covers(witness: &Witness<'_>, hold: &StoryHold<'_>, at: Moment) -> bool {
    witness.reading.tenure(hold.grant.id).is_some_and(|tenure| tenure.covers(at))
}

/// The mechanism if each holder has a member of its own: that of one was gone, or two have one.
fn of_members(
    witness: &Witness<'_>,
    held: &[&StoryHold<'_>],
    (admission, at): (&Admission<'_, '_>, Moment),
) -> Option<Mechanism> {
    if share::takes_permits(witness) {
        return one_permit(witness, held, admission);
    }
    let before = witness.lives.iter().filter(|life| {
        let is_there = life.node == admission.node && life.from < admission.at;
        is_there && is_lost(witness, life, admission, held.iter().copied())
    });
    // What an inner entry gave back itself is no loss: an outer one may have lost more before.
    let gone = before.max_by_key(|life| (!witness.is_given_back_inside(life), life.from));
    let Some(gone) = gone else {
        let at_once = held.iter().find_map(|hold| at_once::mechanism(witness, hold));
        return at_once.or_else(|| one_permit(witness, held, admission));
    };
    let owner = gone.owner?;
    // The member may have ended a moment after what it is a part of was changed.
    let by = admission.at.max(gone.until);
    match ending(witness, gone, owner, by.into()) {
        KeyEnding::Taken(mechanism) => Some(mechanism),
        _ => {
            let whose = held.iter().find(|hold| witness.is_of(hold, owner))?;
            Some(belief(witness, whose, (witness.gone(gone), at)))
        }
    }
}

/// The mechanism if two holders have the same permit, which is an element of a list until somebody
/// takes it: it was put back while one of them had it, or was there twice.
fn one_permit(
    witness: &Witness<'_>,
    held: &[&StoryHold<'_>],
    admission: &Admission<'_, '_>,
) -> Option<Mechanism> {
    if witness.finding.promise.holders == 1 {
        return None;
    }
    // The one too many may have a permit of its own, if two before it have the same.
    let all: Vec<&StoryHold<'_>> = held.iter().copied().chain([admission.last]).collect();
    let has_same = |one: &StoryHold<'_>, other: &StoryHold<'_>| {
        one.grant.token() == other.grant.token() && !witness.is_of(one, other.grant.id)
    };
    let (other, later) = all.iter().enumerate().rev().find_map(|(place, later)| {
        let earlier = all[..place].iter().rfind(|earlier| has_same(earlier, later))?;
        Some((earlier.grant, later))
    })?;
    let (last, permit, node) = (later.grant, later.grant.token()?, admission.node);
    let (who, whose) = (&last.caller, &other.caller);
    let taken = share::decided(witness, other).map(|(_, at)| at)?;
    let ops = [other.id, last.id].map(Evidence::Op);
    let keys = witness.history().keys.iter().enumerate().filter(|(_, key)| {
        let is_it = key.of.as_deref() == Some(witness.reading.lock_key) && key.key == *permit;
        is_it && key.node == *node && taken < key.at && key.at < later.from
    });
    let mut put_back =
        keys.filter(|(_, key)| key.change == KeyChange::Set && key.by != Some(last.id));
    let back = put_back.next_back().and_then(|(index, key)| {
        let by = op(witness.history(), key.by?).filter(|by| by.grant() != Some(other.id))?;
        let text = format!(
            "{}'s {} at {} put permit {permit} back on {node} at {}, though {whose} still had it; \
             {who} got it next.",
            by.caller,
            by.kind.noun(),
            moment(by.call.at),
            moment(key.at.at)
        );
        let evidence = ops.iter().cloned().chain([Evidence::Op(by.id), Evidence::Key(index)]);
        Some(Mechanism::new(How::BlindCommand, text, evidence.collect()))
    });
    back.or_else(|| {
        let text = format!("{node} gave permit {permit} to {who} though {whose} still had it.");
        Some(Mechanism::new(How::SameOwner, text, ops.to_vec()))
    })
}

/// The mechanism if the holders share a key: the one of a holder was gone when the last holder was
/// let in, or a release had taken effect on it that had no part in it.
fn of_shared_key(
    witness: &Witness<'_>,
    held: &[&StoryHold<'_>],
    (admission, at): (&Admission<'_, '_>, Moment),
) -> Option<Mechanism> {
    let place = (admission.node, admission.at);
    let by =
        held.iter().filter_map(|hold| Some((*hold, share::key_of(witness, hold.grant, place)?)));
    let by: Vec<(&StoryHold<'_>, &StoryLife)> = by.collect();
    let excess =
        |(hold, life): &(&StoryHold<'_>, &StoryLife)| in_excess(witness, hold, life, admission);
    if let Some(found) = by.iter().find_map(excess) {
        return Some(found);
    }
    let is_gone =
        |(_, life): &&(&StoryHold<'_>, &StoryLife)| witness.gone(life) <= admission.at.into();
    let (hold, life) = by.iter().filter(is_gone).max_by_key(|(_, life)| witness.gone(life))?;
    if let Some(found) = given_back(witness, hold, life) {
        return Some(found);
    }
    match ending(witness, life, hold.grant.id, admission.at.into()) {
        KeyEnding::Taken(mechanism) => Some(mechanism),
        _ => Some(belief(witness, hold, (witness.gone(life), at))),
    }
}

/// A release that took effect on the key by which a holder had the lock, and had no part in it.
fn in_excess(
    witness: &Witness<'_>,
    hold: &StoryHold<'_>,
    life: &StoryLife,
    admission: &Admission<'_, '_>,
) -> Option<Mechanism> {
    let (index, release, is_second) = share::excess(witness, life, admission.at)?;
    let acquire = op(witness.history(), release.grant()?)?;
    let (who, whose) = (&release.caller, &hold.grant.caller);
    let why = match is_second {
        true => "and had given that key back before".to_owned(),
        false => format!("and its acquire at {} had no part in that key", moment(acquire.call.at)),
    };
    let text = format!(
        "{who}'s release at {} took effect on the key on {} by which {whose} held the lock, {why}.",
        moment(release.call.at),
        life.node
    );
    let ops = [hold.grant.id, acquire.id, release.id].map(Evidence::Op).into_iter();
    let keys = [life.born, index].map(Evidence::Key);
    Some(Mechanism::new(How::BlindCommand, text, ops.chain(keys).collect()))
}

/// A release that deleted the key by which another holder had the lock, too.
fn given_back(witness: &Witness<'_>, hold: &StoryHold<'_>, life: &StoryLife) -> Option<Mechanism> {
    let end = life.end?;
    let key = witness.history().keys.get(end)?;
    let release = op(witness.history(), key.by?)?;
    let is_own = release.grant().is_some_and(|grant| witness.is_of(hold, grant));
    let deletes = key.change == KeyChange::Deleted
        && matches!(release.kind, OpKind::Release { .. })
        && !is_own;
    let (who, whose) = (&release.caller, &hold.grant.caller);
    let text = format!(
        "{who}'s release at {} deleted the key on {} by which {whose} held the lock, too.",
        moment(release.call.at),
        life.node
    );
    let ops = [hold.grant.id, release.id].map(Evidence::Op).into_iter();
    let evidence = ops.chain([life.born, end].map(Evidence::Key)).collect();
    deletes.then(|| Mechanism::new(How::DeletedByAnother, text, evidence))
}

/// Whether a member of one of these holders had ended when the next one was let in, and left its
/// holder without any on that node: a caller that entered again has one for each entry. What lets
/// somebody in may itself have removed the member.
fn is_lost<'a>(
    witness: &Witness<'_>,
    life: &StoryLife,
    admission: &Admission<'_, '_>,
    mut holders: impl Iterator<Item = &'a StoryHold<'a>>,
) -> bool {
    let keys = &witness.history().keys;
    let Admission { last, node, at, .. } = admission;
    let removes = |end: usize| keys[end].by == Some(last.grant.id) && keys[end].at.at == at.at;
    let has_ended = |life: &StoryLife| life.until < *at || life.end.is_some_and(removes);
    let is_of = |holder: &StoryHold<'_>, life: &StoryLife| {
        life.owner.is_some_and(|owner| witness.is_of(holder, owner))
    };
    let Some(holder) = holders.find(|holder| is_of(holder, life)) else { return false };
    let mut others = witness.lives.iter().filter(|other| other.node == *node);
    has_ended(life)
        && others.all(|other| !is_of(holder, other) || other.from >= *at || has_ended(other))
}

/// A node let one caller more in than the lock allows, while others held it within their leases.
fn too_many(
    witness: &Witness<'_>,
    held: &[&StoryHold<'_>],
    admission: &Admission<'_, '_>,
) -> Mechanism {
    let last = admission.last;
    let until = |hold: &&StoryHold<'_>| {
        let mode = if hold.grant.shared { " in shared mode" } else { "" };
        let lease = hold.known_lease(&witness.reading, admission.at);
        let end =
            lease.map_or("without an end".to_owned(), |over| format!("until {}", moment(over)));
        format!("{}{mode} {end}", hold.grant.caller)
    };
    let leases: Vec<String> = held.iter().map(until).collect();
    let (who, holders) = (&last.grant.caller, held.len());
    let (node, leases) = (admission.node, list(&leases));
    let text = match last.grant.shared {
        true => format!("{node} let {who} share the lock though {holders} held it: {leases}."),
        false => format!("{node} let {who} in though {holders} held the lock already: {leases}."),
    };
    let mut evidence = vec![Evidence::Op(last.grant.id)];
    evidence.extend(admission.index.map(Evidence::Key));
    evidence.extend(held.iter().map(|hold| Evidence::Op(hold.grant.id)));
    Mechanism::new(How::TooMany, text, evidence)
}

/// The one of several holders that was let in last before too many held the lock: when its acquire
/// changed the key, or when a node decided on it if it changes another key.
fn last_in<'a>(witness: &Witness<'a>) -> Option<&'a Op> {
    let (from, _) = witness.overlap()?;
    let lock_key = witness.reading.lock_key;
    let admitted = |actor: &Op| {
        let mut keys = witness.history().keys.iter().rev();
        let change =
            keys.find(|key| key.key == lock_key && key.by == Some(actor.id) && key.at <= from);
        let decided = || share::decided(witness, actor).map(|(_, at)| at).filter(|at| *at <= from);
        change.map(|key| key.at).or_else(decided)
    };
    let actors = witness.actors.iter().copied();
    let admitted = actors.filter_map(|actor| Some((admitted(actor)?, actor)));
    admitted.max_by_key(|(at, _)| *at).map(|(_, actor)| actor)
}

/// Members that refused acquires left, and that kept the probe out in the end.
pub fn left_by_refused(witness: &Witness<'_>) -> Option<Mechanism> {
    let (history, reading) = (witness.history(), &witness.reading);
    let last = witness.last_refused_to_probe().filter(|_| reading.by_member)?;
    let request = reading.requests_of(last.id).iter().rfind(|request| request.is_answered())?;
    let met = witness.lives.iter().filter(|life| life.is_met_by(request));
    let owners = met.filter_map(|life| Some((life, op(history, life.owner?)?)));
    let left: Vec<_> = owners.filter(|(_, owner)| owner.is_refused()).collect();
    let (life, owner) = left.first()?;
    let text = format!(
        "{} was full: it had {} of acquires that had been refused, the first of {}'s at {}.",
        life.node,
        count(left.len() as u64, "member"),
        owner.caller,
        moment(owner.call.at)
    );
    let evidence = vec![Evidence::Op(last.id), Evidence::Op(owner.id), Evidence::Key(life.born)];
    Some(Mechanism::new(How::LeftByRefused, text, evidence))
}
