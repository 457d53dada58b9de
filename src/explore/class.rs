//! The class of a violation: the plan is run again without parts of it.
//!
//! A *sub-plan* is the plan without some of its parts (whole faults, and unusual initial
//! conditions). It is *inside* if the ledger shows no breach in its own run: then only the lock can
//! be wrong. If a breach remains without any fault, slow links and the other initial conditions
//! count as parts too. If settings leave no time for work, a sub-plan inside has one of the
//! minimal changes that leave time, and perhaps more of these settings changed.
//!
//! If nodes came back without their keys, a sub-plan may also write its disks before each reply:
//! what such a run violates did not need the lost keys.
//!
//! - A kind is **in-model** if some sub-plan inside violates it: a run that keeps every assumption
//!   shows the bug. The plan is in-model if any sub-plan inside violates anything; if none of them
//!   violates a kind of the plan's own run, the kinds that they do violate are named.
//! - Every other kind is **out-of-model**. A breach made a difference to it if it belongs to a
//!   minimal set of breaches without whose parts the kind disappears. For a single breach: the kind
//!   disappears without it, and the lock is still granted. For several: each suffices if the kind
//!   remains when, of all breaches that are not necessary by themselves, only the parts of that one
//!   are kept; otherwise more than one is needed, and no single one is necessary. "Without a
//!   breach" means without its parts. The one exception is a node that was back too early without
//!   its keys: the kind must also disappear if that node stays down for long enough instead, and if
//!   its disk is written before each reply, unless that breaches something new, also by itself
//!   without the other breaches: a longer outage may lead to a failover of its own. A crash may
//!   break a second assumption, by a failover, and this separates the two.
//! - A kind that remains without all breaches, while such a node forgets nothing, is in-model too:
//!   that run keeps every assumption. The exception is a breach that remains in all runs: it cannot
//!   be removed, so it cannot be ruled out. It is listed, and the kind is out-of-model.
//!
//! If there are few parts, all sub-plans are tried. Otherwise: those without parts that some run
//! blames, the largest first, and those from which such parts are removed one by one.

mod forgetting;
mod subplans;

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::time::Nanos;

use crate::check::case::Case;
use crate::check::verdict::Kind;
use crate::explain::finding::{BrokenAssumption, Class, Either};
use crate::explain::witness::violations;
use crate::explore::leeway::{leeway, settings, with_leeway};
use crate::explore::rerun::{Reruns, RunOutcome};
use crate::explore::trial::Trial;
use crate::ledger::breach::Breach;
use crate::ledger::part::{Part, Parts, Strikes, every_part_of, lasts, parts_of, strikes, subsets};
use crate::plan::{Persistence, Plan};
use crate::promise::{Assumption, Bounded};
use crate::reading::leaders;
use crate::run::Lab;

/// The maximum number of breaches that are removed together, if there are many.
const MAX_TOGETHER: usize = 3;

/// The class of a violated trial of `plan`.
pub fn classify(lab: &Lab, plan: &Plan, trial: &Trial) -> Class {
    classify_in(&mut Reruns::new(lab), plan, trial)
}

/// Like [`classify`], reusing earlier runs.
pub fn classify_in(reruns: &mut Reruns, plan: &Plan, trial: &Trial) -> Class {
    let own = RunOutcome::of(trial);
    if own.breaches.is_empty() {
        return Class { in_model: own.kinds, ..Class::default() };
    }
    reruns.know(plan, own.clone());
    let before = reruns.count;
    let struck = strikes(&trial.run.history);
    let (lab, promise) = (reruns.lab(), reruns.lab().promise(plan));
    let leeway = leeway(lab, plan);
    let violated = violations(&trial.judgement.verdict).iter();
    let ends = violated.fold(BTreeMap::new(), |mut ends: BTreeMap<Kind, Nanos>, violation| {
        let end = ends.entry(violation.kind).or_default();
        *end = violation.to.at.max(*end);
        ends
    });
    let parts = with_leeway(parts_of(plan, &promise), &leeway);
    let forgets = plan.topology.persistence != Persistence::AofAlways
        && own.breaches.iter().any(|breach| breach.what == Bounded::AmnesiacRestart);
    let fails_over = own.breaches.iter().any(|breach| breach.what == Bounded::Failover);
    let promoted = fails_over.then(|| {
        let terms = lab.terms(plan);
        let case = Case::new(&trial.run.history, &terms);
        leaders::promoted(&case).first().map(|led| led.at.at)
    });
    let promoted = promoted.flatten();
    let breaches = Vec::new();
    let settings = if leeway.is_empty() { Vec::new() } else { settings(lab, plan) };
    let mut search =
        Search { reruns, plan, parts, leeway, settings, struck, ends, forgets, promoted, breaches };
    if !search.bare().breaches.is_empty() {
        search.parts = with_leeway(every_part_of(plan, &lab.promise(plan)), &search.leeway);
    }
    let mut class = search.inside(&own.kinds);
    // No fault excuses a lock that breaks its contract.
    let contract = class.out_of_model.extract_if(.., |kind| *kind == Kind::BrokenContract);
    class.in_model.extend(contract.collect::<Vec<_>>());
    class.in_model.sort_unstable();
    search.blame(&mut class);
    class.reruns = search.reruns.count - before;
    class
}

struct Search<'a, 'b> {
    reruns: &'a mut Reruns<'b>,
    plan: &'a Plan,
    parts: Vec<Part>,
    /// The sets of settings without which work has time: see [`leeway`].
    leeway: Vec<Parts>,
    /// The settings of those sets, and the others that take time from work, if it has none.
    settings: Vec<Part>,
    struck: Strikes,
    /// When the last violation of each kind was over.
    ends: BTreeMap<Kind, Nanos>,
    /// Whether nodes came back without keys that their disks could have kept.
    forgets: bool,
    /// When the first replica was promoted.
    promoted: Option<Nanos>,
    /// What the plan's own run breaches.
    breaches: Vec<Breach>,
}

impl Search<'_, '_> {
    fn outcome(&mut self, out: &Parts) -> &RunOutcome {
        self.reruns.outcome_without(self.plan, out, &self.struck)
    }

    /// The outcome without any part.
    fn bare(&mut self) -> &RunOutcome {
        let all = self.parts.iter().copied().collect();
        self.outcome(&all)
    }

    /// The kinds among these that sub-plans inside violate.
    fn inside(&mut self, own: &[Kind]) -> Class {
        let (mut shown, mut others) = (BTreeSet::new(), BTreeSet::new());
        let mut spared: Option<Parts> = None;
        for out in self.candidates() {
            let outcome = self.outcome(&out);
            let is_inside = outcome.breaches.is_empty();
            if outcome.kinds.is_empty() || !is_inside {
                continue;
            }
            let (mine, new): (Vec<Kind>, Vec<Kind>) =
                outcome.kinds.iter().partition(|kind| own.contains(kind));
            if spared.is_none() || shown.is_empty() && !mine.is_empty() {
                spared = Some(out);
            }
            shown.extend(mine);
            others.extend(new);
            if shown.len() == own.len() {
                break;
            }
        }
        let spared = spared.map(|out| self.least(out));
        let out_of_model = own.iter().copied().filter(|kind| !shown.contains(kind)).collect();
        Class {
            in_model: if shown.is_empty() { others } else { shown }.into_iter().collect(),
            out_of_model,
            without: spared.unwrap_or_default().into_iter().collect(),
            ..Class::default()
        }
    }

    /// The set without parts that need no removal: the sub-plan stays inside and still violates
    /// what it does.
    fn least(&mut self, mut out: Parts) -> Parts {
        let shown = self.outcome(&out).kinds.clone();
        for part in out.clone() {
            let fewer = &out - &[part].into();
            let less = self.outcome(&fewer);
            let shows = shown.iter().all(|kind| less.kinds.contains(kind));
            if shows && less.breaches.is_empty() {
                out = fewer;
            }
        }
        out
    }

    /// The breaches of a sub-plan, each with parts to remove if any are known.
    fn breaches(&mut self, out: &Parts) -> Vec<Breach> {
        let mut breaches = self.outcome(out).breaches.clone();
        for breach in &mut breaches {
            let leaves_none = breach.parts == [Part::Work(0)];
            if let Some(set) = self.leeway.iter().find(|set| leaves_none && !set.is_subset(out)) {
                breach.parts = set.iter().copied().collect();
            }
            if breach.parts.is_empty() {
                breach.parts = self.responsible(out, breach);
            }
        }
        breaches
    }

    /// The parts of a sub-plan without which a breach does not occur: those of the smallest sets,
    /// or of the first one if it occurs without all of them. None if the breach occurs without any
    /// part, or if no set of the tried sizes prevents it.
    fn responsible(&mut self, out: &Parts, breach: &Breach) -> Vec<Part> {
        let parts: Vec<Part> = self.parts.iter().copied().filter(|p| !out.contains(p)).collect();
        for size in 1..=parts.len().min(MAX_TOGETHER) {
            let mut prevents = |set: &Parts| {
                let outcome = self.outcome(&out.union(set).copied().collect());
                outcome.breaches.iter().all(|other| other.what != breach.what)
            };
            let mut found = subsets(&parts, size);
            found.retain(|set| prevents(set));
            let all: Parts = found.iter().flatten().copied().collect();
            match found.first() {
                Some(_) if prevents(&all) => return all.into_iter().collect(),
                Some(first) => return first.iter().copied().collect(),
                None => {}
            }
        }
        Vec::new()
    }

    /// Adds the breaches that made a difference to the out-of-model kinds.
    fn blame(&mut self, class: &mut Class) {
        if class.out_of_model.is_empty() {
            return;
        }
        self.breaches = self.breaches(&Parts::new());
        let mut breaches = self.breaches.clone();
        for out in self.chain() {
            let later = self.breaches(&out);
            breaches.extend(later.into_iter().filter(|breach| !breach.parts.is_empty()));
        }
        let mut known = BTreeSet::new();
        breaches.retain(|breach| known.insert((breach.what, breach.parts.clone())));
        let mut sets: BTreeMap<Vec<usize>, Vec<Kind>> = BTreeMap::new();
        for kind in &class.out_of_model {
            for set in self.smallest(&breaches, *kind) {
                sets.entry(set).or_default().push(*kind);
            }
        }
        let named: BTreeSet<Kind> = sets.values().flatten().copied().collect();
        let mut lasting = self.lasting(&mut breaches, class, &named);
        if lasting.is_empty() {
            lasting = self.move_shown(&breaches, class, &named);
        }
        let listed: BTreeSet<usize> = sets.keys().flatten().copied().chain(lasting).collect();
        let place = |index: &usize| listed.iter().position(|listed| listed == index);
        let several = sets.iter().filter(|(set, _)| set.len() > 1);
        let either = several.map(|(set, kinds)| {
            let goes_alone = |index: &usize| {
                let goes = sets.get(&vec![*index]);
                goes.is_some_and(|goes| goes.iter().any(|kind| kinds.contains(kind)))
            };
            let needed: Vec<usize> = listed.iter().copied().filter(goes_alone).collect();
            let mut each = set.iter();
            Either {
                broken: set.iter().filter_map(place).collect(),
                kinds: kinds.clone(),
                alone: each.all(|index| self.suffices(&breaches, *index, &needed, kinds)),
            }
        });
        class.either = either.collect();
        let goes = |index: usize| sets.get(&vec![index]).cloned().unwrap_or_default();
        class.broken =
            listed.iter().map(|index| self.broken(&breaches[*index], goes(*index))).collect();
    }

    /// Moves to the in-model kinds those that remain when every breach is removed and no node
    /// forgets anything. Returns all breaches, by index, if no such run shows one that remains.
    fn move_shown(
        &mut self,
        breaches: &[Breach],
        class: &mut Class,
        named: &BTreeSet<Kind>,
    ) -> Vec<usize> {
        let stays = class.out_of_model.iter().copied().filter(|kind| !named.contains(kind));
        let (shown, others): (Vec<Kind>, Vec<Kind>) =
            stays.partition(|kind| self.is_shown_without(breaches, *kind));
        class.out_of_model.retain(|kind| !shown.contains(kind));
        class.in_model.extend(shown);
        class.in_model.sort_unstable();
        if others.is_empty() { Vec::new() } else { (0..breaches.len()).collect() }
    }

    /// The breaches, by index, that remain without any part. None if every kind has another cause.
    fn lasting(
        &mut self,
        breaches: &mut Vec<Breach>,
        class: &Class,
        named: &BTreeSet<Kind>,
    ) -> Vec<usize> {
        if class.out_of_model.iter().all(|kind| named.contains(kind)) {
            return Vec::new();
        }
        let bare = self.bare().breaches.clone();
        let remain = bare.into_iter().map(|breach| Breach { parts: Vec::new(), ..breach });
        let place = |breach: Breach| {
            let known = breaches.iter().position(|known| *known == breach);
            known.unwrap_or_else(|| {
                breaches.push(breach);
                breaches.len() - 1
            })
        };
        remain.map(place).collect()
    }

    fn broken(&mut self, breach: &Breach, goes: Vec<Kind>) -> BrokenAssumption {
        let is_it = |own: &Breach| own.what == breach.what && own.parts == breach.parts;
        let in_run = breach.parts.is_empty() || self.breaches.iter().any(is_it);
        let breach = &self.without_idle_parts(breach, &goes);
        let broken = BrokenAssumption { goes, in_run, ..BrokenAssumption::from(breach) };
        if broken.goes.is_empty() {
            return broken;
        }
        let left = self.outcome(&breach.parts.iter().copied().collect()).clone();
        let is_kept = |own: &&Breach| {
            own.what != breach.what && left.breaches.iter().all(|left| left.what != own.what)
        };
        let kept = self.breaches.iter().filter(is_kept);
        let mut keeps: Vec<Assumption> =
            kept.map(|own| Assumption { what: own.what, bound: own.bound }).collect();
        keeps.dedup();
        BrokenAssumption { stays: left.kinds, keeps, ..broken }
    }

    /// A breach by clock steps, or by settings and work that leave no time, without those that made
    /// no difference to these kinds: the kinds stay without that one, and go without the others.
    /// Steps that add up to one figure stay.
    fn without_idle_parts(&mut self, breach: &Breach, kinds: &[Kind]) -> Breach {
        let mut left = breach.clone();
        let has_several = [Bounded::NodeClockStep, Bounded::ClientClockStep, Bounded::Work];
        let has_several = has_several.contains(&left.what);
        for part in breach.parts.iter().filter(|_| has_several) {
            let others: Parts = left.parts.iter().copied().filter(|other| other != part).collect();
            if others.is_empty() || kinds.is_empty() {
                break;
            }
            let has = |search: &mut Self, out: &Parts| {
                let found = search.outcome(out).kinds.clone();
                kinds.iter().map(move |kind| found.contains(kind)).collect::<Vec<bool>>()
            };
            let stays = has(self, &[*part].into()).into_iter().all(|has| has);
            if stays && !has(self, &others).contains(&true) {
                left.parts = others.into_iter().collect();
            }
        }
        // The lock permits so much work once its settings leave any time.
        if let (Bounded::Work, [Part::Work(bound)]) = (left.what, &left.parts[..]) {
            left.bound = *bound;
        }
        left
    }

    /// The minimal sets of breaches, by index, without whose parts a kind is not violated. Runs
    /// without a grant, and breaches that came after the violation, count only if nothing else
    /// shows anything.
    fn smallest(&mut self, breaches: &[Breach], kind: Kind) -> Vec<Vec<usize>> {
        let all: Vec<usize> = (0..breaches.len()).collect();
        let in_time = all.iter().copied().filter(|index| !self.is_later(&breaches[*index], kind));
        for among in [in_time.collect(), all.clone()] {
            let found = self.smallest_by(among, |search, set| {
                search.goes(breaches, set, kind) && search.tests_without(breaches, set)
            });
            if !found.is_empty() {
                return found;
            }
        }
        self.smallest_by(all, |search, set| search.goes(breaches, set, kind))
    }

    /// Whether a breach came only after the last violation: a node back without its keys, or the
    /// first promotion of a replica.
    fn is_later(&self, breach: &Breach, kind: Kind) -> bool {
        let Some(end) = self.ends.get(&kind) else { return false };
        if breach.what == Bounded::Failover {
            return self.promoted.is_some_and(|promoted| promoted > *end);
        }
        let back = breach.parts.iter().map(|part| {
            let fault = self.plan.faults.iter().find(|fault| Some(fault.id) == part.fault())?;
            let lasts = lasts(self.plan, fault, &self.struck);
            Some(self.struck.get(&fault.id)?.saturating_add(lasts.unwrap_or(0)))
        });
        let mut back = back.peekable();
        breach.what == Bounded::AmnesiacRestart
            && back.peek().is_some()
            && back.all(|back| back.is_some_and(|back| back > *end))
    }

    fn smallest_by(
        &mut self,
        all: Vec<usize>,
        mut goes: impl FnMut(&mut Self, &[usize]) -> bool,
    ) -> Vec<Vec<usize>> {
        let most = if all.len() <= MAX_TOGETHER + 1 { all.len() } else { MAX_TOGETHER };
        let mut found: Vec<Vec<usize>> = Vec::new();
        for size in 1..=most {
            for set in subsets(&all, size) {
                let is_known = |known: &Vec<usize>| known.iter().all(|index| set.contains(index));
                let set_is_minimal = !found.iter().any(is_known);
                let set: Vec<usize> = set.iter().copied().collect();
                if set_is_minimal && goes(self, &set) {
                    found.push(set);
                }
            }
        }
        if !found.is_empty() {
            return found;
        }
        let mut whole = all;
        for index in (0..whole.len()).rev() {
            let mut fewer = whole.clone();
            fewer.remove(index);
            if goes(self, &fewer) {
                whole = fewer;
            }
        }
        // A set whose complete removal changes nothing is no cause.
        if goes(self, &whole) { vec![whole] } else { Vec::new() }
    }

    /// Whether these kinds are violated if only the parts of one breach are kept, and of those
    /// without which they disappear.
    fn suffices(
        &mut self,
        breaches: &[Breach],
        alone: usize,
        needed: &[usize],
        kinds: &[Kind],
    ) -> bool {
        let is_kept = |index: usize| index == alone || needed.contains(&index);
        let kept = breaches.iter().enumerate().filter(|(index, _)| is_kept(*index));
        let own: Parts = kept.flat_map(|(_, breach)| breach.parts.iter().copied()).collect();
        let others = breaches.iter().enumerate().filter(|(index, _)| !is_kept(*index));
        let others: Vec<Breach> = others
            .map(|(_, breach)| {
                let parts = breach.parts.iter().copied().filter(|part| !own.contains(part));
                Breach { parts: parts.collect(), ..breach.clone() }
            })
            .collect();
        let out: Parts = others.iter().flat_map(|breach| breach.parts.iter().copied()).collect();
        let later = self.outcome_with_late_returns(&others);
        let later = later.map(|later| later.kinds);
        let left = self.outcome(&out).kinds.clone();
        let has_all = |left: &[Kind]| kinds.iter().all(|kind| left.contains(kind));
        has_all(&left) || later.is_some_and(|later| has_all(&later))
    }

    /// Whether the lock is granted without these breaches, if it is granted with them.
    fn tests_without(&mut self, breaches: &[Breach], set: &[usize]) -> bool {
        let parts = set.iter().flat_map(|index| breaches[*index].parts.iter().copied());
        let out: Parts = parts.collect();
        self.outcome(&out).grants > 0 || self.outcome(&Parts::new()).grants == 0
    }
}
