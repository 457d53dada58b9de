//! Whole worlds on both simulated engines: what processes see of network, clocks and faults.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;

use lockstorm_platform::fault::{Anchor, Fault, Pattern, Target, Verb};
use lockstorm_platform::host::Host;
use lockstorm_platform::network::Latency;
use lockstorm_platform::time::{Clock, MILLISECOND, Nanos, SECOND, Stamp};
use lockstorm_platform::trace::Event;
use lockstorm_world::engine::interface::Process;
use lockstorm_world::engine::kind::EngineKind;
use lockstorm_world::world::World;
use lockstorm_world::world::remains::Remains;
use lockstorm_world::world::spec::{HostSpec, Part, WorldSpec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

type Log = Rc<RefCell<Vec<(u64, String)>>>;

fn address(last: u8) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, last), 7)
}

fn process<F, R>(run: F) -> Process
where
    F: Fn(Host) -> R + 'static,
    R: Future<Output = ()> + 'static,
{
    Rc::new(move |host| Box::pin(run(host)))
}

fn machine(name: &str, last: u8, process: Process) -> HostSpec {
    HostSpec::new(name, address(last), Part::Other, process)
}

async fn echo(host: Host) {
    let mut listener = host.listen(7).expect("the port is free");
    loop {
        let mut stream = listener.accept().await.expect("the network accepts");
        host.spawn(async move {
            let mut byte = [0];
            while stream.read_exact(&mut byte).await.is_ok() {
                if stream.write_all(&byte).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// Connects to `s` and sends a request every 100 ms; a request without a reply for 400 ms breaks.
async fn send_requests(host: Host, log: Log) {
    let note =
        |text: String| log.borrow_mut().push((host.now(Clock::Monotonic) / MILLISECOND, text));
    loop {
        match host.timeout(400 * MILLISECOND, host.connect(address(1))).await {
            None => note("connect: time-out".to_owned()),
            Some(Err(error)) => note(format!("connect: {:?}", error.kind())),
            Some(Ok(mut stream)) => loop {
                let round = async {
                    stream.write_all(b"x").await?;
                    stream.read_u8().await
                };
                match host.timeout(400 * MILLISECOND, round).await {
                    Some(Ok(_)) => note("echo".to_owned()),
                    Some(Err(error)) => break note(format!("read: {:?}", error.kind())),
                    None => break note("read: time-out".to_owned()),
                }
                host.step("asked").await;
                host.sleep(100 * MILLISECOND).await;
            },
        }
        host.sleep(100 * MILLISECOND).await;
    }
}

fn fault(verb: Verb, target: &str, at: Nanos, length: Option<Nanos>) -> Fault {
    let target = Target::try_from(target.to_owned()).expect("a target");
    Fault { id: 1, verb, target, anchor: Anchor::At(at), length }
}

/// A property of a world holds on every engine.
const ENGINES: [EngineKind; 2] = [EngineKind::Event, EngineKind::Turmoil];

fn spec(
    engine: EngineKind,
    seed: u64,
    latency: Latency,
    faults: Vec<Fault>,
    log: &Log,
) -> WorldSpec {
    let log = Rc::clone(log);
    WorldSpec {
        latency,
        faults,
        ..WorldSpec::new(
            engine,
            seed,
            vec![
                machine("s", 1, process(echo)),
                machine("c", 2, process(move |host| send_requests(host, Rc::clone(&log)))),
            ],
        )
    }
}

fn run(engine: EngineKind, faults: Vec<Fault>, until: Nanos) -> (Vec<(u64, String)>, Remains) {
    let log = Log::default();
    let latency = Latency::Constant(10 * MILLISECOND);
    let mut world = World::new(spec(engine, 1, latency, faults, &log));
    world.run_until(until);
    let remains = world.finish();
    let lines = log.borrow().clone();
    (lines, remains)
}

/// The log as `ms text`; of a series of echoes 120 ms apart, only the first and the last.
fn shorten(lines: &[(u64, String)]) -> String {
    let mut text = String::new();
    for (index, (ms, what)) in lines.iter().enumerate() {
        let echo = |other: Option<&(u64, String)>| {
            other.is_some_and(|(at, what)| what == "echo" && at.abs_diff(*ms) == 120)
        };
        let inner =
            what == "echo" && index > 0 && echo(lines.get(index - 1)) && echo(lines.get(index + 1));
        if !inner {
            text += &format!("{ms} {what}\n");
        }
    }
    text
}

#[track_caller]
fn check(faults: Vec<Fault>, expected: &str) {
    let expected: String = expected.lines().map(|line| format!("{}\n", line.trim())).collect();
    for engine in ENGINES {
        let (lines, _) = run(engine, faults.clone(), 2 * SECOND);
        assert_eq!(shorten(&lines), expected, "{engine:?}");
    }
}

const MS: Nanos = MILLISECOND;

#[test]
fn a_connect_takes_one_round_trip_and_an_echo_another() {
    check(vec![], "40 echo\n1960 echo");
}

#[test]
fn a_partition_holds_what_is_under_way_and_tcp_tries_again_with_back_off() {
    // Sent at 500 ms into the closed link; the first try after the heal is 200 ms later.
    check(
        vec![fault(Verb::Partition, "c <-> s", 495 * MS, Some(100 * MS))],
        "40 echo\n400 echo\n720 echo\n1920 echo",
    );
}

#[test]
fn a_request_into_a_long_partition_times_out_and_so_do_connects() {
    check(
        vec![fault(Verb::Partition, "c -> s", 495 * MS, Some(900 * MS))],
        "40 echo\n400 echo\n900 read: time-out\n1400 connect: time-out\n1540 echo\n1900 echo",
    );
}

#[test]
fn a_dead_process_refuses_and_a_machine_without_power_is_silent() {
    check(
        vec![fault(Verb::Crash, "s", 495 * MS, Some(400 * MS))],
        "40 echo\n400 echo\n505 read: UnexpectedEof\n625 connect: ConnectionRefused\n\
         745 connect: ConnectionRefused\n865 connect: ConnectionRefused\n1005 echo\n1965 echo",
    );
    check(
        vec![fault(Verb::PowerLoss, "s", 495 * MS, Some(300 * MS))],
        "40 echo\n400 echo\n900 read: time-out\n1040 echo\n2000 echo",
    );
}

#[test]
fn a_machine_that_is_felled_twice_is_up_when_both_faults_are_over() {
    let crash = fault(Verb::Crash, "s", 495 * MS, Some(400 * MS));
    let again = Fault { id: 2, ..fault(Verb::Crash, "s", 700 * MS, Some(100 * MS)) };
    for engine in ENGINES {
        let (once, _) = run(engine, vec![crash.clone()], 2 * SECOND);
        let (twice, _) = run(engine, vec![crash.clone(), again.clone()], 2 * SECOND);
        assert_eq!(shorten(&once), shorten(&twice), "{engine:?}");
    }
}

/// What the client's clocks read at its last step, and what true time it was.
fn last_step(engine: EngineKind, faults: Vec<Fault>) -> Stamp {
    let (_, remains) = run(engine, faults, 2 * SECOND);
    let steps = remains.trace.entries().iter().rev();
    let mut steps = steps.filter(|entry| matches!(entry.event, Event::Step { .. }));
    steps.next().expect("the client takes steps").stamp
}

#[test]
fn clocks_go_back_to_the_rate_of_the_fault_that_is_still_active() {
    let rate = |id, ppm, at, length| {
        let fault = fault(Verb::ClockRate { ppm }, "c", at, Some(length));
        Fault { id, ..fault }
    };
    let outer = |id| rate(id, 100_000, 100 * MS, 1_500 * MS);
    let inner = rate(1, 500_000, 300 * MS, 200 * MS);
    let after = rate(1, 500_000, 1_620 * MS, 200 * MS);
    for engine in ENGINES {
        // The inner one takes the outer one's place for 200 ms, and gives it back.
        for (other, gained) in [(&inner, 230 * MS), (&after, 250 * MS)] {
            let last = last_step(engine, vec![other.clone(), outer(2)]);
            let clock = last.mono - last.at;
            // One engine counts in whole milliseconds.
            assert!(clock.abs_diff(gained) <= 5 * MS, "{engine:?}: {clock} and not {gained}");
        }
    }
}

#[test]
fn a_machine_that_is_started_again_is_no_longer_down() {
    let crash = fault(Verb::Crash, "s", 495 * MS, Some(900 * MS));
    let restart = Fault { id: 2, ..fault(Verb::Restart, "s", 700 * MS, None) };
    for engine in ENGINES {
        let (_, remains) = run(engine, vec![crash.clone(), restart.clone()], 2 * SECOND);
        let over = remains.strikes.iter().find(|strike| strike.fault == 1).and_then(|it| it.to);
        assert_eq!(over.map(|over| over.at), Some(700 * MS), "{engine:?}");
    }
}

#[test]
fn a_paused_server_answers_late_and_its_kernel_still_accepts() {
    check(
        vec![fault(Verb::Pause, "s", 495 * MS, Some(300 * MS))],
        "40 echo\n400 echo\n805 echo\n1885 echo",
    );
}

#[test]
fn a_paused_client_wakes_late() {
    check(
        vec![fault(Verb::Pause, "c", 450 * MS, Some(1_000 * MS))],
        "40 echo\n400 echo\n1470 echo\n1950 echo",
    );
}

#[test]
fn a_reset_breaks_the_connection_at_once() {
    check(
        vec![fault(Verb::Reset, "c -> s", 505 * MS, None)],
        "40 echo\n400 echo\n505 read: ConnectionReset\n645 echo\n1965 echo",
    );
}

#[test]
fn a_cut_reply_is_never_read() {
    check(
        vec![fault(Verb::CutReply, "c -> s", 515 * MS, None)],
        "40 echo\n400 echo\n515 read: ConnectionReset\n655 echo\n1975 echo",
    );
}

#[test]
fn a_cut_of_both_directions_holds_the_reply_too() {
    // The reply of 500 ms is in flight when the link closes.
    let log = "40 echo\n400 echo\n720 echo\n1920 echo";
    check(vec![fault(Verb::Partition, "c <-> s", 515 * MS, Some(100 * MS))], log);
}

#[test]
fn what_a_lossy_link_loses_comes_later_and_comes() {
    let loss = fault(Verb::Loss { per_million: 100_000 }, "c <-> s", 0, None);
    for engine in ENGINES {
        let (lines, _) = run(engine, vec![loss.clone()], 20 * SECOND);
        let rounds = lines.windows(2).filter(|pair| pair.iter().all(|(_, what)| what == "echo"));
        let waits: Vec<u64> = rounds.map(|pair| pair[1].0 - pair[0].0).collect();
        let late = waits.iter().filter(|wait| **wait > 200).count();
        assert!(late > 3 && late < waits.len() / 2, "{engine:?}: {waits:?}");
    }
}

#[test]
fn a_loss_that_is_over_loses_no_retransmission() {
    // Every message in these 120 ms is lost, and its first retransmission comes 200 ms after it.
    let loss = fault(Verb::Loss { per_million: 1_000_000 }, "c -> s", 505 * MS, Some(120 * MS));
    for engine in ENGINES {
        let (lines, _) = run(engine, vec![loss.clone()], 5 * SECOND);
        let waits = lines.windows(2).map(|pair| pair[1].0 - pair[0].0);
        let longest = waits.max().expect("echoes");
        assert!((201..=340).contains(&longest), "{engine:?}: {longest}");
    }
}

#[test]
fn a_heal_ends_every_fault() {
    for verb in [Verb::Partition, Verb::Delay { extra: SECOND }] {
        let log = Log::default();
        let latency = Latency::Constant(10 * MILLISECOND);
        let faults = vec![fault(verb, "c <-> s", 500 * MS, None)];
        let mut world = World::new(spec(EngineKind::Event, 1, latency, faults, &log));
        world.run_until(SECOND);
        world.heal(false);
        let remains = {
            world.run_until(10 * SECOND);
            world.finish()
        };
        assert_eq!(remains.strikes[0].to.map(|to| to.at), Some(SECOND));
        assert!(log.borrow().iter().any(|(at, what)| *at > 5_000 && what == "echo"));
    }
}

#[test]
fn a_fault_anchored_to_an_event_strikes_before_the_next_line_runs() {
    let step = Pattern::Step { who: "c".to_owned(), label: "asked".to_owned() };
    let anchor = Anchor::After { event: step, nth: 3, plus: 0 };
    let pause = Fault { anchor, ..fault(Verb::Pause, "c", 0, Some(500 * MS)) };
    let (lines, remains) = run(EngineKind::Event, vec![pause], SECOND);
    let times: Vec<u64> = lines.iter().map(|line| line.0).collect();
    assert_eq!(times[..4], [40, 160, 280, 900]);
    assert_eq!(remains.strikes[0].from.at, 280 * MS);
}

#[test]
fn a_suspended_machine_loses_monotonic_time_only() {
    let suspend = fault(Verb::Suspend, "c", 450 * MS, Some(500 * MS));
    for engine in ENGINES {
        let (_, remains) = run(engine, vec![suspend.clone()], 2 * SECOND);
        let last = remains.trace.entries().last().expect("the client takes steps").stamp;
        assert_eq!(last.boot - last.mono, 500 * MS, "{engine:?}");
    }
}

#[test]
fn what_left_a_machine_before_it_fell_asleep_arrives() {
    for engine in ENGINES {
        let log = Log::default();
        let heard = Rc::clone(&log);
        let suspend = fault(Verb::Suspend, "c", 25 * MS, None);
        let latency = Latency::Constant(10 * MS);
        let mut spec = spec(engine, 1, latency, vec![suspend], &Log::default());
        spec.hosts[0].process = process(move |host| hear(host, Rc::clone(&heard)));
        World::new(spec).run_until(SECOND);
        assert_eq!(*log.borrow(), [(30, "heard".to_owned())], "{engine:?}");
    }
}

#[test]
fn what_meets_a_closed_link_is_sent_again_unless_its_machine_is_without_power() {
    let heard = |engine, verb| {
        let log = Log::default();
        let heard = Rc::clone(&log);
        let cut = fault(Verb::Partition, "c <-> s", 25 * MS, Some(SECOND));
        let dead = Fault { id: 2, ..fault(verb, "c", 100 * MS, None) };
        let latency = Latency::Constant(10 * MS);
        let mut spec = spec(engine, 1, latency, vec![cut, dead], &Log::default());
        spec.hosts[0].process = process(move |host| hear(host, Rc::clone(&heard)));
        World::new(spec).run_until(5 * SECOND);
        log.take().len()
    };
    for engine in ENGINES {
        assert_eq!(heard(engine, Verb::Crash), 1, "{engine:?}");
        assert_eq!(heard(engine, Verb::PowerLoss), 0, "{engine:?}");
    }
}

/// Receives one byte on one connection.
async fn hear(host: Host, log: Log) {
    let mut listener = host.listen(7).expect("the port is free");
    let mut stream = listener.accept().await.expect("the network accepts");
    stream.read_u8().await.expect("the client writes");
    log.borrow_mut().push((host.now(Clock::Monotonic) / MS, "heard".to_owned()));
}

#[test]
fn the_same_world_has_the_same_trace_and_another_seed_another_one() {
    for engine in ENGINES {
        let hash = |seed| {
            let latency = Latency::Uniform { min: MS, max: 5 * MS };
            let mut world = World::new(spec(engine, seed, latency, vec![], &Log::default()));
            world.run_until(5 * SECOND);
            world.finish().trace.digest()
        };
        let digests = [1, 2, 1].map(hash);
        assert_eq!(digests[0], digests[2], "{engine:?}");
        assert_ne!(digests[0], digests[1], "{engine:?}");
    }
}

#[test]
fn a_world_that_has_ended_is_freed() {
    for engine in ENGINES {
        let log = Log::default();
        let mut world = World::new(spec(engine, 1, Latency::Constant(MS), vec![], &log));
        world.run_until(SECOND);
        drop(world);
        assert_eq!(Rc::strong_count(&log), 1, "a process or a task is alive on {engine:?}");
    }
}

#[test]
fn a_panic_of_a_process_is_not_swallowed() {
    for engine in ENGINES {
        let mut spec = spec(engine, 1, Latency::Constant(MS), vec![], &Log::default());
        spec.hosts[0].process = process(|_| async { panic!("a test of a user's own fails") });
        let run = std::panic::AssertUnwindSafe(|| World::new(spec).run_until(SECOND));
        assert!(std::panic::catch_unwind(run).is_err(), "{engine:?}");
    }
}

/// The tasks of a process end with it: its peers are notified, and later connects are refused.
#[test]
fn a_process_that_ends_itself_serves_nobody_any_more() {
    for engine in ENGINES {
        let log = Log::default();
        let mut spec = spec(engine, 1, Latency::Constant(10 * MILLISECOND), vec![], &log);
        spec.hosts[0].process = process(|host| async move {
            host.spawn(echo(host.clone()));
            host.sleep(250 * MILLISECOND).await;
            host.exit();
        });
        let mut world = World::new(spec);
        world.run_until(600 * MILLISECOND);
        world.finish();
        let lines: Vec<String> = log.borrow().iter().map(|(_, text)| text.clone()).collect();
        let first = lines.iter().position(|line| line != "echo").expect("an end");
        assert!(first > 0 && lines[first].starts_with("read: "), "{engine:?}: {lines:?}");
        let refused = |line: &String| line == "connect: ConnectionRefused";
        assert!(lines.len() > first + 1, "{engine:?}: {lines:?}");
        assert!(lines[first + 1..].iter().all(refused), "{engine:?}: {lines:?}");
    }
}

/// A host whose process exited on its own is down: the heal restarts a node, and no other host.
#[test]
fn what_has_ended_by_itself_is_started_again_at_the_end() {
    for engine in ENGINES {
        for (part, keep_down, starts) in
            [(Part::Node, false, 2), (Part::Node, true, 1), (Part::Other, false, 1)]
        {
            let (log, started) = (Log::default(), Rc::new(RefCell::new(0)));
            let mut spec = spec(engine, 1, Latency::Constant(0), vec![], &log);
            let count = Rc::clone(&started);
            spec.hosts[0].part = part;
            spec.hosts[0].process = process(move |host| {
                *count.borrow_mut() += 1;
                async move { host.sleep(SECOND).await }
            });
            let mut world = World::new(spec);
            world.run_until(2 * SECOND);
            world.heal(keep_down);
            world.run_until(4 * SECOND);
            world.finish();
            assert_eq!(*started.borrow(), starts, "{engine:?} {part:?} {keep_down}");
        }
    }
}

/// Keeps one connection and opens 60,000 others, one after the other.
async fn dial(host: Host, ports: Rc<RefCell<Vec<u16>>>) {
    let connect = || host.connect(address(1));
    let mut kept = connect().await.expect("s listens");
    ports.borrow_mut().push(kept.connection().client.port());
    for _ in 0..60_000 {
        let other = connect().await.expect("s listens");
        ports.borrow_mut().push(other.connection().client.port());
    }
    kept.write_all(b"x").await.expect("it is open");
    assert_eq!(kept.read_u8().await.expect("it is open"), b'x');
    ports.borrow_mut().push(0);
}

#[test]
fn ports_are_given_anew_but_for_those_in_use() {
    let ports = Rc::<RefCell<Vec<u16>>>::default();
    let given = Rc::clone(&ports);
    let mut spec = spec(EngineKind::Event, 1, Latency::Constant(0), Vec::new(), &Log::default());
    spec.hosts[1].process = process(move |host| dial(host, Rc::clone(&given)));
    let mut world = World::new(spec);
    world.run_until(SECOND);
    drop(world);
    let ports = ports.borrow();
    let [kept, others @ .., 0] = &ports[..] else { panic!("{} connections", ports.len()) };
    assert_eq!(others.len(), 60_000);
    assert!(!others.contains(kept), "a port that is in use was given again");
    assert!(others.iter().filter(|port| **port == others[0]).count() > 1, "none was given again");
}
