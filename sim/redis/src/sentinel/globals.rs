//! Settings of a whole Sentinel: its times, what it announces about itself, and where it must crash
//! for a test.

use lockstorm_platform::time::Ms;

/// Periods and timeouts in ms, as SENTINEL DEBUG reports and changes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// Period of INFO: one second for a replica whose master is down or being replaced.
    pub info: Ms,
    /// Maximum period of PING.
    pub ping: Ms,
    /// Period of queries to the others whether the master is down.
    pub ask_period: Ms,
    /// Period of hello messages.
    pub publish: Ms,
    /// Default of `down-after-milliseconds` for a new master.
    pub down_after: Ms,
    /// Default of `failover-timeout` for a new master.
    pub failover_timeout: Ms,
    /// A clock that goes back, or forward by more than this between two ticks, is not trusted.
    pub tilt_trigger: Ms,
    /// Duration of TILT mode.
    pub tilt: Ms,
    /// A replica that was sent the new master's address counts as done after this time.
    pub reconf: Ms,
    /// A connection younger than this is not closed.
    pub reconnect: Ms,
    /// Maximum length of an election, which is also limited by the failover timeout.
    pub election: Ms,
    /// For scripts, which are not run.
    scripts: [Ms; 2],
}

impl Default for Times {
    fn default() -> Times {
        Times {
            info: 10_000,
            ping: 1_000,
            ask_period: 1_000,
            publish: 2_000,
            down_after: 30_000,
            failover_timeout: 180_000,
            tilt_trigger: 2_000,
            tilt: 30_000,
            reconf: 10_000,
            reconnect: 15_000,
            election: 10_000,
            scripts: [60_000, 30_000],
        }
    }
}

impl Times {
    /// All of them by the names of SENTINEL DEBUG, in its order.
    pub fn all(&mut self) -> [(&'static str, &mut Ms); 13] {
        let [runtime, retry] = &mut self.scripts;
        [
            ("INFO-PERIOD", &mut self.info),
            ("PING-PERIOD", &mut self.ping),
            ("ASK-PERIOD", &mut self.ask_period),
            ("PUBLISH-PERIOD", &mut self.publish),
            ("DEFAULT-DOWN-AFTER", &mut self.down_after),
            ("DEFAULT-FAILOVER-TIMEOUT", &mut self.failover_timeout),
            ("TILT-TRIGGER", &mut self.tilt_trigger),
            ("TILT-PERIOD", &mut self.tilt),
            ("SLAVE-RECONF-TIMEOUT", &mut self.reconf),
            ("MIN-LINK-RECONNECT-PERIOD", &mut self.reconnect),
            ("ELECTION-TIMEOUT", &mut self.election),
            ("SCRIPT-MAX-RUNTIME", runtime),
            ("SCRIPT-RETRY-DELAY", retry),
        ]
    }
}

/// The parameters of SENTINEL CONFIG. Names are never resolved, whatever the parameter's value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Globals {
    resolve_hostnames: bool,
    announce_hostnames: bool,
    /// The announced address; empty for its own.
    pub announce_ip: String,
    /// The announced port; 0 for its own.
    pub announce_port: u16,
    /// The user name for other Sentinels; empty for the default user.
    pub user: String,
    /// The password for them; empty for none.
    pub password: String,
}

/// Why a parameter is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// There is no such parameter.
    Name,
    /// The value is invalid.
    Value,
}

impl Globals {
    /// All parameters with their values, in the order of SENTINEL CONFIG GET.
    pub fn all(&self) -> [(&'static str, String); 6] {
        let word = |on: bool| if on { "yes" } else { "no" }.to_owned();
        [
            ("resolve-hostnames", word(self.resolve_hostnames)),
            ("announce-hostnames", word(self.announce_hostnames)),
            ("announce-ip", self.announce_ip.clone()),
            ("announce-port", self.announce_port.to_string()),
            ("sentinel-user", self.user.clone()),
            ("sentinel-pass", self.password.clone()),
        ]
    }

    /// Sets one of them.
    ///
    /// # Errors
    /// If there is no such parameter, or the value is invalid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Wrong> {
        let on = || match &value.to_ascii_lowercase()[..] {
            "yes" => Ok(true),
            "no" => Ok(false),
            _ => Err(Wrong::Value),
        };
        match &name.to_ascii_lowercase()[..] {
            "resolve-hostnames" => self.resolve_hostnames = on()?,
            "announce-hostnames" => self.announce_hostnames = on()?,
            "announce-ip" => value.clone_into(&mut self.announce_ip),
            "announce-port" => self.announce_port = value.parse().map_err(|_| Wrong::Value)?,
            "sentinel-user" => value.clone_into(&mut self.user),
            "sentinel-pass" => value.clone_into(&mut self.password),
            _ => return Err(Wrong::Name),
        }
        Ok(())
    }
}

/// Where SENTINEL SIMULATE-FAILURE makes the process crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crashes {
    /// After its election.
    pub after_election: bool,
    /// After the replica that it promotes reports that it is a master.
    pub after_promotion: bool,
    /// The point is reached.
    pub now: bool,
}
