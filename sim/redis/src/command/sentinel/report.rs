//! Instances as SENTINEL MASTERS and related commands report them, and the section of INFO: names
//! and values in Redis's order.

use std::fmt::Write as _;

use lockstorm_platform::time::Ms;

use crate::frame::Reply;
use crate::sentinel::Sentinel;
use crate::sentinel::instance::{Instance, Master, MonitoredReplica, OtherSentinel, Reconf, State};

/// Names and values of one instance.
struct Fields(Vec<Reply>);

impl Fields {
    fn put(&mut self, name: &'static str, value: impl ToString) {
        self.0.push(Reply::word(name));
        self.0.push(Reply::Bulk(value.to_string().into()));
    }

    /// The fields common to all instances.
    fn begin(name: &str, flags: &[&str], of: &Instance, master: &Master, now: Ms) -> Fields {
        let mut fields = Fields(Vec::new());
        let link = &of.link;
        fields.put("name", name);
        fields.put("ip", of.address.ip());
        fields.put("port", of.address.port());
        fields.put("runid", &of.run_id);
        fields.put("flags", flags.join(","));
        fields.put("link-pending-commands", link.pending());
        fields.put("link-refcount", 1);
        if flags.contains(&"failover_in_progress") {
            fields.put("failover-state", master.failover.state.word());
        }
        fields.put("last-ping-sent", since(link.waits_since, now));
        fields.put("last-ok-ping-reply", now - link.available_at);
        fields.put("last-ping-reply", now - link.answered_at);
        if of.s_down {
            fields.put("s-down-time", now - of.s_down_at);
        }
        if of.o_down {
            fields.put("o-down-time", now - of.o_down_at);
        }
        fields.put("down-after-milliseconds", master.down_after);
        fields
    }

    fn put_report(&mut self, of: &Instance, now: Ms) {
        self.put("info-refresh", since(of.report.at, now));
        self.put("role-reported", of.report.role.word());
        self.put("role-reported-time", now - of.report.role_at);
    }
}

fn since(at: Ms, now: Ms) -> Ms {
    if at == 0 { 0 } else { now - at }
}

/// The words whose condition holds, in Redis's order.
fn flags(words: &[(&'static str, bool)]) -> Vec<&'static str> {
    words.iter().filter(|(_, holds)| *holds).map(|(word, _)| *word).collect()
}

/// A master.
pub fn master_of(name: &str, master: &Master, now: Ms) -> Reply {
    let of = &master.instance;
    let words = flags(&[
        ("s_down", of.s_down),
        ("o_down", of.o_down),
        ("master", true),
        ("disconnected", of.link.disconnected),
        ("failover_in_progress", master.failover.state != State::None),
        ("force_failover", master.failover.forced),
        ("script_kill_sent", of.script_kill_sent),
    ]);
    let mut fields = Fields::begin(name, &words, of, master, now);
    fields.put_report(of, now);
    fields.put("config-epoch", master.config_epoch);
    fields.put("num-slaves", master.replicas.len());
    fields.put("num-other-sentinels", master.sentinels.len());
    fields.put("quorum", master.quorum);
    fields.put("failover-timeout", master.failover_timeout);
    fields.put("parallel-syncs", master.parallel_syncs);
    Reply::Map(fields.0)
}

/// A replica.
pub fn replica(replica: &MonitoredReplica, master: &Master, now: Ms) -> Reply {
    let of = &replica.instance;
    let words = flags(&[
        ("s_down", of.s_down),
        ("slave", true),
        ("disconnected", of.link.disconnected),
        ("promoted", replica.promoted),
        ("reconf_sent", replica.reconf == Reconf::Sent),
        ("reconf_inprog", replica.reconf == Reconf::InProgress),
        ("reconf_done", replica.reconf == Reconf::Done),
        ("script_kill_sent", of.script_kill_sent),
    ]);
    let name = of.address.to_string();
    let mut fields = Fields::begin(&name, &words, of, master, now);
    fields.put_report(of, now);
    let report = &of.report;
    let (host, port) = report.master.clone().unwrap_or(("?".to_owned(), 0));
    fields.put("master-link-down-time", report.link_down);
    fields.put("master-link-status", if report.link_up { "ok" } else { "err" });
    fields.put("master-host", host);
    fields.put("master-port", port);
    fields.put("slave-priority", report.priority);
    fields.put("slave-repl-offset", report.offset);
    fields.put("replica-announced", u8::from(report.announced));
    Reply::Map(fields.0)
}

/// Another Sentinel.
pub fn sentinel(peer: &OtherSentinel, master: &Master, now: Ms) -> Reply {
    let of = &peer.instance;
    let words = flags(&[
        ("s_down", of.s_down),
        ("sentinel", true),
        ("disconnected", of.link.disconnected),
        ("master_down", peer.says_down),
        ("script_kill_sent", of.script_kill_sent),
    ]);
    let mut fields = Fields::begin(&of.run_id, &words, of, master, now);
    fields.put("last-hello-message", now - peer.hello_at);
    fields.put("voted-leader", peer.leader.as_deref().unwrap_or("?"));
    fields.put("voted-leader-epoch", peer.leader_epoch);
    Reply::Map(fields.0)
}

/// The section `sentinel` of INFO.
pub fn section(text: &mut String, own: &Sentinel, now: Ms) {
    let tilt_s = own.tilt_since.map_or(-1, |since| (now - since) / 1_000);
    let _ = write!(
        text,
        "sentinel_masters:{}\r\nsentinel_tilt:{}\r\nsentinel_tilt_since_seconds:{tilt_s}\r\n\
         sentinel_running_scripts:0\r\nsentinel_scripts_queue_length:0\r\n\
         sentinel_simulate_failure_flags:{}\r\n",
        own.masters.len(),
        u8::from(own.tilt_since.is_some()),
        u8::from(own.crashes.after_election) + 2 * u8::from(own.crashes.after_promotion),
    );
    for (n, (name, master)) in own.masters.iter().enumerate() {
        let of = &master.instance;
        let status = match (of.o_down, of.s_down) {
            (true, _) => "odown",
            (_, true) => "sdown",
            _ => "ok",
        };
        let (address, replicas) = (of.address, master.replicas.len());
        let _ = write!(
            text,
            "master{n}:name={name},status={status},address={address},slaves={replicas},\
             sentinels={}\r\n",
            master.sentinels.len() + 1,
        );
    }
}
