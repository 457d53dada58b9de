//! The log of a shard: one line of JSON for each segment, and one at the beginning of each process
//! that worked on it. Lines are only appended.
//!
//! A line carries the hash of its record. A process that is killed while it writes, or a disk that
//! is full, leaves a torn line: it is skipped, and its segment counts as not run.

use lockstorm_platform::trace::hash_of;
use serde::{Deserialize, Serialize};

use crate::hunt::campaign::shard::Shard;
use crate::hunt::campaign::{Campaign, Segment, Settings};
use crate::refusal::Refusal;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Record {
    /// A process begins, and has found the canary; or a merge wrote the log.
    Session {
        /// What is hunted.
        settings: Box<Settings>,
        /// The shards whose segments follow.
        shards: Vec<Shard>,
    },
    /// The result of a segment.
    Segment(Segment),
}

/// The beginning of a line, up to the hash of its record.
const HEAD: &str = "{\"hash\":\"";
/// What is between the hash and the record.
const MIDDLE: &str = "\",\"record\":";

/// Whether a text begins like a log, as far as it goes.
pub fn is_log(text: &str) -> bool {
    text.bytes().zip(HEAD.bytes()).all(|(own, log)| own == log)
}

/// The line of a record, with its end.
pub fn line(record: &Record) -> String {
    let record = serde_json::to_string(record).expect("a record is JSON");
    format!("{HEAD}{:016x}{MIDDLE}{record}}}\n", hash_of(record.as_bytes()))
}

/// The whole log of what is known of a campaign: the same text for the same knowledge.
pub fn text(campaign: &Campaign) -> String {
    let settings = Box::new(campaign.settings.clone());
    let session = Record::Session { settings, shards: campaign.shards.iter().copied().collect() };
    let segments = campaign.segments.values().cloned().map(Record::Segment);
    [session].into_iter().chain(segments).map(|record| line(&record)).collect()
}

/// A log that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// What it shows; `None` if it has no whole line.
    pub campaign: Option<Campaign>,
    /// The number of torn lines.
    pub torn: usize,
    /// Whether its last line has an end.
    pub is_ended: bool,
}

/// Reads a log. Refused if another version wrote it, or if it is of two campaigns.
pub fn read(text: &str) -> Result<Log, Refusal> {
    let is_ended = text.is_empty() || text.ends_with('\n');
    let mut log = Log { campaign: None, torn: 0, is_ended };
    let mut segments = Vec::new();
    for (nth, line) in (1..).zip(text.lines()) {
        let Some(record) = whole(line) else {
            log.torn += usize::from(!line.is_empty());
            continue;
        };
        let record = serde_json::from_str::<Record>(record).map_err(|error| {
            let what = format!("line {nth} was written by another version: {error}");
            Refusal::new(what, "merge it with the version that wrote it")
        })?;
        match record {
            Record::Segment(segment) => segments.push(segment),
            Record::Session { settings, shards } => {
                let mut session = Campaign::new(*settings);
                session.shards.extend(shards);
                match &mut log.campaign {
                    Some(campaign) => campaign.merge(session)?,
                    None => log.campaign = Some(session),
                }
            }
        }
    }
    match &mut log.campaign {
        Some(campaign) => segments.into_iter().try_for_each(|one| campaign.add(one))?,
        None => log.torn += segments.len(),
    }
    Ok(log)
}

/// The record of a whole line.
fn whole(line: &str) -> Option<&str> {
    let (hash, record) = line.strip_prefix(HEAD)?.strip_suffix('}')?.split_once(MIDDLE)?;
    (format!("{:016x}", hash_of(record.as_bytes())) == hash).then_some(record)
}

#[cfg(test)]
mod tests {
    use super::{Log, Record, is_log, line, read, text};
    use crate::hunt::campaign::shard::Shard;
    use crate::hunt::campaign::{Campaign, Segment, Settings};
    use crate::hunt::quarry::Quarry;
    use crate::hunt::seeded::Hunt;
    use crate::plan::TopologyKind;
    use crate::plan::base_plan::base_plan;
    use crate::run::Lab;

    fn hunt() -> Hunt {
        let mut quarry = Quarry::like(base_plan("none", TopologyKind::Single));
        quarry.seeds = 1..=66;
        quarry.hunt(Lab::default()).expect("it makes sense")
    }

    fn campaign() -> Campaign {
        let hunt = hunt();
        let mut campaign = Campaign::new(Settings::of(&hunt, "build".to_owned()));
        campaign.shards.insert(Shard { index: 1, count: 1 });
        campaign.add(Segment::run(&hunt, 65..=66)).expect("one result");
        campaign
    }

    #[test]
    fn a_log_survives_a_kill_at_any_byte() {
        let campaign = campaign();
        assert!(!campaign.groups().is_empty(), "something is violated");
        let whole = text(&campaign);
        assert!(is_log(&whole) && is_log("") && is_log("{\"ha") && !is_log("{\"format\""));
        let all = Log { campaign: Some(campaign.clone()), torn: 0, is_ended: true };
        assert_eq!(read(&whole), Ok(all.clone()));
        assert_eq!(campaign.settings.hunt(Lab::default()).alphabet.verbs, hunt().alphabet.verbs);
        let ends: Vec<usize> = whole.match_indices('\n').map(|(at, _)| at + 1).collect();
        for cut in (0..whole.len()).step_by(7).chain(ends) {
            let left = &whole[..cut];
            let log = read(left).expect("a torn line is no mistake");
            assert_eq!(log.is_ended, left.is_empty() || left.ends_with('\n'));
            assert!(log.torn <= 1);
            // The process that goes on ends the torn line, and writes the rest again.
            let again = format!("{left}{}{whole}", if log.is_ended { "" } else { "\n" });
            let again = read(&again).expect("a torn line is no mistake");
            assert_eq!(again.campaign, all.campaign, "cut at {cut}");
        }
        // A damaged line counts as torn.
        let damaged = whole.replacen("\"runs\":2", "\"runs\":3", 1);
        let log = read(&damaged).expect("a damaged line is no mistake");
        assert_eq!((log.torn, log.campaign.map(|one| one.segments.len())), (1, Some(0)));
    }

    #[test]
    fn a_log_of_another_version_is_refused() {
        let mut settings = Settings::of(&hunt(), "build".to_owned());
        settings.version = "9.9.9".to_owned();
        let session = |settings| Record::Session { settings: Box::new(settings), shards: vec![] };
        let other = line(&session(settings));
        let own = line(&session(Settings::of(&hunt(), "build".to_owned())));
        let refused = read(&(own.clone() + &other)).expect_err("two versions").to_string();
        assert!(refused.contains("versions 0.1.0 and 9.9.9"), "{refused}");
        let record = own.split_once("\"record\":").expect("a record").1.trim_end();
        let record = record[..record.len() - 1].replace("\"format\"", "\"shape\"");
        let hash = lockstorm_platform::trace::hash_of(record.as_bytes());
        let other = format!("{{\"hash\":\"{hash:016x}\",\"record\":{record}}}\n");
        let refused = read(&other).expect_err("another version").to_string();
        assert!(refused.contains("line 1 was written by another version"), "{refused}");
    }
}
