//! The signature by which a search treats two violations as the same.

use serde::{Deserialize, Serialize};

use crate::check::verdict::{Kind, Verdict};

/// The signature of a violated run. The checks know the kinds; the code that knows the plan and the
/// trace adds the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Signature {
    /// What was violated, each kind once, in order.
    pub kinds: Vec<Kind>,
    /// The checks of one's own that found something, each once, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// `in-model` or `out-of-model`, once a run without the breaking faults has decided it.
    pub class: Option<String>,
    /// The kinds that are the lock's fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_model: Vec<Kind>,
    /// The assumptions whose breach made a difference, in order.
    pub broken: Vec<String>,
    /// How it became possible: the name of a mechanism.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<String>,
    /// The last step that each holder of the first violation had passed: the place of the
    /// violation, not its cause.
    pub steps: Vec<String>,
}

impl Signature {
    /// The signature of a verdict alone: its kinds.
    pub fn of(verdict: &Verdict) -> Signature {
        let Verdict::Violated(violations) = verdict else { return Signature::default() };
        let mut kinds = violations.iter().map(|violation| violation.kind).collect::<Vec<_>>();
        kinds.sort_unstable();
        kinds.dedup();
        let own = violations.iter().filter_map(|violation| violation.own.as_ref());
        let mut checks: Vec<String> = own.map(|own| own.check.clone()).collect();
        checks.sort_unstable();
        checks.dedup();
        Signature { kinds, checks, ..Signature::default() }
    }

    /// Whether this equals the signature of another run in everything but the place: shrinking must
    /// keep that.
    pub fn keeps(&self, other: &Signature) -> bool {
        let nowhere = |signature: &Signature| Signature { steps: Vec::new(), ..signature.clone() };
        nowhere(self) == nowhere(other)
    }

    /// Whether this is the same violation with no more behind it: the same kinds in the same class,
    /// and no broken assumption that the other lacks. The mechanism may differ.
    pub fn simplifies(&self, other: &Signature) -> bool {
        let same = |signature: &Signature| {
            let what = (signature.kinds.clone(), signature.checks.clone());
            (what, signature.class.clone(), signature.in_model.clone())
        };
        same(self) == same(other) && self.broken.iter().all(|broken| other.broken.contains(broken))
    }
}

#[cfg(test)]
mod tests {
    use super::Signature;
    use crate::check::verdict::Kind;

    #[test]
    fn another_check_is_another_violation() {
        let of = |check: &str| Signature {
            kinds: vec![Kind::OwnCheck],
            checks: vec![check.to_owned()],
            ..Signature::default()
        };
        let (one, other) = (of("sold-once"), of("waits"));
        assert!(one.keeps(&of("sold-once")) && one.simplifies(&of("sold-once")));
        assert!(!one.keeps(&other) && !one.simplifies(&other));
    }
}
