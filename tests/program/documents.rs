//! Commands that documents tell are commands that the program takes.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Documents and recipes with commands.
const DOCUMENTS: [&str; 7] = [
    "README.md",
    "docs/campaigns.md",
    "docs/campaigns/run",
    "docs/campaigns/gitlab-ci.yml",
    "docs/campaigns/kubernetes.yaml",
    "docs/campaigns/slurm.sbatch",
    "justfile",
];

/// The words of each hunt, without those that say how much of it runs here, and where.
fn hunts(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ");
    // In YAML, a command goes on with the next line.
    let text = text.replace("assumptions\n              --", "assumptions --");
    let lines = text.lines().filter_map(|line| line.split_once(" hunt --lock "));
    lines.map(|(_, words)| hunt(words)).filter(|words| !words[0].contains(['{', '$'])).collect()
}

fn hunt(words: &str) -> Vec<String> {
    let end = words.find(['#', '|', '<', '`']).unwrap_or(words.len());
    let mut words = words[..end].trim_end_matches(['"', '\'']).split_whitespace();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "--seeds" | "--shard" | "--campaign" | "--jobs" | "--budget" | "--report" => {
                words.next();
            }
            word => kept.push(word.trim_end_matches('"').to_owned()),
        }
    }
    kept
}

#[test]
fn the_program_takes_each_hunt_of_the_documents() {
    let mut tried = 0;
    for document in DOCUMENTS {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
        let text = fs::read_to_string(file).unwrap_or_else(|why| panic!("{document}: {why}"));
        for words in hunts(&text) {
            let folder = tempfile::tempdir().expect("a folder");
            let mut command = Command::new(env!("CARGO_BIN_EXE_lockstorm"));
            command.current_dir(&folder).args(["hunt", "--seeds", "1..1", "--lock"]).args(&words);
            let output = command.output().expect("the program starts");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(matches!(output.status.code(), Some(0..=2)), "{document}: {words:?}: {said}");
            tried += 1;
        }
    }
    assert!(tried >= 10, "only {tried} hunts are in the documents");
}
