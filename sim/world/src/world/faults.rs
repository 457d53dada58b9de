//! The faults of a world: armed, struck, and active ones.

use lockstorm_platform::fault::{Anchor, Fault, Target, Verb, Watch};
use lockstorm_platform::time::Instant;
use lockstorm_platform::trace::{Edge, Entry, Event, Trace};

use crate::world::machines::Machines;
use crate::world::met::{ByCommand, Known};
use crate::world::remains::Strike;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Faults {
    faults: Vec<Fault>,
    struck: Vec<Struck>,
    /// The effects so far of the faults that act by command.
    by_command: Vec<ByCommand>,
}

/// A fault that has struck, and whether it is still active.
struct Struck {
    strike: Strike,
    index: usize,
    open: bool,
    /// What faults of its verb had met on its target before it struck.
    before: u64,
}

impl Faults {
    /// Arms the faults of a plan: each strikes at its time or when its anchor comes.
    pub(crate) fn new(faults: Vec<Fault>, machines: &Machines) -> Faults {
        for fault in &faults {
            match (&fault.anchor, Watch::of(fault)) {
                (Anchor::At(at), _) => machines.engine.strike_at(*at, fault.id),
                (Anchor::After { .. }, Some(watch)) => machines.engine.state().watches.push(watch),
                (Anchor::After { .. }, None) => unreachable!("an event anchor has a watch"),
            }
        }
        let by_command = faults.iter().filter_map(|fault| ByCommand::of(fault, machines)).collect();
        Faults { faults, struck: Vec::new(), by_command }
    }

    /// Adds a fault that is not in the plan: it strikes at once if its time has passed.
    ///
    /// # Panics
    /// If another fault has its number.
    pub(crate) fn add(&mut self, fault: Fault, machines: &mut Machines) {
        let id = fault.id;
        assert!(self.faults.iter().all(|other| other.id != id), "two faults are number {id}");
        let (anchor, watch) = (fault.anchor.clone(), Watch::of(&fault));
        self.by_command.extend(ByCommand::of(&fault, machines));
        self.faults.push(fault);
        match anchor {
            Anchor::At(at) if at <= machines.now() => self.strike(id, machines),
            Anchor::At(at) => machines.engine.strike_at(at, id),
            Anchor::After { .. } => machines.engine.state().watches.extend(watch),
        }
    }

    /// Makes the fault with this number strike now.
    pub(crate) fn strike(&mut self, id: u32, machines: &mut Machines) {
        let index = self.faults.iter().position(|fault| fault.id == id);
        let index = index.expect("only the plan's own faults are armed");
        let fault = self.faults[index].clone();
        // Recorded first: in the trace, the strike precedes all its effects.
        let from = machines.engine.record(Event::Fault { id, edge: Edge::Start }).instant();
        let last = self.struck.last();
        debug_assert!(
            last.is_none_or(|last| last.strike.from < from),
            "each strike has its own place in the trace"
        );
        // The counts are read before the verb acts: its immediate effects are part of what it met.
        let before = machines.met_by(&fault) - machines.held_already(&fault);
        machines.apply(&fault, true);
        // After the restart: the ends of outages find the process up and do not start it again.
        if fault.verb == Verb::Restart {
            self.end_outages(&fault.target, machines);
        }
        let lasts = !fault.verb.is_momentary();
        let to = (!lasts).then_some(from);
        let strike = Strike { fault: id, from, to, met: None, done: Vec::new() };
        self.struck.push(Struck { strike, index, open: lasts, before });
        if Known::of(&fault.verb) == Known::AtOnce {
            self.count_met(self.struck.len() - 1, machines);
        }
        if let (true, Some(length)) = (lasts, fault.length) {
            let call = u32::try_from(self.struck.len() - 1).expect("faults are counted in u32");
            machines.engine.call_at(machines.now().saturating_add(length), call);
        }
    }

    /// Ends a fault that has struck, unless it has already ended.
    pub(crate) fn end(&mut self, struck: u32, machines: &mut Machines) {
        let place = struck as usize;
        // Marked as ended first: `goes_on` must not count the fault itself.
        if !std::mem::take(&mut self.struck[place].open) {
            return;
        }
        debug_assert!(self.struck[place].strike.to.is_none(), "an active fault has not ended");
        let fault = self.fault_of(place).clone();
        match self.rate_below(&fault) {
            Some(rate) => machines.apply(&rate, true),
            None if self.goes_on(&fault) => {}
            None => machines.apply(&fault, false),
        }
        // After the undo: the boot at the end of a crash is part of what the crash met.
        if self.struck[place].strike.met.is_none() {
            self.count_met(place, machines);
        }
        let event = Event::Fault { id: fault.id, edge: Edge::End };
        let to = machines.engine.record(event).instant();
        let strike = &mut self.struck[place].strike;
        debug_assert!(strike.from < to && strike.to.is_none(), "a fault begins, then ends once");
        strike.to = Some(to);
    }

    /// The fault of the strike with this index.
    pub(crate) fn fault_of(&self, struck: usize) -> &Fault {
        &self.faults[self.struck[struck].index]
    }

    /// Whether another active fault has the same effect on the host: a machine that was taken down
    /// twice starts when both faults have ended. Effects that add up are undone one by one.
    fn goes_on(&self, fault: &Fault) -> bool {
        let alike = |other: &Verb| match &fault.verb {
            verb if verb.takes_down() => other.takes_down(),
            Verb::ClockFreeze => matches!(other, Verb::ClockFreeze),
            Verb::LyingDisk | Verb::TearingDisk | Verb::FullDisk => *other == fault.verb,
            _ => false,
        };
        let open = self.struck.iter().filter(|struck| struck.open);
        let others = open.map(|struck| &self.faults[struck.index]);
        let mut others = others.filter(|other| other.target == fault.target);
        others.any(|other| alike(&other.verb))
    }

    /// The fault whose rate the clocks of a host follow after this fault has ended: the last to
    /// strike of those that are still active.
    fn rate_below(&self, fault: &Fault) -> Option<Fault> {
        let is_rate = |verb: &Verb| matches!(verb, Verb::ClockRate { .. });
        let open = self.struck.iter().rev().filter(|struck| struck.open);
        let mut others = open.map(|struck| &self.faults[struck.index]);
        let below = others.find(|other| other.target == fault.target && is_rate(&other.verb));
        below.filter(|_| is_rate(&fault.verb)).cloned()
    }

    /// Ends the outages of a machine that was restarted, even before their planned end.
    fn end_outages(&mut self, target: &Target, machines: &mut Machines) {
        self.end_where(|fault| fault.verb.takes_down() && fault.target == *target, machines);
    }

    /// Ends every active fault. If `keep_down`, machines that are down stay down.
    pub(crate) fn heal(&mut self, keep_down: bool, machines: &mut Machines) {
        // Before any fault ends, because effects of the heal belong to no fault.
        self.count_all_met(machines);
        for index in 0..self.struck.len() {
            let down = self.fault_of(index).verb.takes_down();
            if !(down && keep_down) {
                self.end(u32::try_from(index).expect("faults are counted in u32"), machines);
            }
        }
    }

    /// Ends the active faults that `which` selects; returns their number.
    pub(crate) fn end_where(
        &mut self,
        which: impl Fn(&Fault) -> bool,
        machines: &mut Machines,
    ) -> usize {
        let open: Vec<usize> = self.open().filter(|place| which(self.fault_of(*place))).collect();
        for place in &open {
            self.end(u32::try_from(*place).expect("faults are counted in u32"), machines);
        }
        open.len()
    }

    /// The active faults, with the instants at which they struck.
    pub(crate) fn active(&self) -> Vec<(&Fault, Instant)> {
        self.open().map(|place| (self.fault_of(place), self.struck[place].strike.from)).collect()
    }

    /// The faults that have struck, in order.
    pub(crate) fn strikes(&self) -> Vec<Strike> {
        self.struck.iter().map(|struck| struck.strike.clone()).collect()
    }

    fn open(&self) -> impl Iterator<Item = usize> {
        (0..self.struck.len()).filter(|place| self.struck[*place].open)
    }

    /// Counts what is known only at the world's end, and stops the engine.
    pub(crate) fn finish(&mut self, machines: &mut Machines) -> Trace {
        // Before the engine stops: it drops its tasks, and what they send on closing belongs to no
        // fault.
        self.count_all_met(machines);
        let trace = machines.engine.finish();
        self.observe(trace.entries());
        let counts = machines.engine.counts_faults();
        for place in 0..self.struck.len() {
            let id = self.fault_of(place).id;
            let Some(found) = self.by_command.iter().find(|found| found.fault == id) else {
                continue;
            };
            let met = found.effects.on_target.len() as u64 + found.effects.elsewhere;
            let strike = &mut self.struck[place].strike;
            strike.met = counts.then_some(met);
            strike.done.clone_from(&found.effects.on_target);
        }
        trace
    }

    /// Takes the next events of the trace, in order.
    pub(crate) fn observe(&mut self, entries: &[Entry]) {
        for found in &mut self.by_command {
            entries.iter().for_each(|entry| found.take(entry));
        }
    }

    /// Counts what is not counted yet, before the heal: its own effects belong to no fault.
    fn count_all_met(&mut self, machines: &Machines) {
        for place in 0..self.struck.len() {
            if self.struck[place].strike.met.is_none() {
                self.count_met(place, machines);
            }
        }
    }

    /// Records what a fault has met since it struck.
    fn count_met(&mut self, place: usize, machines: &Machines) {
        let (met, before) = (machines.met_by(self.fault_of(place)), self.struck[place].before);
        debug_assert!(before <= met, "counts only grow");
        let met = met - before;
        self.struck[place].strike.met = machines.engine.counts_faults().then_some(met);
    }
}
