//! Which part of a campaign a process runs: typed as `3/10`, or read from the variables that a
//! scheduler sets.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::quantity::list;
use crate::refusal::Refusal;

/// One of several equal parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// Its number, from 1 on.
    pub index: u32,
    /// The number of shards.
    pub count: u32,
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

/// What was typed for a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// `3/10`.
    Given(Shard),
    /// `auto`, or `auto/10`: the environment has the number, and maybe the count.
    Auto(Option<u32>),
}

impl Choice {
    /// Reads `3/10`, `auto` or `auto/10`.
    pub fn read(text: &str) -> Result<Choice, Refusal> {
        let refused = || {
            let what = format!("'{text}' is not a shard");
            Refusal::new(what, "write '3/10', or 'auto' to read it from the environment")
        };
        if text == "auto" {
            return Ok(Choice::Auto(None));
        }
        let (index, count) = text.split_once('/').ok_or_else(refused)?;
        let count: u32 = count.parse().map_err(|_| refused())?;
        if count == 0 {
            let what = format!("{text}: there are no shards");
            return Err(Refusal::new(what, format!("write '{index}/10' for ten of them")));
        }
        if index == "auto" {
            return Ok(Choice::Auto(Some(count)));
        }
        let index: u32 = index.parse().map_err(|_| refused())?;
        let shard = Shard { index, count };
        is_one_of(shard, text).map(Choice::Given)
    }
}

fn is_one_of(shard: Shard, from: &str) -> Result<Shard, Refusal> {
    let Shard { index, count } = shard;
    if (1..=count).contains(&index) {
        return Ok(shard);
    }
    let what = format!("{from}: there is no shard {index} of {count}");
    Err(Refusal::new(what, format!("shards count from 1: write '1/{count}' to '{count}/{count}'")))
}

/// What is always possible, on the command line and in code.
const WRITE_IT: &str = "write '1/10' as the shard";

/// The variables of one scheduler.
struct Scheduler {
    name: &'static str,
    /// The number of the part. Without it the process is not part of an array.
    index: &'static str,
    /// The first number: a fixed one, or a variable.
    first: First,
    /// The distance of two numbers.
    step: Option<&'static str>,
    /// The number of parts; Kubernetes sets none.
    count: Option<&'static str>,
}

enum First {
    Is(u32),
    At(&'static str),
}

/// Each as its documentation describes it.
const SCHEDULERS: [Scheduler; 5] = [
    Scheduler {
        name: "a Slurm job array",
        index: "SLURM_ARRAY_TASK_ID",
        first: First::At("SLURM_ARRAY_TASK_MIN"),
        step: Some("SLURM_ARRAY_TASK_STEP"),
        count: Some("SLURM_ARRAY_TASK_COUNT"),
    },
    Scheduler {
        name: "a Kubernetes Indexed Job",
        index: "JOB_COMPLETION_INDEX",
        first: First::Is(0),
        step: None,
        count: None,
    },
    Scheduler {
        name: "an AWS Batch array job",
        index: "AWS_BATCH_JOB_ARRAY_INDEX",
        first: First::Is(0),
        step: None,
        count: Some("AWS_BATCH_JOB_ARRAY_SIZE"),
    },
    Scheduler {
        name: "a parallel job of GitLab",
        index: "CI_NODE_INDEX",
        first: First::Is(1),
        step: None,
        count: Some("CI_NODE_TOTAL"),
    },
    Scheduler {
        name: "a parallel job of Buildkite",
        index: "BUILDKITE_PARALLEL_JOB",
        first: First::Is(0),
        step: None,
        count: Some("BUILDKITE_PARALLEL_JOB_COUNT"),
    },
];

/// A variable of the environment; `None` if it is unset or empty.
pub type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The first variable that makes this process a part of an array, if one is set.
pub fn array_variable(variable: Variable<'_>) -> Option<&'static str> {
    SCHEDULERS.iter().map(|scheduler| scheduler.index).find(|name| variable(name).is_some())
}

/// The shard that the environment describes. `count` is the number of shards, if it was typed.
pub fn from_environment(count: Option<u32>, variable: Variable<'_>) -> Result<Shard, Refusal> {
    let set = SCHEDULERS.iter().filter(|scheduler| variable(scheduler.index).is_some());
    let mut found: Vec<(&Scheduler, Shard)> = Vec::new();
    for scheduler in set {
        found.push((scheduler, scheduler.shard(count, variable)?));
    }
    let Some((first, shard)) = found.first() else {
        let known: Vec<String> = SCHEDULERS.iter().map(|known| known.index.to_owned()).collect();
        let what = format!("the environment names no shard: none of {} is set", list(&known));
        return Err(Refusal::new(what, WRITE_IT));
    };
    match found.iter().find(|(_, other)| other != shard) {
        None => Ok(*shard),
        Some((scheduler, other)) => {
            let (one, two) = (first.name, scheduler.name);
            let what = format!("the environment is shard {shard} of {one}, and {other} of {two}");
            Err(Refusal::new(what, format!("write '{shard}' or '{other}' as the shard")))
        }
    }
}

impl Scheduler {
    fn shard(&self, typed: Option<u32>, variable: Variable<'_>) -> Result<Shard, Refusal> {
        let number = |name: &str| -> Result<Option<u32>, Refusal> {
            let Some(text) = variable(name) else { return Ok(None) };
            let parsed = text.parse().map_err(|_| {
                let what = format!("{name} is '{text}', which is not a number");
                Refusal::new(what, WRITE_IT)
            });
            parsed.map(Some)
        };
        let own = number(self.index)?.unwrap_or(0);
        let count = self.count.map_or(Ok(None), number)?;
        let count = match (count, typed) {
            (Some(set), Some(typed)) if set != typed => {
                let name = self.count.unwrap_or_default();
                let what = format!("the shard is 'auto/{typed}', and {name} is {set}");
                return Err(Refusal::new(what, "write 'auto' as the shard"));
            }
            (Some(count), _) | (None, Some(count)) => count,
            (None, None) => {
                let what = format!("{} is set, and the number of shards is not", self.index);
                return Err(Refusal::new(what, "write 'auto/10' as the shard, for ten of them"));
            }
        };
        let first = match self.first {
            First::Is(first) => first,
            First::At(name) => number(name)?.unwrap_or(0),
        };
        let step = self.step.map_or(Ok(None), number)?.unwrap_or(1);
        if step == 0 {
            let what =
                format!("{} is 0: jobs have a distance of 1 or more", self.step.unwrap_or(""));
            return Err(Refusal::new(what, "unset it, or write '1/10' as the shard"));
        }
        let place = own.checked_sub(first).filter(|ahead| ahead.is_multiple_of(step));
        let index = place.and_then(|ahead| (ahead / step).checked_add(1));
        let shard = index.map(|index| Shard { index, count });
        let shard = shard.filter(|shard| (1..=count).contains(&shard.index));
        shard.ok_or_else(|| {
            let steps = if step > 1 { format!(" in steps of {step}") } else { String::new() };
            let name = self.index;
            let what = format!("{name} is {own}, and the {count} jobs count from {first}{steps}");
            Refusal::new(what, "number the jobs without gaps, or write '1/10' as the shard")
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Choice, Shard, array_variable, from_environment};

    fn read(text: &str) -> Result<Choice, String> {
        Choice::read(text).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn a_shard_is_typed_as_a_number_of_a_count() {
        assert_eq!(read("3/10"), Ok(Choice::Given(Shard { index: 3, count: 10 })));
        assert_eq!(read("auto"), Ok(Choice::Auto(None)));
        assert_eq!(read("auto/7"), Ok(Choice::Auto(Some(7))));
        let out = "there is no shard 11 of 10 (shards count from 1: write '1/10' to '10/10')";
        for (text, refusal) in [
            ("11/10", out),
            ("0/10", "no shard 0 of 10"),
            ("1/0", "1/0: there are no shards (write '1/10' for ten of them)"),
            ("3", "'3' is not a shard"),
            ("a/b", "'a/b' is not"),
            ("-1/3", "is not a shard"),
            ("auto/0", "there are no shards (write 'auto/10'"),
        ] {
            let refused = read(text).expect_err("it is refused");
            assert!(refused.contains(refusal), "{text}: {refused}");
        }
    }

    /// What these variables, `NAME=value`, say.
    fn found(count: Option<u32>, set: &[&str]) -> Result<String, String> {
        let pairs = set.iter().filter_map(|pair| pair.split_once('='));
        let set: BTreeMap<&str, &str> = pairs.collect();
        let variable = |name: &str| set.get(name).map(|value| (*value).to_owned());
        let shard = from_environment(count, &variable);
        shard.map(|shard| shard.to_string()).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn the_variables_of_schedulers_are_understood() {
        let slurm = |id| [id, "SLURM_ARRAY_TASK_COUNT=4", "SLURM_ARRAY_TASK_MIN=5"];
        let steps = [
            "SLURM_ARRAY_TASK_ID=5",
            "SLURM_ARRAY_TASK_COUNT=4",
            "SLURM_ARRAY_TASK_MIN=1",
            "SLURM_ARRAY_TASK_STEP=2",
        ];
        let kubernetes = ["JOB_COMPLETION_INDEX=0"];
        let aws = ["AWS_BATCH_JOB_ARRAY_INDEX=9", "AWS_BATCH_JOB_ARRAY_SIZE=10"];
        let gitlab = ["CI_NODE_INDEX=1", "CI_NODE_TOTAL=3"];
        let buildkite = ["BUILDKITE_PARALLEL_JOB=2", "BUILDKITE_PARALLEL_JOB_COUNT=3"];
        let both = [&gitlab[..], &["JOB_COMPLETION_INDEX=0"]].concat();
        let rows: [(Option<u32>, &[&str], &str); 9] = [
            (None, &slurm("SLURM_ARRAY_TASK_ID=5"), "1/4"),
            (None, &slurm("SLURM_ARRAY_TASK_ID=8"), "4/4"),
            (None, &steps, "3/4"),
            (Some(12), &kubernetes, "1/12"),
            (None, &aws, "10/10"),
            (Some(10), &aws, "10/10"),
            (None, &gitlab, "1/3"),
            (None, &buildkite, "3/3"),
            // Kubernetes runs the jobs of GitLab, and both agree.
            (Some(3), &both, "1/3"),
        ];
        for (count, set, shard) in rows {
            assert_eq!(found(count, set), Ok(shard.to_owned()), "{set:?}");
        }
        let still = [&slurm("SLURM_ARRAY_TASK_ID=5")[..], &["SLURM_ARRAY_TASK_STEP=0"]].concat();
        let rows: [(Option<u32>, &[&str], &str); 9] = [
            (None, &still, "SLURM_ARRAY_TASK_STEP is 0: jobs have a distance of 1 or more"),
            (None, &[], "the environment names no shard"),
            (None, &["CI_NODE_TOTAL=1"], "the environment names no shard"),
            (None, &kubernetes, "write 'auto/10' as the shard, for ten"),
            (None, &slurm("SLURM_ARRAY_TASK_ID=9"), "is 9, and the 4 jobs count from 5"),
            (None, &slurm("SLURM_ARRAY_TASK_ID=4"), "is 4, and the 4 jobs count from 5"),
            (Some(11), &aws, "the shard is 'auto/11', and AWS_BATCH_JOB_ARRAY_SIZE is 10"),
            (None, &["CI_NODE_INDEX=one", "CI_NODE_TOTAL=2"], "is 'one', which is not a number"),
            (None, &[&gitlab[..], &aws[..]].concat(), "shard 10/10 of an AWS Batch array job, and"),
        ];
        for (count, set, refusal) in rows {
            let refused = found(count, set).expect_err("it is refused");
            assert!(refused.contains(refusal), "{set:?}: {refused}");
        }
    }

    #[test]
    fn a_process_of_an_array_is_recognised() {
        let slurm = |name: &str| (name == "SLURM_ARRAY_TASK_ID").then(|| "3".to_owned());
        assert_eq!(array_variable(&slurm), Some("SLURM_ARRAY_TASK_ID"));
        // GitLab sets this one in every job.
        let alone = |name: &str| (name == "CI_NODE_TOTAL").then(|| "1".to_owned());
        assert_eq!(array_variable(&alone), None);
    }
}
