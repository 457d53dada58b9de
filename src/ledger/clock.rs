//! Clocks: how far a wall clock was moved off its course, and by how much rates differed.
//!
//! Steps and freezes of one host add up, since they may affect the same lease: what counts is the
//! largest deviation of its wall clock between any two moments. Freezes that overlap count once.
//! Rates are compared with each other and with true time at each moment, including those at the
//! start of the run. The probe's clock is not a client's clock.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::fault::Verb;
use lockstorm_platform::time::{Clock, EPOCH, Nanos};

use crate::history::PROBE;
use crate::ledger::breach::Breach;
use crate::ledger::breach::Ledger;
use crate::ledger::breach::above;
use crate::ledger::part::Part;
use crate::ledger::site::bound_of;
use crate::ledger::strike;
use crate::promise::Bounded;
use crate::reading::moment::Moment;

/// The breaches of the assumptions about clocks.
pub fn breaches(ledger: &Ledger) -> Vec<Breach> {
    let nodes: BTreeSet<&str> = ledger.site.nodes.iter().map(String::as_str).collect();
    let clients = ledger.reading.history.ops.iter().map(|op| op.process.as_str());
    let clients: BTreeSet<&str> = clients.filter(|process| *process != PROBE).collect();
    let mut found = Vec::new();
    for (hosts, what) in [(&nodes, Bounded::NodeClockStep), (&clients, Bounded::ClientClockStep)] {
        found.extend(hosts.iter().filter_map(|host| moved(ledger, host, what)));
    }
    let all = nodes.union(&clients).copied().collect();
    found.extend(skew(ledger, &all));
    found.extend(drift(ledger, &all));
    found
}

/// The maximum difference of the wall clocks of two hosts, or a host and true time, at the start.
fn skew(ledger: &Ledger, hosts: &BTreeSet<&str>) -> Option<Breach> {
    let clocks = &ledger.reading.clocks;
    let start = Moment::default();
    let reads = |host: &&str| Some(clocks.line(host, Clock::Wall, start)?.at(start.at));
    let off = |reading: Nanos| i128::from(reading) - i128::from(EPOCH);
    let all = hosts.iter().filter_map(reads).map(off);
    let (least, most) = all.fold((0, 0), |(a, b), off| (a.min(off), b.max(off)));
    let apart = Nanos::try_from(most - least).unwrap_or(Nanos::MAX);
    above(ledger, Bounded::Skew, apart, vec![Part::Offsets])
}

/// The breach by a wall clock that moved off its course between any two moments. A step moves it at
/// once, a freeze little by little while it lasts.
fn moved(ledger: &Ledger, host: &str, what: Bounded) -> Option<Breach> {
    let end = ledger.reading.history.end;
    let own = ledger.reading.history.fault_intervals.iter().filter(|c| c.strikes(host));
    let (mut steps, mut freezes, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for interval in own {
        match interval.verb {
            Verb::ClockStep { by } => steps.push((interval.from.at, by)),
            Verb::ClockFreeze => freezes.push((interval.from.at, interval.until(end).at)),
            _ => continue,
        }
        parts.push(strike::part(interval));
    }
    let mut moments: BTreeSet<Nanos> = freezes.iter().flat_map(|(from, to)| [*from, *to]).collect();
    moments.extend(steps.iter().map(|(at, _)| *at));
    let (mut away, mut least, mut most) = (0_i64, 0_i64, 0_i64);
    for moment in moments {
        let stood = i64::try_from(stood_until(&freezes, moment)).unwrap_or(i64::MAX);
        // Nobody reads the clock between two steps at the same moment.
        let now = steps.iter().filter(|(at, _)| *at == moment).map(|(_, by)| *by);
        let now = now.fold(0, i64::saturating_add);
        // The deviation before the steps counts too: a freeze may have moved the clock up to here.
        for by in [0, now] {
            away = away.saturating_add(by);
            let off = away.saturating_sub(stood);
            (least, most) = (least.min(off), most.max(off));
        }
    }
    above(ledger, what, most.abs_diff(least), parts)
}

/// For how long a clock had stood still by a moment; freezes that overlap count once.
fn stood_until(freezes: &[(Nanos, Nanos)], moment: Nanos) -> Nanos {
    let mut freezes = freezes.to_vec();
    freezes.sort_unstable();
    let (mut stood, mut over) = (0, 0);
    for (from, to) in freezes {
        let (from, to) = (from.max(over), to.min(moment));
        stood += to.saturating_sub(from);
        over = over.max(to);
    }
    stood
}

/// The maximum difference of rates between two hosts, or a host and true time, at one moment.
fn drift(ledger: &Ledger, hosts: &BTreeSet<&str>) -> Option<Breach> {
    let bound = bound_of(&ledger.site.assumes, Bounded::Drift)?;
    // No fault stops the boot clock, so its rate is that of the whole host.
    let pieces = ledger.reading.history.clocks.iter();
    let pieces = pieces.filter(|p| p.clock == Clock::Boot && hosts.contains(p.host.as_str()));
    let mut rates: BTreeMap<&str, i32> = hosts.iter().map(|host| (*host, 0)).collect();
    let (mut worst, mut parts) = (0, BTreeSet::new());
    let mut pieces = pieces.peekable();
    while let Some(piece) = pieces.next() {
        rates.insert(&piece.host, piece.line.rate_ppm);
        if pieces.peek().is_some_and(|next| next.from.at == piece.from.at) {
            continue;
        }
        let (least, most) =
            rates.values().fold((0, 0), |(a, b), rate| (a.min(*rate), b.max(*rate)));
        let apart = u64::from(most.abs_diff(least));
        worst = worst.max(apart);
        if apart > bound {
            let wrong =
                rates.iter().filter(|(_, rate)| **rate != 0 && [least, most].contains(rate));
            parts.extend(wrong.map(|(host, _)| cause(ledger, host, piece.from.into())));
        }
    }
    above(ledger, Bounded::Drift, worst, parts.into_iter().collect())
}

/// What set the rate that a host has at a moment.
fn cause(ledger: &Ledger, host: &str, moment: Moment) -> Part {
    let mut fault_intervals = ledger.reading.history.fault_intervals.iter().filter(|interval| {
        let (from, to) = ledger.reading.lasts(interval);
        matches!(interval.verb, Verb::ClockRate { .. })
            && interval.strikes(host)
            && from.at <= moment.at
            // At its end, the host already has its previous rate.
            && moment.at < to.at
    });
    fault_intervals.next_back().map_or(Part::Clocks, strike::part)
}
