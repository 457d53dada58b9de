//! Which operation took the time to live from a key that nobody removes.

use crate::explain::hold::op;
use crate::explain::life::StoryLife;
use crate::explain::witness::Witness;
use crate::history::{Key, Op};

/// The operation that left a key with no time to live where it had one, and its change.
pub fn made_endless<'a>(witness: &Witness<'a>, life: &StoryLife) -> Option<(&'a Op, usize)> {
    let keys = &witness.history().keys;
    let born = &keys[life.born];
    let end = life.end.unwrap_or(keys.len());
    let is_it = |key: &Key| key.node == life.node && key.key == born.key && key.of == born.of;
    let own = keys[..end].iter().enumerate().filter(|(_, key)| is_it(key));
    let own: Vec<(usize, &Key)> = own.collect();
    let was_taken = |pair: &&[(usize, &Key)]| {
        let [(_, before), (_, after)] = pair else { return false };
        let are_there = before.change.leaves_key() && after.change.leaves_key();
        are_there && before.until_ms.is_some() && after.until_ms.is_none()
    };
    let [_, (index, change)] = own.windows(2).rfind(was_taken)? else { return None };
    let is_last = own.iter().all(|(later, key)| later <= index || key.until_ms.is_none());
    // An acquire that sets the key over another one begins a key of its own.
    let by = op(witness.history(), change.by?).filter(|by| life.owner != Some(by.id))?;
    let is_of_life = life.until_ms.is_none() && *index >= life.born && born.of.is_none();
    (is_of_life && is_last).then_some((by, *index))
}
