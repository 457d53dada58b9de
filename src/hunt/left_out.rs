//! What a clean result of a hunt within the assumptions of its lock says nothing about: what they
//! exclude, and the faults that are never drawn because the lock assumes that they do not happen.

use lockstorm_platform::fault::verbs;

use crate::hunt::drawing::{Alphabet, default_verbs, promise, rows};
use crate::hunt::seeded::{Hunt, draw};
use crate::hunt::strategy::Strategy;
use crate::plan::TopologyKind;
use crate::promise::{Assumption, Bounded};

/// The number of plans that are drawn to see whether one of them can have a fault.
const TRIES: u64 = 64;

/// The names of the faults that no plan within the assumptions has, of those that are asked for, or
/// of all if none is; none for a hunt that does not stay within them.
pub fn left_out(hunt: &Hunt) -> Vec<&'static str> {
    let is_asked = hunt.alphabet.verbs != default_verbs();
    let verbs = verbs::words().map(str::to_owned).collect();
    let every = Alphabet { verbs, ..hunt.alphabet.clone() };
    let rows = rows(&hunt.base, if is_asked { &hunt.alphabet } else { &every });
    let words = rows.into_iter().map(|row| row.word);
    let words = words.filter(|word| hunt.alphabet.within && !is_drawn(hunt, word));
    // Where Sentinels or nodes promote by themselves, no verb is needed for it.
    let promotes =
        matches!(hunt.base.topology.kind, TopologyKind::Sentinel | TopologyKind::Cluster);
    let has_failovers = promotes && !is_asked;
    let is_assumed = |it: &Assumption| it.what == Bounded::Failover && it.bound == 0;
    let is_left = has_failovers && assumed(hunt).iter().any(is_assumed);
    words.chain(is_left.then_some("failover")).collect()
}

/// The assumptions of the lock with the bounds that they have in the base plan; none for a hunt
/// that does not stay within them. Without replicas there is no failover to assume away.
pub fn assumed(hunt: &Hunt) -> Vec<Assumption> {
    let base = &hunt.base;
    let has_replicas = base.topology.nodes > base.topology.masters();
    let mut assumes = promise(base, &hunt.alphabet.lock).assumes;
    assumes.retain(|it| hunt.alphabet.within && (has_replicas || it.what != Bounded::Failover));
    assumes
}

fn is_drawn(hunt: &Hunt, word: &str) -> bool {
    let verbs = [word.to_owned()].into();
    let only = Hunt { alphabet: Alphabet { verbs, ..hunt.alphabet.clone() }, ..hunt.clone() };
    (0..TRIES).any(|seed| !draw(&only, seed, Strategy::Random).faults.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{assumed, left_out};
    use crate::hunt::drawing::Alphabet;
    use crate::hunt::seeded::Hunt;
    use crate::lock::catalogue::find;
    use crate::plan::TopologyKind;
    use crate::plan::base_plan::base_plan;
    use crate::promise::Bounded;
    use crate::run::Lab;

    #[test]
    fn failovers_are_left_out_wherever_there_are_replicas() {
        for (kind, has_failovers) in [
            (TopologyKind::Single, false),
            (TopologyKind::Replicated, true),
            (TopologyKind::Sentinel, true),
            (TopologyKind::Cluster, true),
        ] {
            let lock = *find("token-lua").expect("a lock of the catalogue");
            let alphabet = Alphabet { within: true, ..Alphabet::of(lock) };
            let hunt = Hunt::new(Lab::default(), base_plan("token-lua", kind), alphabet, 1..=1);
            assert_eq!(left_out(&hunt).contains(&"failover"), has_failovers, "{kind:?}");
            let is_assumed = assumed(&hunt).iter().any(|it| it.what == Bounded::Failover);
            assert_eq!(is_assumed, has_failovers, "{kind:?}");
        }
    }
}
