//! All that a lock of one's own needs, in one place: `use lockstorm::own::{Lock, Grant, ...}`. A
//! project that tests its lock needs no other crate than this one.
//!
//! It has only names from other modules, in the order in which an author meets them. Each is
//! documented where it is defined.

// What a lock is.
pub use crate::lock::algorithm::{Algorithm, Nodes};
pub use crate::lock::config::{AfterExtend, AfterTry, AskOrder, LockConfig, TokenScope};
pub use crate::lock::defaults::{Choices, Defaults, LEASE, MUTEX};
pub use crate::lock::{Acquired, Deadline, Extended, Grant, Lock, Released};
pub use async_trait::async_trait;

// What it sees of its machine and of its caller.
pub use crate::lock::{Call, Clock, Notice, Setting};
pub use lockstorm_platform::host::{Host, LocalFuture};
pub use lockstorm_platform::rng::{Purpose, below};
pub use lockstorm_platform::time::{MICROSECOND, MILLISECOND, Nanos, SECOND};

// What it is built from: a client for RESP, replies, leases, several futures at once, tasks that
// end with their grants.
pub use crate::lock::background::{Cancellation, GrantTasks};
pub use crate::lock::client::answer::{self, Answer, Reply, Said};
pub use crate::lock::client::join::{self, Winner};
pub use crate::lock::client::subscription::Subscription;
pub use crate::lock::client::wire::Wire;
pub use crate::lock::client::{Client, RequestError, milliseconds, scripts};
pub use crate::lock::lease::{self, Lease};
pub use crate::lock::token;

// What it promises.
pub use crate::lock::assumptions;
pub use crate::promise::{Assumption, Bounded, Model, Promise, Work, bound, exclusive};

// What callers do under it, and what must be true of that: a workload and a check of one's own.
pub use crate::check::case::Case;
pub use crate::check::own::{Check, Findings};
pub use crate::check::verdict::Violation;
pub use crate::history::{Access, AccessKind, History, Op, OpKind, Outcome};
pub use crate::workload::addition::Addition;
pub use crate::workload::critical_section::CriticalSection;
pub use crate::workload::guard::Finished;
pub use crate::workload::round::Round;

// How it is tested.
pub use crate::hunt::parameter::Parameter;
pub use crate::hunt::strategy::{Strategies, Strategy};
pub use crate::plan::base_plan::{base_plan, base_plan_of};
pub use crate::plan::extend::Extend;
pub use crate::plan::{Plan, TopologyKind};
pub use crate::test::{HuntTest, ReplayTest, ScenarioTest, hunt_from, hunt_own, replay, scenario};
