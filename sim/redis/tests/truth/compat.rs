//! Nodes compatible with other servers, against those servers: `sim/redis/tests/corpus/compat/`.
//!
//! A file named after a server is a script of what locks use there. The file `known` beside it
//! lists the remaining differences in the whole corpus, in groups under a line `= reason`; requests
//! under a reason that begins with `now and then` may also give equal replies. If
//! `LOCKSTORM_SERVER_REDIS_8_2` and the like name a server's file, both are compared with its
//! replies; `LOCKSTORM_TRUTH=write` rewrites them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use lockstorm_redis::compat::Compat;

use crate::corpus::{Script, folder, scripts};
use crate::real::Real;
use crate::{against_real, against_recorded, fail_if_any, writes};

/// The reason in the list for a difference that has no explanation yet.
const UNEXPLAINED: &str = "not modelled";

/// How the reasons begin for differences that do not occur in every process.
const SOMETIMES: &str = "now and then";

/// The servers other than the default one.
fn others() -> impl Iterator<Item = (&'static str, Compat)> {
    Compat::WORDS.into_iter().filter(|(_, compat)| *compat != Compat::default())
}

fn path(word: &str, ending: &str) -> PathBuf {
    folder().join("compat").join(format!("{word}.{ending}"))
}

fn script(word: &str) -> Script {
    let text = std::fs::read_to_string(path(word, "txt")).expect("every server has a script");
    Script::read(word, &text)
}

/// The file of a server, if the environment names one.
fn server(word: &str) -> Option<String> {
    let name = word.to_ascii_uppercase().replace(['-', '.'], "_");
    let server = std::env::var(format!("LOCKSTORM_SERVER_{name}")).ok();
    if server.is_none() {
        eprintln!("SKIPPED: LOCKSTORM_SERVER_{name} names no server");
    }
    server
}

/// The known differences of the corpus: the reason for each request.
fn known(word: &str) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(path(word, "known")).unwrap_or_default();
    let mut reason = UNEXPLAINED;
    let mut known = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match line.strip_prefix("= ") {
            Some(other) => reason = other,
            None => drop(known.insert(line.to_owned(), reason.to_owned())),
        }
    }
    known
}

fn write_known(word: &str, known: &BTreeMap<String, String>) {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    known.iter().for_each(|(request, why)| groups.entry(why).or_default().push(request));
    let mut text = format!("# Requests of the corpus that a node answers otherwise than {word}.\n");
    for (why, requests) in groups {
        text += &format!("\n= {why}\n{}\n", requests.join("\n"));
    }
    std::fs::write(path(word, "known"), text).expect("a list can be written");
}

#[test]
fn what_other_servers_answered_is_ours() {
    if writes() {
        return;
    }
    let wrong = others().flat_map(|(word, compat)| against_recorded(&script(word), compat));
    fail_if_any(&wrong.collect::<Vec<_>>());
}

#[test]
fn other_servers_answer_alike() {
    let mut wrong = Vec::new();
    for (word, compat) in others() {
        let Some(server) = server(word) else { continue };
        let mut script = script(word);
        let real = Real::start_server(&server, &script.settings, None);
        let mut real = real.expect("the server that is named is there");
        wrong.extend(against_real(&mut script, compat, &mut real));
        if writes() {
            std::fs::write(path(word, "txt"), script.write()).expect("a script can be written");
        }
    }
    fail_if_any(&wrong);
}

#[test]
fn the_corpus_differs_on_other_servers_as_is_known() {
    let mut wrong = Vec::new();
    for (word, compat) in others() {
        let Some(server) = server(word) else { continue };
        let mut left = known(word);
        let mut found = BTreeMap::new();
        for mut script in scripts() {
            let real = Real::start_server(&server, &script.settings, None);
            let mut real = real.expect("the server that is named is there");
            for text in against_real(&mut script, compat, &mut real) {
                let request = text.lines().next().unwrap_or_default().to_owned();
                let reason = left.get(&request).cloned();
                if reason.is_none() {
                    wrong.push(format!("{word}: {text}"));
                }
                found.insert(request, reason.unwrap_or(UNEXPLAINED.to_owned()));
            }
        }
        left.retain(|request, why| !found.contains_key(request) && !why.starts_with(SOMETIMES));
        wrong.extend(left.keys().map(|request| format!("{word}: no longer differs: {request}")));
        if writes() {
            write_known(word, &found);
        }
    }
    if !writes() {
        fail_if_any(&wrong);
    }
}
