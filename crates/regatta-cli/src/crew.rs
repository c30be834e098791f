//! Who of the crew a command speaks for, and what every command of the crew needs.

use std::sync::Arc;

use regatta_core::crew::MemberName;
use regatta_ops::crew::Speaker;
pub(crate) use regatta_ops::crew::there;
use regatta_store::{Author, Member, Store};

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

/// The project and its store.
pub(crate) async fn open(global: &Global) -> Result<(Project, Arc<dyn Store>), CliError> {
    let project = Project::look(&global.options())?;
    // Making one asks git what is tracked; looking at one that is there does not.
    let store = match project.has_store() {
        true => project.store().await?,
        false => project.create_store().await?,
    };
    Ok((project, store))
}

impl As {
    /// Who speaks, as operations take it.
    pub(crate) fn speaker(&self) -> Speaker {
        Speaker { name: self.name.clone() }
    }

    /// The member that speaks; it has to be there.
    pub(crate) async fn member(&self, store: &dyn Store) -> Result<Member, CliError> {
        self.speaker().member(store).await
    }

    /// Who speaks, and by what right: a member, the agent of a task, or a person outside of the crew.
    pub(crate) async fn author(&self, store: &dyn Store) -> Result<Author, CliError> {
        self.speaker().author(store).await
    }

    /// Whose inbox is meant.
    pub(crate) async fn reader(&self, store: &dyn Store) -> Result<MemberName, CliError> {
        self.speaker().reader(store).await
    }
}
