//! The progress display on standard error. It shows nothing in a pipe or in CI.

use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

use crate::hunt::search::HuntProgress;
use crate::quantity::count;

/// The current display: there is one line for all work.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// A bar with this many steps; hidden if standard error is not a terminal.
pub fn bar(steps: u64, what: &str) -> ProgressBar {
    let bar = look(ProgressBar::new(steps), "{msg} [{bar:40}] {pos}/{len}{left}");
    bar.set_message(what.to_owned());
    *SHOWN.lock().expect("nobody panics with it") = Some(bar.clone());
    bar
}

/// Shows the current step and the total elapsed time.
pub fn now(what: &str) {
    let mut shown = SHOWN.lock().expect("nobody panics with it");
    let line = shown.get_or_insert_with(ProgressBar::new_spinner);
    let line = look(line.clone(), "{elapsed_precise} {wide_msg}");
    line.set_message(what.to_owned());
    line.enable_steady_tick(Duration::from_millis(200));
    *shown = Some(line);
}

/// Shows how far a hunt is: a bar if the number of its plans is known, otherwise how many are done.
pub fn hunting(plans: Option<u64>) -> impl Fn(HuntProgress) + Sync {
    let bar = plans.map(|plans| bar(plans, "hunting"));
    let (tried, shrunk) = (AtomicU64::new(0), AtomicU64::new(0));
    move |far| match far {
        HuntProgress::Tried { seeds, groups, states } => {
            let tried = tried.fetch_add(seeds, Ordering::Relaxed) + seeds;
            let found = format!("{}, {}", count(groups as u64, "group"), count(states, "state"));
            match &bar {
                Some(bar) => {
                    bar.set_message(format!("hunting, {found}"));
                    bar.inc(seeds);
                }
                None => now(&format!("hunting: {tried} plans, {found}")),
            }
        }
        HuntProgress::Shrunk => {
            let shrunk = shrunk.fetch_add(1, Ordering::Relaxed) + 1;
            now(&format!("shrinking: {} done", count(shrunk, "group")));
        }
    }
}

/// Shows the current step of an explanation.
pub fn explaining(what: &str) {
    now(&format!("explaining: {what}"));
}

/// Shows the current step of a review.
pub fn reviewing(what: &str) {
    now(&format!("reviewing: {what}"));
}

/// Removes the display.
pub fn clear() {
    if let Some(line) = SHOWN.lock().expect("nobody panics with it").take() {
        line.finish_and_clear();
    }
}

fn look(line: ProgressBar, look: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        line.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template(look).expect("the template is right");
    line.with_style(style.with_key("left", left).progress_chars("=> "))
}

/// How long the rest takes; nothing until there is a rate.
fn left(state: &ProgressState, text: &mut dyn Write) {
    if state.pos() > 0 && state.per_sec() > 0.0 {
        // A display that cannot be written to shows nothing else, either.
        let _ = write!(text, ", {:#} left", HumanDuration(state.eta()));
    }
}
