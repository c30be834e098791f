//! The `sandbox` section of `regatta.yaml`, as values.

use serde::{Serialize, Serializer};

/// The number of processes of one attempt, if the settings do not say.
pub const PROCESSES: u32 = 4096;

/// What the user decided about the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SandboxSettings {
    /// Which level is required.
    pub mode: Mode,
    /// What is reachable over the network.
    pub network: Network,
    /// Hosts that may be reached besides the built-in ones, for `trusted` and `list`.
    pub hosts: Vec<Entry>,
    /// Ports on this machine that stay reachable when the network is not open.
    pub local: Vec<u16>,
    /// More paths to write to.
    pub write: Vec<Entry>,
    /// Hidden paths that are visible after all, read-only.
    pub show: Vec<Entry>,
    /// Variables with credentials that are kept.
    pub env: Vec<Entry>,
    /// More paths to hide.
    pub hide: Vec<Entry>,
    /// Unix sockets that may be connected to.
    pub sockets: Vec<Entry>,
    /// Device nodes that may be used.
    pub devices: Vec<Entry>,
    /// What the home directory looks like.
    pub home: Home,
    /// Where the caches of package managers are.
    pub caches: Caches,
    /// Whether user namespaces and mounts are allowed inside.
    pub nested: bool,
    /// The number of processes of one attempt.
    pub processes: Option<u32>,
    /// The memory of one attempt, in megabytes.
    pub memory: Option<u32>,
}

/// One entry of a list, with the line it stands on, so that a later refusal can name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The text as it was written.
    pub text: String,
    /// Its line in the file; 0 if it does not come from one.
    pub line: usize,
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// Defines a type of words with their spellings in files.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name { $($(#[$each])* $variant,)* }

        impl $name {
            /// The words, in the order of the documentation.
            pub const WORDS: &'static [&'static str] = &[$($word),*];

            /// The value with this name.
            pub fn named(word: &str) -> Option<Self> {
                match word { $($word => Some($name::$variant),)* _ => None }
            }

            /// Its name in files.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
        }
    };
}

words! {
    /// Which level is required.
    Mode {
        /// The best that the machine has.
        Auto = "auto",
        /// Nothing less than the full level.
        Full = "full",
        /// No sandbox.
        Off = "off",
    }
}

words! {
    /// What is reachable over the network.
    Network {
        /// Everything.
        Open = "open",
        /// A built-in list of hosts, and `hosts`.
        Trusted = "trusted",
        /// The agent's own model, and `hosts`.
        List = "list",
        /// Nothing.
        Off = "off",
    }
}

words! {
    /// What the home directory looks like.
    Home {
        /// Writable, and every change is thrown away at the end.
        Copy = "copy",
        /// Not writable.
        ReadOnly = "read-only",
    }
}

words! {
    /// Where the caches of package managers are.
    Caches {
        /// In one directory per project, shared by its lanes.
        Project = "project",
        /// The user's own, writable.
        User = "user",
        /// Wherever the package managers put them.
        None = "none",
    }
}

impl Network {
    /// Whether it needs a network of its own, and so the full level.
    pub const fn needs_full(self) -> bool {
        matches!(self, Network::Trusted | Network::List)
    }
}

impl Default for SandboxSettings {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            network: Network::Open,
            hosts: Vec::new(),
            local: Vec::new(),
            write: Vec::new(),
            show: Vec::new(),
            env: Vec::new(),
            hide: Vec::new(),
            sockets: Vec::new(),
            devices: Vec::new(),
            home: Home::Copy,
            caches: Caches::Project,
            nested: false,
            processes: Some(PROCESSES),
            memory: None,
        }
    }
}
