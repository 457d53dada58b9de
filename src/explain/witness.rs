//! The evidence of a finding: the headline violation, and its grants.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::time::{Clock, Instant, MILLISECOND};
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::check::verdict::{Cause, Kind, Verdict, Violation};
use crate::explain::answers::Answers;
use crate::explain::finding::Finding;
use crate::explain::hold::{StoryHold, holds, op, tenures};
use crate::explain::life::{StoryLife, lives};
use crate::history::{FaultInterval, History, Key, Op, OpId, OpKind, Outcome, PROBE, Request};
use crate::plan::TopologyKind;
use crate::reading::history::Reading;
use crate::reading::hold::HoldEnd;
use crate::reading::key_life::{KeyLife, Touch};
use crate::reading::leaders;
use crate::reading::leaders::Leaders;
use crate::reading::moment::Moment;
use crate::reading::tries::tries;

/// A finding with the derived values that sentences and pictures need repeatedly.
#[derive(Clone, Debug)]
pub struct Witness<'a> {
    /// The finding.
    pub finding: &'a Finding,
    /// The reading of its history.
    pub reading: Reading<'a>,
    /// Every hold, in order.
    pub holds: Vec<StoryHold<'a>>,
    /// Every tenure as one hold, of the acquire that began it, in order.
    pub tenures: Vec<StoryHold<'a>>,
    /// Every life of the lock's key, in order.
    pub lives: Vec<StoryLife>,
    /// The headline violation: the first one, unless trials showed that another is typical.
    pub primary: Option<&'a Violation>,
    /// The grants of the first violation, the earliest first.
    pub actors: Vec<&'a Op>,
}

/// Where several keys are locks of their own, the one of the nearest miss.
pub fn nearest_key(finding: &Finding) -> Option<&str> {
    let nearest = finding.judgement.nearest.as_ref()?;
    let is_one_of_several = !op(&finding.history, nearest.grant)?.keys.is_empty();
    let key = finding.history.keys.get(nearest.key.filter(|_| is_one_of_several)?)?;
    Some(&key.key)
}

impl<'a> Witness<'a> {
    /// Reads a finding.
    pub fn of(finding: &'a Finding) -> Witness<'a> {
        Witness::at(finding, finding.headline())
    }

    /// Reads a finding whose headline is this one of its violations.
    pub fn at(finding: &'a Finding, headline: usize) -> Witness<'a> {
        let history = &finding.history;
        let holders = (finding.promise.holders, finding.plan.workload.reenter);
        let primary = violations(&finding.judgement.verdict).get(headline);
        let key = primary.and_then(|primary| primary.key.as_deref()).or(nearest_key(finding));
        let reading = Reading::of(history, key.unwrap_or(&finding.plan.lock.key), holders);
        let ids = primary.map_or(&[][..], |violation| &violation.ops);
        let grants = ids.iter().filter_map(|id| op(history, *id)?.grant());
        let grants: BTreeSet<OpId> = grants.collect();
        let mut actors: Vec<&Op> = grants.into_iter().filter_map(|id| op(history, id)).collect();
        actors.sort_by_key(|op| op.call.seq);
        Witness {
            finding,
            holds: holds(&reading),
            tenures: tenures(&reading),
            lives: lives(&reading),
            reading,
            primary,
            actors,
        }
    }

    /// The history of the finding.
    pub fn history(&self) -> &'a History {
        &self.finding.history
    }

    /// Every violation, the headline first.
    pub fn violations(&self) -> &'a [Violation] {
        violations(&self.finding.judgement.verdict)
    }

    /// The violations of one kind.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &'a Violation> {
        self.violations().iter().filter(move |violation| violation.kind == kind)
    }

    /// Whether the first violation is about this grant.
    pub fn is_actor(&self, grant: OpId) -> bool {
        self.actors.iter().any(|actor| actor.id == grant)
    }

    /// The actors and the grants under which a key that an actor relied on was ended before the
    /// harm, by number.
    pub fn cast(&self) -> Vec<&'a Op> {
        let found = self.found_by_actors();
        let is_theirs = |(index, life): &(usize, &StoryLife)| {
            life.owner.is_some_and(|owner| self.is_actor(owner)) || found.contains(index)
        };
        let ended = self.lives.iter().enumerate().filter(is_theirs).map(|(_, life)| life);
        let begun = self.primary.map_or_else(Instant::default, |primary| primary.from);
        let by = ended
            .filter_map(|life| self.history().keys.get(life.end?))
            .filter(|key| key.at <= begun)
            .filter_map(|key| key.by);
        let mut cast: Vec<OpId> = by.filter_map(|by| op(self.history(), by)?.grant()).collect();
        cast.extend(self.actors.iter().map(|actor| actor.id));
        cast.sort_unstable();
        cast.dedup();
        cast.into_iter().filter_map(|grant| op(self.history(), grant)).collect()
    }

    /// The lives by whose key an actor was let in: it found the key as its own, and changed it.
    fn found_by_actors(&self) -> BTreeSet<usize> {
        let keys = &self.history().keys;
        let enters = |touch: &&Touch| {
            let change = &keys[touch.change];
            let is_kept = matches!(change.change, KeyChange::Changed | KeyChange::Extended);
            is_kept && change.by.is_some_and(|by| self.is_actor(by))
        };
        self.reading.lives.touches.iter().filter(enters).map(|touch| touch.met).collect()
    }

    /// The hold that an acquire began.
    pub fn hold(&self, grant: OpId) -> Option<&StoryHold<'a>> {
        self.holds.iter().find(|hold| hold.grant.id == grant)
    }

    /// Whether a caller that lost the lock was notified of the loss at all.
    pub fn is_notified(&self, violation: &Violation) -> bool {
        let mut holds = violation.ops.iter().filter_map(|id| self.hold(*id));
        holds.any(|hold| matches!(hold.end, HoldEnd::Lost(_)))
    }

    /// When the tenure of a grant last ceased to be covered.
    pub fn lost_at(&self, grant: OpId) -> Option<Moment> {
        Some(self.reading.tenure(grant)?.lease_end)
    }

    /// Whether a grant belongs to a tenure.
    pub fn is_of(&self, tenure: &StoryHold<'_>, grant: OpId) -> bool {
        self.reading.are_one(grant, tenure.grant.id)
    }

    /// The caller of an operation.
    pub fn caller(&self, id: OpId) -> Option<&'a str> {
        op(self.history(), id).map(|op| op.caller.as_str())
    }

    /// The hold of the first violation that was past its lease while another caller's was not.
    pub fn stale(&self) -> Option<&StoryHold<'a>> {
        let (_, to) = self.overlap()?;
        let mut holds = self.actors.iter().filter_map(|grant| self.hold(grant.id));
        holds.find(|hold| hold.bare_from().is_some_and(|bare| bare < to.at))
    }

    /// The stale hold, if there was no access under it since another caller was granted the lock,
    /// nor one by its caller while both held it.
    pub fn idle(&self) -> Option<&StoryHold<'a>> {
        let (from, to) = self.overlap()?;
        let hold = self.stale()?;
        let others = self.holds.iter().filter(|other| other.grant.caller != hold.grant.caller);
        let within =
            others.map(|other| other.from).filter(|at| hold.from < *at && *at < hold.until);
        let since = within.min()?;
        let mut accesses = self.history().accesses.iter();
        let used = accesses.any(|a| {
            let is_of_hold = a.grant == Some(hold.grant.id) && a.at > since;
            is_of_hold || a.caller == hold.grant.caller && from <= a.at && a.at <= to
        });
        (!used).then_some(hold)
    }

    /// The grants of a fence regress with their numbers, the larger number first.
    pub fn regress(&self, violation: &Violation) -> Option<[(&'a Op, u64); 2]> {
        let numbered = |id: &OpId| {
            let op = op(self.history(), *id)?;
            let Outcome::Granted { fence, .. } = op.outcome else { return None };
            Some((op, fence?))
        };
        let [one, other] = &violation.ops[..] else { return None };
        let (one, other) = (numbered(one)?, numbered(other)?);
        Some(if one.1 < other.1 { [other, one] } else { [one, other] })
    }

    /// The release that had returned before a renewal took effect, if the violation names one.
    pub fn release(&self, violation: &Violation) -> Option<&'a Op> {
        let mut ops = violation.ops.iter().filter_map(|id| op(self.history(), *id));
        ops.find(|op| matches!(op.kind, OpKind::Release { .. }))
    }

    /// The end of what the story shows: of the first violation, of the operations of its grants,
    /// and of the first harm after it began.
    pub fn horizon(&self) -> Instant {
        let Some(primary) = self.primary else { return self.history().end };
        let holds = self.actors.iter().filter_map(|grant| self.hold(grant.id));
        let ends = holds.filter(|hold| hold.end != HoldEnd::Open).map(|hold| hold.until);
        let accesses = self.history().accesses.iter();
        let theirs = accesses.filter(|a| a.grant.is_some_and(|grant| self.is_actor(grant)));
        let harm = self.harm().map(|violation| violation.to);
        let all = ends.chain(theirs.map(|access| access.at)).chain(harm);
        all.fold(primary.to, Instant::max)
    }

    /// The first corruption after the first violation began: an earlier one is another story.
    pub fn harm(&self) -> Option<&'a Violation> {
        let begun = self.primary.map_or_else(Instant::default, |primary| primary.from);
        self.of_kind(Kind::Corruption).find(|harm| harm.from >= begun)
    }

    /// The index of the access that is at fault: the last one that a caller sent outside its hold,
    /// where the caller is to blame, or else the late one.
    pub fn blamed_access(&self, violation: &Violation) -> Option<usize> {
        let accesses = &self.history().accesses;
        let is_misuse = |index: &&usize| self.reading.is_sent_outside_a_hold(&accesses[**index]);
        match violation.cause? {
            Cause::Caller => violation.accesses.iter().rev().find(is_misuse).copied(),
            Cause::InFlight => self.late_access(violation),
            _ => None,
        }
    }

    /// The index of the late access that spoilt the resource: one that was undone, if all undone
    /// ones fell into the hold of the last access; or else the last; or else any undone one.
    fn late_access(&self, violation: &Violation) -> Option<usize> {
        let accesses = &self.history().accesses;
        let tenure = |index: usize| self.reading.tenure(accesses[index].grant?);
        let is_late = |index: &&usize| {
            let at = accesses[**index].at.into();
            tenure(**index).is_some_and(|tenure| tenure.whole.end <= at)
        };
        let (last, undone) = violation.accesses.split_last()?;
        let own = tenure(*last);
        let is_within = |index: &&usize| {
            let at = Moment::from(accesses[**index].at);
            own.is_some_and(|own| own.whole.start <= at && at < own.whole.end)
        };
        let undid_intruders = undone.iter().all(|index| is_within(&index));
        let intruder = undone.iter().rev().find(|index| undid_intruders && is_late(index));
        let found = intruder.or_else(|| Some(last).filter(is_late));
        found.or_else(|| undone.iter().rev().find(is_late)).copied()
    }

    /// The lives of the key that block others though no caller holds the lock, with their owners:
    /// those that a leak names, and those that exist at the end of the probe's time and existed at
    /// the heal, or are those of an acquire from before the heal that came late or that a start
    /// restored. The keys that the probe met come first.
    pub fn left(&self) -> impl Iterator<Item = (&StoryLife, &'a Op)> {
        let named: Vec<usize> =
            self.of_kind(Kind::Leak).flat_map(|leak| leak.keys.iter().copied()).collect();
        // If no node replies to the probe, a key is not what keeps it out.
        let is_reached = !self.is_unreached();
        let asked = self.asked_by_probe();
        let stuck = self.of_kind(Kind::Stuck).next().filter(|_| is_reached).map(|stuck| stuck.to);
        let lives = self.lives.iter().filter(move |life| {
            let is_early = self.is_there(life, self.healed()) || self.came_late(life);
            let is_asked = asked.is_empty() || asked.contains(life.node.as_str());
            let outlasts = |at| is_asked && is_early && self.is_there(life, at);
            named.contains(&life.born)
                || life.owner.is_some() && !self.is_copy(life) && stuck.is_some_and(outlasts)
        });
        let (met, others): (Vec<_>, Vec<_>) = lives.partition(|life| self.kept_out_probe(life));
        let lives = met.into_iter().chain(others);
        lives.filter_map(|life| Some((life, op(self.history(), self.owner_of(life)?)?)))
    }

    /// Whether an acquire from before the heal set a key after the heal.
    fn came_late(&self, life: &StoryLife) -> bool {
        let by = self.history().keys[life.born].by.and_then(|by| op(self.history(), by));
        let is_early = |by: &Op| by.kind == OpKind::Acquire && by.call.instant() < self.healed();
        self.healed() < life.from && by.is_some_and(is_early)
    }

    /// Whether the node of a key follows another from the heal on, and so lets nobody in.
    fn is_copy(&self, life: &StoryLife) -> bool {
        let follows = |at| self.reading.follows(&life.node, at);
        follows(self.healed()) && follows(self.history().end)
    }

    /// The acquire to which a key belongs, even if the key was set by the release of that acquire.
    fn owner_of(&self, life: &StoryLife) -> Option<OpId> {
        self.reading.leaver(self.life(life)?)
    }

    /// The same life in the reading.
    pub fn life(&self, life: &StoryLife) -> Option<&KeyLife<'a>> {
        self.reading.lives.lives.iter().find(|own| own.born == life.born)
    }

    /// The earlier key of the same acquire that a start restored as this one on its node, without
    /// a command.
    pub fn put_back(&self, life: &StoryLife) -> Option<&StoryLife> {
        let follows = self.reading.follows(&life.node, life.from);
        self.came_back(life).filter(|_| !follows)
    }

    /// The earlier key of the same acquire that came back on its node as this one without a
    /// command: a start restored it, or the node replicated it from a node that had it.
    pub fn came_back(&self, life: &StoryLife) -> Option<&StoryLife> {
        let born = &self.history().keys[life.born];
        let had = |earlier: &&StoryLife| {
            let is_same = earlier.owner == life.owner && earlier.node == life.node;
            is_same && earlier.born < life.born && earlier.until <= life.from
        };
        let is_set_anew =
            born.change != KeyChange::Set || born.by.is_none() || self.reading.is_by_command(born);
        if is_set_anew { None } else { self.lives.iter().rfind(had) }
    }

    /// The release that set a key, if one did.
    pub fn set_by_release(&self, life: &StoryLife) -> Option<&'a Op> {
        let by = op(self.history(), self.history().keys[life.born].by?)?;
        matches!(by.kind, OpKind::Release { .. }).then_some(by)
    }

    /// The change by which an older release of the same caller counted a key down, and that
    /// release, if another operation ended the key.
    pub fn counted_down(&self, life: &StoryLife) -> Option<(usize, &'a Op)> {
        let keys = self.history().keys.iter().enumerate();
        // A change of a set as a whole is none of each of its members.
        let name = &self.history().keys[life.born].key;
        let inside = keys.filter(|(_, key)| {
            let is_there = life.from < key.at && key.at < life.until;
            is_there && key.node == life.node && key.key == *name
        });
        let end = life.end.and_then(|end| self.history().keys.get(end)).and_then(|key| key.by);
        let changes = inside.filter(|(_, key)| key.change == KeyChange::Changed);
        let by_another = |key: &Key| end.is_some() && key.by != end;
        let sent = |key: &Key| by_another(key) && self.reading.is_by_command(key);
        changes.filter(|(_, key)| sent(key)).find_map(|(index, key)| {
            let by = op(self.history(), key.by?)?;
            (matches!(by.kind, OpKind::Release { .. }) && self.is_older(by, life))
                .then_some((index, by))
        })
    }

    /// Whether a key's own caller called an operation before the acquire to which the key belongs.
    pub fn is_older(&self, of: &Op, life: &StoryLife) -> bool {
        let Some(owner) = life.owner.and_then(|owner| self.reading.op(owner)) else { return false };
        of.caller == owner.caller && of.call.instant() < owner.call.instant()
    }

    /// How many nodes must grant the lock. With independent nodes it is the plan's quorum, or the
    /// majority of the groups that one acquire queried: a node and its replacement are one group.
    pub fn quorum(&self) -> u32 {
        let plan = &self.finding.plan;
        if plan.topology.kind != TopologyKind::Independent {
            return 1;
        }
        let mut queried: BTreeMap<OpId, BTreeSet<&str>> = BTreeMap::new();
        let acquires = self.history().ops.iter().filter(|op| op.kind == OpKind::Acquire);
        let acquires: BTreeSet<OpId> = acquires.map(|op| op.id).collect();
        let leaders = Leaders::of(self.history());
        for request in self.history().requests.iter().filter(|r| acquires.contains(&r.op)) {
            queried.entry(request.op).or_default().insert(leaders.group(&request.to));
        }
        let most = queried.values().map(BTreeSet::len).max().unwrap_or(1);
        plan.lock.quorum.unwrap_or(u32::try_from(most).unwrap_or(u32::MAX) / 2 + 1)
    }

    /// When the faults were healed.
    pub fn healed(&self) -> Instant {
        self.history().healed.unwrap_or(self.history().end)
    }

    /// Whether a key exists at an instant: neither removed nor expired by its node's clock, on a
    /// node whose process runs.
    pub fn is_there(&self, life: &StoryLife, at: Instant) -> bool {
        let line = self.reading.clocks.line(&life.node, Clock::Wall, at.into());
        let wall_ms = line.map(|line| line.at(at.at) / MILLISECOND);
        let is_past = life.until_ms.zip(wall_ms).is_some_and(|(until, now)| until < now);
        let is_removed = life.end.is_some() && life.until <= at;
        // The heal starts nodes at its own instant: a key that is not lost then exists at the heal.
        let outlasts = life.end.is_none() || life.until.at > at.at;
        let then = Moment { at: at.at, seq: if outlasts { u64::MAX } else { at.seq } };
        let is_dead = leaders::is_dead(self.history(), &life.node, then);
        life.from <= at && !is_removed && !is_past && !is_dead
    }

    /// Whether nothing will ever remove a key that exists at the end: it has no time to live, and
    /// no request to its node is still under way.
    pub fn stays(&self, life: &StoryLife) -> bool {
        let is_under_way = |request: &Request| {
            let sent = request.at(Leg::Sent).filter(|_| request.at(Leg::Applied).is_none());
            let is_lost = |sent: Instant| self.reading.death_after(&request.to, sent.into());
            request.to == life.node && sent.is_some_and(|sent| is_lost(sent).is_none())
        };
        let is_by_client = |request: &Request| {
            op(self.history(), request.op).is_some_and(|op| op.process != PROBE)
        };
        let mut requests = self.history().requests.iter();
        life.until_ms.is_none()
            && life.end.is_none()
            && !requests.any(|request| is_by_client(request) && is_under_way(request))
    }

    /// Whether the acquire that set a key deleted it in the same try, and then tried again.
    pub fn is_given_back(&self, life: &StoryLife) -> bool {
        let keys = &self.history().keys;
        let Some(end) = life.end.map(|end| &keys[end]) else { return false };
        let born = &keys[life.born];
        if end.change != KeyChange::Deleted || born.by.is_none() || end.by != born.by {
            return false;
        }
        let requests = self.history().requests.iter();
        let own: Vec<&Request> = requests.filter(|request| Some(request.op) == born.by).collect();
        let tries = tries(&own, &life.node);
        let makes = |attempt: &[&Request], change: &Key| {
            let mut applied = attempt.iter().filter_map(|request| request.at(Leg::Applied));
            applied.any(|at| at.at == change.at.at)
        };
        let earlier = tries.len().saturating_sub(1);
        tries[..earlier].iter().any(|attempt| makes(attempt, born) && makes(attempt, end))
    }

    /// Whether the release of its own grant ended a key while that grant's tenure went on: its
    /// caller still held another grant.
    pub fn is_given_back_inside(&self, life: &StoryLife) -> bool {
        let end = life.end.and_then(|end| self.history().keys.get(end)?.by);
        let release = end.and_then(|by| op(self.history(), by)).filter(|by| match by.kind {
            OpKind::Release { grant } => Some(grant) == life.owner,
            _ => false,
        });
        let mut tenures = self.tenures.iter();
        let is_inside = |release: &Op| {
            let own = |hold: &&StoryHold<'_>| release.grant().is_some_and(|g| self.is_of(hold, g));
            tenures.find(own).is_some_and(|hold| release.call.instant() < hold.until)
        };
        release.is_some_and(is_inside)
    }

    /// Which requests of an operation got a reply. An error is a reply.
    pub fn answers(&self, op: &Op) -> Answers<'a> {
        let own = self.reading.requests_of(op.id).iter().copied();
        let (answered, open): (Vec<&'a Request>, Vec<_>) = own.partition(|it| it.is_answered());
        let nodes: BTreeSet<&str> = answered.iter().map(|request| &*request.to).collect();
        let silent = open.iter().map(|request| &*request.to).filter(|node| !nodes.contains(node));
        let silent: BTreeSet<&'a str> = silent.collect();
        let unsent = |request: &&Request| request.at(Leg::Unsent).is_some();
        match open.last() {
            Some(_) if answered.is_empty() && open.iter().all(unsent) => Answers::Unsent,
            None if answered.is_empty() => Answers::NoRequest,
            _ if answered.is_empty() => Answers::None,
            None => Answers::All,
            Some(_) if !silent.is_empty() => {
                Answers::NotOf(silent.into_iter().map(str::to_owned).collect())
            }
            Some(last) => Answers::NotTo(&last.command),
        }
    }

    /// When a key expires by its node's clock.
    pub fn passes(&self, life: &StoryLife) -> Moment {
        self.life(life).map_or(Moment::NEVER, |own| self.reading.passes(own))
    }

    /// When a key was removed or had expired.
    pub fn gone(&self, life: &StoryLife) -> Moment {
        self.passes(life).min(life.until.into())
    }

    /// The stretch in which more than the allowed number hold the lock, if that is the headline
    /// violation.
    pub fn overlap(&self) -> Option<(Instant, Instant)> {
        let overlapping = |v: &&Violation| matches!(v.kind, Kind::DoubleGrant | Kind::StaleHolder);
        self.primary.filter(overlapping).map(|v| (v.from, v.to))
    }

    /// Whether this fault interval caused a breached assumption.
    pub fn is_blamed(&self, interval: &FaultInterval) -> bool {
        match &self.finding.class {
            Some(class) => {
                let mut broken = class.broken.iter();
                broken.any(|assumption| assumption.faults.contains(&interval.fault))
            }
            None => false,
        }
    }
}

/// The violations of a verdict; empty unless it is violated.
pub fn violations(verdict: &Verdict) -> &[Violation] {
    match verdict {
        Verdict::Violated(violations) => violations,
        Verdict::Holds | Verdict::Unknown(_) => &[],
    }
}

/// The kinds of a verdict, each once, in order.
pub fn kinds(verdict: &Verdict) -> Vec<Kind> {
    let kinds: BTreeSet<Kind> = violations(verdict).iter().map(|v| v.kind).collect();
    kinds.into_iter().collect()
}
