//! Is there a legal order? Time is traversed point by point; at each point any operation whose
//! interval contains it may take effect, and an expired lease may end. Operations with an unknown
//! outcome may happen or not.

use std::collections::BTreeSet;

use lockstorm::check::terms::Terms;
use lockstorm::history::{History, Op, OpKind, Outcome};
use lockstorm::promise::Model;

use crate::brute::table::{Point, Table, stamp};

const NEVER: Point = (u64::MAX, u64::MAX);

/// What an operation does to the lock or the register.
#[derive(Clone, Copy)]
enum Deed {
    Take {
        grant: u32,
        ends: Point,
    },
    /// The holder re-enters; `alone` if the previous lease had expired.
    Retake {
        grant: u32,
        ends: Point,
        alone: Point,
    },
    Prolong {
        grant: u32,
        ends: Point,
    },
    Give {
        grant: u32,
    },
    Read(i64),
    Write(i64),
}

struct Happening {
    from: Point,
    to: Point,
    must: bool,
    deed: Deed,
}

/// The lock's holder with the end of its lease, and the register's value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    held: Option<(u32, Point)>,
    value: i64,
}

pub fn lock_is_legal(table: &Table) -> bool {
    let ops = table.history.ops.iter().filter(|op| op.object == table.terms.lock_key);
    let happenings = ops.filter_map(|op| lock_happening(table, op)).collect::<Vec<_>>();
    is_legal(table, &happenings, 0)
}

/// The history in which only those acquires and their operations have an effect.
pub fn only(table: &Table, acquires: &[u32]) -> History {
    let mut history = table.history.clone();
    for op in &mut history.ops {
        if !acquires.contains(&block(op)) {
            op.outcome = match op.kind {
                OpKind::Acquire => Outcome::Refused { why: String::new() },
                _ => Outcome::NotMine,
            };
        }
    }
    history
}

/// The acquire to which an operation belongs.
fn block(op: &Op) -> u32 {
    match op.kind {
        OpKind::Extend { grant, .. } | OpKind::Release { grant } | OpKind::Lost { grant } => grant,
        _ => op.id,
    }
}

pub fn register_is_legal(table: &Table, initial: i64) -> bool {
    let happenings = table.history.ops.iter().filter_map(|op| {
        let (must, deed) = match (&op.kind, &op.outcome) {
            (OpKind::Read { .. }, Outcome::Value { value }) => (true, Deed::Read(*value)),
            (OpKind::Write { value, .. }, Outcome::Accepted) => (true, Deed::Write(*value)),
            (OpKind::Write { value, .. }, Outcome::Unknown | Outcome::Pending) => {
                (false, Deed::Write(*value))
            }
            _ => return None,
        };
        Some(happening(op, must, deed))
    });
    let happenings = happenings.collect::<Vec<_>>();
    is_legal(table, &happenings, initial)
}

fn happening(op: &Op, must: bool, deed: Deed) -> Happening {
    let to = if must { op.ret.map_or(NEVER, stamp) } else { NEVER };
    Happening { from: stamp(op.call), to, must, deed }
}

fn lock_happening(table: &Table, op: &Op) -> Option<Happening> {
    let one_node = table.terms.site.queried == 1;
    let vague = matches!(op.outcome, Outcome::Unknown | Outcome::Pending);
    if table.op(block(op)).shared {
        return None;
    }
    let (must, deed) = match op.kind {
        OpKind::Acquire => {
            let granted = matches!(op.outcome, Outcome::Granted { .. });
            let possible = granted || vague && one_node;
            if !possible {
                return None;
            }
            if let Some(outer) = taken_under(table, op) {
                return Some(retaken(table, op, outer));
            }
            (granted, Deed::Take { grant: op.id, ends: lease_end(table, op) })
        }
        OpKind::Extend { grant, .. } if matches!(op.outcome, Outcome::Kept { .. }) => {
            (true, Deed::Prolong { grant, ends: lease_end(table, op) })
        }
        OpKind::Release { grant } if op.outcome == Outcome::Released => {
            (one_node, Deed::Give { grant })
        }
        OpKind::Release { grant } if vague => (false, Deed::Give { grant }),
        OpKind::Extend { grant, .. } | OpKind::Lost { grant } if op.outcome == Outcome::Lost => {
            (false, Deed::Give { grant })
        }
        OpKind::Release { grant } if !one_node && removed_some(table, op) => {
            (false, Deed::Give { grant })
        }
        _ => return None,
    };
    if let Deed::Prolong { grant, .. } | Deed::Give { grant } = deed {
        let acquire = &table.op(grant).outcome;
        let refused = matches!(acquire, Outcome::Refused { .. })
            || taken_under(table, table.op(grant)).is_some();
        let unproven = matches!(acquire, Outcome::Unknown | Outcome::Pending) && !one_node;
        if refused || unproven {
            return None;
        }
    }
    Some(happening(op, must, deed))
}

/// The acquire that began the tenure of another one, if its caller held throughout that one; `None`
/// if callers do not re-enter.
fn taken_under(table: &Table, op: &Op) -> Option<u32> {
    let (began, to) = (table.began(op.id), stamp(op.ret?));
    (began != op.id && table.has(began, to)).then_some(began)
}

/// A re-entry makes the hold longer. It is certain if the acquire was granted or, with one node, if
/// an extend or a release under it proves that it was.
fn retaken(table: &Table, op: &Op, outer: u32) -> Happening {
    let members = || table.history.ops.iter().filter(|other| block(other) == op.id);
    let proves = |other: &&Op| {
        matches!(other.outcome, Outcome::Kept { .. } | Outcome::Released) && other.ret.is_some()
    };
    let granted = matches!(op.outcome, Outcome::Granted { .. });
    let proof = members().filter(proves).filter_map(|other| other.ret.map(stamp)).min();
    let shown = if granted { op.ret.map(stamp) } else { proof };
    let ends = lease_end(table, op);
    let given = members().filter(|other| matches!(other.kind, OpKind::Release { .. }));
    // Whatever may have released the outer grant may also release this one, once it is alone.
    let outers = table.history.ops.iter().filter(|other| block(other) == outer);
    let may = outers.filter(|other| {
        let vague = matches!(other.outcome, Outcome::Unknown | Outcome::Pending);
        let some = table.terms.site.queried > 1
            && (other.outcome == Outcome::Released || removed_some(table, other));
        let is_release = matches!(other.kind, OpKind::Release { .. });
        is_release && (vague || some) || other.outcome == Outcome::Lost
    });
    let alone = given.chain(may).map(|other| stamp(other.call)).fold(ends, Point::min);
    Happening {
        from: stamp(op.call),
        to: shown.unwrap_or(NEVER),
        must: shown.is_some(),
        deed: Deed::Retake { grant: outer, ends, alone },
    }
}

/// Whether a "not mine" from several nodes removed the keys of some; assumed without recorded keys.
fn removed_some(table: &Table, release: &Op) -> bool {
    let keys = table.history.keys.iter().filter(|key| key.key == table.terms.lock_key);
    let by = keys.map(|key| key.by).collect::<Vec<_>>();
    by.is_empty() || by.contains(&Some(release.id))
}

/// Whether the operations of two acquires are legal with all of the first before the second.
pub fn is_legal_in_order(table: &Table, first: u32, second: u32) -> bool {
    let ops = table.history.ops.iter().filter(|op| op.object == table.terms.lock_key);
    let of = |began: u32| {
        let own = ops.clone().filter(move |op| table.began(block(op)) == began);
        own.filter_map(|op| lock_happening(table, op)).collect::<Vec<_>>()
    };
    let (mut both, later) = (of(first), of(second));
    let later_from = both.len();
    both.extend(later);
    is_legal_if(table, &both, 0, |done, bit| {
        // The certain operations of the first come before all of the second.
        bit < later_from
            || (0..later_from).all(|earlier| !both[earlier].must || done >> earlier & 1 == 1)
    })
}

/// The time to live after the call, or the promised deadline if the caller's clock reaches it
/// earlier.
fn lease_end(table: &Table, op: &Op) -> Point {
    let Terms { model: Model::Lease, ttl: Some(ttl), .. } = table.terms else { return NEVER };
    let (Outcome::Granted { deadline, .. } | Outcome::Kept { deadline }) = op.outcome else {
        return (op.call.at + ttl, 0);
    };
    let later = table.points.iter().copied().filter(|at| *at >= stamp(op.call));
    let promised = deadline.and_then(|(clock, reading)| {
        later.into_iter().find(|at| table.reading(&op.process, clock, *at) >= i128::from(reading))
    });
    promised.unwrap_or(NEVER).min((op.call.at + ttl, 0))
}

fn is_legal(table: &Table, happenings: &[Happening], initial: i64) -> bool {
    is_legal_if(table, happenings, initial, |_, _| true)
}

/// As [`is_legal`], if a happening may have to wait for previous ones.
fn is_legal_if(
    table: &Table,
    happenings: &[Happening],
    initial: i64,
    may: impl Fn(u64, usize) -> bool,
) -> bool {
    let start = State { held: None, value: initial };
    let mut states = BTreeSet::from([(0_u64, start)]);
    for at in &table.points {
        let mut open = states.iter().copied().collect::<Vec<_>>();
        while let Some((done, state)) = open.pop() {
            let mut next = happenings
                .iter()
                .enumerate()
                .filter(|(bit, happening)| {
                    let open = done >> bit & 1 == 0 && may(done, *bit);
                    open && happening.from <= *at && *at <= happening.to
                })
                .filter_map(|(bit, happening)| {
                    Some((done | 1 << bit, apply(state, happening.deed)?))
                })
                .collect::<Vec<_>>();
            if state.held.is_some_and(|(_, ends)| ends <= *at) {
                next.push((done, State { held: None, ..state }));
            }
            open.extend(next.into_iter().filter(|next| states.insert(*next)));
        }
        states.retain(|(done, _)| {
            happenings.iter().enumerate().all(|(bit, happening)| {
                !happening.must || *at < happening.to || done >> bit & 1 == 1
            })
        });
    }
    !states.is_empty()
}

fn apply(state: State, deed: Deed) -> Option<State> {
    let holds = |grant: u32| state.held.is_some_and(|(holder, _)| holder == grant);
    match deed {
        Deed::Take { grant, ends } => {
            state.held.is_none().then_some(State { held: Some((grant, ends)), ..state })
        }
        Deed::Retake { grant, ends, alone } => match state.held {
            None => Some(State { held: Some((grant, alone)), ..state }),
            Some((_, old)) => {
                holds(grant).then_some(State { held: Some((grant, ends.max(old))), ..state })
            }
        },
        Deed::Prolong { grant, ends } => {
            holds(grant).then_some(State { held: Some((grant, ends)), ..state })
        }
        Deed::Give { grant } => holds(grant).then_some(State { held: None, ..state }),
        Deed::Read(value) => (state.value == value).then_some(state),
        Deed::Write(value) => Some(State { value, ..state }),
    }
}
