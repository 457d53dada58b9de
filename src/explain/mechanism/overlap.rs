//! How two callers came to hold the lock at once.

use std::collections::BTreeSet;

use lockstorm_platform::time::Instant;
use lockstorm_platform::trace::KeyChange;

use crate::check::verdict::{Kind, Violation};
use crate::explain::evidence::Evidence;
use crate::explain::hold::StoryHold;
use crate::explain::life::StoryLife;
use crate::explain::mechanism::at_once;
use crate::explain::mechanism::belief::{belief, dead};
use crate::explain::mechanism::ending::{KeyEnding, ending};
use crate::explain::mechanism::handed_on;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::mechanism::quorum::two_quorums;
use crate::explain::mechanism::renewal::lied;
use crate::explain::mechanism::several;
use crate::explain::mechanism::takeover::{became_master, took_over};
use crate::explain::share;
use crate::explain::votes::{is_of_earlier_try, votes};
use crate::explain::witness::Witness;
use crate::history::{Key, Op, OpId, Outcome};
use crate::plan::TopologyKind;
use crate::quantity::{list, moment};
use crate::reading::leaders::Leaders;
use crate::reading::moment::Moment;

/// How the second grant of an overlap became possible.
pub fn mechanism(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    if let Some(found) = part_only(witness, violation) {
        return Some(found);
    }
    if witness.reading.can_overlap() {
        return several::mechanism(witness, violation, |hold| {
            set_by(witness, hold).first().copied()
        });
    }
    let (first, second) = pair(witness, violation)?;
    between(witness, first, second)
}

/// A grant of a group whose acquire never set the key that the violation concerns.
fn part_only(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let key = violation.key.as_ref()?;
    let grant = witness.actors.iter().find(|grant| never_had(witness, grant, key))?;
    Some(part_of(grant, key))
}

/// A grant of a group whose acquire never set one of its keys, whichever the violation concerns.
pub fn some_part(witness: &Witness<'_>) -> Option<Mechanism> {
    let parts =
        witness.actors.iter().flat_map(|grant| grant.keys.iter().map(move |key| (grant, key)));
    let mut missing = parts.filter(|(grant, key)| never_had(witness, grant, key));
    missing.next().map(|(grant, key)| part_of(grant, key))
}

fn never_had(witness: &Witness<'_>, grant: &Op, key: &str) -> bool {
    let mut keys = witness.history().keys.iter();
    let is_granted = matches!(grant.outcome, Outcome::Granted { .. });
    is_granted && !keys.any(|it| it.by == Some(grant.id) && it.key == *key)
}

fn part_of(grant: &Op, key: &str) -> Mechanism {
    let all = list(&grant.keys);
    let text = format!("{} was granted {all}, and never had {key} on any node.", grant.caller);
    Mechanism::new(How::PartOnly, text, vec![Evidence::Op(grant.id)])
}

/// How the grant of one tenure became possible while another lasted, or should have lasted.
pub fn between(
    witness: &Witness<'_>,
    first: &StoryHold<'_>,
    second: &StoryHold<'_>,
) -> Option<Mechanism> {
    let dead = dead(second).or_else(|| dead(first));
    let read = || read(witness, first, second).or_else(|| read(witness, second, first));
    // The acquire that returned later may have set its keys earlier.
    dead.or_else(read)
        .or_else(|| opened(witness, first, second))
        .or_else(|| opened(witness, second, first))
}

/// The tenure with which the overlap began, and the earlier one that it overlapped.
fn pair<'a, 'b>(
    witness: &'b Witness<'a>,
    violation: &Violation,
) -> Option<(&'b StoryHold<'a>, &'b StoryHold<'a>)> {
    let is_named = |hold: &&StoryHold<'_>| {
        violation.ops.iter().any(|op| witness.reading.are_one(*op, hold.grant.id))
    };
    let named: Vec<&StoryHold<'_>> = witness.tenures.iter().filter(is_named).collect();
    if let Some(covered) = covered_pair(witness, violation, &named) {
        return Some(covered);
    }
    let second = named.iter().rfind(|hold| hold.from <= violation.from)?;
    let mut earlier = named.iter().filter(|hold| {
        hold.grant.id != second.grant.id && hold.from <= second.from && second.from < hold.until
    });
    Some((earlier.next_back()?, second))
}

/// The first two tenures of a double grant that were covered at once: in an earlier overlap one of
/// two tenures may have been past its lease.
fn covered_pair<'a, 'b>(
    witness: &'b Witness<'a>,
    violation: &Violation,
    named: &[&'b StoryHold<'a>],
) -> Option<(&'b StoryHold<'a>, &'b StoryHold<'a>)> {
    let covers = |hold: &StoryHold<'_>, at: Moment| {
        witness.reading.tenure(hold.grant.id).is_some_and(|tenure| tenure.covers(at))
    };
    let is_double = violation.kind == Kind::DoubleGrant;
    named.iter().filter(|_| is_double).find_map(|second| {
        let at = Moment::from(second.from);
        let mut earlier = named.iter().filter(|hold| {
            hold.grant.id != second.grant.id && hold.from <= second.from && covers(hold, at)
        });
        let first = earlier.next_back().filter(|_| covers(second, at))?;
        Some((*first, *second))
    })
}

/// Why the keys of the first did not block the second.
fn opened(
    witness: &Witness<'_>,
    first: &StoryHold<'_>,
    second: &StoryHold<'_>,
) -> Option<Mechanism> {
    let set = set_by(witness, second);
    if set.is_empty() {
        return nothing(witness, first, second);
    }
    if let Some(shared) =
        set.iter().find_map(|(index, key)| shared(witness, first, second, *index, key))
    {
        return Some(shared);
    }
    if let Some(found) = two_quorums(witness, first, second, &set) {
        return Some(found);
    }
    match decisive(witness, first, &set) {
        Some((gone, KeyEnding::Taken(mechanism))) => {
            // A renewal since then should have reported the loss, so a false reply comes first.
            let lied = lied(witness, first, (gone, second.from.into()));
            lied.or(Some(mechanism))
        }
        Some((gone, _)) => Some(belief(witness, first, (gone, second.from.into()))),
        None => at_once::mechanism(witness, first).or_else(|| apart(witness, first, second, &set)),
    }
}

/// How and when the key of a tenure ended whose end let the other tenure in. With several
/// independent nodes, this is the key whose end freed the last node that a quorum needed; otherwise
/// the key that ended last. `None` if that many nodes never had a key of the tenure that ended.
fn decisive(
    witness: &Witness<'_>,
    first: &StoryHold<'_>,
    set: &[(usize, &Key)],
) -> Option<(Moment, KeyEnding)> {
    let freed = |(_, key): &(usize, &Key)| {
        let life = life_of(witness, first, key)?;
        let ending = ending(witness, life, life.owner?, key.at.into());
        let gone = witness.gone(life);
        (ending != KeyEnding::There).then_some((gone, ending))
    };
    let mut freed: Vec<Option<(Moment, KeyEnding)>> = set.iter().map(freed).collect();
    // `None` sorts first: such a node did not need the end of a key to let the other tenure in.
    freed.sort_by_key(|freed| freed.as_ref().map(|(gone, _)| *gone));
    let needs = match witness.finding.plan.topology.kind {
        TopologyKind::Independent => witness.quorum() as usize,
        _ => set.len(),
    };
    freed.truncate(needs.max(1));
    freed.pop()?
}

/// The keys that the acquire of a tenure set or found as its own on the nodes that it queried: its
/// votes if it needed a quorum, otherwise the first on each node, without those that it deleted to
/// try again.
fn set_by<'a>(witness: &Witness<'a>, hold: &StoryHold<'_>) -> Vec<(usize, &'a Key)> {
    let history = witness.history();
    let reached = |key: &Key| {
        let mut requests = history.requests.iter();
        requests.any(|request| request.op == hold.grant.id && request.to == key.node)
    };
    let keys = history.keys.iter().enumerate();
    let mut nodes = BTreeSet::new();
    let grants = |key: &Key| key.change.leaves_key();
    let votes = votes(witness, hold.grant.id);
    let given_back = |index: usize| {
        let mut lives = witness.lives.iter();
        lives.any(|life| life.born == index && witness.is_given_back(life))
    };
    let counts = |index: usize| match &votes {
        Some(votes) => votes.contains(&index),
        None => !given_back(index),
    };
    keys.filter(|(_, key)| key.by == Some(hold.grant.id) && key.key == witness.reading.lock_key)
        .filter(|(_, key)| grants(key) && reached(key))
        .filter(|(index, _)| counts(*index))
        .filter(|(_, key)| nodes.insert(&key.node))
        .collect()
}

/// The last life of a tenure's key on a node before another key was set there: a key that its
/// grant set, or found as its own. A key that a nested grant set and gave back does not count: it
/// kept nobody out for the outer grant, unless it had replaced the key of that grant. Nor does one
/// that an earlier try left, if the grant needed a quorum.
fn life_of<'b>(witness: &'b Witness<'_>, hold: &StoryHold<'_>, key: &Key) -> Option<&'b StoryLife> {
    let history = witness.history();
    let entered = |index: usize| {
        let mut touches = witness.reading.lives.touches.iter().filter(|touch| touch.met == index);
        touches.any(|touch| {
            let change = &history.keys[touch.change];
            let is_grant = change.by == Some(hold.grant.id) && change.at < key.at;
            is_grant && matches!(change.change, KeyChange::Changed | KeyChange::Extended)
        })
    };
    let is_own = |(index, life): &(usize, &StoryLife)| {
        let is_set = || life.owner.is_some_and(|owner| witness.is_of(hold, owner));
        let is_there = life.node == key.node && life.from < key.at;
        let counts = || !witness.is_given_back(life) && !is_of_earlier_try(witness, life);
        is_there && (is_set() || entered(*index)) && counts()
    };
    let own = || witness.lives.iter().enumerate().filter(is_own).map(|(_, life)| life);
    let took_place = |life: &StoryLife| {
        let before = own().rfind(|earlier| earlier.born < life.born);
        let end = before.and_then(|earlier| history.keys.get(earlier.end?)?.by);
        end.is_some_and(|by| Some(by) == life.owner)
    };
    own().rfind(|life| !witness.is_given_back_inside(life) || took_place(life))
}

/// The mechanism if the second tenure set no new key, because the key of the first admitted it.
fn shared(
    witness: &Witness<'_>,
    first: &StoryHold<'_>,
    second: &StoryHold<'_>,
    index: usize,
    key: &Key,
) -> Option<Mechanism> {
    let life = life_of(witness, first, key)?;
    // With a different owner value the second tenure took the key over instead.
    let shares = || life.end == Some(index) && first.grant.token() == second.grant.token();
    let is_met = key.change != KeyChange::Set && (life.until > key.at || shares());
    let (one, other) = (&first.grant.caller, &second.grant.caller);
    let text = format!("{other} was let in by {one}'s key on {}, as if it were its own.", key.node);
    let evidence =
        vec![Evidence::Op(first.grant.id), Evidence::Op(second.grant.id), Evidence::Key(index)];
    let same_owner = || Mechanism::new(How::SameOwner, text, evidence);
    is_met.then(|| handed_on::mechanism(witness, life).unwrap_or_else(same_owner))
}

/// The mechanism if the other tenure set no key, and read its own value in the key of this one.
fn read(witness: &Witness<'_>, holder: &StoryHold<'_>, other: &StoryHold<'_>) -> Option<Mechanism> {
    let life = share::read_as_own(witness, other.grant)
        .filter(|life| life.owner.is_some_and(|owner| witness.is_of(holder, owner)))?;
    let (whose, who, node) = (&holder.grant.caller, &other.grant.caller, &life.node);
    let text = format!("{who} was let in by {whose}'s key on {node}, as if it were its own.");
    let ops = [holder.grant.id, other.grant.id].map(Evidence::Op).into_iter();
    let evidence = ops.chain([Evidence::Key(life.born)]).collect();
    Some(Mechanism::new(How::SameOwner, text, evidence))
}

/// The mechanism if neither tenure has a key.
fn nothing(
    witness: &Witness<'_>,
    first: &StoryHold<'_>,
    second: &StoryHold<'_>,
) -> Option<Mechanism> {
    let has_key = |id: OpId| witness.history().keys.iter().any(|key| key.by == Some(id));
    if has_key(first.grant.id) || has_key(second.grant.id) {
        return None;
    }
    let (one, other) = (&first.grant.caller, &second.grant.caller);
    // A mutex of one host keeps callers apart without a key.
    let between = match first.grant.process == second.grant.process {
        true => String::new(),
        false => format!(" between the hosts of {one} and {other}"),
    };
    let text =
        format!("Nothing is locked{between}: neither {one} nor {other} has a key on any node.");
    let evidence = vec![Evidence::Op(first.grant.id), Evidence::Op(second.grant.id)];
    Some(Mechanism::new(How::NothingLocked, text, evidence))
}

/// The mechanism if no node that granted the second tenure ever had a key of the first one.
fn apart(
    witness: &Witness<'_>,
    first: &StoryHold<'_>,
    second: &StoryHold<'_>,
    set: &[(usize, &Key)],
) -> Option<Mechanism> {
    let own = set_by(witness, first);
    let (one, other) = (&first.grant.caller, &second.grant.caller);
    let mut evidence = vec![Evidence::Op(first.grant.id), Evidence::Op(second.grant.id)];
    evidence.extend(own.iter().chain(set).map(|(index, _)| Evidence::Key(*index)));
    for (who, keys) in [(one, &own[..]), (other, set)] {
        if keys.is_empty() {
            let text = format!("{who} was granted the lock, and has its key on no node.");
            return Some(Mechanism::new(How::NothingLocked, text, evidence));
        }
    }
    let names = |keys: &[(usize, &Key)]| {
        let nodes: BTreeSet<String> = keys.iter().map(|(_, key)| key.node.to_string()).collect();
        list(&nodes.into_iter().collect::<Vec<_>>())
    };
    for ((_, mine), (_, theirs)) in own.iter().flat_map(|mine| set.iter().map(move |it| (mine, it)))
    {
        let Some((led, report)) =
            took_over(witness, &theirs.node, Some(&mine.node), theirs.at.into())
        else {
            continue;
        };
        // Only a key from before the promotion was missed; a later one came from an old master.
        if mine.at < led {
            let text = never_came(witness, one, (mine, theirs), led);
            evidence.push(report);
            return Some(Mechanism::new(How::NeverReached, text, evidence));
        }
    }
    let leaders = Leaders::of(witness.history());
    if let ([(_, mine)], [(_, theirs)]) = (&own[..], set)
        && leaders.group(&mine.node) == leaders.group(&theirs.node)
    {
        if mine.node == theirs.node {
            return None;
        }
        if let Some((led, report)) = took_over(witness, &theirs.node, None, theirs.at.into())
            && mine.at < led
        {
            evidence.push(report);
            let text = never_came(witness, one, (mine, theirs), led);
            return Some(Mechanism::new(How::NeverReached, text, evidence));
        }
        let text = format!(
            "Two masters served at once: {} granted {one} the lock, and {} {other}.",
            mine.node, theirs.node
        );
        return Some(Mechanism::new(How::OldMaster, text, evidence));
    }
    let shares = own.iter().any(|(_, key)| set.iter().any(|(_, other)| other.node == key.node));
    (!shares).then(|| {
        let text = format!(
            "{} granted {one} the lock, and {} {other}: no node is in both.",
            names(&own),
            names(set)
        );
        Mechanism::new(How::TwoMajorities, text, evidence)
    })
}

fn never_came(
    witness: &Witness<'_>,
    whose: &str,
    (mine, theirs): (&Key, &Key),
    led: Instant,
) -> String {
    let (from, to, at) = (&mine.node, &theirs.node, moment(led.at));
    let became = became_master(witness, to, led);
    format!("{whose}'s key on {from} never reached {to}, which {became} at {at}.")
}
