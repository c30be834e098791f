//! The options of commands on several repositories, as in parallel-agents.

use regatta_ops::assemble::CLAUDE_BIN;
use regatta_ops::parallel::ParallelOptions;

use crate::cli::Global;

impl Global {
    /// The options of operations on several repositories.
    pub(crate) fn parallel(&self) -> ParallelOptions {
        ParallelOptions { project: self.options(), root: self.root.clone() }
    }
}

/// The program that parallel-agents starts instead of claude.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ClaudeBin {
    /// Start this program instead of claude. Only the daemon that is started with it uses it.
    #[arg(long, value_name = "PROGRAM", env = CLAUDE_BIN, hide = true, hide_env = true)]
    claude_bin: Option<String>,
}

impl ClaudeBin {
    /// The program; a path is made absolute, because the daemon may run in another directory.
    pub(crate) fn program(&self) -> Option<String> {
        let named = self.claude_bin.as_ref().filter(|program| !program.is_empty() && *program != "claude")?;
        let whole = std::path::absolute(named).ok().filter(|_| named.contains('/'));
        Some(whole.map_or_else(|| named.clone(), |path| path.display().to_string()))
    }
}
