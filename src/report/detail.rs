//! What there is to know about a lock of the catalogue, as chapters.

use crate::explain::{assumption, promise};
use crate::explore::quiet::QuietCall;
use crate::lock::algorithm::Algorithm;
use crate::lock::options::OPTIONS;
use crate::promise::Promise;
use crate::quantity::list;
use crate::report::chapter::{Block, Chapter};
use crate::report::text;
use crate::scenario::Scenario;
use crate::scenario::expectation::ExpectedVerdict;

/// A lock with what a run and the scenarios show of it.
pub struct Detail<'a> {
    /// The lock.
    pub lock: &'a Algorithm,
    /// What it promises in the plan without faults.
    pub promise: Promise,
    /// What it sends.
    pub calls: Vec<QuietCall>,
    /// The scenarios with it.
    pub scenarios: Vec<&'a Scenario>,
}

impl Detail<'_> {
    /// For a terminal or a pipe.
    pub fn text(&self) -> String {
        let head = format!("{}: {}\n", self.lock.name, self.lock.about);
        head + &text::chapters(&self.chapters())
    }

    fn chapters(&self) -> Vec<Chapter> {
        let breaks = |scenario: &&Scenario| {
            matches!(scenario.expect.answer, ExpectedVerdict::Violated { .. })
        };
        let (broken, held): (Vec<&Scenario>, Vec<&Scenario>) =
            self.scenarios.iter().partition(|scenario| breaks(scenario));
        let assumes = self.promise.assumes.iter();
        let assumes = assumes.map(|it| {
            let (bound, why) = (assumption::bound(it.what, it.bound), promise::reason(it.what));
            format!("{bound}: {why}.")
        });
        let all = [
            ("It sends, undisturbed", self.sent()),
            ("It promises", promise::sentences(&self.promise)),
            ("It assumes", assumes.collect()),
            ("Its options", self.options()),
            ("What breaks it", broken.into_iter().map(shown).collect()),
            ("What it withstands", held.into_iter().map(shown).collect()),
        ];
        let some = all.into_iter().filter(|(_, items)| !items.is_empty());
        some.map(|(title, items)| Chapter { title, blocks: vec![Block::Items(items)] }).collect()
    }

    fn sent(&self) -> Vec<String> {
        let line = |call: &QuietCall| {
            let request =
                |(command, nodes): &(String, Vec<String>)| format!("{command} to {}", list(nodes));
            let requests: Vec<String> = call.requests.iter().map(request).collect();
            format!("{}: {}", call.call, requests.join(", "))
        };
        match self.calls.is_empty() {
            true => vec!["nothing".to_owned()],
            false => self.calls.iter().map(line).collect(),
        }
    }

    /// In one row: their meaning is in the list of options.
    fn options(&self) -> Vec<String> {
        let own = OPTIONS.iter().filter(|option| (option.of.has)(self.lock));
        let own = own.map(|option| option.field.key);
        let own: Vec<String> =
            own.filter(|key| !["algorithm", "library"].contains(key)).map(str::to_owned).collect();
        vec![list(&own)]
    }
}

/// A scenario by its name and its question.
fn shown(scenario: &Scenario) -> String {
    format!("{}: {}", scenario.name, scenario.ask)
}
