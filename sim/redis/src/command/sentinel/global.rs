//! SENTINEL CONFIG, DEBUG, SIMULATE-FAILURE and INFO-CACHE: the process as a whole.

use lockstorm_platform::time::Ms;

use bytes::Bytes;

use crate::call::{Call, Outcome};
use crate::command::sentinel::state::{now, state};
use crate::frame::{Reply, integer};
use crate::frame::{digits, word};
use crate::glob::matches;
use crate::sentinel::globals::{Crashes, Wrong};
use crate::sentinel::instance::Instance;

fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

fn error(text: String) -> Reply {
    Reply::Error(text.into())
}

/// SENTINEL CONFIG GET pattern, SENTINEL CONFIG SET name value
pub fn config(call: &mut Call) -> Outcome {
    match (&call.word(2)[..], call.from(3)) {
        (b"GET", [pattern]) => {
            let lower = pattern.to_ascii_lowercase();
            let all = state(call).globals.all().into_iter();
            let found = all.filter(|(name, _)| matches(&lower, name.as_bytes()));
            let pair = |(name, value): (&'static str, String)| {
                [Reply::word(name), Reply::Bulk(Bytes::from(value))]
            };
            Ok(Reply::Map(found.flat_map(pair).collect()))
        }
        (b"SET", [name, value]) => {
            let (name, value) = (text(name), text(value));
            let own = state(call);
            own.globals.set(&name, &value).map_err(|wrong| match wrong {
                Wrong::Name => {
                    error(format!("ERR Invalid argument '{name}' to SENTINEL CONFIG SET"))
                }
                Wrong::Value => {
                    error(format!("ERR Invalid value '{value}' to SENTINEL CONFIG SET '{name}'"))
                }
            })?;
            own.unsaved = true;
            Ok(Reply::OK)
        }
        _ => Err(Reply::error(
            "ERR Only SENTINEL CONFIG GET <option> / SET <option> <value> are supported.",
        )),
    }
}

/// SENTINEL DEBUG [name ms ...]: those before an invalid one are set.
pub fn debug(call: &mut Call) -> Outcome {
    let mut words = call.from(2);
    let times = &mut state(call).times;
    if words.is_empty() {
        let pair = |(name, ms): (&'static str, &mut Ms)| [word(name), digits(ms)];
        return Ok(Reply::Map(times.all().into_iter().flat_map(pair).map(Reply::Bulk).collect()));
    }
    while let [option, rest @ ..] = words {
        let known =
            times.all().into_iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(option));
        let (Some((_, time)), [value, rest @ ..]) = (known, rest) else {
            let option = text(option);
            let what = "ERR Unknown option or number of arguments for SENTINEL DEBUG";
            return Err(error(format!("{what} '{option}'")));
        };
        *time = integer(value).filter(|ms| *ms > 0).ok_or_else(|| {
            let (value, option) = (text(value), text(option));
            error(format!("ERR Invalid argument '{value}' for SENTINEL DEBUG '{option}'"))
        })?;
        words = rest;
    }
    Ok(Reply::OK)
}

/// SENTINEL SIMULATE-FAILURE [crash-after-election] [crash-after-promotion] [help]
pub fn simulate_failure(call: &mut Call) -> Outcome {
    state(call).crashes = Crashes::default();
    for word in call.from(2) {
        let crashes = &mut state(call).crashes;
        match &word.to_ascii_lowercase()[..] {
            b"crash-after-election" => crashes.after_election = true,
            b"crash-after-promotion" => crashes.after_promotion = true,
            b"help" => {
                let words = ["crash-after-election", "crash-after-promotion"];
                return Ok(Reply::Array(words.map(Reply::word).to_vec()));
            }
            _ => return Err(Reply::error("ERR Unknown failure simulation specified")),
        }
    }
    Ok(Reply::OK)
}

/// SENTINEL INFO-CACHE name ...: age in ms and text of the last INFO of each master and its
/// replicas. As in Redis, a replica's age is reported only once its master's is known.
pub fn info_cache(call: &mut Call) -> Outcome {
    let now = now(call);
    let names: Vec<String> = call.from(2).iter().map(|name| text(name)).collect();
    let masters = state(call).masters.iter().filter(|(name, _)| names.contains(name));
    let items = masters.flat_map(|(name, master)| {
        let is_known = master.instance.report.at != 0;
        let one = |of: &Instance| {
            let age = if is_known { now - of.report.at } else { 0 };
            let info = of.report.text.as_ref();
            let info = info.map_or(Reply::Nil, |text| Reply::bulk(text.as_bytes()));
            Reply::Array(vec![Reply::Integer(age), info])
        };
        let replicas = master.replicas.values().map(|replica| one(&replica.instance));
        let all = [one(&master.instance)].into_iter().chain(replicas).collect();
        [Reply::bulk(name.as_bytes()), Reply::Array(all)]
    });
    Ok(Reply::Array(items.collect()))
}
