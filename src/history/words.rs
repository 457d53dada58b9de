//! The words for operations: those that an anchor may wait for, and those of a sentence.

use crate::history::{OpId, OpKind, Outcome};

/// The words for requests and results of operations: the events that an anchor may wait for.
pub const WORDS: [&str; 22] = [
    "acquire",
    "acquired",
    "refused",
    "unknown",
    "release",
    "released",
    "not-mine",
    "extend",
    "kept",
    "lost",
    "told",
    "reading",
    "read",
    "writing",
    "wrote",
    "appending",
    "appended",
    "adding",
    "added",
    "setting-expiry",
    "set-expiry",
    "refused-access",
];

impl OpKind {
    /// The grant under which the operation accesses the resource, if it is an access and has one.
    pub fn access_grant(&self) -> Option<OpId> {
        match self {
            OpKind::Read { grant }
            | OpKind::Write { grant, .. }
            | OpKind::Append { grant }
            | OpKind::Add { grant, .. }
            | OpKind::Expire { grant } => *grant,
            _ => None,
        }
    }

    /// Whether it accesses the resource.
    pub fn is_access(&self) -> bool {
        !matches!(
            self,
            OpKind::Acquire | OpKind::Extend { .. } | OpKind::Release { .. } | OpKind::Lost { .. }
        )
    }

    /// The word for the invocation.
    pub fn invocation_word(&self) -> &'static str {
        match self {
            OpKind::Acquire => "acquire",
            OpKind::Extend { .. } => "extend",
            OpKind::Release { .. } => "release",
            OpKind::Lost { .. } => "told",
            OpKind::Read { .. } => "reading",
            OpKind::Write { .. } => "writing",
            OpKind::Append { .. } => "appending",
            OpKind::Add { .. } => "adding",
            OpKind::Expire { .. } => "setting-expiry",
        }
    }

    /// The noun for the operation in a sentence.
    pub fn noun(&self) -> &'static str {
        match self {
            OpKind::Lost { .. } => "notice of its loss",
            OpKind::Read { .. } => "read",
            OpKind::Write { .. } => "write",
            OpKind::Append { .. } => "append",
            OpKind::Add { .. } => "addition",
            OpKind::Expire { .. } => "expiry",
            other => other.invocation_word(),
        }
    }
}

impl Outcome {
    /// The word for the return from an operation of this kind.
    ///
    /// # Panics
    /// If it has not returned.
    pub fn return_word(&self, kind: &OpKind) -> &'static str {
        match (self, kind) {
            (Outcome::Pending, _) => unreachable!("what returned is not pending"),
            (Outcome::Unknown, _) => "unknown",
            (Outcome::Granted { .. }, _) => "acquired",
            (Outcome::Refused { .. }, OpKind::Acquire) => "refused",
            (Outcome::Refused { .. }, _) => "refused-access",
            (Outcome::Kept { .. }, _) => "kept",
            (Outcome::Lost, _) => "lost",
            (Outcome::Released, _) => "released",
            (Outcome::NotMine, _) => "not-mine",
            (Outcome::Value { .. }, OpKind::Add { .. }) => "added",
            (Outcome::Value { .. }, _) => "read",
            (Outcome::Accepted, OpKind::Append { .. }) => "appended",
            (Outcome::Accepted, OpKind::Expire { .. }) => "set-expiry",
            (Outcome::Accepted, _) => "wrote",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::WORDS;
    use crate::history::{OpKind, Outcome};

    #[test]
    fn every_word_of_an_operation_can_be_waited_for() {
        let kinds = [
            OpKind::Acquire,
            OpKind::Extend { grant: 0, background: false },
            OpKind::Release { grant: 0 },
            OpKind::Lost { grant: 0 },
            OpKind::Read { grant: None },
            OpKind::Write { grant: None, value: 0 },
            OpKind::Append { grant: None },
            OpKind::Add { grant: None, by: 1 },
            OpKind::Expire { grant: None },
        ];
        let outcomes = [
            Outcome::Unknown,
            Outcome::Granted { token: String::new(), fence: None, deadline: None },
            Outcome::Refused { why: String::new() },
            Outcome::Kept { deadline: None },
            Outcome::Lost,
            Outcome::Released,
            Outcome::NotMine,
            Outcome::Value { value: 0 },
            Outcome::Accepted,
        ];
        let mut used: Vec<&str> = kinds.iter().map(OpKind::invocation_word).collect();
        for kind in &kinds {
            used.extend(outcomes.iter().map(|outcome| outcome.return_word(kind)));
        }
        for word in WORDS {
            assert!(used.contains(&word), "'{word}' never happens");
        }
        assert!(used.iter().all(|word| WORDS.contains(word)));
    }
}
