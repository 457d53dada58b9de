//! The values of arguments: each parser refuses with what to write instead.

use std::collections::BTreeSet;

use clap::builder::{PossibleValue, PossibleValuesParser};
use lockstorm_platform::time::Nanos;

use crate::hunt::campaign::shard::Choice;
use crate::length;
use crate::lock::catalogue::ALGORITHMS;
use crate::lock::library::LIBRARIES;
use crate::plan::extend::Extend;

/// The folder of reports, unless another is given.
pub const REPORTS: &str = "reports";

/// A length of time.
pub fn length(text: &str) -> Result<Nanos, String> {
    length::read(text).map_err(|refusal| format!("{}: {}", refusal.what, refusal.instead))
}

/// The part of a campaign.
pub fn shard(text: &str) -> Result<Choice, String> {
    Choice::read(text).map_err(|refusal| format!("{}: {}", refusal.what, refusal.instead))
}

/// A length of time in which something can run.
pub fn budget(text: &str) -> Result<Nanos, String> {
    match length(text)? {
        0 => Err("a budget of 0 runs no plan: write a length such as '60s'".to_owned()),
        length => Ok(length),
    }
}

/// When a client extends its grant.
pub fn extend(text: &str) -> Result<Extend, String> {
    text.parse().map_err(|wrong| {
        format!("{wrong}: write 'never', 'until-lost', or a share below 1 of the lease, as '1/2'")
    })
}

/// A trace hash, whole.
pub fn trace_hash(text: &str) -> Result<String, String> {
    match text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(text.to_lowercase()),
        false => Err("a trace hash has 32 hexadecimal digits: write it whole".to_owned()),
    }
}

/// The locks of the catalogue and the client libraries.
pub fn locks() -> PossibleValuesParser {
    let locks = ALGORITHMS.iter().map(|lock| lock.name);
    let names: BTreeSet<&str> = LIBRARIES.iter().map(|library| library.name).collect();
    let others = names.into_iter().filter(|name| ALGORITHMS.iter().all(|lock| lock.name != *name));
    // With its version a library is understood, and not listed: `list libraries` does that.
    let titles = LIBRARIES.iter().map(|library| PossibleValue::new(library.title()).hide(true));
    PossibleValuesParser::new(locks.chain(others).map(PossibleValue::new).chain(titles))
}

/// One of these words.
pub fn words(words: &[&'static str]) -> PossibleValuesParser {
    PossibleValuesParser::new(words.iter().copied())
}
