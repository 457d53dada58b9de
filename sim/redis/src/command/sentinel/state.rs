//! The state that the commands of a Sentinel use.

use lockstorm_platform::time::Ms;

use crate::call::Call;
use crate::frame::Reply;
use crate::sentinel::Sentinel;
use crate::sentinel::instance::Master;

const NO_SUCH_MASTER: &str = "ERR No such master with that name";

/// The Sentinel that executes a command.
pub fn state<'a>(call: &'a mut Call) -> &'a mut Sentinel {
    call.node.sentinel.as_mut().expect("only Sentinels have these commands")
}

/// The master named by the third word.
pub fn named<'a>(call: &'a mut Call) -> Result<(String, &'a mut Master), Reply> {
    let name = String::from_utf8_lossy(&call.args[2]).into_owned();
    let found = state(call).masters.get_mut(&name);
    found.map(|master| (name, master)).ok_or(Reply::error(NO_SUCH_MASTER))
}

/// The current time in a Sentinel's type.
pub fn now(call: &Call) -> Ms {
    Ms::try_from(call.node.clock.now_ms).unwrap_or(Ms::MAX / 4)
}
