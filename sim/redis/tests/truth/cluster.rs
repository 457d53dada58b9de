//! A cluster node against `redis-server --cluster-enabled yes`: the scripts of
//! `tests/corpus/cluster/`, in the usual format. Each is alone in its cluster: interaction between
//! nodes is tested with the cluster's state. Names and addresses are masked.

use std::net::{Ipv4Addr, SocketAddrV4};

use lockstorm_redis::cluster::ClusterConfig;
use lockstorm_redis::node::{Node, NodeConfig};

use crate::corpus::{Echo, Script, Step, folder, scripts_in};
use crate::fake::Fake;
use crate::real::Real;
use crate::{EPOCH_MS, difference, fail_if_any, step_on_fake, step_on_real, writes};

/// The address of the fake node; the real one does not know its own address and sends none.
const OWN: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);

fn fake() -> Fake {
    let config = NodeConfig {
        port: OWN.port(),
        cluster: Some(ClusterConfig::default()),
        ..NodeConfig::default()
    };
    let mut node = Node::new(config, EPOCH_MS, [1, 2, 3]);
    node.begin_cluster(OWN, "");
    Fake::of(node, EPOCH_MS)
}

/// A step on the fake node, whose cluster ticks as time passes.
fn shown_by_fake(fake: &mut Fake, step: &Step) -> Echo {
    let Step::Pass(ms) = step else { return step_on_fake(fake, step, EPOCH_MS) };
    for _ in 0..ms / 100 {
        fake.pass(100);
        if let Some(cluster) = fake.node.cluster_now() {
            cluster.tick(cluster.moment);
        }
    }
    fake.heard()
}

/// A free port for the bus of this process's server.
fn bus() -> u16 {
    20_000 + u16::try_from(std::process::id() % 20_000).expect("a small number")
}

/// Replaces names and addresses by marks, and omits the lengths of the strings that contain them.
fn masked(mut echo: Echo) -> Echo {
    for heard in echo.values_mut() {
        let text = String::from_utf8_lossy(&heard.bytes).into_owned();
        let lines: Vec<&str> = text.split("\r\n").collect();
        let before = std::iter::once("").chain(lines.iter().copied());
        let masked = lines.iter().zip(before).map(|(line, before)| mask(line, before));
        heard.bytes = masked.collect::<Vec<_>>().join("\r\n").into_bytes();
    }
    echo
}

fn mask(line: &str, before: &str) -> String {
    let is_long = |length: &str| length.parse::<usize>().is_ok_and(|length| length > 60);
    match (line, before) {
        ("", "$0") | ("127.0.0.1", "$9") => "<ip>".to_owned(),
        ("$0" | "$9", _) => "$".to_owned(),
        _ if line.strip_prefix('$').is_some_and(is_long) => "$".to_owned(),
        _ => line.split(' ').map(mask_word).collect::<Vec<_>>().join(" "),
    }
}

fn mask_word(word: &str) -> String {
    let is_name = word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    match word {
        _ if is_name => "<name>".to_owned(),
        word if word.contains(":0@") => "<address>".to_owned(),
        word => word.to_owned(),
    }
}

fn own_scripts() -> Vec<Script> {
    scripts_in(&folder().join("cluster"))
}

#[test]
fn the_recorded_answers_of_clusters_are_ours() {
    let mut wrong = Vec::new();
    for script in own_scripts() {
        let mut fake = fake();
        for (step, recorded) in &script.steps {
            let told = masked(shown_by_fake(&mut fake, step));
            wrong.extend(difference(&script, step, recorded, &told));
        }
    }
    if !writes() {
        fail_if_any(&wrong);
    }
}

#[test]
fn an_installed_cluster_answers_alike() {
    let mut wrong = Vec::new();
    for mut script in own_scripts() {
        let settings = [("cluster-enabled", "yes".to_owned()), ("cluster-port", bus().to_string())];
        let settings = settings.map(|(name, value)| (name.to_owned(), value));
        let Some(mut real) = Real::start(&settings) else {
            eprintln!("SKIPPED: redis-server is not installed; recorded answers were compared");
            return;
        };
        let mut fake = fake();
        for at in 0..script.steps.len() {
            let step = &script.steps[at].0;
            let answered = masked(step_on_real(&mut real, step, EPOCH_MS));
            let told = masked(shown_by_fake(&mut fake, step));
            wrong.extend(difference(&script, step, &answered, &told));
            script.steps[at].1 = answered;
        }
        if writes() {
            let path = folder().join("cluster").join(format!("{}.txt", script.name));
            std::fs::write(path, script.write()).expect("a file of cases can be written");
        }
    }
    fail_if_any(&wrong);
}
