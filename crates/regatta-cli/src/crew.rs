//! The member that a command acts for, and what all crew commands share.

use regatta_core::crew::MemberName;
use regatta_ops::crew::{Crew, Speaker};

use crate::cli::Global;
use crate::door::{self, Door};
use crate::project::Project;
use regatta_ops::Refusal;

/// The member that acts.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct As {
    /// Act as this member. By default the agent whose attempt this command runs in, or the member whose process it
    /// descends from.
    #[arg(id = "as", long, value_name = "NAME", env = "REGATTA_MEMBER", value_parser = member_name)]
    pub(crate) name: Option<MemberName>,
}

pub(crate) fn member_name(text: &str) -> Result<MemberName, String> {
    MemberName::parse(text).map_err(|error| format!("the name {error}"))
}

/// The crew of the project.
pub(crate) async fn open(global: &Global) -> Result<Crew, Refusal> {
    Crew::open(&Project::look(&global.options())?).await
}

/// The same; its store is created if it is missing.
pub(crate) async fn create(global: &Global) -> Result<Crew, Refusal> {
    Crew::create(&Project::look(&global.options())?).await
}

impl As {
    /// The acting member, as operations take it.
    pub(crate) fn speaker(&self) -> Speaker {
        Speaker { name: self.name.clone() }
    }

    /// The way out of the sandbox, if this process is in one. An agent there speaks for its own task alone.
    pub(crate) fn door(&self) -> Result<Option<Door>, Refusal> {
        let Some(door) = door::here() else { return Ok(None) };
        let own = std::env::var("REGATTA_TASK").unwrap_or_default();
        match &self.name {
            Some(name) if name.as_str() != own => {
                Err(Refusal::refused(format!("the agent of a task cannot act as {name}"))
                    .hinted("leave out --as and REGATTA_MEMBER: it acts as its own task"))
            }
            _ => Ok(Some(door)),
        }
    }
}
