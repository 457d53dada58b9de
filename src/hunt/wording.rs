//! How a refusal of a hunt names what its reader may set: by the options of the command line, or by
//! the methods of a hunt in code.

/// Where a hunt is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wording {
    /// On the command line.
    #[default]
    Options,
    /// In a test or a `main`.
    Methods,
}

impl Wording {
    /// A setting with any value, by the name of its option: `--hold`, or `.hold(..)`.
    pub fn setting(self, option: &str) -> String {
        match self {
            Wording::Options => format!("--{option}"),
            Wording::Methods => format!(".{option}(..)"),
        }
    }

    /// What restricts a hunt to the assumptions of its lock.
    pub fn within(self) -> &'static str {
        self.pick("--within-assumptions", ".within_assumptions()")
    }

    /// The one or the other.
    pub fn pick(self, options: &'static str, methods: &'static str) -> &'static str {
        match self {
            Wording::Options => options,
            Wording::Methods => methods,
        }
    }
}
