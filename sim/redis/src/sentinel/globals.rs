//! What is set for a Sentinel as a whole: its times, what it tells of itself, and where it is to
//! crash for a trial.

use crate::sentinel::instance::Ms;

/// How long a Sentinel waits for what, in ms: what SENTINEL DEBUG tells and changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// How often INFO is asked: each second of a replica whose master is down or being replaced.
    pub info: Ms,
    /// How often everybody is pinged, at the least.
    pub ping: Ms,
    /// How often the others are asked whether the master is down.
    pub ask: Ms,
    /// How often a hello message goes out.
    pub publish: Ms,
    /// After how long without a valid answer a master that is watched from now on is down.
    pub down_after: Ms,
    /// After how long a failover of such a master is given up.
    pub failover_timeout: Ms,
    /// A clock that went back, or on by more than this between two ticks, is not to be trusted.
    pub tilt_trigger: Ms,
    /// For so long nothing is done then.
    pub tilt: Ms,
    /// A replica that was told to follow the new master counts as done after so long.
    pub reconf: Ms,
    /// A connection younger than this is not given up.
    pub reconnect: Ms,
    /// An election takes at most so long, and no longer than a failover may.
    pub election: Ms,
    /// For scripts, which are not run.
    scripts: [Ms; 2],
}

impl Default for Times {
    fn default() -> Times {
        Times {
            info: 10_000,
            ping: 1_000,
            ask: 1_000,
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
            ("ASK-PERIOD", &mut self.ask),
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

/// What SENTINEL CONFIG tells and sets. Names are not looked up, whatever it says about them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Globals {
    resolve_hostnames: bool,
    announce_hostnames: bool,
    /// The address that is told to others; empty for its own.
    pub announce_ip: String,
    /// The port that is told; 0 for its own.
    pub announce_port: u16,
    /// As whom it asks other Sentinels; empty for the default user.
    pub user: String,
    /// With which password; empty for none.
    pub password: String,
}

/// What is wrong about a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// There is none of this name.
    Name,
    /// It does not take this value.
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
    /// If there is none of this name, or it does not take the value.
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

/// Where SENTINEL SIMULATE-FAILURE has the process end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crashes {
    /// When it has been elected.
    pub after_election: bool,
    /// When the replica that it promotes has said that it is a master.
    pub after_promotion: bool,
    /// It has come there.
    pub now: bool,
}
