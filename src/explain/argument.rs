//! Why no order of the operations is legal, in words.
//!
//! The check has searched; here its smallest set of operations is only put into a sentence.

use crate::check::{Kind, Violation};
use crate::explain::hold::{Hold, op};
use crate::explain::quantity::{list, moment};
use crate::explain::witness::Witness;
use crate::history::{Op, OpKind};

/// An argument for each set of operations that has no legal order.
pub fn arguments(witness: &Witness<'_>) -> Vec<String> {
    witness.of_kind(Kind::NotLinearizable).map(|violation| argument(witness, violation)).collect()
}

/// The argument for one set of operations.
pub fn argument(witness: &Witness<'_>, violation: &Violation) -> String {
    let ops: Vec<&Op> = violation.ops.iter().filter_map(|id| op(witness.history(), *id)).collect();
    let holds: Vec<&Hold<'_>> = ops.iter().filter_map(|op| witness.hold(op.id)).collect();
    let set: Vec<String> = ops.iter().map(|op| name(op)).collect();
    let why = match holds[..] {
        [first, second, ..] => format!(" {}", clash(first, second)),
        _ => String::new(),
    };
    format!("No order is legal for {}.{why}", list(&set))
}

fn name(op: &Op) -> String {
    let what = match op.kind {
        OpKind::Acquire => "acquire",
        OpKind::Extend { .. } => "extend",
        OpKind::Release { .. } => "release",
        OpKind::Lost { .. } => "loss",
        OpKind::Read { .. } => "read",
        OpKind::Write { .. } => "write",
        OpKind::Append { .. } => "append",
    };
    format!("{}'s {what} of {}", op.caller, moment(op.call.at))
}

/// Why two grants cannot stand one after the other.
fn clash(first: &Hold<'_>, second: &Hold<'_>) -> String {
    let (one, other) = (&first.grant.caller, &second.grant.caller);
    let ends = match first.lease {
        Some(lease) => format!(
            "{one} gives it back only at {}, and its lease runs until {}",
            moment(first.until.at),
            moment(lease)
        ),
        None => format!("{one} gives it back only at {}", moment(first.until.at)),
    };
    let order = if second.grant.call.seq > first.from.seq {
        format!("{other} asks when {one} has already been granted the lock, so it comes second",)
    } else {
        format!("{one} and {other} ask at the same time; say that {one} comes first")
    };
    format!(
        "{order}; but {ends}, and {other} is granted the lock before, at {}.",
        moment(second.from.at)
    )
}
