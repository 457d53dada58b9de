//! The report folder. Files that lockstorm wrote are replaced. Foreign files are not: they are
//! refused, all at once and before anything is written.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::refusal::Refusal;
use crate::report::mark;
use crate::report::page::Page;

/// Writes pages into a folder, which is created if it does not exist.
pub fn write(folder: &Path, pages: &[Page]) -> Result<(), Refusal> {
    refuse_foreign(folder, pages.iter().map(|page| page.name.clone()))?;
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    for page in pages {
        let path = folder.join(&page.name);
        replace(&path, &page.text).map_err(|error| unwritable(&path, &error))?;
    }
    Ok(())
}

/// Replaces a file atomically: if the disk is full, the old file stays.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let (new, mut file) = beside(path)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // An incomplete file is of no use.
        let _ = fs::remove_file(&new);
    }
    written
}

/// A new file beside a path, under an unused name.
fn beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut name = path.with_added_extension("new");
    loop {
        match File::create_new(&name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                name.add_extension("new");
            }
            made => return made.map(|file| (name, file)),
        }
    }
}

/// Refuses a folder that cannot be made or written into, or in which a file with one of these names
/// was not written by lockstorm: a hunt learns of it before it has found anything.
pub fn prepare(folder: &Path, names: impl Iterator<Item = String>) -> Result<(), Refusal> {
    refuse_foreign(folder, names)?;
    let tried = || {
        fs::create_dir_all(folder)?;
        let (path, mut file) = beside(&folder.join("lockstorm-tries-to-write"))?;
        let written = file.write_all(&[0; 4096]);
        fs::remove_file(path).and(written)
    };
    tried().map_err(|error| unwritable(folder, &error))
}

/// Refuses a folder in which a file with one of these names was not written by lockstorm.
pub fn refuse_foreign(folder: &Path, names: impl Iterator<Item = String>) -> Result<(), Refusal> {
    let mut foreign: Vec<PathBuf> = Vec::new();
    for path in names.map(|name| folder.join(name)) {
        if !may_be_written(&path).map_err(|error| unwritable(&path, &error))? {
            foreign.push(path);
        }
    }
    let Some(first) = foreign.first() else { return Ok(()) };
    let more = match foreign.len() - 1 {
        0 => String::new(),
        1 => ", nor another file there".to_owned(),
        more => format!(", nor {more} other files there"),
    };
    let what = format!("{} would be replaced: lockstorm did not write it{more}", first.display());
    Err(Refusal::new(what, "name another folder with --report, or move the file away"))
}

/// Whether the path is free or has a file that lockstorm wrote. A link or a pipe counts as foreign.
fn may_be_written(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        found => {
            if !found?.is_file() {
                return Ok(false);
            }
        }
    }
    let mut head = Vec::new();
    File::open(path)?.take(mark::HEAD).read_to_end(&mut head)?;
    Ok(mark::is_ours(&String::from_utf8_lossy(&head)))
}

fn unwritable(path: &Path, error: &io::Error) -> Refusal {
    let what = format!("{} cannot be written: {error}", path.display());
    Refusal::new(what, "make room, or have it written to another folder")
}
