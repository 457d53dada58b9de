//! The confirmation on real servers, as Markdown for a pull request: the verdicts, and the steps of
//! the failovers.

use lockstorm_platform::time::{MILLISECOND, Nanos};

use crate::confirm::compare::{self, Attempt};
use crate::confirm::windows::{Measure, STEPS, WINDOWS};
use crate::explain::finding::Finding;
use crate::quantity;

/// A plan, simulated and run on real servers.
pub struct ConfirmRow<'a> {
    /// The finding of the simulation.
    pub simulated: &'a Finding,
    /// The findings on real servers.
    pub real: Vec<&'a Attempt>,
    /// The remedies, which should withstand the same faults.
    pub remedies: Vec<ConfirmRow<'a>>,
}

impl ConfirmRow<'_> {
    fn name(&self) -> &str {
        &self.simulated.plan.name
    }

    /// The number of real runs that agree: `3 of 3`.
    fn count(&self) -> String {
        format!("{} of {}", compare::count(self.simulated, &self.real), self.real.len())
    }

    /// The simulated length, and the minimum and maximum of the real ones, if both exist.
    fn measured(&self, measure: Measure) -> Option<[Nanos; 3]> {
        let real: Vec<Nanos> = self.real.iter().filter_map(|run| measure(&run.finding)).collect();
        let (least, most) = (real.iter().min()?, real.iter().max()?);
        Some([measure(self.simulated)?, *least, *most])
    }
}

/// The tables of these plans.
pub fn tables(rows: &[ConfirmRow]) -> String {
    let is_violated =
        |row: &&ConfirmRow| !compare::kinds(&row.simulated.judgement.verdict).is_empty();
    let (violated, held): (Vec<&ConfirmRow>, Vec<&ConfirmRow>) = rows.iter().partition(is_violated);
    let mut text = "| scenario | simulated, and real in | two holders at once: simulated, real \
                    | remedy |\n| --- | --- | --- | --- |\n"
        .to_owned();
    for row in violated {
        text += &verdict(row);
    }
    if !held.is_empty() {
        let held: Vec<String> = held.iter().map(|row| of(row)).collect();
        text +=
            &format!("\nHeld in the simulation, and on real servers in: {}.\n", held.join(", "));
    }
    text + &failovers(rows)
}

/// A plan with its number of agreeing runs: `setnx-holds: 3 of 3`.
fn of(row: &ConfirmRow) -> String {
    format!("{}: {}", row.name(), row.count())
}

fn verdict(row: &ConfirmRow) -> String {
    let kinds = compare::kinds(&row.simulated.judgement.verdict);
    let words: Vec<&str> = kinds.iter().map(|kind| kind.word()).collect();
    let span = row.measured(WINDOWS[0].1).map_or(String::new(), |lengths| {
        let [simulated, least, most] = lengths.map(quantity::moment);
        format!("{simulated}, {least} to {most}")
    });
    let remedies: Vec<String> = row.remedies.iter().map(of).collect();
    let (name, words, remedies) = (row.name(), words.join(", "), remedies.join(", "));
    format!("| {name} | {words}: {} | {span} | {remedies} |\n", row.count())
}

/// The steps of each failover, measured from the fault on the master.
fn failovers(rows: &[ConfirmRow]) -> String {
    let mut text = String::new();
    for row in rows {
        let cells = STEPS.iter().map(|(_, _, measure)| row.measured(*measure).map(cell));
        let cells: Vec<Option<String>> = cells.collect();
        if cells.iter().any(Option::is_some) {
            let cells: Vec<String> = cells.into_iter().map(Option::unwrap_or_default).collect();
            text += &format!("| {} | {} |\n", row.name(), cells.join(" | "));
        }
    }
    if text.is_empty() {
        return text;
    }
    let (steps, rule) =
        (STEPS.map(|(_, short, _)| short).join(" | "), "| --- ".repeat(STEPS.len() + 1));
    let head = "Seconds from the fault on the master on, simulated; real:";
    format!("\n{head}\n\n| scenario | {steps} |\n{rule}|\n{text}")
}

fn cell([simulated, least, most]: [Nanos; 3]) -> String {
    let [simulated, least, most] = [simulated, least, most].map(seconds);
    match least == most {
        true => format!("{simulated}; {least}"),
        false => format!("{simulated}; {least} to {most}"),
    }
}

/// Seconds with two decimals.
fn seconds(length: Nanos) -> String {
    let hundredths = (length + 5 * MILLISECOND) / (10 * MILLISECOND);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::{ConfirmRow, seconds, tables};
    use crate::confirm::compare::Attempt;
    use crate::explain::finding::Finding;
    use crate::explore::examine;
    use crate::run::Lab;
    use crate::scenario::Scenario;

    fn finding(name: &str, seed: u64) -> Finding {
        let file = format!("{}/scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(file).expect("the scenario is there");
        let scenario = Scenario::parse(name, &text).expect("it is a scenario");
        examine::unexplained_plan(&Lab::default(), &scenario.plan(seed))
    }

    /// Runs on other seeds, in place of real runs.
    fn real(name: &str) -> [Attempt; 2] {
        [1, 2].map(|seed| Attempt { finding: finding(name, seed), unmatched: 0, latest: 0 })
    }

    #[test]
    fn lengths_are_rounded_to_hundredths_of_a_second() {
        let all = [0, 4_999_999, 5_000_000, 1_234_567_890, 59_999_000_000].map(seconds);
        assert_eq!(all, ["0.00", "0.00", "0.01", "1.23", "60.00"]);
    }

    #[test]
    fn plans_stand_in_tables_with_their_remedies_and_failovers() {
        let names = ["setnx-holder-crashes", "sentinel-old-connections", "sentinel-switch-master"];
        let simulated = names.map(|name| finding(name, 1));
        let real = names.map(real);
        let row = |nth: usize, remedies| {
            let real = real[nth].iter().collect();
            ConfirmRow { simulated: &simulated[nth], real, remedies }
        };
        insta::assert_snapshot!(tables(&[
            row(0, vec![]),
            row(1, vec![row(2, vec![])]),
            row(2, vec![])
        ]));
    }
}
