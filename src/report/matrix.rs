//! The matrix of locks and families of faults: as text, Markdown, HTML and JSON.

use std::fmt::Write as _;

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::check::verdict::Kind;
use crate::hunt::matrix::{Cell, CellViolation, Family, MatrixRow};
use crate::quantity::{signed, thousandths};

/// A matrix with what it was made of.
#[derive(Clone, Debug)]
pub struct Sheet<'a> {
    /// The columns.
    pub families: &'a [Family],
    /// The rows.
    pub rows: &'a [MatrixRow],
    /// The number of plans of a cell.
    pub plans: u64,
}

/// What the marks of the table mean.
pub(super) const LEGEND: &str = "held: nothing was violated.  12%: violated in 12 % of the plans, \
                                 only where an assumption of the lock broke.  12%!: in some of \
                                 them within its assumptions, a bug.  -: the lock cannot meet it.  \
                                 ?: nothing was tested.";

impl Sheet<'_> {
    /// For a terminal or a log: a table of marks, and a line for each cell in which something was
    /// violated.
    pub fn text(&self) -> String {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header([""].into_iter().chain(self.families.iter().map(|family| family.name)));
        for row in self.rows {
            table.add_row([row.lock.clone()].into_iter().chain(row.cells.iter().map(mark)));
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
        let mut text = format!("{}\n\n{LEGEND}\n", lines.join("\n"));
        for (row, family, cell) in self.violated() {
            let _ = writeln!(text, "\n{}, {}: {}", row.lock, family.name, counts(cell));
            for found in &cell.found {
                let _ = writeln!(text, "  {}", line(found));
            }
        }
        text
    }

    /// For a page or a pull request.
    pub fn markdown(&self) -> String {
        let names: Vec<&str> = self.families.iter().map(|family| family.name).collect();
        let mut page = format!(
            "# Locks and faults\n\nEach cell is made of {} plans. {LEGEND}\n\n| lock | {} |\n|{}\n",
            self.plans,
            names.join(" | "),
            " --- |".repeat(names.len() + 1)
        );
        for row in self.rows {
            let cells: Vec<String> = row.cells.iter().map(mark).collect();
            let _ = writeln!(page, "| {} | {} |", row.lock, cells.join(" | "));
        }
        page.push_str("\n## What was violated\n\n");
        for (row, family, cell) in self.violated() {
            let _ = writeln!(page, "- **{}, {}**: {}", row.lock, family.name, counts(cell));
            for found in &cell.found {
                let _ = writeln!(page, "  - {}", line(found));
            }
        }
        page
    }

    /// For a browser: a cell shows its lines when it is pointed at.
    pub fn html(&self) -> String {
        let heads: String =
            self.families.iter().map(|family| format!("<th>{}</th>", family.name)).collect();
        let row = |row: &MatrixRow| {
            let cells: String = row.cells.iter().map(html_cell).collect();
            format!("<tr><th>{}</th>{cells}</tr>\n", row.lock)
        };
        let rows: String = self.rows.iter().map(row).collect();
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <title>Locks and faults</title>\n<style>{STYLE}</style></head>\n<body>\
             <h1>Locks and faults</h1>\n<p>Each cell is made of {} plans. {LEGEND}</p>\n\
             <table><thead><tr><th></th>{heads}</tr></thead><tbody>\n{rows}</tbody></table>\
             </body></html>\n",
            self.plans
        )
    }

    /// For a program.
    pub fn json(&self) -> String {
        #[derive(Serialize)]
        struct Document<'a> {
            families: Vec<&'a str>,
            plans: u64,
            rows: &'a [MatrixRow],
        }
        let families = self.families.iter().map(|family| family.name).collect();
        let document = Document { families, plans: self.plans, rows: self.rows };
        serde_json::to_string_pretty(&document).expect("a matrix is plain data") + "\n"
    }

    fn violated(&self) -> Vec<(&MatrixRow, &Family, &Cell)> {
        let cells = self.rows.iter().flat_map(|row| {
            let named = self.families.iter().zip(&row.cells);
            named.map(move |(family, cell)| (row, family, cell))
        });
        cells.filter(|(.., cell)| !cell.found.is_empty()).collect()
    }
}

/// The cell in a few letters.
pub(super) fn mark(cell: &Cell) -> String {
    let bad = cell.in_model + cell.out_of_model;
    match cell {
        Cell { impossible: Some(_), .. } => "-".to_owned(),
        Cell { runs: 0, .. } => "?".to_owned(),
        _ if bad == 0 => "held".to_owned(),
        Cell { in_model, runs, .. } => {
            // To the nearest, and not 0 % where there is one.
            let percent = ((bad * 200 + runs) / (2 * runs)).max(1);
            format!("{percent}%{}", if *in_model > 0 { "!" } else { "" })
        }
    }
}

/// How often a cell was violated, with its interval; what held, and how callers were served.
fn counts(cell: &Cell) -> String {
    let bad = cell.in_model + cell.out_of_model;
    let (low, high) = wilson(bad, cell.runs);
    let margin = match cell.margin {
        Some(margin) if cell.held() > 0 => format!("; smallest margin {}", signed(margin)),
        _ => String::new(),
    };
    let untested = match cell.untested {
        0 => String::new(),
        untested => format!("; nothing was tested in {untested} more"),
    };
    format!(
        "violated in {bad} of {} plans ({} to {} %), {} of them within the assumptions{margin}; {} \
         grants a minute{untested}",
        cell.runs,
        percent(low),
        percent(high),
        cell.in_model,
        cell.grants_per_minute
    )
}

pub(super) fn line(found: &CellViolation) -> String {
    let kinds: Vec<&str> = found.kinds.iter().map(|kind| Kind::word(*kind)).collect();
    let class = if found.in_model { "in-model" } else { "out-of-model" };
    format!("{} x {} ({class}, {})", found.plans, kinds.join(", "), found.mechanism.word())
}

fn html_cell(cell: &Cell) -> String {
    let class = match cell {
        Cell { impossible: Some(_), .. } | Cell { runs: 0, .. } => "none",
        Cell { in_model, .. } if *in_model > 0 => "bug",
        Cell { out_of_model, .. } if *out_of_model > 0 => "out",
        _ => "held",
    };
    let lines: Vec<String> = match &cell.impossible {
        Some(why) => vec![why.clone()],
        None => [counts(cell)].into_iter().chain(cell.found.iter().map(line)).collect(),
    };
    let title = lines.join("\n").replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    format!("<td class=\"{class}\" title=\"{title}\">{}</td>", mark(cell))
}

/// The bounds in thousandths between which the share of violated plans lies with 95 % confidence
/// (the score interval of Wilson), in whole numbers: 1.96 squared is 3.8416.
pub(super) fn wilson(bad: u64, runs: u64) -> (u64, u64) {
    if runs == 0 {
        return (0, 1_000);
    }
    let (bad, runs) = (u128::from(bad), u128::from(runs));
    let whole = runs * 10_000 + 38_416;
    let centre = 1_000 * (bad * 20_000 + 38_416) / (2 * whole);
    let root = (bad * (runs - bad) * 100_000_000 / runs + 96_040_000).isqrt();
    let half = 1_960 * root / whole;
    let bound = |bound: u128| u64::try_from(bound).unwrap_or(1_000).min(1_000);
    (bound(centre.saturating_sub(half)), bound(centre + half))
}

/// Thousandths in per cent.
pub(super) fn percent(thousandth: u64) -> String {
    thousandths(thousandth * 100)
}

const STYLE: &str = "body{font:14px/1.4 system-ui,sans-serif;margin:2em}\
    table{border-collapse:collapse}th,td{padding:.3em .6em;border:1px solid #ccc;text-align:left}\
    .held{background:#e4f4e4}.out{background:#fdf1d2}.bug{background:#f9d9d6}.none{color:#888}";

#[cfg(test)]
mod tests {
    use super::wilson;

    #[test]
    fn the_interval_is_that_of_wilson() {
        // Computed by hand from the formula with z = 1.96, in thousandths.
        assert_eq!(wilson(0, 200), (0, 18));
        assert_eq!(wilson(200, 200), (981, 999));
        assert_eq!(wilson(20, 200), (66, 148));
        assert_eq!(wilson(0, 0), (0, 1_000));
    }
}
