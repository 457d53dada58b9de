//! What the wire records for a client library that knows nothing of lockstorm.

use async_trait::async_trait;
use lockstorm::history::{History, OpKind};
use lockstorm::lock::algorithm::Algorithm;
use lockstorm::lock::client::wire::Wire;
use lockstorm::lock::{Acquired, Extended, Grant, Lock, Released, Setting};
use lockstorm::plan::TopologyKind;
use lockstorm::plan::base_plan::base_plan_of;
use lockstorm::run::Lab;
use lockstorm_platform::fault::{Anchor, Fault, Target, Verb};
use lockstorm_platform::time::SECOND;
use lockstorm_platform::trace::Leg;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Greets, sets and deletes the key on a new connection each time.
const RAW: Algorithm = Algorithm::lease("raw", |setting| {
    let wire = Wire::new(&setting, &setting.nodes[0]);
    Box::new(Raw { setting, wire })
});

struct Raw {
    setting: Setting,
    wire: Wire,
}

impl Raw {
    /// Writes the greeting and the request together, as pipelines do, and reads two lines.
    async fn request(&self, request: &str) -> std::io::Result<String> {
        let mut library = self.wire.open(SECOND).await?;
        library.write_all(format!("PING\r\n{request}\r\n").as_bytes()).await?;
        let mut said = Vec::new();
        while said.iter().filter(|byte| **byte == b'\n').count() < 2 {
            if library.read_buf(&mut said).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

#[async_trait(?Send)]
impl Lock for Raw {
    async fn acquire(&mut self) -> Acquired {
        let token = format!("{}-{}", self.setting.host.name(), self.setting.call.get().op);
        let reply = self.request(&format!("SET lock {token} NX PX 3000")).await;
        let grant = Grant::new(token, None);
        match reply.as_deref() {
            Ok("+PONG\r\n+OK\r\n") => Acquired::Granted(grant),
            Ok(said) => Acquired::Refused(said.to_owned()),
            Err(_) => Acquired::Unknown(grant),
        }
    }

    async fn extend(&mut self, _grant: &Grant) -> Extended {
        Extended::Lost
    }

    async fn release(&mut self, _grant: &Grant) -> Released {
        match self.request("DEL lock").await {
            Ok(_) => Released::Released,
            Err(_) => Released::Unknown,
        }
    }
}

fn history(faults: Vec<Fault>) -> History {
    let mut plan = base_plan_of(&RAW, TopologyKind::Single);
    plan.faults = faults;
    Lab::default().with_lock(RAW).run(&plan).history
}

#[test]
fn requests_and_keys_belong_to_the_operation_that_they_serve() {
    let history = history(Vec::new());
    let kind = |op: u32| &history.ops[op as usize].kind;
    assert!(history.keys.len() > 10);
    for key in &history.keys {
        assert!(key.by.is_some_and(|op| !matches!(kind(op), OpKind::Read { .. })), "{key:?}");
    }
    let sets = history.requests.iter().filter(|request| request.command == "SET");
    let legs: Vec<Vec<Leg>> =
        sets.map(|set| set.legs.iter().map(|(leg, _)| *leg).collect()).collect();
    assert!(legs.len() > 10);
    assert_eq!(legs[0], [Leg::Sent, Leg::Applied, Leg::Replied, Leg::Delivered]);
    assert!(history.requests.iter().all(|request| request.command != "PING"), "a greeting");
}

#[test]
fn what_found_no_connection_is_evidence_too() {
    let target = Target::try_from("n1".to_owned()).expect("a target");
    let (anchor, length) = (Anchor::At(SECOND), Some(3 * SECOND));
    let history = history(vec![Fault { id: 1, verb: Verb::Crash, target, anchor, length }]);
    let connects = history.requests.iter().filter(|request| request.command == "CONNECT");
    let releases =
        connects.filter(|c| matches!(history.ops[c.op as usize].kind, OpKind::Release { .. }));
    let legs: Vec<Leg> = releases.map(|release| release.legs[0].0).collect();
    assert!(!legs.is_empty() && legs.iter().all(|leg| *leg == Leg::Unsent), "{legs:?}");
}
