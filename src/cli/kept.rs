//! The experiments of earlier runs of the same build, stored with the reports: a plan that is
//! explained there is not explained again.
//!
//! A build is identified by the hash of its executable, so that results of other code are not
//! trusted. A plan is identified by its digest and the engine that ran it. An unreadable file
//! counts as absent.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::edge::environment::build;
use crate::explain::experiment::Experiments;
use crate::explain::finding::Finding;
use crate::plan::Plan;
use crate::report::mark::WRITTEN_BY;
use crate::report::page::Page;

/// The file's name in the report folder.
pub const NAME: &str = "experiments.json";

/// See the module documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    written_by: String,
    build: String,
    /// The experiments by engine and digest of the plan.
    experiments: BTreeMap<String, Experiments>,
}

impl Kept {
    /// The results of this build in a report folder; empty if there are none.
    pub fn read(folder: Option<&Path>) -> Kept {
        let fresh =
            || Kept { written_by: WRITTEN_BY.to_owned(), build: build(), ..Kept::default() };
        let text = folder.and_then(|folder| fs::read_to_string(folder.join(NAME)).ok());
        let kept = text.and_then(|text| serde_json::from_str::<Kept>(&text).ok());
        let kept = kept.filter(|kept| !kept.build.is_empty() && kept.build == build());
        kept.unwrap_or_else(fresh)
    }

    /// The known result for the plan of a finding, if nothing was skipped and the same remedies
    /// were named.
    pub fn of(&self, finding: &Finding, named: &[Plan]) -> Option<&Experiments> {
        let known = self.experiments.get(&key(finding))?;
        let tried = known.remedies.iter().map(|remedied| &remedied.scenario_plan);
        let tried = tried.filter(|digest| !digest.is_empty()).cloned();
        let is_whole = known.undone.is_empty() && tried.eq(named.iter().map(Plan::digest));
        is_whole.then_some(known)
    }

    /// The file for the next run.
    pub fn page<'a>(mut self, findings: impl Iterator<Item = &'a Finding>) -> Page {
        for finding in findings {
            if let Some(experiments) = &finding.experiments {
                self.experiments.insert(key(finding), experiments.clone());
            }
        }
        let text = serde_json::to_string_pretty(&self).expect("experiments are JSON");
        Page { name: NAME.to_owned(), text: text + "\n" }
    }
}

fn key(finding: &Finding) -> String {
    format!("{} {}", finding.engine, finding.plan_hash)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Kept, NAME};
    use crate::explain::experiment::Experiments;
    use crate::explain::fixture;

    #[test]
    fn what_another_build_wrote_is_not_trusted_and_what_this_one_wrote_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut finding = fixture::gc_pause::finding();
        finding.experiments = Some(Experiments { runs: 7, ..Experiments::default() });
        let page = Kept::read(Some(folder.path())).page([&finding].into_iter());
        fs::write(folder.path().join(NAME), &page.text).expect("it fits");
        let known = Kept::read(Some(folder.path()));
        assert_eq!(known.of(&finding, &[]), finding.experiments.as_ref());
        let other =
            crate::explain::finding::Finding { plan_hash: "other".into(), ..finding.clone() };
        assert_eq!(known.of(&other, &[]), None, "another plan");
        let named = [finding.plan.clone()];
        assert_eq!(known.of(&finding, &named), None, "a remedy that was not tried");
        let foreign = page.text.replacen("\"build\": \"", "\"build\": \"0", 1);
        fs::write(folder.path().join(NAME), foreign).expect("it fits");
        assert_eq!(Kept::read(Some(folder.path())).of(&finding, &[]), None, "another build");
        fs::write(folder.path().join(NAME), "{").expect("it fits");
        assert_eq!(Kept::read(Some(folder.path())).of(&finding, &[]), None, "a broken file");
        assert_eq!(Kept::read(None).of(&finding, &[]), None, "no folder");
    }
}
