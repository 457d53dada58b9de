//! The flags of a request that runs a script, if the script declares them.

use bytes::Bytes;

use crate::node::Node;
use crate::script_state::flags::Shebang;
use crate::script_state::libraries::find;
use crate::specification::Command;
use crate::specification::flags::Flags;

/// The flags of a request that runs a script: those of its command, or of the script.
pub fn flags_of(node: &Node, command: &Command, args: &[Bytes]) -> Flags {
    let Some(word) = args.get(1) else { return command.flags };
    let script = match command.name {
        "EVAL" | "EVAL_RO" => Shebang::of(word).ok().and_then(|head| head.flags),
        "EVALSHA" | "EVALSHA_RO" => {
            let body = node.scripts.cache.get(&word.to_ascii_lowercase()[..]);
            body.and_then(|body| Shebang::of(body).ok()?.flags)
        }
        "FCALL" | "FCALL_RO" => find(&node.scripts.libraries, word).map(|(_, found)| found.flags),
        _ => None,
    };
    script.map_or(command.flags, |script| script.narrow(command.flags))
}
