//! How the keys of the grants of the story ended, and which operation ended them.

use std::collections::BTreeMap;

use lockstorm_platform::time::{Clock, Instant, MILLISECOND, Nanos, SECOND};
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::check::verdict::Kind;
use crate::explain::evidence::Evidence;
use crate::explain::hold::{StoryHold, late_by, op, sent_again};
use crate::explain::life::StoryLife;
use crate::explain::mechanism::at_once::deleted as deleted_at_once;
use crate::explain::mechanism::handed_on::{HandOver, too_early};
use crate::explain::mechanism::theft::kept_by_another;
use crate::explain::purge::is_purged;
use crate::explain::share;
use crate::explain::story::{Beat, Weight};
use crate::explain::story::{grant, lost, order};
use crate::explain::witness::Witness;
use crate::history::{Key, Op, OpId, OpKind, Seen};
use crate::quantity::{length, list, moment};
use crate::reading::moment::Moment;

/// Keys that end in the same way within this time are stated in one sentence.
const TOGETHER: Nanos = SECOND;

/// How the keys of the story's grants ended, which keys an operation of another grant ended, and
/// which keys were extended, changed or restored.
pub fn beats(witness: &Witness<'_>) -> Vec<Beat> {
    let mut groups: BTreeMap<(OpId, KeyEnd), Vec<Vec<&StoryLife>>> = BTreeMap::new();
    let mut lives: Vec<&StoryLife> = witness.lives.iter().collect();
    // Permits that lie in the key belong to nobody.
    if share::takes_permits(witness) {
        lives.clear();
    }
    // A life joins only the last group, so the lives must come in the order of their ends.
    lives.sort_by_key(|life| life.until);
    for life in lives {
        let Some((owner, ending)) = ending(witness, life) else { continue };
        let groups = groups.entry((owner, ending)).or_default();
        match groups.last_mut() {
            Some(group) if are_together(witness, group[0], life) => group.push(life),
            _ => groups.push(vec![life]),
        }
    }
    let each = groups.iter().flat_map(|(of, groups)| groups.iter().map(move |lives| (of, lives)));
    let mut beats: Vec<Beat> = each
        .filter_map(|((owner, ending), lives)| ended(witness, *owner, *ending, lives))
        .collect();
    let struck = groups.iter().filter(|((_, ending), _)| ending.is_by_another());
    let struck = struck.flat_map(|((owner, _), groups)| {
        groups.iter().flatten().filter_map(|life| begun(witness, life, *owner))
    });
    beats.extend(struck);
    beats.extend(prolonged(witness));
    beats.extend(kept(witness));
    let handed = witness.lives.iter().filter_map(|life| Some((too_early(witness, life)?.to, life)));
    let handed = handed.filter(|(to, _)| witness.is_actor(to.id));
    beats.extend(handed.filter_map(|(_, life)| hands_on(witness, life)));
    beats.extend(put_back(witness));
    beats.extend(witness.lives.iter().filter_map(|life| counted_down(witness, life)));
    beats.extend(witness.cast().into_iter().filter_map(|grant| at_once(witness, grant)));
    beats
}

/// The sentence for a key that was gone as soon as its acquire had set it. Other sentences say so
/// of a key that has a life of its own.
fn at_once(witness: &Witness<'_>, grant: &Op) -> Option<Beat> {
    let [set, end] = deleted_at_once(witness, grant).filter(|_| witness.reading.by_member)?;
    let key = &witness.history().keys[end];
    let text = format!("{} sets its key on {} and deletes it at once.", grant.caller, key.node);
    let evidence = vec![Evidence::Op(grant.id), Evidence::Key(set), Evidence::Key(end)];
    Some(Beat::new(Weight::Cause, key.at, text, evidence))
}

/// The sentence for a release that handed the lock on while its caller still had it.
pub fn hands_on(witness: &Witness<'_>, life: &StoryLife) -> Option<Beat> {
    let HandOver { release, to, .. } = too_early(witness, life)?;
    let (who, next, node) = (&release.caller, &to.caller, &life.node);
    let text =
        format!("{who}'s release hands the lock on {node} on to {next}: {who} still has it.");
    let evidence = vec![Evidence::Op(release.id), Evidence::Op(to.id), Evidence::Key(life.born)];
    Some(Beat::new(Weight::Crux, life.from, text, evidence))
}

/// The keys of the story's grants that a start restored after they had ended.
fn put_back(witness: &Witness<'_>) -> Vec<Beat> {
    let is_shown = |life: &&StoryLife| life.owner.is_some_and(|owner| is_in_cast(witness, owner));
    let lives = witness.lives.iter().filter(is_shown);
    lives.filter_map(|life| comes_back(witness, life, Weight::Cause)).collect()
}

/// The sentence for a key that a start restored, with how the key had ended before. `None` for a
/// key that has expired by the time its node has loaded it: it blocks nobody.
pub fn comes_back(witness: &Witness<'_>, life: &StoryLife, weight: Weight) -> Option<Beat> {
    let history = witness.history();
    // First, because few keys come back: a story may look at all that there were.
    let end = &history.keys[witness.put_back(life)?.end?];
    if witness.passes(life) <= life.from.into() {
        return None;
    }
    let by = end.by.and_then(|by| op(history, by));
    let is_released = by.is_some_and(|by| match by.kind {
        OpKind::Release { grant } => Some(grant) == life.owner,
        _ => false,
    });
    let had = match end.change {
        KeyChange::Set | KeyChange::Changed if is_released => "released",
        KeyChange::Deleted => "deleted",
        KeyChange::Set => "overwritten",
        KeyChange::Changed => "taken over",
        _ => return None,
    };
    let (node, owner) = (&life.node, op(history, life.owner?)?);
    let text = format!("{node} comes back with {}'s key, which had been {had}.", owner.caller);
    let evidence = vec![Evidence::Op(owner.id), Evidence::Key(life.born)];
    Some(Beat::new(weight, life.from, text, evidence))
}

/// The sentence for a key that an older release of its own caller counted down.
fn counted_down(witness: &Witness<'_>, life: &StoryLife) -> Option<Beat> {
    let owner = life.owner.filter(|owner| is_in_cast(witness, *owner))?;
    let (change, release) = witness.counted_down(life)?;
    let key = &witness.history().keys[change];
    let (hand, sent) = hand(witness, release.id, [key]);
    let text = format!("{hand} counts down its own newer key on {}.", life.node);
    let ops = [owner, release.id].map(Evidence::Op).into_iter();
    let keys = [life.born, change].map(Evidence::Key);
    let evidence = ops.chain(sent.map(Evidence::Request)).chain(keys).collect();
    Some(Beat::new(Weight::Cause, key.at, text, evidence))
}

/// Whether an acquire belongs to the tenure of a grant of the story.
fn is_in_cast(witness: &Witness<'_>, owner: OpId) -> bool {
    witness.cast().iter().any(|grant| witness.reading.are_one(grant.id, owner))
}

/// How a key began that another operation ended: with a grant, or with an acquire that had not been
/// granted by then.
fn begun(witness: &Witness<'_>, life: &StoryLife, owner: OpId) -> Option<Beat> {
    let owner = op(witness.history(), owner)?;
    let granted = witness.hold(owner.id).filter(|hold| hold.from <= life.until);
    let beat = match granted {
        Some(_) => grant::granted(witness, owner)?,
        None => grant::early_key(witness, owner, life),
    };
    Some(Beat { weight: Weight::Cause, ..beat })
}

/// Whether one sentence states two ends. The later end must come soon, its key must have existed at
/// the first end, and no fault of its node and no grant of the story may lie in between.
fn are_together(witness: &Witness<'_>, first: &StoryLife, later: &StoryLife) -> bool {
    let (from, to) = (first.until, later.until);
    let is_between = |at: Instant| from < at && at <= to;
    let mut faults = witness.history().fault_intervals.iter().filter(|c| c.touches(&later.node));
    let is_struck = faults.any(|c| is_between(c.from) || c.to.is_some_and(is_between));
    let cast = witness.cast();
    let mut returns = cast.iter().filter_map(|grant| grant.ret).map(|ret| ret.instant());
    let was_there = later.from <= from;
    to.at <= from.at + TOGETHER && was_there && !is_struck && !returns.any(is_between)
}

/// How a key ended, as far as a sentence states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KeyEnd {
    Change(KeyChange),
    /// It expired while the node was down.
    RanOut,
    /// Its owner's own operation deleted it.
    Own(OpId),
    DeletedBy(OpId),
    OverwrittenBy(OpId),
    /// This acquire changed it in place and made it its own.
    TakenBy(OpId),
}

impl KeyEnd {
    /// Whether an operation of another grant ended it.
    fn is_by_another(self) -> bool {
        matches!(self, KeyEnd::DeletedBy(_) | KeyEnd::OverwrittenBy(_))
    }

    /// The operation that ended it.
    fn by(self) -> Option<OpId> {
        match self {
            KeyEnd::DeletedBy(id)
            | KeyEnd::OverwrittenBy(id)
            | KeyEnd::TakenBy(id)
            | KeyEnd::Own(id) => Some(id),
            KeyEnd::Change(_) | KeyEnd::RanOut => None,
        }
    }
}

fn ending(witness: &Witness<'_>, life: &StoryLife) -> Option<(OpId, KeyEnd)> {
    let owner = life.owner?;
    let key = witness.history().keys.get(life.end?)?;
    let is_own = |by: OpId| {
        grant_of_id(witness, by).is_some_and(|grant| witness.reading.are_one(grant, owner))
    };
    let foreign = key.by.filter(|by| !is_own(*by));
    let is_in_cast = is_in_cast(witness, owner);
    if order::takes(witness, life) || lost::covers(witness, life) {
        return None;
    }
    let is_shared = !witness.reading.has_owners();
    let goes_on = || witness.lives.iter().any(|next| share::goes_on(witness, life, next));
    let release =
        |by: OpId| op(witness.history(), by).filter(|op| matches!(op.kind, OpKind::Release { .. }));
    match (key.change, foreign) {
        // The last holder to leave a shared key rightly removes it, whoever created it.
        (KeyChange::Deleted, Some(by)) if is_shared && release(by).is_some() => None,
        (KeyChange::Deleted, Some(_)) if is_purged(witness, life) => {
            is_in_cast.then_some((owner, KeyEnd::Change(KeyChange::Expired)))
        }
        (KeyChange::Set, _) if goes_on() => None,
        (KeyChange::Set, Some(by)) => Some((owner, KeyEnd::OverwrittenBy(by))),
        (KeyChange::Deleted, Some(by)) => Some((owner, KeyEnd::DeletedBy(by))),
        (KeyChange::Changed, by) => {
            let by = op(witness.history(), by?).filter(|by| by.kind == OpKind::Acquire)?;
            is_in_cast.then_some((owner, KeyEnd::TakenBy(by.id)))
        }
        (KeyChange::Deleted, None) if is_in_cast && key.by.is_none() => {
            // The key had expired already; its node had merely not noticed.
            if witness.passes(life) <= key.at.into() {
                return Some((owner, KeyEnd::Change(KeyChange::Expired)));
            }
            // The sentence of a command states only the first key that it removed: this is another.
            let is_flushed = witness.reading.removers(key).next().is_some();
            is_flushed.then_some((owner, KeyEnd::Change(KeyChange::Evicted)))
        }
        (KeyChange::Deleted, None) if is_in_cast => Some((owner, KeyEnd::Own(key.by?))),
        (KeyChange::Deleted, None) | (KeyChange::Set, None) => None,
        (KeyChange::Expired, _) if is_in_cast && ran_out(witness, life, key) => {
            Some((owner, KeyEnd::RanOut))
        }
        (change, _) => is_in_cast.then_some((owner, KeyEnd::Change(change))),
    }
}

/// Whether a node was down between the expiry of a key on its clock and the instant at which that
/// became visible.
fn ran_out(witness: &Witness<'_>, life: &StoryLife, end: &Key) -> bool {
    let over = life.until_ms.and_then(|until| {
        let reading = until.saturating_add(1).saturating_mul(MILLISECOND);
        witness.reading.clocks.reaches(&life.node, Clock::Wall, life.from.into(), reading)
    });
    let over = over.map_or(end.at.at, |over| over.at.min(end.at.at));
    let deaths = witness.history().fault_intervals.iter().filter(|c| c.verb.kills());
    let mut deaths = deaths.filter(|death| death.strikes(&life.node) && death.from <= end.at);
    let was_killed = deaths.any(|death| death.to.is_none_or(|to| to.at >= over));
    let mut sightings = witness.history().sightings.iter().rev();
    let last = sightings.find(|seen| seen.by == life.node && seen.at.at <= over);
    let was_killed = was_killed || last.is_some_and(|seen| seen.what == Seen::Exited);
    let over = Moment { at: over, seq: 0 };
    was_killed || witness.reading.ended_within(&life.node, over, end.at.into())
}

fn grant_of_id(witness: &Witness<'_>, id: OpId) -> Option<OpId> {
    op(witness.history(), id)?.grant()
}

fn ended(witness: &Witness<'_>, owner: OpId, ending: KeyEnd, lives: &[&StoryLife]) -> Option<Beat> {
    let whose = witness.caller(owner)?;
    let mut nodes: Vec<String> = Vec::new();
    for life in lives.iter().filter(|life| life.end.is_some()) {
        // Several lives on one node may end by one operation.
        if !nodes.contains(&life.node) {
            nodes.push(life.node.clone());
        }
    }
    let on = list(&nodes);
    let is_one = nodes.len() == 1;
    let mut evidence = vec![Evidence::Op(owner)];
    let (hand, sent) = ending.by().map_or_else(Default::default, |id| {
        let ends = lives.iter().filter_map(|life| witness.history().keys.get(life.end?));
        hand(witness, id, ends)
    });
    evidence.extend(sent.map(Evidence::Request));
    let is_by_its_caller = ending.by().is_some_and(|id| witness.caller(id) == Some(whose));
    let what = match ending {
        KeyEnd::DeletedBy(id) | KeyEnd::OverwrittenBy(id) | KeyEnd::TakenBy(id)
            if is_by_its_caller =>
        {
            let began = |id| op(witness.history(), id).map(|op| op.call.seq);
            match grant_of_id(witness, id).and_then(began) < began(owner) {
                true => "its own newer key".to_owned(),
                false => "its own older key".to_owned(),
            }
        }
        _ => format!("{whose}'s key"),
    };
    let text = match ending {
        KeyEnd::Change(KeyChange::Expired) => format!("{whose}'s expired key is removed on {on}."),
        KeyEnd::Change(KeyChange::Evicted) => {
            let removes = if is_one { "removes" } else { "remove" };
            format!("{on} {removes} {whose}'s key.")
        }
        KeyEnd::Change(KeyChange::LostAtRestart) => {
            let comes = if is_one { "comes" } else { "come" };
            format!("{on} {comes} back without {whose}'s key.")
        }
        KeyEnd::Change(_) if is_one => {
            format!("{on} loses {whose}'s key: its master does not have it.")
        }
        KeyEnd::Change(_) => format!("{on} lose {whose}'s key: their master does not have it."),
        KeyEnd::RanOut => {
            format!("{whose}'s key, which had run out, is gone from {on}, which had been down.")
        }
        KeyEnd::Own(_) => format!("{hand} deletes its own key on {on}."),
        KeyEnd::DeletedBy(_) => format!("{hand} deletes {what} on {on}."),
        KeyEnd::OverwrittenBy(_) => format!("{hand} overwrites {what} on {on}."),
        KeyEnd::TakenBy(_) => format!("{hand} takes over {what} on {on}."),
    };
    for life in lives {
        evidence.extend([Evidence::Key(life.born), Evidence::Key(life.end?)]);
    }
    let at: Instant = lives.iter().map(|life| life.until).min()?;
    evidence.extend(ending.by().map(Evidence::Op));
    // A key that its owner deletes while it still holds the lock lets others in.
    let is_inside = |life: &&StoryLife| {
        let holds = |hold: &&StoryHold<'_>| witness.is_of(hold, owner);
        let hold = witness.tenures.iter().find(holds);
        hold.is_some_and(|hold| hold.from < life.until && life.until < hold.until)
    };
    let weight = match ending {
        KeyEnd::Own(_) if sent.is_none() && !lives.iter().any(is_inside) => Weight::Minor,
        _ if at > witness.primary?.from => Weight::Effect,
        KeyEnd::DeletedBy(_) | KeyEnd::OverwrittenBy(_) if !is_by_its_caller => Weight::Crux,
        _ => Weight::Cause,
    };
    Some(Beat::new(weight, at, text, evidence))
}

/// The caller that changed keys, with its command if that was late, as text; and the index of that
/// late request.
fn hand<'k>(
    witness: &Witness<'_>,
    id: OpId,
    changes: impl IntoIterator<Item = &'k Key>,
) -> (String, Option<usize>) {
    let who = witness.caller(id).unwrap_or("somebody");
    let late = changes.into_iter().find_map(|key| {
        let requests = witness.history().requests.iter().enumerate();
        let mut theirs = requests.filter(|(_, r)| r.op == id && r.to == key.node && !r.other_keys);
        theirs.find_map(|(index, request)| {
            let is_there = request.at(Leg::Applied)?.at == key.at.at;
            let late = late_by(request).filter(|_| is_there)?;
            Some((index, request, late))
        })
    });
    match late {
        Some((index, request, took)) => {
            let again = sent_again(witness.history(), request).map_or_else(String::new, |whole| {
                format!(" and sent again once its link was whole at {}", moment(whole.at))
            });
            let (command, took) = (&request.command, length(took));
            let text = format!("{who}'s {command}, {took} on its way{again},");
            (text, Some(index))
        }
        None => (who.to_owned(), None),
    }
}

/// Extends that another caller's key kept, where no order is legal because of them.
fn kept(witness: &Witness<'_>) -> Vec<Beat> {
    let named = witness.of_kind(Kind::NotLinearizable).flat_map(|violation| &violation.ops);
    let extends = named.filter_map(|id| op(witness.history(), *id));
    let beats = extends.filter_map(|extend| {
        let (index, victim) = kept_by_another(witness, extend)?;
        let (key, whose) = (&witness.history().keys[index], witness.caller(victim)?);
        let (who, noun, node) = (&extend.caller, extend.kind.noun(), &key.node);
        let text = format!("{who}'s {noun} finds {whose}'s key on {node}, and returns as kept.");
        let evidence = vec![Evidence::Op(extend.id), Evidence::Op(victim), Evidence::Key(index)];
        Some(Beat::new(Weight::Crux, key.at, text, evidence))
    });
    beats.collect()
}

/// Extends and releases that extended another caller's key, or changed it in place, as named by the
/// violations.
fn prolonged(witness: &Witness<'_>) -> Vec<Beat> {
    let harms = [Kind::ForeignExtend, Kind::ForeignRelease].into_iter();
    let named = harms.flat_map(|kind| witness.of_kind(kind)).flat_map(|v| v.keys.iter().copied());
    named
        .filter_map(|index| {
            let keys = &witness.history().keys;
            let key: &Key = keys.get(index)?;
            let does = match key.change {
                KeyChange::Extended => "prolongs",
                KeyChange::Changed => "changes",
                _ => return None,
            };
            let (by, who) = (key.by?, witness.caller(key.by?)?);
            let life = witness.lives.iter().rfind(|l| l.node == key.node && l.from < key.at)?;
            let owner = life.owner.filter(|owner| witness.caller(*owner) != Some(who))?;
            // The key that it was handed is its own.
            if too_early(witness, life).is_some_and(|handed| handed.to.caller == who) {
                return None;
            }
            let whose = witness.caller(owner)?;
            let text = format!("{who} {does} {whose}'s key on {}.", key.node);
            let evidence = vec![Evidence::Op(by), Evidence::Key(life.born), Evidence::Key(index)];
            Some(Beat::new(Weight::Crux, key.at, text, evidence))
        })
        .collect()
}
