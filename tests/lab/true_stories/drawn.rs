//! The stories to test: drawn plans of every lock on every topology on which it can run.

use lockstorm::check::verdict::Verdict;
use lockstorm::explain::finding::Finding;
use lockstorm::explore::examine;
use lockstorm::explore::trial::attempt;
use lockstorm::hunt::drawing::Alphabet;
use lockstorm::hunt::seeded::{Hunt, draw};
use lockstorm::hunt::strategy::Strategy;
use lockstorm::lock::catalogue::ALGORITHMS;
use lockstorm::plan::base_plan::base_plan;
use lockstorm::plan::{Persistence, TopologyKind};
use lockstorm::run::Lab;
use lockstorm_platform::fault::verbs;

/// The maximum average number of seeds for one violation of a row.
const MAX_SEEDS: u64 = 60;

/// A lock on a topology.
pub struct Row {
    lock: &'static str,
    kind: TopologyKind,
}

/// Every row that makes a valid plan.
pub fn rows() -> Vec<Row> {
    let kinds = [
        TopologyKind::Single,
        TopologyKind::Replicated,
        TopologyKind::Independent,
        TopologyKind::Sentinel,
        TopologyKind::Cluster,
    ];
    let locks = ALGORITHMS.iter().map(|algorithm| algorithm.name);
    let rows = locks.flat_map(|lock| kinds.map(|kind| Row { lock, kind }));
    rows.filter(|row| base_plan(row.lock, row.kind).validate().is_ok()).collect()
}

/// The plans of a row that are violated, or that hold, as findings, from a seed on.
pub fn findings(row: &Row, from: u64, violated: bool) -> impl Iterator<Item = Finding> {
    let lab = Lab::default();
    let files = [
        Persistence::None,
        Persistence::AofAlways,
        Persistence::AofEverysec,
        Persistence::AofNo,
        Persistence::Rdb,
    ];
    let hunts = files.map(|persistence| hunt(&lab, row, persistence));
    let mut idle = 0;
    let seeds = (from..).map_while(move |seed| {
        idle += 1;
        if idle > MAX_SEEDS {
            return None;
        }
        let plan = draw(&hunts[(seed % hunts.len() as u64) as usize], seed, Strategy::Random);
        let trial = attempt(&lab, &plan);
        let holds = trial.judgement.verdict == Verdict::Holds;
        if !(if violated { trial.is_violated() } else { holds }) {
            return Some(None);
        }
        idle = 0;
        Some(Some(examine::once(&lab, &plan, trial)))
    });
    seeds.flatten()
}

fn hunt(lab: &Lab, row: &Row, persistence: Persistence) -> Hunt {
    let mut base = base_plan(row.lock, row.kind);
    base.topology.persistence = persistence;
    base.name = format!("{} on {:?} with {persistence:?}", row.lock, row.kind);
    let verbs = verbs::words().map(str::to_owned).collect();
    let alphabet = Alphabet { verbs, ..Alphabet::of(*lab.algorithm(&base)) };
    Hunt::new(lab.clone(), base, alphabet, 1..=1)
}
