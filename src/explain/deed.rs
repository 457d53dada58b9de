//! What breached an assumption, in words: the faults and the initial conditions.

use lockstorm_platform::fault::verbs::Figure;
use lockstorm_platform::fault::{Target, Verb};
use lockstorm_platform::network::max_outage_delay;
use lockstorm_platform::time::Nanos;

use crate::explain::cause::{subject, worked};
use crate::explain::finding::{BrokenAssumption, Finding};
use crate::explain::witness::Witness;
use crate::history::FaultInterval;
use crate::ledger::part::Part;
use crate::promise::Bounded;
use crate::quantity::{count, figure, length, list, moment, rate, signed};
use crate::reading::leaders;
use crate::workload::{first_request, median_message, work};

/// What breached an assumption: the faults, and the initial conditions.
pub fn deeds(witness: &Witness<'_>, broken: &BrokenAssumption) -> String {
    match shown_by_trials(witness, broken) {
        Some(effect) if broken.in_run => effect,
        Some(effect) => format!("{effect}, once other parts of the plan are removed"),
        None if broken.in_run => recorded(witness, broken),
        None => format!(
            "{}, which breaks this only once other parts of the plan are removed",
            recorded(witness, broken)
        ),
    }
}

/// What records name.
fn recorded(witness: &Witness<'_>, broken: &BrokenAssumption) -> String {
    let mut deeds = by_faults(witness, broken);
    match (broken.what, broken.bound) {
        // A lease without time for work is stated once, whichever settings would change that.
        (Bounded::Work, 0) => deeds.push(no_time(witness.finding, broken)),
        _ => deeds.extend(broken.initial.iter().filter_map(|part| match part {
            Part::Clocks => Some("clocks ran at a wrong rate from the start".to_owned()),
            Part::Loss => Some("links lost messages from the start".to_owned()),
            Part::Work(_) if broken.what != Bounded::Work => None,
            Part::Work(_) => {
                let work = worked(&witness.finding.plan, broken.actual);
                Some(format!("a caller works for {work}"))
            }
            Part::Fault(_) => None,
            other => Some(subject(&witness.finding.plan, *other)),
        })),
    }
    let adds_up =
        matches!(broken.what, Bounded::ClientPause | Bounded::HoldPause | Bounded::AccessDelay);
    match deeds.len() {
        0 => amount(broken.what, broken.actual),
        // One fault may delay several accesses, so the sentence gives the sum.
        1 if broken.what == Bounded::AccessDelay => {
            format!("{}, {} in one hold", deeds.remove(0), length(broken.actual))
        }
        1 => deeds.remove(0),
        _ if adds_up => format!("{}, {} in one hold", list(&deeds), length(broken.actual)),
        _ => list(&deeds),
    }
}

/// A breach whose faults no record names: what happened, and the faults and conditions after whose
/// removal it does not happen, by trials. `None` if the run's own records name the faults.
fn shown_by_trials(witness: &Witness<'_>, broken: &BrokenAssumption) -> Option<String> {
    let mut own = witness.finding.breaches.iter().filter(|breach| breach.what == broken.what);
    if broken.faults.is_empty() || broken.in_run && own.any(|breach| !breach.parts.is_empty()) {
        return None;
    }
    let most = length(broken.actual);
    let effect = match broken.what {
        Bounded::Failover if broken.in_run => promotions(witness),
        Bounded::Failover => "a replica is made master".to_owned(),
        Bounded::Leaderless => format!("clients found too few masters for {most}"),
        Bounded::Unreplicated => {
            format!("a master had too few replicas for at least {most} after the heal")
        }
        _ => return None,
    };
    let faults = struck(witness, broken).map(|interval| {
        let word = interval.verb.word();
        format!("the {word}{} of {}", which(witness, interval), interval.target)
    });
    let initial = broken.initial.iter().map(|part| subject(&witness.finding.plan, *part));
    let parts: Vec<String> = faults.chain(initial).collect();
    let (is, parts) = (if parts.len() == 1 { "is" } else { "are" }, list(&parts));
    Some(match broken.in_run {
        true => format!("{effect}, which does not happen once {parts} {is} removed"),
        false => format!("{effect} through {parts}"),
    })
}

/// Which replicas became masters.
fn promotions(witness: &Witness<'_>) -> String {
    let promoted = leaders::promoted(&witness.reading);
    let each = promoted.iter().map(|led| format!("{} (at {})", led.by, moment(led.at.at)));
    match &each.collect::<Vec<_>>()[..] {
        [] => "a replica was made master".to_owned(),
        [one] => format!("{one} was made master"),
        several => format!("{} were made master", list(several)),
    }
}

/// What each fault did.
fn by_faults(witness: &Witness<'_>, broken: &BrokenAssumption) -> Vec<String> {
    let faults: Vec<&FaultInterval> = struck(witness, broken).collect();
    let deeds = faults.iter().map(|interval| {
        let over = witness.reading.is_over_at(interval);
        let lasted = interval.to.map(|_| over.at.saturating_sub(interval.from.at));
        let strikes = faults.iter().filter(|other| other.target == interval.target).count();
        deed(broken, (interval, lasted), (&which(witness, interval), strikes))
    });
    let deeds: Vec<String> = deeds.collect();
    if broken.what == Bounded::AmnesiacRestart { outages(deeds) } else { deeds }
}

/// The intervals of the faults that are blamed, as far as they struck.
fn struck<'a>(
    witness: &'a Witness<'_>,
    broken: &'a BrokenAssumption,
) -> impl Iterator<Item = &'a FaultInterval> {
    let intervals = &witness.finding.history.fault_intervals;
    let interval = |fault: &u32| intervals.iter().find(|interval| interval.fault == *fault);
    broken.faults.iter().filter_map(interval)
}

/// The number of a fault, if several of its kind struck its target.
fn which(witness: &Witness<'_>, interval: &FaultInterval) -> String {
    let word = interval.verb.word();
    let all = witness.finding.history.fault_intervals.iter();
    let like = all.filter(|o| o.target == interval.target && o.verb.word() == word);
    if like.count() == 1 { String::new() } else { format!(" (fault {})", interval.fault) }
}

/// Merges the equal texts of overlapping outages into one, with the number of faults.
fn outages(deeds: Vec<String>) -> Vec<String> {
    let runs = deeds.chunk_by(|one, other| one == other).map(|same| match same {
        [one] => one.clone(),
        _ => format!("{} ({} faults)", same[0], same.len()),
    });
    runs.collect()
}

/// Why requests leave no time of the lease for work.
fn no_time(finding: &Finding, broken: &BrokenAssumption) -> String {
    unanswered(finding).unwrap_or_else(|| match broken.actual {
        0 => "time-outs and messages leave no time of the lease".to_owned(),
        works => {
            format!("a caller works for {}, and time-outs and messages leave none", length(works))
        }
    })
}

/// Why no request is answered in time even without a fault: the work does not matter then. `None`
/// if requests are answered in time.
fn unanswered(finding: &Finding) -> Option<String> {
    let (plan, timeout) = (&finding.plan, finding.timeout);
    let reply = work(plan).reply;
    let (each, messages) = (median_message(&plan.links), first_request(plan));
    let takes = match reply {
        _ if reply <= timeout => return None,
        Nanos::MAX => {
            return Some("clients give up the search for their node too early".to_owned());
        }
        first if first == each.saturating_mul(messages) => {
            let each = length(each);
            format!("a first reply takes {} ({messages} messages of {each})", length(first))
        }
        slowest => format!("a reply takes up to {}", length(slowest)),
    };
    Some(format!("{takes}, and the time-out is {}", length(timeout)))
}

/// A fault that breached the assumption, in the past tense. `lasted` is how long it lasted for its
/// target, `which` is its number if several of its kind struck that target, and `strikes` is the
/// number of faults of any kind that did.
fn deed(
    broken: &BrokenAssumption,
    (interval, lasted): (&FaultInterval, Option<Nanos>),
    (which, strikes): (&str, usize),
) -> String {
    let who = &interval.target;
    let word = &format!("{}{which}", interval.verb.word());
    match broken.what {
        Bounded::ClientPause | Bounded::HoldPause if matches!(who, Target::Links { .. }) => {
            format!("{word} on {who}")
        }
        Bounded::ClientPause | Bounded::HoldPause => {
            let lasted = lasted.unwrap_or(broken.actual);
            // A pause also ends when its process dies, which may be before the interval ends.
            let lasted = match interval.verb {
                Verb::Pause => lasted.min(broken.actual),
                _ => lasted,
            };
            match (interval.verb == Verb::Suspend, lasted > broken.bound) {
                (false, _) => format!("{who} stood still for {}{which}", length(lasted)),
                (true, true) => format!("{who}'s machine slept for {}{which}", length(lasted)),
                (true, false) => format!(
                    "{who}'s machine slept for {}{which}, and what it missed comes up to {} late",
                    length(lasted),
                    length(max_outage_delay(lasted).min(broken.actual))
                ),
            }
        }
        Bounded::ClientCrash => format!("{who} died ({word})"),
        Bounded::NodeClockStep | Bounded::ClientClockStep => match interval.verb.figure() {
            Figure::Shift(by) => format!("{who}'s clock stepped by {}{which}", signed(by)),
            _ => {
                let lasted = length(lasted.unwrap_or(broken.actual));
                format!("{who}'s clock stood still for {lasted}{which}")
            }
        },
        Bounded::Drift => {
            format!("{who}'s clocks ran {} off", figure(&interval.verb.figure()))
        }
        Bounded::AmnesiacRestart if interval.verb == Verb::FullDisk => {
            format!("{who}'s disk was full, and it came back without keys")
        }
        Bounded::AmnesiacRestart => {
            let lasted = lasted.filter(|_| strikes == 1).unwrap_or(broken.actual);
            // Of one outage by several faults, none is told apart from the others.
            let which = if strikes == 1 { which } else { "" };
            format!("{who} was back after {}{which}", length(lasted))
        }
        // It promoted nobody in this run, but it may in a trial without other faults.
        Bounded::Failover if interval.verb == Verb::Failover && interval.done.is_empty() => {
            format!("{who} received the order to become master{which}")
        }
        Bounded::Failover if interval.verb == Verb::Failover => {
            format!("{who} was made master{which}")
        }
        Bounded::Failover | Bounded::Leaderless | Bounded::Unreplicated => {
            format!("{word} of {who}")
        }
        Bounded::KeyRemoval if interval.met == Some(0) => {
            format!("{word} struck {who}, which then had no key")
        }
        Bounded::KeyRemoval => format!("{word} struck {who}"),
        Bounded::Work | Bounded::Misuse | Bounded::AccessDelay | Bounded::Skew => {
            format!("{word} on {who}")
        }
    }
}

/// An amount of an assumption, in its unit.
pub fn amount(what: Bounded, amount: u64) -> String {
    match what {
        Bounded::ClientPause
        | Bounded::HoldPause
        | Bounded::NodeClockStep
        | Bounded::ClientClockStep
        | Bounded::Skew
        | Bounded::AmnesiacRestart
        | Bounded::Work
        | Bounded::Leaderless
        | Bounded::Unreplicated
        | Bounded::AccessDelay => length(amount),
        Bounded::Drift => rate(amount),
        Bounded::ClientCrash => count(amount, "death"),
        Bounded::Failover => count(amount, "failover"),
        Bounded::KeyRemoval => count(amount, "removal"),
        Bounded::Misuse => count(amount, "misuse"),
    }
}

#[cfg(test)]
mod tests {
    use lockstorm_platform::fault::{Target, Verb};
    use lockstorm_platform::network::Latency;
    use lockstorm_platform::time::{Instant, MILLISECOND};

    use super::{deeds, outages};
    use crate::explain::finding::BrokenAssumption;
    use crate::explain::fixture;
    use crate::explain::witness::Witness;
    use crate::history::FaultInterval;
    use crate::ledger::breach::Breach;
    use crate::ledger::part::Part;
    use crate::promise::Bounded;

    #[test]
    fn an_outage_of_two_faults_says_so() {
        let of = |texts: &[&str]| outages(texts.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(of(&["a", "a", "b"]), ["a (2 faults)", "b"]);
    }

    #[test]
    fn of_several_failovers_each_says_which_and_whether_it_promoted() {
        let mut finding = fixture::gc_pause::finding();
        let parts = vec![Part::Fault(1)];
        finding.breaches = vec![Breach { what: Bounded::Failover, parts, bound: 0, actual: 1 }];
        let failover = |fault, done: &[u64]| FaultInterval {
            fault,
            verb: Verb::Failover,
            target: Target::Host("n2".to_owned()),
            from: Instant { seq: 1, at: 1 },
            to: Some(Instant { seq: 1, at: 1 }),
            met: Some(done.len() as u64),
            done: done.iter().map(|at| Instant { seq: *at, at: *at }).collect(),
        };
        let mut check = |fault_intervals: &[FaultInterval], said: &str| {
            finding.history.fault_intervals = fault_intervals.to_vec();
            let broken = BrokenAssumption {
                what: Bounded::Failover,
                bound: 0,
                actual: 1,
                faults: fault_intervals.iter().map(|interval| interval.fault).collect(),
                initial: Vec::new(),
                goes: Vec::new(),
                stays: Vec::new(),
                in_run: true,
                keeps: Vec::new(),
            };
            assert_eq!(deeds(&Witness::of(&finding), &broken), said);
        };
        check(&[failover(1, &[5])], "n2 was made master");
        let two =
            "n2 was made master (fault 1) and n2 received the order to become master (fault 2)";
        check(&[failover(1, &[5]), failover(2, &[])], two);
    }

    #[test]
    fn a_reply_that_takes_longer_than_its_time_out_is_named_and_no_work() {
        let check = |latency, timeout, works, said: &str| {
            let mut finding = fixture::gc_pause::finding();
            (finding.plan.links.latency, finding.timeout) = (latency, timeout * MILLISECOND);
            let broken = BrokenAssumption {
                what: Bounded::Work,
                bound: 0,
                actual: works * MILLISECOND,
                faults: Vec::new(),
                initial: vec![Part::Work(0)],
                goes: Vec::new(),
                stays: Vec::new(),
                in_run: true,
                keeps: Vec::new(),
            };
            assert_eq!(deeds(&Witness::of(&finding), &broken), said);
        };
        let slow = Latency::Constant(3 * MILLISECOND);
        let first = "a first reply takes 12 ms (4 messages of 3 ms), and the time-out is 10 ms";
        check(slow, 10, 50, first);
        check(slow, 12, 50, "a caller works for 50 ms, and time-outs and messages leave none");
        check(slow, 12, 0, "time-outs and messages leave no time of the lease");
        let varies = Latency::LongTail { median: MILLISECOND };
        check(varies, 150, 50, "a reply takes up to 199.9 ms, and the time-out is 150 ms");
    }
}
