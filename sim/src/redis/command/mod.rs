//! The executor: one table of commands, one [`apply`] for the wire, scripts, MULTI, the
//! append-only file and replication.
//!
//! Commands return values and leave effects in the node. None of them writes a byte.

pub mod connection;
pub mod expiry;
pub mod hash;
pub mod key;
pub mod number;
pub mod replication;
pub mod scripting;
pub mod server;
pub mod string;
pub mod transaction;

use bytes::Bytes;

use crate::redis::frame::{Arguments, Reply, integer};
use crate::redis::keyspace::{Entry, Hash, Key, Value};
use crate::redis::node::{Node, Session};
use crate::trace::KeyChange;

/// A value of the wrong type.
pub const WRONGTYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
/// Words that make no sense together.
pub const SYNTAX: &str = "ERR syntax error";
/// No integer where one is needed.
pub const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
const READONLY: &str = "READONLY You can't write against a read only replica.";
const NOREPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";

/// No command has a longer name.
const LONGEST_NAME: usize = 16;

/// What a command comes to; an error is a reply too.
pub type Outcome = Result<Reply, Reply>;

/// One line of the command table.
pub struct Command {
    /// Its name in upper case.
    pub name: &'static str,
    /// How many words it has with its name; negative: at least so many.
    pub arity: i32,
    /// What it is allowed to do.
    pub kind: Kind,
    /// Executes it.
    pub run: fn(&mut Call) -> Outcome,
}

/// What a command may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Changes keys.
    Write,
    /// Changes no key.
    Read,
    /// Changes no key and may not be called by a script.
    NoScript,
}

use Kind::{NoScript, Read, Write};

const fn c(name: &'static str, arity: i32, kind: Kind, run: fn(&mut Call) -> Outcome) -> Command {
    Command { name, arity, kind, run }
}

/// Every command, by name.
pub const TABLE: &[Command] = &[
    c("APPEND", 3, Write, string::append),
    c("CLIENT", -2, NoScript, connection::client),
    c("COMMAND", -1, Read, connection::command),
    c("CONFIG", -2, NoScript, server::config),
    c("DBSIZE", 1, Read, server::dbsize),
    c("DEBUG", -2, NoScript, server::debug),
    c("DECR", 2, Write, number::decr),
    c("DECRBY", 3, Write, number::decrby),
    c("DEL", -2, Write, key::del),
    c("DISCARD", 1, NoScript, transaction::discard),
    c("ECHO", 2, Read, connection::echo),
    c("EVAL", -3, NoScript, scripting::eval),
    c("EVALSHA", -3, NoScript, scripting::evalsha),
    c("EXEC", 1, NoScript, transaction::exec),
    c("EXISTS", -2, Read, key::exists),
    c("EXPIRE", -3, Write, expiry::expire),
    c("EXPIREAT", -3, Write, expiry::expireat),
    c("EXPIRETIME", 2, Read, expiry::expiretime),
    c("FLUSHALL", -1, Write, server::flushall),
    c("FLUSHDB", -1, Write, server::flushdb),
    c("GET", 2, Read, string::get),
    c("GETDEL", 2, Write, string::getdel),
    c("GETEX", -2, Write, string::getex),
    c("GETSET", 3, Write, string::getset),
    c("HDEL", -3, Write, hash::hdel),
    c("HEXISTS", 3, Read, hash::hexists),
    c("HGET", 3, Read, hash::hget),
    c("HGETALL", 2, Read, hash::hgetall),
    c("HINCRBY", 4, Write, hash::hincrby),
    c("HKEYS", 2, Read, hash::hkeys),
    c("HLEN", 2, Read, hash::hlen),
    c("HMGET", -3, Read, hash::hmget),
    c("HMSET", -4, Write, hash::hmset),
    c("HSET", -4, Write, hash::hset),
    c("HSETNX", 4, Write, hash::hsetnx),
    c("HVALS", 2, Read, hash::hvals),
    c("INCR", 2, Write, number::incr),
    c("INCRBY", 3, Write, number::incrby),
    c("INFO", -1, Read, server::info),
    c("KEYS", 2, Read, key::keys),
    c("MGET", -2, Read, string::mget),
    c("MSET", -3, Write, string::mset),
    c("MSETNX", -3, Write, string::msetnx),
    c("MULTI", 1, NoScript, transaction::multi),
    c("PERSIST", 2, Write, expiry::persist),
    c("PEXPIRE", -3, Write, expiry::pexpire),
    c("PEXPIREAT", -3, Write, expiry::pexpireat),
    c("PEXPIRETIME", 2, Read, expiry::pexpiretime),
    c("PING", -1, Read, connection::ping),
    c("PSETEX", 4, Write, string::psetex),
    c("PSYNC", -3, NoScript, replication::psync),
    c("PTTL", 2, Read, expiry::pttl),
    c("QUIT", -1, NoScript, connection::quit),
    c("REPLCONF", -1, NoScript, replication::replconf),
    c("REPLICAOF", 3, NoScript, replication::replicaof),
    c("ROLE", 1, NoScript, replication::role),
    c("SCRIPT", -2, NoScript, scripting::script),
    c("SELECT", 2, Read, connection::select),
    c("SET", -3, Write, string::set),
    c("SETEX", 4, Write, string::setex),
    c("SETNX", 3, Write, string::setnx),
    c("SLAVEOF", 3, NoScript, replication::replicaof),
    c("STRLEN", 2, Read, string::strlen),
    c("TIME", 1, Read, server::time),
    c("TTL", 2, Read, expiry::ttl),
    c("TYPE", 2, Read, key::kind),
    c("UNLINK", -2, Write, key::del),
    c("WAIT", 3, NoScript, replication::wait),
];

/// Finds a command by its name in any case.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    let mut upper = [0; LONGEST_NAME];
    let upper = upper.get_mut(..name.len())?;
    upper.copy_from_slice(name);
    upper.make_ascii_uppercase();
    TABLE.binary_search_by(|command| command.name.as_bytes().cmp(upper)).ok().map(|at| &TABLE[at])
}

/// The command's name in upper case, if there is such a command.
pub fn name(name: &[u8]) -> Option<&'static str> {
    find(name).map(|command| command.name)
}

/// A command while it runs.
pub struct Call<'a> {
    /// The node that executes it.
    pub node: &'a mut Node,
    /// The connection (or script) that it came from.
    pub session: &'a mut Session,
    /// Its name and arguments.
    pub args: &'a [Bytes],
    /// Its line in the table.
    pub command: &'static Command,
}

/// Executes one request as it came from a connection, its master or its file. What it did is in
/// `node.effects`, what the server must do in `session.after`.
pub fn apply(node: &mut Node, session: &mut Session, args: &[Bytes]) -> Reply {
    let allowed = find(&args[0])
        .ok_or_else(|| unknown_command(args))
        .and_then(|command| admit(node, session, command, args));
    match allowed {
        Err(refusal) => {
            session.broken |= session.queued.is_some();
            if args[0].eq_ignore_ascii_case(b"EXEC") && session.queued.is_some() {
                return transaction::abort(session, &refusal);
            }
            refusal
        }
        Ok(command) => match &mut session.queued {
            Some(queued) if !transaction::runs_at_once(command.name) => {
                queued.push(args.to_vec());
                Reply::simple("QUEUED")
            }
            _ => execute(node, session, command, args),
        },
    }
}

/// The refusals of `processCommand`, in its order.
fn admit(
    node: &Node,
    session: &Session,
    command: &'static Command,
    args: &[Bytes],
) -> Result<&'static Command, Reply> {
    check_arity(command, args)?;
    let writes = command.kind == Write || transaction::would_write(command.name, session);
    if writes && !node.loading {
        check_write(node, session)?;
    }
    Ok(command)
}

/// Refuses a wrong number of words.
pub fn check_arity(command: &Command, args: &[Bytes]) -> Result<(), Reply> {
    let words = i32::try_from(args.len()).unwrap_or(i32::MAX);
    let fits = if command.arity < 0 { words >= -command.arity } else { words == command.arity };
    if fits { Ok(()) } else { Err(wrong_arity(&command.name.to_ascii_lowercase())) }
}

/// Refuses a write on a replica, or without enough good replicas.
pub fn check_write(node: &Node, session: &Session) -> Result<(), Reply> {
    if session.from_master {
        return Ok(());
    }
    if node.master.is_some() {
        return Err(Reply::error(READONLY));
    }
    if node.good_replicas < node.config.min_replicas_to_write {
        return Err(Reply::error(NOREPLICAS));
    }
    Ok(())
}

/// Executes a command that nothing speaks against.
pub fn execute(
    node: &mut Node,
    session: &mut Session,
    command: &'static Command,
    args: &[Bytes],
) -> Reply {
    node.executed += 1;
    let mut call = Call { node, session, args, command };
    (command.run)(&mut call).unwrap_or_else(|error| error)
}

/// The error for a number of words that a command does not take.
pub fn wrong_arity(name: &str) -> Reply {
    Reply::Error(format!("ERR wrong number of arguments for '{name}' command").into())
}

/// The error for a subcommand that a command does not have.
pub fn unknown_subcommand(args: &[Bytes]) -> Reply {
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(&args[1][..args[1].len().min(128)]);
    text.extend_from_slice(b"'. Try ");
    text.extend(args[0].to_ascii_uppercase());
    text.extend_from_slice(b" HELP.");
    Reply::Error(text.into())
}

/// Redis tells the first 128 bytes of the name and of the arguments back.
fn unknown_command(args: &[Bytes]) -> Reply {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(&args[0][..args[0].len().min(128)]);
    text.extend_from_slice(b"', with args beginning with: ");
    let start = text.len();
    for arg in &args[1..] {
        let told = text.len() - start;
        if told >= 128 {
            break;
        }
        text.push(b'\'');
        text.extend_from_slice(&arg[..arg.len().min(128 - told)]);
        text.extend_from_slice(b"' ");
    }
    Reply::Error(text.into())
}

impl<'a> Call<'a> {
    /// The arguments from the nth word on.
    pub fn from(&self, nth: usize) -> &'a [Bytes] {
        self.args.get(nth..).unwrap_or(&[])
    }

    /// The nth word as an integer.
    pub fn integer(&self, nth: usize) -> Result<i64, Reply> {
        integer(&self.args[nth]).ok_or(Reply::error(NOT_INTEGER))
    }

    /// The nth word in upper case.
    pub fn word(&self, nth: usize) -> Vec<u8> {
        self.args[nth].to_ascii_uppercase()
    }

    /// The command's name in lower case, as error texts have it.
    pub fn lower_name(&self) -> String {
        self.command.name.to_ascii_lowercase()
    }

    /// The live entry of a key.
    pub fn entry(&mut self, key: &[u8]) -> Option<&Entry> {
        self.node.live(self.session.db, key, self.session.from_master)
    }

    /// The string under a key.
    pub fn string(&mut self, key: &[u8]) -> Result<Option<Bytes>, Reply> {
        match self.entry(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::String(bytes)) => Ok(Some(bytes.clone())),
            Some(_) => Err(Reply::error(WRONGTYPE)),
        }
    }

    /// The hash under a key.
    pub fn hash(&mut self, key: &[u8]) -> Result<Option<&Hash>, Reply> {
        match self.entry(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::Hash(hash)) => Ok(Some(hash)),
            Some(_) => Err(Reply::error(WRONGTYPE)),
        }
    }

    /// Puts a string under a key, as commands do that set: created or overwritten.
    pub fn set(&mut self, key: &[u8], value: &[u8], until_ms: Option<u64>) {
        let value = Value::String(Bytes::copy_from_slice(value));
        let key = self.node.keyspace.db_mut(self.session.db).set(key, value, until_ms);
        self.note(key, KeyChange::Set);
    }

    /// Puts a string under a key that may have been there, and leaves its end as it was.
    pub fn change(&mut self, key: &[u8], value: Bytes) {
        let old = self.entry(key).map(Entry::until_ms);
        let db = self.node.keyspace.db_mut(self.session.db);
        let key = db.set(key, Value::String(value), old.flatten());
        self.note(key, if old.is_some() { KeyChange::Changed } else { KeyChange::Set });
    }

    /// Gives a live key another end.
    pub fn set_end(&mut self, key: &[u8], until_ms: Option<u64>) {
        if let Some(key) = self.node.keyspace.db_mut(self.session.db).set_end(key, until_ms) {
            self.note(key, KeyChange::Extended);
        }
    }

    /// Removes a key; whether it was there. Tells nobody.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let Some((key, _)) = self.node.keyspace.db_mut(self.session.db).remove(key) else {
            return false;
        };
        self.note(key, KeyChange::Deleted);
        true
    }

    /// Notes what the command did to a key.
    pub fn note(&mut self, key: Key, change: KeyChange) {
        self.node.note(self.session.db, key, change);
    }

    /// Sends the command to replicas and file as it came.
    pub fn tell_verbatim(&mut self) {
        let args = self.args;
        self.tell(|| args.to_vec());
    }

    /// Sends another command to replicas and file.
    pub fn tell(&mut self, command: impl FnOnce() -> Arguments) {
        self.node.tell(self.session.db, false, command);
    }
}

/// A word that is known beforehand.
pub fn word(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// The bytes of a number.
pub fn digits(value: impl ToString) -> Bytes {
    Bytes::from(value.to_string())
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_NAME, TABLE, name};

    #[test]
    fn the_table_is_in_order_and_found_in_any_case() {
        assert!(TABLE.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(TABLE.iter().all(|c| c.name.len() <= LONGEST_NAME));
        assert!(TABLE.iter().all(|c| name(c.name.to_lowercase().as_bytes()) == Some(c.name)));
        assert_eq!((name(b"nosuch"), name(b"")), (None, None));
    }
}
