//! What a branch asks of pull requests.

/// The rules of one branch. Without any, everything may be merged and pushed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Names of checks and statuses that must have succeeded.
    pub checks: Vec<String>,
    /// The head must contain the base.
    pub strict: bool,
    /// How many approvals by users who may push are needed.
    pub approvals: u64,
    /// A new head makes approvals void.
    pub dismiss_stale: bool,
    /// Merges go through the queue only.
    pub queue: bool,
    /// Pushes are refused: changes come by pull request.
    pub protected: bool,
    /// Merges with two parents are refused.
    pub linear: bool,
    /// Commits must be signed.
    pub signatures: bool,
    /// Set by the older protection of branches, not by a ruleset: another route tells of them.
    pub classic: bool,
}

impl Rules {
    /// Rules that demand these checks.
    pub fn checks<const N: usize>(names: [&str; N]) -> Self {
        Self { checks: names.map(str::to_owned).to_vec(), ..Self::default() }
    }

    /// Demands that the head contains the base.
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Demands approvals.
    pub fn approvals(mut self, count: u64) -> Self {
        self.approvals = count;
        self
    }

    /// Demands the merge queue.
    pub fn queue(mut self) -> Self {
        self.queue = true;
        self
    }

    /// The older way to set them.
    pub fn classic(mut self) -> Self {
        self.classic = true;
        self
    }

    /// Refuses pushes.
    pub fn protected(mut self) -> Self {
        self.protected = true;
        self
    }
}
