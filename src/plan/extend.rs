//! Whether a client extends its grant while it works, and how often.

use std::fmt;

use lockstorm_platform::time::Nanos;
use serde::{Deserialize, Serialize};

/// Whether a working client extends its grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Extend {
    /// It does not extend its grant.
    #[default]
    Never,
    /// It extends each time that this share of the lease has passed.
    Share(Rhythm),
    /// It extends each time that half of the lease has passed. Its work ends when the lock reports
    /// the loss, or when the workload is to stop.
    UntilLost,
}

/// A share of a lease, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rhythm {
    parts: u32,
    of: u32,
}

/// Half of the lease.
const HALF: Rhythm = Rhythm { parts: 1, of: 2 };

impl Rhythm {
    /// The time from a grant with this lease to the next extend, ns.
    pub fn due(self, lease: Nanos) -> Nanos {
        let share = u128::from(lease) * u128::from(self.parts) / u128::from(self.of);
        Nanos::try_from(share).unwrap_or(lease)
    }

    /// How much of a lease must remain for a client that could not extend it, ns, so that its last
    /// access is in time: half of what remained when the extend was due.
    pub fn reserve(self, lease: Nanos) -> Nanos {
        (lease - self.due(lease)) / 2
    }
}

impl Extend {
    /// Those of a half, a third and a quarter of the lease that are shorter than its own interval.
    /// For work that continues until the lock is lost, all three: they give the work an end.
    pub fn each_sooner(self) -> impl Iterator<Item = Rhythm> {
        let own = self.rhythm().map(|own| (u64::from(own.parts), u64::from(own.of)));
        let is_sooner = move |of: &u32| {
            own.is_some_and(|(parts, whole)| whole < parts * u64::from(*of))
                || self == Extend::UntilLost
        };
        (2..=4).filter(is_sooner).map(|of| Rhythm { parts: 1, of })
    }

    /// How often the client extends its grant, if at all.
    pub fn rhythm(self) -> Option<Rhythm> {
        match self {
            Extend::Never => None,
            Extend::Share(rhythm) => Some(rhythm),
            Extend::UntilLost => Some(HALF),
        }
    }
}

impl fmt::Display for Extend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extend::Never => f.write_str("never"),
            Extend::Share(Rhythm { parts, of }) => write!(f, "{parts}/{of}"),
            Extend::UntilLost => f.write_str("until-lost"),
        }
    }
}

impl From<Extend> for String {
    fn from(extend: Extend) -> String {
        extend.to_string()
    }
}

impl TryFrom<String> for Extend {
    type Error = String;

    fn try_from(text: String) -> Result<Extend, String> {
        text.parse()
    }
}

impl std::str::FromStr for Extend {
    type Err = String;

    fn from_str(text: &str) -> Result<Extend, String> {
        match text {
            "never" => return Ok(Extend::Never),
            "until-lost" => return Ok(Extend::UntilLost),
            _ => {}
        }
        let share = text.split_once('/').and_then(|(parts, of)| {
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            (digits(parts) && digits(of)).then_some(())?;
            Some(Rhythm { parts: parts.parse().ok()?, of: of.parse().ok()? })
        });
        let within = share.filter(|share| 0 < share.parts && share.parts < share.of);
        within
            .filter(|share| share.of <= 1_000)
            .map(Extend::Share)
            .ok_or_else(|| format!("'{text}' is not an interval of extends"))
    }
}

#[cfg(test)]
mod tests {
    use super::Extend;

    #[test]
    fn a_share_is_part_of_a_lease() {
        for text in ["never", "until-lost", "1/2", "2/3", "999/1000"] {
            assert_eq!(text.parse().map(|extend: Extend| extend.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "1", "0/2", "2/2", "3/2", "1/1001", "-1/2", "+1/2", "1/ 2", "always"] {
            assert!(text.parse::<Extend>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_reserve_is_half_of_what_was_left() {
        let rhythm = "2/3".parse::<Extend>().unwrap().rhythm().unwrap();
        assert_eq!((rhythm.due(3_000), rhythm.reserve(3_000)), (2_000, 500));
        assert_eq!((rhythm.due(u64::MAX), rhythm.reserve(1)), (u64::MAX / 3 * 2, 0));
        assert_eq!(Extend::Never.rhythm(), None);
    }
}
