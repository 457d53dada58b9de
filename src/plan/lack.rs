//! What the nodes of a topology lack for a fault to have an effect: plans, hunts and served nodes
//! refuse such a fault for the same reason.

use lockstorm_platform::fault::verbs::{Needs, Row};

use crate::plan::{Persistence, Topology, TopologyKind};

/// What nodes may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// A replica to promote or to delay.
    Replica,
    /// An operator: Sentinels or the cluster promote replicas themselves.
    Operator,
    /// Data that is written to a disk.
    File,
    /// A file that commands are appended to.
    AppendOnlyFile,
}

impl Lack {
    /// The refusal of a fault by this word.
    pub fn refusal(self, word: &str) -> String {
        let need = match self {
            Lack::Replica => "a replica, and there is none",
            Lack::Operator => "an operator, and these nodes promote replicas themselves",
            Lack::File => "data on a disk, and these nodes write none",
            Lack::AppendOnlyFile => "an append-only file, and these nodes write none",
        };
        format!("'{word}' needs {need}")
    }

    /// The option of a hunt, and of served nodes, that mends it.
    pub fn option(self) -> &'static str {
        if self.is_of_disk() { "--persistence aof-always" } else { "--topology replicated" }
    }

    /// Whether other persistence mends it. Otherwise another kind of topology does.
    pub fn is_of_disk(self) -> bool {
        matches!(self, Lack::File | Lack::AppendOnlyFile)
    }
}

/// What the topology lacks for this verb to have an effect, if anything.
pub fn lack(topology: &Topology, row: &Row) -> Option<Lack> {
    let by_itself = matches!(topology.kind, TopologyKind::Sentinel | TopologyKind::Cluster);
    let (has_replicas, keeps) = (topology.replicas() > 0, topology.persistence);
    match row.needs {
        Needs::Replica | Needs::FailoverByHand if !has_replicas => Some(Lack::Replica),
        Needs::FailoverByHand if by_itself => Some(Lack::Operator),
        Needs::File if keeps == Persistence::None => Some(Lack::File),
        Needs::AppendOnlyFile if matches!(keeps, Persistence::None | Persistence::Rdb) => {
            Some(Lack::AppendOnlyFile)
        }
        _ => None,
    }
}
