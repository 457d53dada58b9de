//! The files of a campaign: logs that are only appended to, and plans under the hash of their
//! content.
//!
//! A line is appended by one write and synced before the next segment begins. So a killed process,
//! a machine that loses power, and a full disk lose at most the last line.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::hunt::campaign::log::{self, Log, Record};
use crate::refusal::Refusal;

/// How the names of logs end.
const ENDING: &str = "jsonl";

/// The log of a shard, open for its next line.
pub struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    /// Opens a log, which is created with its folder if it does not exist, and reads what it shows.
    /// Refused if lockstorm did not write it.
    pub fn open(path: &Path) -> Result<(LogFile, Log), Refusal> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
        let known = if path.exists() { read(path)? } else { log::read("")? };
        let file = OpenOptions::new().create(true).append(true).open(path);
        let mut file = file.map_err(|error| unwritable(path, &error))?;
        if !known.is_ended {
            // This ends the line that a killed process began; readers skip it.
            file.write_all(b"\n").map_err(|error| unwritable(path, &error))?;
        }
        Ok((LogFile { path: path.to_owned(), file }, known))
    }

    /// Appends a line and waits until the disk has it.
    pub fn append(&mut self, record: &Record) -> Result<(), Refusal> {
        let written = self.file.write_all(log::line(record).as_bytes());
        let written = written.and_then(|()| self.file.sync_data());
        written.map_err(|error| unwritable(&self.path, &error))
    }
}

/// Reads a log.
pub fn read(path: &Path) -> Result<Log, Refusal> {
    let shown = path.display();
    let refused = |what: String| Refusal::new(what, "name the log of a shard, or what merge wrote");
    // A device may have no end.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(refused(format!("{shown} is no file")));
    }
    let bytes = fs::read(path).map_err(|error| {
        let what = format!("{shown} cannot be read: {error}");
        Refusal::new(what, "name the log of a shard, or the folder of a campaign")
    })?;
    let text = String::from_utf8_lossy(&bytes);
    if !log::is_log(&text) {
        return Err(refused(format!("{shown} is not the log of a shard")));
    }
    log::read(&text)
        .map_err(|refusal| Refusal::new(format!("{shown}: {}", refusal.what), refusal.instead))
}

/// The logs that these paths name: files, and those in folders by name.
pub fn logs(inputs: &[PathBuf]) -> Result<Vec<PathBuf>, Refusal> {
    let mut logs: Vec<PathBuf> = Vec::new();
    for input in inputs {
        if !input.is_dir() {
            logs.push(input.clone());
            continue;
        }
        let entries = fs::read_dir(input).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.map_err(|error| {
            Refusal::new(format!("{} cannot be read: {error}", input.display()), "name a folder")
        })?;
        let paths = entries.into_iter().map(|entry| entry.path());
        let mut found: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_some_and(|end| end == ENDING)).collect();
        if found.is_empty() {
            let what = format!("there is no log in {}", input.display());
            return Err(Refusal::new(what, "name the folder in which shards write their logs"));
        }
        found.sort();
        logs.extend(found);
    }
    // A log that is named twice is one log. What cannot be found is refused where it is read.
    let mut seen = BTreeSet::new();
    logs.retain(|log| seen.insert(fs::canonicalize(log).unwrap_or_else(|_| log.clone())));
    Ok(logs)
}

/// Writes a whole log, which replaces a log at this path.
pub fn write(path: &Path, text: &str) -> Result<(), Refusal> {
    if path.exists() {
        read(path)?;
    }
    let new = path.with_added_extension("new");
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    written.map_err(|error| {
        // An incomplete file is of no use.
        let _ = fs::remove_file(&new);
        unwritable(path, &error)
    })
}

fn unwritable(path: &Path, error: &io::Error) -> Refusal {
    let what = format!("{} cannot be written: {error}", path.display());
    Refusal::new(what, "make room or name another folder; the same command goes on from there")
}
