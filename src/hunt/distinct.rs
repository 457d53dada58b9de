//! The distinct findings of a hunt: the smallest plan of each group, shrunk. Groups that turn out
//! to be the same are joined.
//!
//! The class of a plan that breaks an assumption takes many runs. So of such a group only the
//! smallest plans are classified: if one of them shows a bug, that one is the group's example.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rayon::iter::{
    IntoParallelIterator, IntoParallelRefIterator, ParallelExtend, ParallelIterator,
};

use crate::check::signature::Signature;
use crate::check::verdict::Kind;
use crate::explain::experiment::Cut;
use crate::explain::finding::{Class, Finding};
use crate::explain::mechanism::by_kind::mechanism;
use crate::explain::witness::Witness;
use crate::explore::budget::Spending;
use crate::explore::class::classify;
use crate::explore::examine::caused;
use crate::explore::trial::attempt;
use crate::hunt::group::{Example, GroupKey, Groups, Sightings, leading};
use crate::hunt::pursuit::{HuntFound, pursue};
use crate::hunt::seeded::{Hunt, draw};
use crate::hunt::shrink::Shrunk;
use crate::hunt::sound::{self, Sound, beside};
use crate::hunt::strategy::Strategy;
use crate::run::Lab;

/// A group with what names it.
type NamedGroup<'a> = (&'a GroupKey, &'a Sightings);

/// One finding of a hunt.
pub struct Distinct {
    /// The number of plans that showed it.
    pub count: u64,
    /// The finding about its smallest plan.
    pub finding: Finding,
    /// How that plan was drawn.
    pub strategy: Strategy,
    /// What a correct lock of the same family does in that plan. `None` if that is the lock itself,
    /// or if all plans of the hunt keep every assumption: then there is nothing to excuse.
    pub sound: Option<Sound>,
    /// How far shrinking came.
    pub shrunk: Shrunk,
    /// Why the plan was not run with a correct lock, if only that kept it from it.
    pub uncompared: Option<Cut>,
}

impl Distinct {
    /// Whether it is a bug: the lock violates within its assumptions.
    pub fn is_bug(&self) -> bool {
        self.finding.class.as_ref().is_some_and(Class::is_in_model)
    }

    /// What no other finding of the hunt has.
    pub fn identity(&self) -> Option<Identity> {
        let Finding { signature, class, .. } = &self.finding;
        Some(Identity::of(signature.as_ref()?, class.as_ref()?))
    }

    /// The same by the mechanism that its trials leave; `None` without trials.
    fn told(&self) -> Option<Identity> {
        self.finding.experiments.as_ref()?;
        let mechanism = mechanism(&Witness::of(&self.finding)).map(|found| found.how.word());
        Some(Identity { mechanism, ..self.identity()? })
    }

    /// What comes first: smaller plans, among findings of one place.
    fn rank(&self) -> impl Ord + use<> {
        let place = place(self.is_bug(), self.sound.as_ref());
        (place, Example::of(&self.finding.plan, self.strategy))
    }
}

/// The place of a finding: bugs come first, then what a correct lock withstands, then what was not
/// compared with one.
fn place(is_bug: bool, sound: Option<&Sound>) -> impl Ord + use<> {
    let excuse = match sound {
        Some(sound) if sound.falls() => 2,
        Some(sound) if !sound.is_unknown => 0,
        Some(_) | None => 1,
    };
    (Reverse(is_bug), excuse)
}

/// The findings behind the groups of a hunt. Each is classified; it is shrunk and compared with a
/// correct lock while there is time. `progress` receives each group whose plan is shrunk.
pub fn distinct(
    hunt: &Hunt,
    groups: &Groups,
    spending: &Spending,
    progress: &(dyn Fn() + Sync),
) -> Vec<Distinct> {
    let shrink = |(key, sightings): &NamedGroup<'_>| {
        let found = pursue(hunt, example(hunt, key, sightings, spending), spending);
        progress();
        (sightings.count, found)
    };
    let (bugs, others) = bugs_and_others(groups);
    // The time may not suffice for all of them.
    let mut shrunk: Vec<_> = bugs.par_iter().map(shrink).collect();
    shrunk.par_extend(others.par_iter().map(shrink));
    let mut joined: BTreeMap<Identity, (u64, HuntFound)> = BTreeMap::new();
    for (count, found) in shrunk {
        match joined.entry(Identity::of(&found.signature, &found.class)) {
            Entry::Vacant(free) => _ = free.insert((count, found)),
            Entry::Occupied(mut same) => {
                let (all, smallest) = same.get_mut();
                *all += count;
                let size = |found: &HuntFound| Example::of(&found.plan, found.strategy);
                if size(&found) < size(smallest) {
                    *smallest = found;
                }
            }
        }
    }
    let compares = !hunt.alphabet.within;
    let finish = |(count, found): (u64, HuntFound)| {
        let can = compares && sound::compares(&hunt.lab, &found.plan);
        let uncompared = spending.cut().filter(|_| can);
        let is_run = can && uncompared.is_none();
        let sound = is_run.then(|| beside(&hunt.lab, &found.plan, &found.trial)).flatten();
        let HuntFound { strategy, shrunk, .. } = found;
        let finding = found.unexplained(&hunt.lab);
        Distinct { count, finding, strategy, sound, shrunk, uncompared }
    };
    let mut all: Vec<Distinct> = joined.into_values().map(finish).collect();
    all.sort_by_cached_key(|one| (one.rank(), Reverse(one.count)));
    all
}

/// The findings, each with the mechanism that its trials leave, while there is time for them. Those
/// that are then the same are joined: the first of them is kept.
pub fn told_once(lab: &Lab, findings: Vec<Distinct>, spending: &Spending) -> Vec<Distinct> {
    let tried = |one: Distinct| match one.finding.experiments.is_some() || spending.is_used_up() {
        true => one,
        false => Distinct { finding: caused(lab, one.finding), ..one },
    };
    joined(findings.into_par_iter().map(tried).collect())
}

/// The findings, those that are told alike as one: the first of them, with the plans of all.
fn joined(all: Vec<Distinct>) -> Vec<Distinct> {
    let mut kept: Vec<(Option<Identity>, Distinct)> = Vec::new();
    for one in all {
        let told = one.told();
        match kept.iter_mut().find(|(known, _)| told.is_some() && *known == told) {
            Some((_, same)) => same.count += one.count,
            None => kept.push((told, one)),
        }
    }
    kept.into_iter().map(|(_, one)| one).collect()
}

/// The groups within the lock's assumptions, and the others.
fn bugs_and_others(groups: &Groups) -> (Vec<NamedGroup<'_>>, Vec<NamedGroup<'_>>) {
    groups.iter().partition(|(key, _)| key.in_model)
}

/// What two findings have in common that are the same. The broken assumptions may differ.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// Whether it is a bug.
    pub is_bug: bool,
    /// What is violated, without what follows: see [`leading`].
    pub kinds: Vec<Kind>,
    /// The checks of one's own that found something.
    pub checks: Vec<String>,
    /// The name of the mechanism.
    pub mechanism: Option<String>,
}

impl Identity {
    fn of(signature: &Signature, class: &Class) -> Identity {
        let Signature { kinds, checks, mechanism, .. } = signature;
        let (checks, mechanism) = (checks.clone(), mechanism.clone());
        Identity { is_bug: class.is_in_model(), kinds: leading(kinds), checks, mechanism }
    }
}

/// The plan to shrink: the smallest one, or the first of the smallest ones that shows a bug, if
/// there is time to look for it.
fn example(hunt: &Hunt, key: &GroupKey, sightings: &Sightings, spending: &Spending) -> Example {
    let mut examples = sightings.smallest.iter().copied();
    let smallest = examples.clone().next().expect("a group has an example");
    let shows_bug = |example: &Example| {
        let plan = draw(hunt, example.seed, example.strategy);
        let trial = attempt(&hunt.lab, &plan);
        trial.is_violated() && classify(&hunt.lab, &plan, &trial).is_in_model()
    };
    match key.in_model || spending.is_used_up() {
        true => smallest,
        false => examples.find(shows_bug).unwrap_or(smallest),
    }
}

#[cfg(test)]
mod tests {
    use super::{Distinct, joined, place};
    use crate::check::signature::Signature;
    use crate::check::verdict::Kind;
    use crate::explain::experiment::Experiments;
    use crate::explain::finding::Finding;
    use crate::explain::fixture::{amnesia, gc_pause};
    use crate::hunt::shrink::Shrunk;
    use crate::hunt::sound::Sound;
    use crate::hunt::strategy::Strategy;

    /// A finding with the mechanism that its run alone shows.
    fn found(finding: Finding, count: u64, by_run: &str) -> Distinct {
        let signature = Signature {
            mechanism: Some(by_run.to_owned()),
            ..Signature::of(&finding.judgement.verdict)
        };
        let experiments = Some(Experiments::default());
        Distinct {
            count,
            finding: Finding { signature: Some(signature), experiments, ..finding },
            strategy: Strategy::default(),
            sound: None,
            shrunk: Shrunk::default(),
            uncompared: None,
        }
    }

    #[test]
    fn findings_that_trials_tell_alike_are_one_with_the_plans_of_all() {
        let counts = |all: &[Distinct]| all.iter().map(|one| one.count).collect::<Vec<_>>();
        let all = || {
            let paused = |count, by_run| found(gc_pause::finding(), count, by_run);
            vec![
                paused(3, "stood-still"),
                found(amnesia::finding(), 5, "forgotten"),
                paused(4, "overworked"),
            ]
        };
        let told = joined(all());
        assert_eq!(counts(&told), [7, 5]);
        let first = all().swap_remove(0).finding.signature;
        assert_eq!(told[0].finding.signature, first, "the first is kept");
        // Without trials nothing is known that its run does not show.
        let mut untried = all();
        for one in &mut untried {
            one.finding.experiments = None;
        }
        assert_eq!(counts(&joined(untried)), [3, 5, 4]);
    }

    #[test]
    fn bugs_come_first_then_what_a_correct_lock_withstands() {
        let holds = Sound { lock: "token-lua", same: vec![], other: vec![], is_unknown: false };
        let untested = Sound { is_unknown: true, ..holds.clone() };
        let falls = Sound { same: vec![Kind::StaleHolder], ..holds.clone() };
        let places: Vec<_> = [true, false]
            .into_iter()
            .flat_map(|is_bug| [&holds, &untested, &falls].map(|sound| place(is_bug, Some(sound))))
            .collect();
        assert!(places.is_sorted_by(|one, next| one < next));
        let uncompared = place(false, None);
        assert!(place(false, Some(&holds)) < uncompared && uncompared < place(false, Some(&falls)));
    }
}
