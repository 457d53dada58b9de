//! What tasks, streams and timers of the event engine share.

use std::cell::RefCell;

use lockstorm_platform::trace::HostId;

use crate::engine::event::executor::Executor;
use crate::engine::event::kernel::Kernel;
use crate::engine::interface::Process;

/// See the head of this file.
pub struct EventShared {
    pub kernel: RefCell<Kernel>,
    pub executor: RefCell<Executor>,
    pub processes: RefCell<Vec<Option<Process>>>,
    /// Hosts whose process has exited on its own and still has tasks.
    pub exited: RefCell<Vec<HostId>>,
}
