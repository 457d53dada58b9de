//! The lanes from top to bottom, and the height of each.

use lockstorm_platform::time::{Clock, EPOCH};

use crate::check::verdict::{Kind, Verdict};
use crate::explain::witness::Witness;
use crate::history::{PROBE, RESOURCE};
use crate::plan::host_name::caller_name;
use crate::report::svg::scale::Scale;

/// More callers than this are not drawn, unless the headline violation is about them.
const MAX_CALLERS: usize = 8;
/// Height of a lane's own ruler.
const RULER: i64 = 18;

/// The role of a lane's host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A caller of the lock, or the probe.
    Client,
    /// A Redis node.
    Node,
    /// The guarded resource.
    Resource,
}

/// One horizontal strip of the picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The name of the host, or of one of several callers there.
    pub name: String,
    /// The host.
    pub host: String,
    /// Its role.
    pub role: Role,
    /// Its upper edge.
    pub top: i64,
    /// Its height, including its own ruler.
    pub height: i64,
    /// The clock of its own ruler, if that clock does not run with true time.
    pub clock: Option<Clock>,
}

impl Lane {
    /// Upper edge of its bars.
    pub fn bar(&self) -> i64 {
        self.top + 7
    }

    /// Height of its bars.
    pub fn bar_height(&self) -> i64 {
        if self.role == Role::Client { 20 } else { 16 }
    }

    /// The height at which its messages and marks are drawn.
    pub fn middle(&self) -> i64 {
        self.bar() + self.bar_height() / 2
    }

    /// Base line of the labels beneath its bars.
    pub fn caption(&self) -> i64 {
        self.bar() + self.bar_height() + 13
    }

    /// Upper edge of its own ruler.
    pub fn ruler(&self) -> i64 {
        self.top + self.height - RULER
    }
}

/// The lanes of a picture, the first one beginning at `top`.
pub fn lanes(witness: &Witness<'_>, scale: &Scale, top: i64) -> Vec<Lane> {
    let plan = &witness.finding.plan;
    let own = |host: String, role| (host.clone(), host, role);
    let mut named = clients(witness);
    named.extend((1..=plan.topology.nodes).map(|n| own(format!("n{n}"), Role::Node)));
    if witness.history().accesses.iter().any(|access| scale.shows(access.at.at)) {
        named.push(own(RESOURCE.to_owned(), Role::Resource));
    }
    let mut y = top;
    let lane = |(name, host, role): (String, String, Role)| {
        let clock = own_clock(witness, &host, role);
        let own = if clock.is_some() { RULER } else { 0 };
        let height = own
            + match role {
                Role::Client => 48,
                Role::Node => 42,
                Role::Resource => 62,
            };
        let lane = Lane { name, host, role, top: y, height, clock };
        y += height;
        lane
    };
    named.into_iter().map(lane).collect()
}

/// The callers that are drawn, with their hosts.
fn clients(witness: &Witness<'_>) -> Vec<(String, String, Role)> {
    let plan = &witness.finding.plan;
    let callers = plan.workload.callers;
    let all = plan.clients().into_iter().flat_map(|host| {
        (1..=callers).map(move |nth| (caller_name(&host, nth, callers), host.clone()))
    });
    let is_actor = |name: &String| witness.actors.iter().any(|grant| grant.caller == *name);
    let drawn = all
        .enumerate()
        .filter(|(index, (name, _))| *index < MAX_CALLERS || is_actor(name))
        .map(|(_, caller)| caller);
    let probe = probe_matters(witness).then(|| (PROBE.to_owned(), PROBE.to_owned()));
    drawn.chain(probe).map(|(name, host)| (name, host, Role::Client)).collect()
}

fn probe_matters(witness: &Witness<'_>) -> bool {
    let kinds = [Kind::Stuck, Kind::Leak, Kind::NeverSettles];
    let is_drawn = kinds.iter().any(|kind| witness.of_kind(*kind).next().is_some());
    is_drawn || witness.finding.judgement.verdict == Verdict::Holds
}

/// The clock for which a lane needs a ruler: a node's wall clock; a client's monotonic clock before
/// its wall clock.
fn own_clock(witness: &Witness<'_>, host: &str, role: Role) -> Option<Clock> {
    let differs = |clock: &Clock| {
        let truth = if *clock == Clock::Wall { EPOCH } else { 0 };
        let pieces = witness.reading.clocks.pieces(host, *clock);
        pieces
            .iter()
            .any(|piece| piece.line.rate_ppm != 0 || piece.line.reading != truth + piece.line.since)
    };
    let clocks: &[Clock] = match role {
        Role::Client => &[Clock::Monotonic, Clock::Wall],
        Role::Node => &[Clock::Wall],
        Role::Resource => &[],
    };
    clocks.iter().copied().find(differs)
}
