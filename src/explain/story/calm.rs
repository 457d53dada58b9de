//! The short story of a run that held: how much it tested, and how close it came to a violation.

use std::collections::BTreeSet;

use lockstorm_platform::time::{Clock, Instant, MILLISECOND, Nanos};
use lockstorm_platform::trace::KeyChange;

use crate::explain::evidence::Evidence;
use crate::explain::hold::StoryHold;
use crate::explain::life::StoryLife;
use crate::explain::story::strike::{acted_at, described, outages};
use crate::explain::story::{Beat, Weight};
use crate::explain::story::{access, margin, queue, role, theft};
use crate::explain::witness::{Witness, nearest_key};
use crate::history::{FaultInterval, Op, OpKind, Outcome, PROBE};
use crate::quantity::{count, length, list, moment};
use crate::reading::leaders::{self, Leaders};
use crate::reading::moment::Moment;

/// The grants, the faults, the keys that nodes kept, the longest wait, the nearest misses, and the
/// probe.
pub fn beats(witness: &Witness<'_>) -> Vec<Beat> {
    let mut beats: Vec<Beat> = told(witness).into_iter().chain(grants(witness)).collect();
    beats.extend(faults(witness));
    beats.extend(returns(witness));
    let back = |life| theft::comes_back(witness, life, Weight::Cause);
    beats.extend(witness.lives.iter().filter_map(back));
    beats.extend(role::calm(witness));
    beats.extend(spared(witness));
    beats.extend(overrun(witness));
    beats.extend(renewals(witness));
    beats.extend(access::first_refused(witness));
    beats.extend(longest_wait(witness));
    beats.extend(queue::calm(witness));
    beats.extend(closest(witness));
    beats.extend(margin::beat(witness));
    beats.extend(probe(witness));
    beats
}

/// Which of several locks the story is about.
fn told(witness: &Witness<'_>) -> Option<Beat> {
    let key = nearest_key(witness.finding)?;
    let first = witness.tenures.iter().find(|hold| hold.grant.process != PROBE)?;
    let text = format!(
        "This is the story of {key}, the one of its locks that came closest to a violation."
    );
    Some(Beat::new(Weight::Crux, first.from, text, vec![Evidence::Op(first.grant.id)]))
}

fn grants(witness: &Witness<'_>) -> Option<Beat> {
    let holds: Vec<&StoryHold<'_>> =
        witness.tenures.iter().filter(|hold| hold.grant.process != PROBE).collect();
    let (first, last) = (holds.first()?, holds.iter().map(|hold| hold.until).max()?);
    let is_in_turn = holds.is_sorted_by(|one, next| one.until <= next.from);
    let mut callers: Vec<String> =
        holds[1..].iter().map(|hold| hold.grant.caller.clone()).collect();
    callers.sort_unstable();
    callers.dedup();
    let who = &first.grant.caller;
    let text = match holds.len() - 1 {
        0 => format!("{who} is granted the lock; nobody else is while the clients run."),
        more => format!(
            "{who} is granted the lock; {} to {} follow{}, until {}.",
            count(more as u64, "grant"),
            list(&callers),
            match more {
                1 => "s",
                _ if is_in_turn => ", one after the other",
                _ => "",
            },
            moment(last.at),
        ),
    };
    let all = witness.holds.iter().filter(|hold| hold.grant.process != PROBE);
    let evidence: Vec<Evidence> = all.map(|hold| Evidence::Op(hold.grant.id)).collect();
    let text = match evidence.len() - holds.len() {
        0 => text,
        more => format!("{text} Whoever has it takes it again, {}.", count(more as u64, "time")),
    };
    Some(Beat::new(Weight::Crux, first.from, text, evidence))
}

fn faults(witness: &Witness<'_>) -> Vec<Beat> {
    let mut outages = outages(witness);
    // The sentence about the keys of a restarted node states the restart as well.
    outages.retain(|outage| {
        let (first, index) = (outage.first, outage.indices[0]);
        let is_restart = first.verb.kills() && first.to == Some(first.from);
        !is_restart || returned(witness, index, first).is_none()
    });
    outages
        .into_iter()
        .map(|outage| {
            let (text, evidence) = described(witness, &outage);
            let weight = if evidence.len() > 1 { Weight::Cause } else { Weight::Effect };
            Beat::new(weight, acted_at(&outage), text, evidence)
        })
        .collect()
}

/// For each node that was down: whether it still has its key.
fn returns(witness: &Witness<'_>) -> Vec<Beat> {
    let fault_intervals = witness.history().fault_intervals.iter().enumerate();
    fault_intervals
        .filter(|(_, interval)| interval.verb.kills())
        .filter_map(|(index, interval)| returned(witness, index, interval))
        .collect()
}

fn returned(witness: &Witness<'_>, index: usize, interval: &FaultInterval) -> Option<Beat> {
    // A key with a member for each holder is not one caller's.
    let back = interval.to.filter(|_| !witness.reading.by_member)?;
    let mut others = witness.history().fault_intervals.iter();
    let stays_down = others.any(|other| {
        let lasts = other.from <= back && other.to.is_none_or(|to| back < to);
        other.verb.kills() && other.target == interval.target && lasts
    });
    if stays_down {
        return None;
    }
    let life = witness.lives.iter().rfind(|life| {
        interval.strikes(&life.node) && life.from < interval.from && interval.from < life.until
    })?;
    let hold = witness.hold(life.owner?)?;
    let who = &hold.grant.caller;
    // The loss is recorded only when the node has read its files, which is after the fault ends.
    let lost = life.end.map(|end| &witness.history().keys[end]).filter(|end| {
        let mut deaths = witness.history().fault_intervals.iter();
        let again = deaths.any(|other| {
            let is_between = back < other.from && other.from < end.at;
            other.verb.kills() && other.strikes(&life.node) && is_between
        });
        end.change == KeyChange::LostAtRestart && end.at.at >= back.at && !again
    });
    let back = lost.map_or(back, |lost| lost.at);
    let is_there = |other: &StoryLife| {
        let of_who = other.owner.and_then(|owner| witness.caller(owner)).is_some_and(|c| c == who);
        let then = other.from.at <= back.at && back < other.until;
        other.node == life.node && of_who && then && other.born != life.born
    };
    // The file that the node reads at its start may have restored the key as another life.
    if life.until.at <= back.at && witness.lives.iter().any(is_there) {
        return None;
    }
    // The key has expired by its node's clock, but the node has not removed it yet.
    if lost.is_none() && life.until > back && witness.passes(life) <= back.into() {
        return None;
    }
    let mut evidence =
        vec![Evidence::FaultInterval(index), Evidence::Op(hold.grant.id), Evidence::Key(life.born)];
    let is_back = if interval.to == Some(interval.from) { "is started again" } else { "is back" };
    let text = if lost.is_none() && life.until.at > back.at {
        format!("{} {is_back}, and still has {who}'s key.", interval.target)
    } else {
        evidence.extend(life.end.map(Evidence::Key));
        let late = lease_of(hold).filter(|lease| *lease <= back.at);
        let when = late.map_or_else(String::new, |lease| {
            format!(", {} after {who}'s lease was over", length(back.at - lease))
        });
        format!("{} {is_back} without {who}'s key{when}.", interval.target)
    };
    Some(Beat::new(Weight::Cause, back, text, evidence))
}

/// The first of these keys to expire with the expiry that it has at a moment, and how long after
/// that moment it expires. `None` if one of them has expired by then.
fn first_over<'b>(
    witness: &Witness<'_>,
    lives: impl Iterator<Item = &'b StoryLife>,
    at: Moment,
) -> Option<(Nanos, &'b StoryLife)> {
    let over = |life: &'b StoryLife| (over_after(witness, life, at), life);
    let (over, key) = lives.map(over).min_by_key(|(over, _)| *over)?;
    Some((over.at.checked_sub(at.at).filter(|left| *left > 0)?, key))
}

/// When a key expires by its node's clock after a moment, with the expiry that it has at that
/// moment.
fn over_after(witness: &Witness<'_>, life: &StoryLife, at: Moment) -> Moment {
    let keys = witness.history().keys[life.born..].iter();
    let own = keys.filter(|key| key.node == life.node && key.key == witness.reading.lock_key);
    let last = own.take_while(|key| Moment::from(key.at) <= at).last();
    let Some(until) = last.and_then(|key| key.until_ms) else { return Moment::NEVER };
    let reading = until.saturating_add(1).saturating_mul(MILLISECOND);
    let clocks = &witness.reading.clocks;
    clocks.reaches(&life.node, Clock::Wall, at, reading).unwrap_or(Moment::NEVER)
}

/// Whether another node in the group of one of these nodes led in that time: it may lack their
/// keys.
fn another_led(
    witness: &Witness<'_>,
    nodes: &BTreeSet<&str>,
    (from, to): (Instant, Instant),
) -> bool {
    let led = |node: &str| {
        let reigns = leaders::reigns(&witness.reading, node);
        reigns.iter().any(|(begin, end)| *begin < to.into() && *end > from.into())
    };
    leaders::groups(&witness.reading).iter().any(|group| {
        !group.is_disjoint(nodes) && group.iter().any(|node| !nodes.contains(node) && led(node))
    })
}

/// The halted holder that resumed with the least time left of its lease or key, while no other
/// caller was granted the lock.
fn spared(witness: &Witness<'_>) -> Option<Beat> {
    let fault_intervals = witness.history().fault_intervals.iter().enumerate();
    let halts = fault_intervals.filter(|(_, interval)| interval.verb.halts());
    let halts = halts.filter_map(|(index, interval)| {
        let held = |hold: &&StoryHold<'_>| {
            let struck = hold.from < interval.from && interval.from < hold.until;
            struck && interval.strikes(&hold.grant.process)
        };
        let hold = witness.tenures.iter().find(held)?;
        let back = interval.to.filter(|back| *back <= hold.until)?;
        // Only the last halt of a hold counts: after any other one the holder is halted again.
        let mut halts = witness.reading.halts(&hold.grant.process);
        if halts.any(|halt| halt.from.at < hold.until.at && back.at < halt.to.at) {
            return None;
        }
        if lets_another_in(witness, hold, (interval.from, back)) {
            return None;
        }
        let left = hold.known_lease(&witness.reading, back)?.checked_sub(back.at)?;
        let own = |life: &&StoryLife| {
            life.from < back && life.owner.is_some_and(|owner| witness.is_of(hold, owner))
        };
        let mut keys = witness.lives.iter().filter(own).peekable();
        // The keys keep other callers out, not the lease, so every key must still exist.
        keys.peek()?;
        // With a quorum of one, `first_over` below checks the expiry by the node's own clock.
        let lasts = |life: &StoryLife| witness.quorum() <= 1 || witness.passes(life) > back.into();
        // A node that is down when the holder resumes may start again without its key.
        let is_dead =
            |life: &StoryLife| leaders::is_dead(witness.history(), &life.node, back.into());
        let is_lost = |life: &StoryLife| {
            let end = life.end.map(|end| witness.history().keys[end].change);
            end == Some(KeyChange::LostAtRestart) && is_dead(life)
        };
        if !keys.all(|life| life.until > back && lasts(life) && !is_lost(life)) {
            return None;
        }
        let nodes = witness.lives.iter().filter(own).map(|life| life.node.as_str());
        if another_led(witness, &nodes.collect(), (hold.from, back)) {
            return None;
        }
        // The key may expire by its node's clock before the lease ends by the holder's clock.
        let leaders = Leaders::of(witness.history());
        let serves = |life: &&StoryLife| leaders.would_serve(&life.node, back.into());
        let serving = witness.lives.iter().filter(own).filter(serves).filter(|it| !is_dead(it));
        if witness.quorum() > 1 {
            return Some((left, None, index, interval, hold, back));
        }
        // A node that is down is left out: it, or the node that replaces it, may lack the key.
        let (key_left, key) = first_over(witness, serving, back.into())?;
        let key = (key_left < left).then_some(key);
        Some((key.map_or(left, |_| key_left), key, index, interval, hold, back))
    });
    let (left, key, index, interval, hold, back) = halts.min_by_key(|(left, ..)| *left)?;
    let what = key.map_or_else(
        || "its lease".to_owned(),
        |key| format!("its key on {} would have been over", key.node),
    );
    let text = format!(
        "{}'s {} of {} ends {} before {what}; nobody else is let in.",
        hold.grant.caller,
        interval.verb.word(),
        length(back.at.saturating_sub(interval.from.at)),
        length(left),
    );
    let evidence = vec![Evidence::FaultInterval(index), Evidence::Op(hold.grant.id)];
    Some(Beat::new(Weight::Cause, back, text, evidence))
}

/// Whether another caller was granted the lock between two instants.
fn lets_another_in(
    witness: &Witness<'_>,
    hold: &StoryHold<'_>,
    (from, to): (Instant, Instant),
) -> bool {
    let mut others = witness.holds.iter().filter(|it| it.grant.caller != hold.grant.caller);
    others.any(|other| from <= other.from && other.from <= to)
}

/// When a hold's lease ends: as granted or, if extends covered the hold for longer, at the end of
/// its last covered part. Unlike [`StoryHold::known_lease`], it counts what an extend gave only as
/// long as the hold lasted: nobody counts on that part of a lease after a release.
fn lease_of(hold: &StoryHold<'_>) -> Option<Nanos> {
    let covered = hold.covered.last().map(|(_, end)| *end);
    hold.lease.map(|lease| covered.map_or(lease, |end| end.max(lease)))
}

/// The holder that outlived its lease by the longest time, without harm because no other caller was
/// granted the lock.
fn overrun(witness: &Witness<'_>) -> Option<Beat> {
    let bare = |hold: &&StoryHold<'_>| hold.bare_from().map(|bare| hold.until.at - bare);
    let hold = witness.tenures.iter().filter(|hold| bare(hold).is_some()).max_by_key(bare)?;
    let over = hold.bare_from()?;
    let mut others = witness.holds.iter().filter(|other| other.grant.caller != hold.grant.caller);
    if others.any(|other| over <= other.from.at && other.from < hold.until) {
        return None;
    }
    let mut halts = witness.reading.halts(&hold.grant.process);
    let paused = halts.any(|halt| halt.from.at < hold.until.at && over < halt.to.at);
    let is_process = hold.grant.process == hold.grant.caller;
    let text = format!(
        "{}{} outlives its lease by {}, until {}; nobody else is let in.",
        hold.grant.caller,
        match (paused, is_process) {
            (true, true) => ", which was paused,",
            (true, false) => ", whose process was paused,",
            (false, _) => "",
        },
        length(bare(&hold)?),
        moment(hold.until.at),
    );
    Some(Beat::new(Weight::Cause, hold.until, text, vec![Evidence::Op(hold.grant.id)]))
}

/// The tenure that was extended most often.
fn renewals(witness: &Witness<'_>) -> Option<Beat> {
    let kept = witness.history().ops.iter().filter(|op| matches!(op.outcome, Outcome::Kept { .. }));
    let kept: Vec<&Op> = kept.collect();
    let kept = |hold: &StoryHold<'_>| -> Vec<&Op> {
        let prolongs = |op: &&&Op| {
            let in_time = op.ret.is_some_and(|ret| ret.instant() < hold.until);
            let is_own =
                matches!(op.kind, OpKind::Extend { grant, .. } if witness.is_of(hold, grant));
            let has_effect = || witness.history().keys.iter().any(|key| key.by == Some(op.id));
            in_time && is_own && has_effect()
        };
        kept.iter().filter(prolongs).copied().collect()
    };
    let hold = witness.tenures.iter().rev().max_by_key(|hold| kept(hold).len())?;
    let kept = kept(hold);
    let often = match kept.len() {
        1 => "once".to_owned(),
        more => format!("for the first of {}", count(more as u64, "time")),
    };
    let text = format!(
        "{}'s lease is extended {often} before its hold ends at {}.",
        hold.grant.caller,
        moment(hold.until.at),
    );
    let at = kept.first()?.ret?.instant();
    let mut evidence = vec![Evidence::Op(hold.grant.id)];
    evidence.extend(kept.iter().map(|op| Evidence::Op(op.id)));
    Some(Beat::new(Weight::Cause, at, text, evidence))
}

/// The caller with the longest wait, if it was not granted the lock at once.
fn longest_wait(witness: &Witness<'_>) -> Option<Beat> {
    let wait = witness.finding.judgement.availability.waits.callers.first()?;
    let end = wait.from.at + wait.longest;
    let attempts = witness.history().ops.iter().filter(|op| {
        let is_its = op.kind == OpKind::Acquire && op.caller == wait.caller;
        is_its && op.call.instant() >= wait.from && op.call.at < end
    });
    let attempts: Vec<&Op> = attempts.collect();
    let is_let_in =
        is_granted(attempts.last()?) && attempts.last()?.ret.is_some_and(|ret| ret.at == end);
    if is_let_in && attempts.len() == 1 {
        return None;
    }
    let until = match is_let_in {
        true => format!("until it is let in after {}", length(wait.longest)),
        false => format!("in vain for {}{}", length(wait.longest), after(witness, &attempts, end)),
    };
    let often = count(attempts.len() as u64, "time");
    let text = format!("{} waits longest: it tries {often} from here on, {until}.", wait.caller);
    let evidence = attempts.iter().map(|op| Evidence::Op(op.id)).collect();
    Some(Beat::new(Weight::Effect, wait.from, text, evidence))
}

/// A clause for a wait without a grant that ended at the heal, with the time at which its last
/// acquire was granted after the heal, if it was. Empty for any other wait.
fn after(witness: &Witness<'_>, attempts: &[&Op], end: Nanos) -> String {
    if witness.history().healed.is_none_or(|healed| healed.at != end) {
        return String::new();
    }
    let last = attempts.last().filter(|op| is_granted(op)).and_then(|op| op.ret);
    let let_in =
        last.map_or_else(String::new, |ret| format!(", and is let in at {}", moment(ret.at)));
    format!(", until the faults are healed{let_in}")
}

fn is_granted(op: &Op) -> bool {
    matches!(op.outcome, Outcome::Granted { .. })
}

/// The two tenures of different callers with the least time between them.
fn closest(witness: &Witness<'_>) -> Option<Beat> {
    // What one of several holders leaves is not what the next one takes.
    if witness.finding.promise.holders > 1 {
        return None;
    }
    let pairs = witness.tenures.windows(2);
    let gap =
        |pair: &&[StoryHold<'_>]| -> Nanos { pair[1].from.at.saturating_sub(pair[0].until.at) };
    let pair = pairs
        .filter(|pair| pair[0].grant.caller != pair[1].grant.caller)
        .filter(|pair| pair[1].grant.process != PROBE && pair[0].until <= pair[1].from)
        .min_by_key(gap)?;
    let text = format!(
        "The closest hand-over: {} is granted the lock {} after {}'s hold ended.",
        pair[1].grant.caller,
        length(gap(&pair)),
        pair[0].grant.caller,
    );
    let evidence = pair.iter().map(|hold| Evidence::Op(hold.grant.id)).collect();
    Some(Beat::new(Weight::Effect, pair[1].from, text, evidence))
}

fn probe(witness: &Witness<'_>) -> Option<Beat> {
    let mut grants = witness.holds.iter().map(|hold| hold.grant);
    let op = grants.find(|op| op.process == PROBE)?;
    let healed = witness.history().healed?;
    let ret = op.ret?.instant();
    // A hold that lasts beyond the heal rightly keeps the probe out, so the sentence names its end.
    let others = witness.tenures.iter().filter(|hold| hold.grant.process != PROBE);
    let lasts = others.filter(|hold| healed < hold.until && hold.until <= ret);
    let last = lasts.max_by_key(|hold| hold.until).map_or_else(String::new, |hold| {
        let after = length(ret.at - hold.until.at);
        format!(", {after} after {}'s hold ended", hold.grant.caller)
    });
    let text = format!(
        "The probe is granted the lock {} after the heal{last}.",
        length(ret.at.saturating_sub(healed.at)),
    );
    Some(Beat::new(Weight::Crux, ret, text, vec![Evidence::Op(op.id)]))
}
