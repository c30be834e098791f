//! Who of the crew a command speaks for, and what every command of the crew needs.

use regatta_core::crew::MemberName;
use regatta_ops::crew::{Crew, Speaker};

use crate::cli::Global;
use crate::error::CliError;
use crate::project::Project;

/// Who speaks.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct As {
    /// Speak for this member. Where it is left out: the agent of the task that is worked on here, or the member whose
    /// process this one descends from.
    #[arg(id = "as", long, value_name = "NAME", env = "REGATTA_MEMBER", value_parser = member_name)]
    pub(crate) name: Option<MemberName>,
}

pub(crate) fn member_name(text: &str) -> Result<MemberName, String> {
    MemberName::parse(text).map_err(|error| format!("the name {error}"))
}

/// The crew of the project.
pub(crate) async fn open(global: &Global) -> Result<Crew, CliError> {
    Crew::open(&Project::look(&global.options())?).await
}

impl As {
    /// Who speaks, as operations take it.
    pub(crate) fn speaker(&self) -> Speaker {
        Speaker { name: self.name.clone() }
    }
}
