//! Every lock and workload on whole worlds, with nodes reduced to the command executor.

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;
use std::sync::Arc;

use bytes::BytesMut;
use lockstorm::history::{Access, AccessKind, History, Op, OpKind, Outcome, PROBE, RESOURCE};
use lockstorm::lock::algorithm::{Algorithm, Nodes, wait_replicas};
use lockstorm::lock::catalogue::{ALGORITHMS, find};
use lockstorm::lock::config::LockConfig;
use lockstorm::plan::buggy_caller::BuggyCaller;
use lockstorm::plan::extend::Extend;
use lockstorm::plan::{FenceMode, FenceOn, Workload, WorkloadKind};
use lockstorm::workload::recorder::Recorder;
use lockstorm::workload::resource::Resource;
use lockstorm::workload::sections::Sections;
use lockstorm::workload::{Job, RESOURCE_PORT, client, probe};
use lockstorm_platform::fault::{Anchor, Fault, Pattern, Target, Verb};
use lockstorm_platform::host::{Host, HostMutex, Stream};
use lockstorm_platform::network::Latency;
use lockstorm_platform::time::{Clock, MILLISECOND, SECOND};
use lockstorm_redis::execution::apply;
use lockstorm_redis::frame::request::RequestReader;
use lockstorm_redis::node::{Node, NodeConfig};
use lockstorm_redis::session::Session;
use lockstorm_world::engine::interface::Process;
use lockstorm_world::engine::kind::EngineKind;
use lockstorm_world::world::World;
use lockstorm_world::world::spec::{HostSpec, Part, WorldSpec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const NODE_PORT: u16 = 6379;
const HEAL: u64 = 120 * SECOND;

fn process<F, R>(run: F) -> Process
where
    F: Fn(Host) -> R + 'static,
    R: Future<Output = ()> + 'static,
{
    Rc::new(move |host| Box::pin(run(host)))
}

async fn node(host: Host) {
    let mut listener = host.listen(NODE_PORT).expect("the port is free");
    let node = Node::new(NodeConfig::default(), host.now(Clock::Wall) / MILLISECOND, [1, 2, 3]);
    let node = Rc::new(RefCell::new(node));
    loop {
        let stream = listener.accept().await.expect("the network accepts");
        host.spawn(serve(host.clone(), stream, Rc::clone(&node)));
    }
}

async fn serve(host: Host, mut stream: Stream, node: Rc<RefCell<Node>>) {
    let (mut inbox, mut reader) = (BytesMut::new(), RequestReader::default());
    let mut session = Session::default();
    loop {
        while let Ok(Some(request)) = reader.next(&mut inbox) {
            let mut bytes = BytesMut::new();
            node.borrow_mut().set_time(host.now(Clock::Wall));
            apply(&mut node.borrow_mut(), &mut session, &request).encode(&mut bytes);
            if stream.write_all(&bytes).await.is_err() {
                return;
            }
        }
        if !matches!(stream.read_buf(&mut inbox).await, Ok(1..)) {
            return;
        }
    }
}

/// What a test runs.
struct Run {
    config: LockConfig,
    workload: Workload,
    nodes: u8,
    faults: Vec<Fault>,
    seed: u64,
}

fn run(algorithm: &str) -> Run {
    let workload = Workload {
        kind: WorkloadKind::Counter,
        clients: 3,
        callers: 1,
        rounds: 4,
        hold: SECOND,
        rest: SECOND,
        retry: 500 * MILLISECOND,
        fence: FenceMode::None,
        fence_on: FenceOn::All,
        check_validity: false,
        items: 5,
        segments: 0,
        window: 0,
        timeout: SECOND,
        period: 0,
        stagger: 100 * MILLISECOND,
        extend: Extend::Never,
        reenter: false,
        buggy_caller: BuggyCaller::None,
    };
    let config = LockConfig {
        algorithm: algorithm.to_owned(),
        key: "lock".to_owned(),
        ttl: Some(5 * SECOND),
        // A key that is kept after its release would make the others wait for it.
        at_least: (algorithm == "scheduled").then_some(0),
        ..LockConfig::default()
    };
    let is_quorum = find(algorithm).expect("a lock").nodes == Nodes::Quorum;
    let nodes = if is_quorum { 5 } else { 1 };
    Run { config, workload, nodes, faults: Vec::new(), seed: 1 }
}

fn fault(id: u32, verb: Verb, target: &str, event: Pattern, length: u64) -> Fault {
    let target = Target::try_from(target.to_owned()).expect("a target");
    Fault {
        id,
        verb,
        target,
        anchor: Anchor::After { event, nth: 1, plus: 0 },
        length: Some(length),
    }
}

fn step(who: &str, label: &str) -> Pattern {
    Pattern::Step { who: who.to_owned(), label: label.to_owned() }
}

fn outcome(who: &str, what: &str) -> Pattern {
    Pattern::Outcome { who: who.to_owned(), what: what.to_owned() }
}

impl Run {
    fn machine(name: &str, ip: [u8; 4], port: u16, part: Part, process: Process) -> HostSpec {
        let address = SocketAddrV4::new(Ipv4Addr::from(ip), port);
        HostSpec::new(name, address, part, process)
    }

    fn play(self) -> (Vec<Op>, Vec<Access>) {
        let recorder = Recorder::default();
        let algorithm = find(&self.config.algorithm).expect("a lock");
        let stop = Rc::new(Cell::new(false));
        let section = Sections::default().find(&self.workload.kind).expect("a built-in one");
        let job = Job {
            workload: self.workload.clone(),
            lock: Rc::new(algorithm.build),
            config: algorithm.filled(&self.config),
            nodes: (1..=self.nodes).map(|n| format!("n{n}")).collect(),
            shares: false,
            takes_groups: false,
            keys: Vec::new(),
            recorder: recorder.clone(),
            stop: Rc::clone(&stop),
            mutex: HostMutex::default(),
            pulse: Default::default(),
        };
        let mut hosts: Vec<HostSpec> = (1..=self.nodes)
            .map(|n| {
                let name = format!("n{n}");
                Run::machine(&name, [10, 0, 1, n], NODE_PORT, Part::Node, process(node))
            })
            .collect();
        let resource =
            Resource::new(&self.workload, section.initial(&self.workload), recorder.clone());
        let serve = process(move |host| resource.clone().run(host));
        hosts.push(Run::machine(RESOURCE, [10, 0, 3, 1], RESOURCE_PORT, Part::Other, serve));
        for index in 0..u8::try_from(self.workload.clients).expect("few clients") {
            let (name, own) = (format!("c{}", index + 1), job.clone());
            let section = Arc::clone(&section);
            let run = process(move |host| {
                client::run(host, own.clone(), Arc::clone(&section), u32::from(index))
            });
            hosts.push(Run::machine(&name, [10, 0, 2, index + 1], 1, Part::Other, run));
        }
        let run = process(move |host| probe::run(host, job.clone()));
        hosts.push(Run::machine(PROBE, [10, 0, 4, 1], 1, Part::Late, run));
        let mut world = World::new(WorldSpec {
            latency: Latency::Uniform { min: MILLISECOND, max: 3 * MILLISECOND },
            faults: self.faults,
            ..WorldSpec::new(EngineKind::Event, self.seed, hosts)
        });
        world.run_until(HEAL);
        stop.set(true);
        world.heal(false);
        world.start(PROBE);
        world.run_until(HEAL + 60 * SECOND);
        world.finish();
        let mut history = History::default();
        recorder.fill(&mut history);
        (history.ops, history.accesses)
    }
}

fn last_written(accesses: &[Access]) -> i64 {
    let written = |access: &&Access| access.accepted && access.kind == AccessKind::Write;
    accesses.iter().rfind(written).map_or(0, |access| access.value)
}

fn count(ops: &[Op], wanted: impl Fn(&Op) -> bool) -> usize {
    ops.iter().filter(|op| wanted(op)).count()
}

fn granted(op: &Op) -> bool {
    matches!(op.outcome, Outcome::Granted { .. })
}

#[test]
fn every_lock_that_holds_without_faults_loses_no_update() {
    // Of the others, one is never granted without replicas, and one has the same owner value on
    // each machine.
    let others = [
        "none",
        "host-local",
        "check-then-set",
        "setex",
        "psetex",
        "jedis-util",
        wait_replicas::ALGORITHM.name,
    ];
    let has_one = |lock: &&Algorithm| lock.holders(&LockConfig::default()) == 1;
    let locks = ALGORITHMS.iter().filter(has_one);
    for algorithm in locks.filter(|lock| !others.contains(&lock.name)) {
        let (ops, accesses) = run(algorithm.name).play();
        let name = algorithm.name;
        assert_eq!(last_written(&accesses), 12, "{name}");
        assert_eq!(count(&ops, granted), 13, "{name}: 3 clients x 4 rounds and the probe");
        assert_eq!(count(&ops, |op| op.ret.is_none()), 0, "{name}");
        let released = count(&ops, |op| op.outcome == Outcome::Released);
        assert_eq!(released, 13, "{name}");
    }
}

#[test]
fn without_a_lock_updates_are_lost() {
    let (_, accesses) = run("none").play();
    assert!(last_written(&accesses) < 12);
}

#[test]
fn a_stock_and_a_ledger_are_worked_on() {
    let mut stock = run("token-lua");
    stock.workload.kind = WorkloadKind::Stock;
    assert_eq!(last_written(&stock.play().1), 0, "five items, twelve rounds");
    let mut ledger = run("fenced");
    ledger.workload.kind = WorkloadKind::AppendLog;
    ledger.workload.fence = FenceMode::RejectSmaller;
    let (_, accesses) = ledger.play();
    assert_eq!(accesses.len(), 24);
    assert!(accesses.is_sorted_by_key(|access| access.fence));
}

#[test]
fn a_pause_beyond_the_lease_lets_a_second_holder_in() {
    for name in ["token-lua", "redlock", "fenced", "px-constant"] {
        let mut paused = run(name);
        paused.faults = vec![fault(1, Verb::Pause, "c1", outcome("c1", "read"), 15 * SECOND)];
        let (_, accesses) = paused.play();
        assert!(last_written(&accesses) < 12, "{name}: the late write takes updates away");
    }
}

#[test]
fn a_resource_that_checks_every_fence_keeps_every_update_that_it_took() {
    let mut paused = run("fenced");
    paused.workload.fence = FenceMode::RejectSmaller;
    paused.faults = vec![fault(1, Verb::Pause, "c1", outcome("c1", "read"), 15 * SECOND)];
    let (ops, accesses) = paused.play();
    let took = count(&ops, |op| {
        matches!(op.kind, OpKind::Write { .. }) && op.outcome == Outcome::Accepted
    });
    assert_eq!(i64::try_from(took), Ok(last_written(&accesses)));
    assert_eq!(took, 11);
}

#[test]
fn a_dead_holder_of_setnx_blocks_everybody_and_of_a_lease_nobody() {
    let after_crash = |name: &str| {
        let mut crashed = run(name);
        let mut crash = fault(1, Verb::Crash, "c1", step("c1", "granted"), 0);
        crash.length = None;
        crashed.faults = vec![crash];
        let (ops, _) = crashed.play();
        assert_eq!(count(&ops, |op| op.process == "c1" && op.ret.is_none()), 1, "{name}");
        count(&ops, |op| op.process == PROBE && granted(op))
    };
    // The heal restarts a crashed client, but the key of its previous process remains.
    assert_eq!(after_crash("setnx"), 0);
    assert_eq!(after_crash("setnx-expire"), 1);
    assert_eq!(after_crash("token-lua"), 1);
    assert_eq!(after_crash("redlock"), 1);
}

#[test]
fn death_between_setnx_and_expire_blocks_everybody() {
    let mut crashed = run("setnx-expire");
    crashed.faults = vec![fault(1, Verb::Crash, "c1", step("c1", "set"), SECOND)];
    let (ops, _) = crashed.play();
    assert_eq!(count(&ops, granted), 0);
}

#[test]
fn the_validity_check_turns_a_pause_during_the_asking_into_a_refusal() {
    let dead_on_arrival = |name: &str| {
        let mut paused = run(name);
        paused.faults = vec![fault(1, Verb::Pause, "c1", step("c1", "replies-in"), 8 * SECOND)];
        let (ops, _) = paused.play();
        count(&ops, |op| match op.outcome {
            Outcome::Granted { deadline: Some((clock, reading)), .. } => {
                op.ret.is_some_and(|ret| ret.readings().of(clock) >= reading)
            }
            _ => false,
        })
    };
    assert_eq!(dead_on_arrival("redlock"), 0);
    assert_eq!(dead_on_arrival("redlock-no-validity"), 1);
}

#[test]
fn redlock_goes_on_with_a_minority_down() {
    let mut down = run("redlock");
    let at = |id, target: &str| Fault {
        id,
        verb: Verb::Crash,
        target: Target::Host(target.to_owned()),
        anchor: Anchor::At(SECOND),
        length: None,
    };
    down.faults = vec![at(1, "n1"), at(2, "n4")];
    let (_, accesses) = down.play();
    assert_eq!(last_written(&accesses), 12);
}

#[test]
fn a_renewed_lease_outlives_its_time_to_live_and_a_cut_off_holder_learns_in_time() {
    let mut long = run("token-lua-renewed");
    long.workload.hold = 12 * SECOND;
    long.workload.rounds = 1;
    let (ops, accesses) = long.play();
    assert_eq!(last_written(&accesses), 3);
    let kept = |op: &Op| matches!(op.outcome, Outcome::Kept { .. });
    assert_eq!(count(&ops, kept), 3 * 3, "every 10/3 s of 12 s");

    let mut cut = run("token-lua-renewed");
    cut.workload.hold = 12 * SECOND;
    cut.workload.rounds = 1;
    let verb = Verb::Partition;
    cut.faults = vec![fault(1, verb, "c1 <-> n1", outcome("c1", "acquired"), 30 * SECOND)];
    let (ops, _) = cut.play();
    let lost = ops.iter().find(|op| matches!(op.kind, OpKind::Lost { .. })).expect("c1 is told");
    let OpKind::Lost { grant } = lost.kind else { unreachable!() };
    let Outcome::Granted { deadline: Some((clock, reading)), .. } =
        ops[usize::try_from(grant).expect("an index")].outcome
    else {
        unreachable!()
    };
    assert_eq!(lost.call.readings().of(clock), reading, "at the deadline, not later");
    let late = |op: &Op| op.process == "c1" && op.call.seq > lost.call.seq;
    assert_eq!(count(&ops, |op| late(op) && matches!(op.kind, OpKind::Write { .. })), 0);
}

#[test]
fn a_cut_off_acquire_is_unknown_and_released() {
    let mut cut = run("token-lua");
    let event = Pattern::Message {
        from: "c1".to_owned(),
        to: "n1".to_owned(),
        command: Some("SET".to_owned()),
        leg: lockstorm_platform::trace::Leg::Sent,
    };
    cut.faults = vec![fault(1, Verb::Partition, "n1 -> c1", event, 3 * SECOND)];
    let (ops, accesses) = cut.play();
    let first = &ops[0];
    assert_eq!((first.process.as_str(), &first.outcome), ("c1", &Outcome::Unknown));
    let release = ops.iter().find(|op| op.kind == OpKind::Release { grant: first.id });
    assert!(release.is_some());
    assert_eq!(last_written(&accesses), 12);
}
