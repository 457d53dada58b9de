//! The key by which a caller holds a lock that several callers may hold, if they share one key: it
//! may have been set by another caller. Locks whose holders have a member each share no key.
//!
//! An acquire has a part in the key that it sets or changes. In shared mode it also has a part in
//! the key of other shared holders that it finds: a lock need not count them.

use std::collections::BTreeSet;

use lockstorm_platform::time::{Instant, Nanos};
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::explain::hold::op;
use crate::explain::life::StoryLife;
use crate::explain::witness::Witness;
use crate::history::{Key, Op, OpId, OpKind, Request};

/// Where and when a node decided on an acquire: by the last of its requests that was executed
/// before it returned.
pub fn decided<'a>(witness: &Witness<'a>, acquire: &Op) -> Option<(&'a str, Instant)> {
    let in_time = |at: Instant| acquire.ret.is_none_or(|ret| at < ret.instant());
    let mut own = witness.reading.requests_of(acquire.id).iter().rev();
    own.find_map(|request| {
        let applied = request.at(Leg::Applied).filter(|at| !request.declined && in_time(*at))?;
        Some((request.to.as_str(), applied))
    })
}

/// The key on a node by which an acquire has the lock at an instant, or had it before: the last one
/// in which it has a part. `None` if holders do not share a key.
pub fn key_of<'w>(
    witness: &'w Witness<'_>,
    acquire: &Op,
    (node, before): (&str, Instant),
) -> Option<&'w StoryLife> {
    if witness.reading.has_owners() {
        return None;
    }
    let is_there = |life: &StoryLife| life.node == node && life.from < before;
    let mut lives = witness.lives.iter().enumerate();
    let (_, found) =
        lives.rfind(|(index, life)| is_there(life) && has_part(witness, acquire, *index))?;
    let mut life = found;
    // What others set anew leaves each holder its part.
    while let Some(next) = witness.lives.iter().find(|next| goes_on(witness, life, next))
        && next.from < before
    {
        life = next;
    }
    Some(life)
}

/// Whether a key goes on as another one: a reader sets the key of readers anew, or a script sets a
/// number of permits that it had read.
pub fn goes_on(witness: &Witness<'_>, life: &StoryLife, next: &StoryLife) -> bool {
    let born = &witness.history().keys[next.born];
    let counts = || {
        let requests = born.by.map(|by| witness.reading.requests_of(by)).unwrap_or_default();
        let is_set = born.change == KeyChange::Set && requests.iter().any(|it| it.is_script());
        is_set && witness.finding.promise.holders > 1 && !witness.reading.by_member
    };
    life.end == Some(next.born)
        && (counts() || is_shared(witness, life) && is_shared(witness, next))
}

/// The key of another caller by whose owner value an acquire was let in: that key was on the node
/// that decided, and the acquire changed nothing.
pub fn read_as_own<'w>(witness: &'w Witness<'_>, acquire: &Op) -> Option<&'w StoryLife> {
    let (node, at) = decided(witness, acquire).filter(|_| witness.reading.has_owners())?;
    let is_equal = |owner: &Op| {
        owner.caller != acquire.caller
            && owner.owner_value().is_some()
            && owner.owner_value() == acquire.token()
    };
    let is_met = |life: &&StoryLife| {
        let owner = life.owner.and_then(|owner| op(witness.history(), owner));
        life.node == node && life.from <= at && at < life.until && owner.is_some_and(is_equal)
    };
    let mut keys = witness.history().keys.iter();
    let has_own = keys.any(|key| key.by == Some(acquire.id) && witness.reading.is_of_lock(key));
    witness.lives.iter().filter(|_| !has_own).find(is_met)
}

/// Whether the members of the lock's key are permits that nobody has: an acquire that is granted
/// takes its own out of the key.
pub fn takes_permits(witness: &Witness<'_>) -> bool {
    let mut keys = witness.history().keys.iter();
    witness.reading.by_member && keys.any(|key| takes_permit(witness, key))
}

/// Whether an acquire took a permit out of the lock's key by a change.
pub fn takes_permit(witness: &Witness<'_>, change: &Key) -> bool {
    let by = change.by.and_then(|by| op(witness.history(), by));
    // What it removes and adds again is a member of its own.
    let mut keys = witness.history().keys.iter();
    let is_added =
        |key: &Key| key.change == KeyChange::Set && key.key == change.key && key.at > change.at;
    change.change == KeyChange::Deleted
        && !keys.any(|key| key.by == change.by && key.of == change.of && is_added(key))
        && change.of.as_deref() == Some(witness.reading.lock_key)
        && by.is_some_and(|by| by.kind == OpKind::Acquire && by.token() == Some(&change.key))
}

/// Whether an acquire set or changed the key of this life, or found it in shared mode.
fn has_part(witness: &Witness<'_>, acquire: &Op, index: usize) -> bool {
    let (keys, life) = (&witness.history().keys, &witness.lives[index]);
    let is_own = |by: Option<OpId>| by == Some(acquire.id);
    let finds = |request: &&Request| life.is_met_by(request);
    let found = || acquire.shared && is_shared(witness, life);
    is_own(keys[life.born].by)
        || changes(witness, index).any(|change| is_own(keys[change].by))
        || found() && witness.reading.requests_of(acquire.id).iter().any(finds)
}

/// The lives in which a part in a key may have begun: those on other nodes, since a replica's copy
/// lacks what its master had carried out before, and those that shared holders have set anew.
fn origins(witness: &Witness<'_>, life: &StoryLife) -> Vec<usize> {
    let mut owners = BTreeSet::from([life.owner]);
    let mut first = life;
    while let Some(earlier) = witness.lives.iter().find(|it| goes_on(witness, it, first)) {
        owners.insert(earlier.owner);
        first = earlier;
    }
    let lives = witness.lives.iter().enumerate();
    lives.filter(|(_, other)| owners.contains(&other.owner)).map(|(index, _)| index).collect()
}

/// Whether the acquire that set a key is in shared mode.
fn is_shared(witness: &Witness<'_>, life: &StoryLife) -> bool {
    let owner = life.owner.and_then(|owner| op(witness.history(), owner));
    owner.is_some_and(|owner| owner.shared)
}

/// The changes in place of the key of a life, without those of its expiry alone.
fn changes<'w>(witness: &'w Witness<'_>, index: usize) -> impl Iterator<Item = usize> + 'w {
    let touches = witness.reading.lives.touches.iter().filter(move |touch| touch.met == index);
    let keys = &witness.history().keys;
    let inside = touches.map(|touch| touch.change);
    inside.filter(|change| keys[*change].change == KeyChange::Changed)
}

/// The changes of the number of entries of a key, also those by which it was set anew.
fn entered(witness: &Witness<'_>, life: &StoryLife) -> Vec<usize> {
    let place = |life: &StoryLife| witness.lives.iter().position(|it| it.born == life.born);
    let earlier = |life: &&StoryLife| witness.lives.iter().find(|it| goes_on(witness, it, life));
    let all = std::iter::successors(Some(life), earlier);
    let mut found: Vec<usize> = all
        .flat_map(|life| {
            let inside = place(life).into_iter().flat_map(|place| changes(witness, place));
            inside.chain([life.born])
        })
        .collect();
    found.sort_unstable();
    // The first of them began the key, and changed none.
    found.split_off(1)
}

/// The first change of a shared key, before an instant, by a release whose acquire had no part in
/// that key, or had given it back already: with its index, and whether it was given back before.
pub fn excess<'a>(
    witness: &Witness<'a>,
    life: &StoryLife,
    before: Instant,
) -> Option<(usize, &'a Op, bool)> {
    let (keys, origins) = (&witness.history().keys, origins(witness, life));
    let end = life.end.filter(|end| keys[*end].change == KeyChange::Deleted);
    let until = |index: &usize| keys[*index].at <= before;
    let mut done: BTreeSet<(OpId, Nanos)> = BTreeSet::new();
    let mut given: BTreeSet<OpId> = BTreeSet::new();
    entered(witness, life).into_iter().chain(end).filter(until).find_map(|index| {
        let key = &keys[index];
        let by = op(witness.history(), key.by?)?;
        let OpKind::Release { grant } = by.kind else { return None };
        // One script may change a key in several steps.
        if !done.insert((by.id, key.at.at)) {
            return None;
        }
        let acquire = op(witness.history(), grant)?;
        let is_second = !given.insert(grant);
        let is_part = origins.iter().any(|origin| has_part(witness, acquire, *origin));
        (is_second || !is_part).then_some((index, by, is_second))
    })
}
