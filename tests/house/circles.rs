//! Circles: a file uses another that directly or through others uses the first.
//!
//! A file is named by the path of its module. It uses the files to which the paths in its code
//! lead: paths from `crate`, `self` and `super`, from its own modules, and from modules that it
//! imports.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::paths::{Code, Path};

/// For each file or entry of a folder: what it uses, and by which path.
pub type Uses = BTreeMap<String, BTreeMap<String, String>>;

/// The uses between the files of one package: (path below its `src`, text).
pub fn of_files(files: &[(String, String)]) -> Uses {
    let read = files.iter().map(|(path, text)| (module_of(path), Code::read(text)));
    let mut code: BTreeMap<String, Code<'_>> = read.collect();
    let tests = code
        .iter()
        .flat_map(|(name, code)| code.tests.iter().map(move |test| format!("{name}::{test}")));
    for test in tests.collect::<Vec<_>>() {
        let within = format!("{test}::");
        code.retain(|name, _| *name != test && !name.starts_with(&within));
    }
    let names: BTreeSet<&str> = code.keys().map(String::as_str).collect();
    code.iter().map(|(name, code)| (name.clone(), used_by(name, code, &names))).collect()
}

/// The uses between the entries of each folder, where a file and the folder of its name are one
/// entry. Inside a folder, the file of its name is the entry `self`.
pub fn of_folders(files: &Uses) -> Uses {
    let mut folders = Uses::new();
    let pairs = files.iter().flat_map(|(user, all)| all.iter().map(move |used| (user, used)));
    for (user, (used, path)) in pairs {
        let (from, to): (Path<'_>, Path<'_>) =
            (user.split("::").collect(), used.split("::").collect());
        let shared = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
        let entry = |path: &[&str]| {
            let own = path.get(shared).unwrap_or(&"self");
            format!("{}::{own}", path[..shared].join("::"))
        };
        let place = format!("{path} in `{user}`");
        folders.entry(entry(&from)).or_default().entry(entry(&to)).or_insert(place);
    }
    folders
}

/// Each circle in words: how many files or entries are in it, and the shortest path around it.
pub fn circles(uses: &Uses) -> Vec<String> {
    let mut trips: Vec<Path<'_>> = uses.keys().filter_map(|name| way(uses, name, name)).collect();
    trips.sort_by_key(Vec::len);
    let are_one =
        |one: &str, other: &str| way(uses, one, other).is_some() && way(uses, other, one).is_some();
    let mut circles: Vec<(usize, Path<'_>)> = Vec::new();
    for trip in trips {
        match circles.iter_mut().find(|(_, shortest)| are_one(shortest[0], trip[0])) {
            Some((count, _)) => *count += 1,
            None => circles.push((1, trip)),
        }
    }
    circles.iter().map(|(count, shortest)| in_words(uses, *count, shortest)).collect()
}

fn in_words(uses: &Uses, count: usize, trip: &[&str]) -> String {
    let steps = trip.windows(2).map(|step| {
        let (from, to) = (step[0], step[1]);
        format!("\n    {from} uses {to}: {}", uses[from][to])
    });
    format!("{count} in a circle, shortest way round:{}", steps.collect::<String>())
}

/// The shortest path from one to another, both included, of at least one step.
fn way<'a>(uses: &'a Uses, from: &'a str, to: &str) -> Option<Path<'a>> {
    let mut ways = VecDeque::from([vec![from]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in uses.get(*way.last()?).into_iter().flat_map(BTreeMap::keys) {
            let longer = [&way[..], &[next]].concat();
            if next == to {
                return Some(longer);
            }
            if seen.insert(next) {
                ways.push_back(longer);
            }
        }
    }
    None
}

/// `lock/mod.rs` and `lock.rs` are `crate::lock`, `lib.rs` is `crate`.
fn module_of(path: &str) -> String {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    match path {
        "lib" => "crate".to_owned(),
        _ => format!("crate::{}", path.replace('/', "::")),
    }
}

/// The other files that a file uses, each with the first path that leads there.
fn used_by(name: &str, code: &Code<'_>, names: &BTreeSet<&str>) -> BTreeMap<String, String> {
    let imports: Vec<Path<'_>> = code.imports.iter().map(|path| from_root(name, path)).collect();
    let modules = imports.iter().filter(|path| names.contains(path.join("::").as_str()));
    let modules: BTreeMap<&str, &Path<'_>> =
        modules.filter_map(|path| Some((*path.last()?, path))).collect();
    let inline = code.inline.iter().map(|path| match modules.get(path[0]) {
        Some(module) => [&module[..], &path[1..]].concat(),
        None => from_root(name, path),
    });
    let mut used = BTreeMap::new();
    for path in imports.iter().cloned().chain(inline) {
        let mut ends = (1..=path.len()).rev().map(|end| path[..end].join("::"));
        let file = ends.find(|file| names.contains(file.as_str()));
        if let Some(file) = file.filter(|file| file != name) {
            used.entry(file).or_insert_with(|| format!("`{}`", path.join("::")));
        }
    }
    used
}

/// A path in the code of a module, resolved from the root of the package. A path of another crate
/// (`std::fmt`) becomes one in the module itself.
fn from_root<'a>(module: &'a str, path: &[&'a str]) -> Path<'a> {
    let mut whole: Path<'_> = module.split("::").collect();
    for word in path {
        match *word {
            "crate" => whole.truncate(1),
            "super" => whole.truncate(whole.len() - 1),
            "self" => {}
            word => whole.push(word),
        }
    }
    whole
}

/// The circles of an invented package whose `shelf` contains this code: `shop` uses `shelf`, and
/// `till` uses `shop`.
fn found(shelf: &str) -> Vec<String> {
    let files = [
        ("lib.rs", "pub mod shop;\npub mod till;"),
        ("shop/mod.rs", "pub mod shelf;\npub struct Shop;\nfn open() { shelf::fill() }"),
        ("shop/shelf.rs", shelf),
        ("till.rs", "use crate::shop::Shop;\npub mod coin;"),
        ("till/coin.rs", "use std::fmt;"),
    ];
    let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
    circles(&of_files(&files))
}

#[test]
fn every_kind_of_path_closes_a_circle() {
    for path in [
        "use super::Shop;",
        "use super::{Shop as Name};",
        "use crate::shop::*;",
        "use crate::{till::coin::{self, Coin}, shop::Shop};",
        "use self::super::super::shop;\nfn fill(_: shop::Shop) {}",
        "fn fill(_: crate::shop::Shop) {}",
        "fn fill() { let lifetime: &'static str = \"\"; super::Shop; }",
        "use crate::till;\nfn fill() { till::count() }",
    ] {
        assert_eq!(found(path).len(), 1, "{path}");
    }
}

#[test]
fn what_is_no_path_or_a_path_for_tests_closes_none() {
    for text in [
        "use crate::till::coin::Coin;",
        "use crate::till::coin;\nfn fill() { coin::count() }",
        "// use super::Shop;",
        "/* use super::Shop; */ const NAME: char = '\"'; // super::Shop \"",
        "const NAME: &str = \"\\\" use super::Shop;\";",
        "const NAME: &str = r#\"\" use super::Shop;\"#;",
        "#[cfg(test)]\nmod tests { use super::super::Shop; }",
        "#[cfg(test)]\nuse super::Shop;\nfn fill() -> impl Sized + use<> {}",
        "pub(super) fn fill() { shop.shelf::<u8>() }",
    ] {
        assert_eq!(found(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn a_circle_is_reported_by_its_shortest_path() {
    let steps = "\n    crate::shop uses crate::shop::shelf: `crate::shop::shelf::fill`\
                 \n    crate::shop::shelf uses crate::shop: `crate::shop::Shop`";
    let whole = format!("3 in a circle, shortest way round:{steps}");
    assert_eq!(found("use crate::till::Till;\nuse super::Shop;"), [whole]);
}

#[test]
fn folders_stand_in_a_circle_though_their_files_do_not() {
    let files =
        [("a/high.rs", "use crate::b::Low;"), ("a/low.rs", ""), ("b/mod.rs", "use crate::a::low;")];
    let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
    let uses = of_files(&files);
    assert_eq!(circles(&uses), Vec::<String>::new());
    let found = circles(&of_folders(&uses));
    let steps = "\n    crate::a uses crate::b: `crate::b::Low` in `crate::a::high`\
                 \n    crate::b uses crate::a: `crate::a::low` in `crate::b`";
    assert_eq!(found, [format!("2 in a circle, shortest way round:{steps}")]);
}
