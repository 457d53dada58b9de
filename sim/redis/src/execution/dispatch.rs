//! Which function executes which command: families joined with the specifications.
//!
//! A command is found by its index, so no request looks its function up by name.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::call::{Call, Family, Run};
use crate::command::{
    acl, blocking, client, cluster, compare, config, connection, diagnosis, expiry, function, hash,
    info, introspection, key, list, lpos, monitor, number, pubsub, replication, scan, scripting,
    sentinel, server, set, sort, sorted_set, string, substring, transaction,
};
use crate::frame::{Arguments, Reply};
use crate::script::Program;
use crate::specification::{Command, all, all_of_sentinel, with_subcommands};

/// How a command is executed.
#[derive(Clone, Copy)]
pub enum Step {
    /// A function that executes it alone.
    Answer(Run),
    /// A function that returns the queue of a transaction to be executed, if any.
    Queue(fn(&mut Call) -> Result<Option<Vec<Arguments>>, Reply>),
    /// A function that returns the script to be run.
    Script(for<'a> fn(&mut Call<'a>) -> Result<Program<'a>, Reply>),
}

/// The families of a node's commands.
const FAMILIES: [Family; 29] = [
    acl::FAMILY,
    blocking::FAMILY,
    client::FAMILY,
    cluster::FAMILY,
    compare::FAMILY,
    config::FAMILY,
    connection::FAMILY,
    diagnosis::FAMILY,
    expiry::FAMILY,
    function::FAMILY,
    hash::FAMILY,
    info::FAMILY,
    introspection::FAMILY,
    key::FAMILY,
    list::FAMILY,
    lpos::FAMILY,
    monitor::FAMILY,
    number::FAMILY,
    pubsub::FAMILY,
    replication::FAMILY,
    scan::FAMILY,
    scripting::FAMILY,
    server::FAMILY,
    set::FAMILY,
    sort::FAMILY,
    sorted_set::FAMILY,
    string::FAMILY,
    substring::FAMILY,
    transaction::FAMILY,
];

/// Commands that execute other commands.
const OTHERS: [(&str, Step); 7] = [
    ("eval", Step::Script(scripting::eval)),
    ("eval_ro", Step::Script(scripting::eval_ro)),
    ("evalsha", Step::Script(scripting::evalsha)),
    ("evalsha_ro", Step::Script(scripting::evalsha_ro)),
    ("exec", Step::Queue(transaction::exec)),
    ("fcall", Step::Script(function::fcall)),
    ("fcall_ro", Step::Script(function::fcall_ro)),
];

type Steps = BTreeMap<&'static str, Step>;

/// The steps of all node commands.
fn of_nodes() -> Steps {
    FAMILIES.iter().copied().flat_map(answers).chain(OTHERS).collect()
}

/// The steps of all Sentinel commands: its own take precedence over a node's.
fn of_sentinels() -> Steps {
    let mut steps = of_nodes();
    steps.extend(answers(sentinel::FAMILY));
    steps
}

fn answers(family: Family) -> impl Iterator<Item = (&'static str, Step)> {
    family.iter().map(|(name, run)| (*name, Step::Answer(*run)))
}

/// The steps of all specified commands, by their indices.
static STEPS: LazyLock<Vec<Step>> = LazyLock::new(|| {
    let (nodes, sentinels) = (of_nodes(), of_sentinels());
    let node = with_subcommands(all()).map(|command| (&nodes, command));
    let sentinel = with_subcommands(all_of_sentinel()).map(|command| (&sentinels, command));
    let step = |(steps, command): (&Steps, &Command)| {
        *steps.get(command.lower).unwrap_or_else(|| panic!("{} is executed", command.lower))
    };
    node.chain(sentinel).map(step).collect()
});

/// How a command is executed.
pub fn step_of(command: &Command) -> Step {
    STEPS[command.index]
}

#[cfg(test)]
mod tests {
    use super::{FAMILIES, OTHERS, STEPS, of_nodes, of_sentinels};
    use crate::command::sentinel::FAMILY;
    use crate::specification::{Command, all, all_of_sentinel, with_subcommands};
    use std::collections::BTreeSet;

    fn names(table: &'static [Command]) -> BTreeSet<&'static str> {
        with_subcommands(table).map(|command| command.lower).collect()
    }

    #[test]
    fn what_is_specified_is_executed_and_nothing_else() {
        assert_eq!(names(all()), of_nodes().into_keys().collect());
        let families: usize = FAMILIES.iter().map(|family| family.len()).sum();
        assert_eq!(of_nodes().len(), families + OTHERS.len(), "no name stands in two families");
    }

    #[test]
    fn what_is_specified_of_a_sentinel_is_executed_and_all_that_it_has_of_its_own() {
        let specified = names(all_of_sentinel());
        let executed: BTreeSet<&str> = of_sentinels().into_keys().collect();
        assert!(specified.is_subset(&executed), "{:?}", &specified - &executed);
        let own: BTreeSet<&str> = FAMILY.iter().map(|(name, _)| *name).collect();
        assert!(own.is_subset(&specified), "{:?}", &own - &specified);
        let others: BTreeSet<&str> = &specified - &own;
        assert!(others.is_subset(&names(all())), "what it shares, a node has");
    }

    #[test]
    fn there_is_a_step_for_every_index_and_none_besides() {
        let tables = with_subcommands(all()).chain(with_subcommands(all_of_sentinel()));
        assert_eq!(STEPS.len(), tables.count());
    }
}
