//! Why a holder continued although its key had expired at its own time.

use lockstorm_platform::fault::Verb;
use lockstorm_platform::time::{Clock, MILLISECOND, Nanos};
use lockstorm_platform::trace::KeyChange;

use crate::explain::evidence::Evidence;
use crate::explain::hold::StoryHold;
use crate::explain::life::StoryLife;
use crate::explain::mechanism::clock::{KnownDeadline, deadlines, disturbed, known, ops};
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::mechanism::renewal::{lied, renewal};
use crate::explain::mechanism::shortened::shortened;
use crate::explain::mechanism::takeover::{became_master, took_over};
use crate::explain::trial;
use crate::explain::witness::Witness;
use crate::history::{FaultInterval, Key, Op, OpId, OpKind, Outcome};
use crate::ledger::overwork::overworked;
use crate::plan::extend::Extend;
use crate::promise::Bounded;
use crate::quantity::{length, moment};
use crate::reading::hold::HoldEnd;
use crate::reading::index::{Halt, standing};
use crate::reading::moment::Moment;

/// Why the holder of a tenure believed at `at` that it held the lock, though its keys were gone by
/// `gone`. A grant that arrives after `at` is examined at its arrival: its caller does not believe
/// in it before.
pub fn belief(
    witness: &Witness<'_>,
    hold: &StoryHold<'_>,
    (gone, at): (Moment, Moment),
) -> Mechanism {
    let at = at.max(Moment::from(hold.from));
    let covers = witness.reading.tenure(hold.grant.id).is_some_and(|whole| whole.covers(at));
    // A process that died within its lease did not outlive it, so it counts as covered.
    let died = matches!(hold.end, HoldEnd::Died(_)) && hold.until.at < at.at;
    let term = Term::of(witness, hold, (gone, at));
    let lease = term.as_ref().map(|term| term.lease).max(hold.lease);
    let is_covered = covers || died && lease.is_some_and(|lease| at.at < lease);
    let halts = || term.as_ref().map_or(&[][..], |term| &term.halts).iter().copied();
    let halts = || halts().filter(|halt| halt.from <= at);
    let stood = |halts: Vec<Halt>| still(witness, hold, term.as_ref()?, &halts);
    let acts = |halt: &Halt| trial::acts(witness.finding, halt.interval) != Some(false);
    let acting = || stood(halts().filter(acts).collect());
    let found = match is_covered {
        true => lied(witness, hold, (Moment::default(), at))
            .or_else(|| unreplicated(witness, hold, at))
            .or_else(|| lost_track(witness, hold, (gone, at)))
            .or_else(|| shortened(witness, hold, at)),
        false => acting()
            .or_else(|| renewal(witness, hold, ended(term.as_ref(), at)))
            .or_else(|| waiting(witness, hold, term.as_ref()?))
            .or_else(|| unsent(witness, hold, term.as_ref()?)),
    };
    let who = &hold.grant.caller;
    let own = vec![Evidence::Op(hold.grant.id)];
    found.unwrap_or_else(|| match (is_covered, hold.lease) {
        (true, None) => {
            let text = format!("{who}'s lease ran out, and its grant names no end of it.");
            Mechanism::new(How::DeadlineTooLate, text, own)
        }
        (true, Some(_)) => {
            let text = format!("{who} counts on its lease for longer than its key lives.");
            Mechanism::new(How::DeadlineTooLate, text, own)
        }
        (false, _) if term.as_ref().is_some_and(Term::is_outworked) => {
            let text = format!("{who}'s lease ran out under its work.");
            Mechanism::new(How::Overworked, text, own)
        }
        // No other mechanism is proven, so halts are named even if trials found no effect of them.
        (false, _) => shortened(witness, hold, at)
            .or_else(|| stood(halts().collect()))
            .or_else(|| short_lived(witness, hold, gone))
            .unwrap_or_else(Mechanism::unclear),
    })
}

/// Whether the key was gone before the lease of which its holder knew was over. The holder may have
/// given up the lock since then, which explains nothing.
fn short_lived(witness: &Witness<'_>, hold: &StoryHold<'_>, gone: Moment) -> Option<Mechanism> {
    let lease = Term::of(witness, hold, (gone, gone))?.lease;
    let is_early = hold.from.at <= gone.at && gone.at < lease;
    let too_late = || {
        let who = &hold.grant.caller;
        let text = format!("{who} counts on its lease for longer than its key lives.");
        Mechanism::new(How::DeadlineTooLate, text, vec![Evidence::Op(hold.grant.id)])
    };
    is_early.then(|| clock(witness, hold, (gone, gone)).unwrap_or_else(too_late))
}

/// A grant whose lease was over when it arrived.
pub fn dead(hold: &StoryHold<'_>) -> Option<Mechanism> {
    let arrived = hold.covered.first().is_some_and(|(from, _)| *from <= hold.from.at);
    let lease = hold.lease.filter(|_| !arrived)?;
    let who = &hold.grant.caller;
    let late = length(hold.from.at.saturating_sub(lease));
    let text = format!("{who} accepted a grant whose lease had ended {late} before.");
    Some(Mechanism::new(How::DeadOnArrival, text, vec![Evidence::Op(hold.grant.id)]))
}

/// Whether the holder's last renewal never reached the promoted node on which its key expired.
fn unreplicated(witness: &Witness<'_>, hold: &StoryHold<'_>, at: Moment) -> Option<Mechanism> {
    let keys = || witness.history().keys.iter().enumerate();
    let is_kept = |op: &&Op| {
        matches!(op.kind, OpKind::Extend { .. }) && matches!(op.outcome, Outcome::Kept { .. })
    };
    let last =
        ops(witness, hold).into_iter().filter(is_kept).rfind(|op| Moment::from(op.call) < at)?;
    let is_out = |life: &&StoryLife| {
        Moment::from(life.until) <= at
            && life.owner.is_some_and(|owner| witness.is_of(hold, owner))
            && !keys().any(|(_, key)| key.by == Some(last.id) && key.node == life.node)
    };
    let out = witness.lives.iter().filter(is_out);
    let (life, index, (led, report)) = out.rev().find_map(|life| {
        let mut prolonged = keys().filter(|(_, key)| key.by == Some(last.id));
        prolonged.find_map(|(index, key)| {
            let led = took_over(witness, &life.node, Some(&key.node), at)?;
            Some((life, index, led))
        })
    })?;
    let key = &witness.history().keys[index];
    let became = became_master(witness, &life.node, led);
    let became =
        if key.at < led { became.to_owned() } else { became.replacen("was", "had been", 1) };
    let text = format!(
        "{}'s renewal at {} on {} never reached {}, which {became} at {}.",
        hold.grant.caller,
        moment(last.call.at),
        key.node,
        life.node,
        moment(led.at)
    );
    let evidence =
        vec![Evidence::Op(last.id), Evidence::Key(index), Evidence::Key(life.born), report];
    Some(Mechanism::new(How::NeverReached, text, evidence))
}

/// Whether a start restored an earlier expiry of the key, or the holder's clock is to blame. If
/// trials found that no start made a difference, the clock is examined first, and up to the end of
/// the overlap: without the start the overlap would have begun later.
fn lost_track(
    witness: &Witness<'_>,
    hold: &StoryHold<'_>,
    (gone, at): (Moment, Moment),
) -> Option<Mechanism> {
    if !trial::is_forgetting_idle(witness.finding) {
        return forgotten(witness, hold, at).or_else(|| clock(witness, hold, (gone, at)));
    }
    let last = witness.overlap().map_or(at, |(_, to)| at.max(to.min(hold.until).into()));
    clock(witness, hold, (gone, at))
        .or_else(|| clock(witness, hold, (gone, last)))
        .or_else(|| forgotten(witness, hold, at))
}

/// Whether a start restored the expiry that the key had before an operation of its own tenure.
fn forgotten(witness: &Witness<'_>, hold: &StoryHold<'_>, at: Moment) -> Option<Mechanism> {
    let keys = &witness.history().keys;
    let own = |id: OpId| {
        let op = witness.reading.op(id)?;
        op.grant().is_some_and(|grant| witness.is_of(hold, grant)).then_some(op)
    };
    let is_back = |key: &Key| {
        key.change == KeyChange::Extended
            && key.by.is_none()
            && Moment::from(key.at) <= at
            && key.key == witness.reading.lock_key
    };
    let (renewed, own, back) = keys.iter().enumerate().rev().find_map(|(back, put)| {
        let mut before = keys[..back].iter().enumerate();
        let is_it = |key: &Key| key.node == put.node && key.key == put.key;
        // An operation that extends the key after the start makes good what the start undid.
        let in_place = |key: &&Key| matches!(key.change, KeyChange::Extended | KeyChange::Changed);
        let mut after = keys[back + 1..].iter().filter(|key| is_it(key)).take_while(in_place);
        let due = |key: &Key| {
            let wall = witness.reading.clocks.line(&key.node, Clock::Wall, key.at.into())?;
            let until = key.until_ms?.saturating_mul(MILLISECOND);
            Some(key.at.at.saturating_add(until.saturating_sub(wall.at(key.at.at))))
        };
        let made_good = after.any(|key| key.by.is_some() && due(key) > due(put));
        let (renewed, key) = before.rfind(|(_, key)| is_back(put) && is_it(key))?;
        let is_earlier = put.until_ms.is_some_and(|until| Some(until) < key.until_ms) && !made_good;
        Some((renewed, own(key.by?).filter(|_| is_earlier)?, back))
    })?;
    let (node, who) = (&keys[back].node, &hold.grant.caller);
    let (what, at) = match own.kind {
        OpKind::Extend { .. } => ("renewal", moment(own.call.at)),
        _ => (own.kind.noun(), moment(own.call.at)),
    };
    let text = format!("{node} was started again without {who}'s {what} at {at}.");
    let evidence = vec![Evidence::Op(own.id), Evidence::Key(renewed), Evidence::Key(back)];
    Some(Mechanism::new(How::Forgotten, text, evidence))
}

/// Whether the holder's clock is to blame: at its true rate and without steps, it would have
/// reached every deadline by that moment.
fn clock(
    witness: &Witness<'_>,
    hold: &StoryHold<'_>,
    (gone, at): (Moment, Moment),
) -> Option<Mechanism> {
    let process = &hold.grant.process;
    let known = known(witness, hold, (gone, at))?;
    let first = known.iter().map(|known| known.call).min()?;
    if known.iter().any(|known| known.over() > at.at) {
        return None;
    }
    let who = &hold.grant.caller;
    let before = match Moment::from(hold.from) == at {
        true => format!(" before its grant arrived at {}", moment(at.at)),
        false => String::new(),
    };
    let text = format!("{who}'s lease ran out{before}, and by its own clock it had not.");
    // The clocks of a suspended machine stand still, so a halt may be what disturbed them.
    let mut halts = witness.reading.halts(process).filter(|halt| halt.from < at && halt.to > first);
    let suspended = || {
        let halt = halts.next()?;
        let mut fault_intervals = witness.history().fault_intervals.iter();
        let index = fault_intervals.position(|interval| std::ptr::eq(interval, halt.interval))?;
        Some(Evidence::FaultInterval(index))
    };
    let disturbance = disturbed(witness, process, (first, at)).or_else(suspended);
    let evidence = [Evidence::Op(hold.grant.id)].into_iter().chain(disturbance).collect();
    Some(Mechanism::new(How::HolderClock, text, evidence))
}

/// Whether these halts of the holder's process explain that its lease or key ran out.
fn still(
    witness: &Witness<'_>,
    hold: &StoryHold<'_>,
    term: &Term<'_>,
    halts: &[Halt],
) -> Option<Mechanism> {
    let (first, last) = (halts.first()?, halts.iter().map(|halt| halt.to).max()?);
    // The halts explain nothing if the lease would have run out without them or a renewal had
    // failed, unless trials found that they suffice.
    let fault_intervals: Vec<&FaultInterval> = halts.iter().map(|halt| halt.interval).collect();
    let is_enough = trial::suffice(witness.finding, &fault_intervals);
    let fits = term.fits(term.ran()) || trial::is_work_idle(witness.finding);
    if !is_enough && (!fits || term.failed.is_some()) {
        return None;
    }
    let lasted = standing(halts, (first.from, last));
    let longest = halts.iter().rev().max_by_key(|halt| halt.to.at.saturating_sub(halt.from.at))?;
    let mut fault_intervals = witness.history().fault_intervals.iter();
    let index = fault_intervals.position(|interval| std::ptr::eq(interval, longest.interval))?;
    let (process, who) = (&hold.grant.process, &hold.grant.caller);
    let whose = if process == who { "its".to_owned() } else { format!("{who}'s") };
    let suspends = |halt: &Halt| halt.interval.verb == Verb::Suspend;
    let was = match (halts.iter().any(suspends), halts.iter().all(suspends)) {
        (_, true) => "suspended",
        (true, false) => "paused and suspended",
        (false, false) => "paused",
    };
    let what = if first.from.at < term.lease { "lease" } else { "key" };
    let text = format!("{process} was {was} for {}, and {whose} {what} ran out.", length(lasted));
    Some(Mechanism::new(
        How::StoodStill,
        text,
        vec![Evidence::Op(hold.grant.id), Evidence::FaultInterval(index)],
    ))
}

/// The last lease that a holder knew of at a moment, and what the holder did under it. This is the
/// lease of the grant or extend that was called last, even if an earlier one lasts longer: what the
/// holder did since that call is what explains its end. How long the holder counts on the lock is
/// another question: see [`StoryHold::known_lease`].
struct Term<'a> {
    /// When the acquire or the extend that gave it was called.
    call: Moment,
    /// When that returned.
    from: Moment,
    /// When the holder's clock reached its end.
    lease: Nanos,
    /// When the lease had ended and the key was gone: work that ends before does no harm. For a
    /// holder that extends, only the lease counts, because it must extend within the lease.
    over: Nanos,
    /// When the holder was done with it; at most the end of the lease if the holder extends.
    until: Moment,
    /// The halts that overlapped it.
    halts: Vec<Halt<'a>>,
    /// The accesses that took longer than undisturbed ones, and by how much, without the halts.
    late: Vec<(&'a Op, Nanos)>,
    /// The total delay of the accesses that began after the examined moment.
    later: Nanos,
    /// How long the plan makes a caller work under one lease, if that is more than the lock allows;
    /// in true time, by the rate of the holder's clock at its grant.
    planned: Nanos,
    /// The first renewal that failed in it.
    failed: Option<&'a Op>,
}

impl<'a> Term<'a> {
    fn of(
        witness: &Witness<'a>,
        hold: &StoryHold<'_>,
        (gone, at): (Moment, Moment),
    ) -> Option<Term<'a>> {
        let process = &hold.grant.process;
        let last = deadlines(witness, hold, (gone, at))
            .into_iter()
            .filter(|reply| reply.deadline.is_some());
        let KnownDeadline { ret: from, call, deadline } = last.max_by_key(|reply| reply.call)?;
        let (clock, deadline) = deadline?;
        let lease = witness.reading.clocks.reaches(process, clock, call, deadline)?.at;
        let mut extends = ops(witness, hold);
        extends.retain(|op| matches!(op.kind, OpKind::Extend { .. }));
        let is_extended =
            witness.finding.plan.workload.extend != Extend::Never || !extends.is_empty();
        let whole = Moment::from(hold.until);
        let until = if is_extended { whole.min(Moment::passing(lease)) } else { whole };
        let halts = witness.reading.halts(process).filter(|halt| halt.interval.met != Some(0));
        let halts: Vec<Halt<'a>> =
            halts.filter(|halt| halt.from < until && halt.to > call).collect();
        // The caller was not halted, and learned only after the lease that no reply had come.
        let is_in_vain = |op: &Op| {
            let halted = |ret: Moment| halts.iter().any(|h| h.from < ret && h.to > op.call.into());
            let ret = op.ret.map(Moment::from);
            op.outcome == Outcome::Unknown
                && op.call.at < lease
                && ret.is_some_and(|ret| !halted(ret))
        };
        let has_failed = |op: &&&'a Op| {
            let is_there = matches!(op.outcome, Outcome::Lost | Outcome::Unknown)
                && Moment::from(op.call) >= from;
            is_there && (op.ret.is_some_and(|ret| ret.at <= lease) || is_in_vain(op))
        };
        let overwork = overworked(&witness.finding.plan, &witness.finding.promise);
        Some(Term {
            failed: extends.iter().find(has_failed).copied(),
            late: late(witness, hold, &halts, (call, at)),
            later: late(witness, hold, &halts, (at, Moment::NEVER)).iter().map(|(_, ns)| ns).sum(),
            planned: overwork.map_or(0, |overwork| {
                let line = witness.reading.clocks.line(process, Clock::Monotonic, from);
                let end = line.map(|line| line.reaches(line.at(from.at) + overwork.actual));
                end.flatten().map_or(overwork.actual, |end| end.saturating_sub(from.at))
            }),
            call,
            from,
            lease,
            over: if is_extended { lease } else { lease.max(gone.at) },
            until,
            halts,
        })
    }

    /// How long its holder was busy while its process ran.
    fn ran(&self) -> Nanos {
        let lasted = self.until.at.saturating_sub(self.from.at);
        let halted = standing(&self.halts, (self.from, self.until));
        lasted.saturating_sub(halted).saturating_sub(self.later)
    }

    /// How long its holder would have been busy with undisturbed accesses.
    fn worked(&self) -> Nanos {
        let late = self.late.iter().map(|(_, late)| *late).sum();
        self.ran().saturating_sub(late)
    }

    /// Whether the lease, or the key that outlived it, leaves time for this much work and for the
    /// work that the plan demands.
    fn fits(&self, busy: Nanos) -> bool {
        self.busy_until(busy) <= self.over
    }

    /// Whether the holder's work without its delays lasted as long as the lease and the key.
    fn is_outworked(&self) -> bool {
        self.busy_until(self.worked()) >= self.over
    }

    /// When work of this length ends, or the work that the plan demands if that is longer. It
    /// begins when the lease would have arrived if no halt had kept its holder from the reply.
    fn busy_until(&self, busy: Nanos) -> Nanos {
        let planned = self.planned.min(self.until.at.saturating_sub(self.from.at));
        let kept = standing(&self.halts, (self.call, self.from));
        self.from.at.saturating_sub(kept).saturating_add(busy.max(planned))
    }
}

/// The accesses of a tenure that began between two moments and took longer than undisturbed ones,
/// and by how much, without the halts.
fn late<'a>(
    witness: &Witness<'a>,
    hold: &StoryHold<'_>,
    halts: &[Halt],
    (from, to): (Moment, Moment),
) -> Vec<(&'a Op, Nanos)> {
    let message = crate::workload::slowest_access(&witness.finding.plan.links);
    let is_own = |op: &&Op| {
        let grant = op.grant();
        grant.is_some_and(|grant| witness.reading.are_one(grant, hold.grant.id))
    };
    let accesses = witness.history().ops.iter().filter(|op| op.kind.is_access());
    let own = accesses.filter(is_own).filter(|op| from <= op.call.into() && to >= op.call.into());
    let late = own.filter_map(|op| {
        let messages = if witness.reading.connects(op) { 4 } else { 2 };
        let end = Moment::from(op.ret.map_or(hold.until, |ret| ret.instant()));
        let halted = standing(halts, (op.call.into(), end));
        let took = end.at.saturating_sub(op.call.at).saturating_sub(halted);
        (took > message.saturating_mul(messages)).then(|| (op, took - message.saturating_mul(2)))
    });
    late.collect()
}

/// Whether a lock that renews its leases, and so permits work of any length, stopped renewing this
/// one.
fn unsent(witness: &Witness<'_>, hold: &StoryHold<'_>, term: &Term<'_>) -> Option<Mechanism> {
    let bounds_work =
        witness.finding.promise.assumes.iter().any(|assumed| assumed.what == Bounded::Work);
    let background = |op: &Op| matches!(op.kind, OpKind::Extend { background: true, .. });
    let renews = witness.history().ops.iter().any(background);
    if bounds_work || !renews || !term.is_outworked() {
        return None;
    }
    let who = &hold.grant.caller;
    let sent: Vec<&Op> = ops(witness, hold).into_iter().filter(|op| background(op)).collect();
    let (before, after): (Vec<&Op>, Vec<&Op>) =
        sent.into_iter().partition(|op| op.call.at < term.lease);
    let (last, next) = (before.last(), after.first());
    let since = match (last, next) {
        (_, Some(op)) => format!(
            "the next renewal of it, at {}, began only after the end of the lease",
            moment(op.call.at)
        ),
        (Some(op), None) => {
            format!("after the one at {} no renewal of it was sent", moment(op.call.at))
        }
        (None, None) => "no renewal of it was sent".to_owned(),
    };
    let text = format!("{who}'s lease ran out under its work: {since}.");
    let shown = last.into_iter().chain(next).map(|op| op.id);
    let evidence = [hold.grant.id].into_iter().chain(shown);
    Some(Mechanism::new(How::RenewalNotSent, text, evidence.map(Evidence::Op).collect()))
}

/// When the last lease that a holder knew of had ended, or `at` if that is earlier: later renewals
/// changed nothing.
fn ended(term: Option<&Term<'_>>, at: Moment) -> Moment {
    term.map_or(at, |term| Moment::passing(term.lease).min(at))
}

/// Whether the accesses took so much longer than undisturbed ones that the lease ran out. The
/// sentence names the access during which it ran out, or else the most delayed one.
fn waiting(witness: &Witness<'_>, hold: &StoryHold<'_>, term: &Term<'_>) -> Option<Mechanism> {
    if !term.fits(term.worked()) && !trial::is_work_idle(witness.finding) {
        return None;
    }
    let end = |op: &Op| op.ret.map_or(witness.history().end, |ret| ret.instant()).at;
    let spans = |op: &Op| op.call.at <= term.lease && term.lease <= end(op);
    let (op, _) = term.late.iter().rev().max_by_key(|(op, late)| (spans(op), *late))?;
    let (what, ran_out) = match op.call.at <= term.lease {
        true => ("lease", term.lease),
        false => ("key", term.over),
    };
    let is_meanwhile = op.call.at <= ran_out && ran_out <= end(op);
    let while_it = if is_meanwhile { "meanwhile" } else { "under its work" };
    let text = format!(
        "{}'s {} at {} took {}, and its {what} ran out {while_it}.",
        hold.grant.caller,
        op.kind.noun(),
        moment(op.call.at),
        length(end(op).saturating_sub(op.call.at))
    );
    Some(Mechanism::new(How::AccessesLate, text, vec![Evidence::Op(op.id)]))
}
