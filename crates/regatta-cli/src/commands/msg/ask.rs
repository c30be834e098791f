//! `regatta msg ask`: a question to everybody.

use regatta_core::crew::Role;
use regatta_engine::templates::Text;
use regatta_store::{MessageKind, Recipients, Store};

use super::post::{post, tell, text, unusable};
use super::wait::{Wanted, until};
use crate::cli::Global;
use crate::commands::crew::register::role;
use crate::crew::{As, open};
use crate::error::CliError;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;

/// Ask everybody for help. Whoever knows answers with `regatta msg reply`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The question; `-` reads it from standard input.
    #[arg(value_name = "QUESTION")]
    pub(crate) question: String,
    /// What one has to know to answer it.
    #[arg(long, value_name = "TEXT")]
    pub(crate) context: Option<String>,
    #[command(flatten)]
    pub(crate) who: As,
    /// Only those of this role are asked.
    #[arg(long, value_name = "ROLE", value_parser = role)]
    pub(crate) role: Option<Role>,
    /// Wait for the first answer and print it.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Wait no longer than this: seconds, or 5m, 1h30m.
    #[arg(long, value_name = "S", requires = "wait")]
    pub(crate) timeout: Option<String>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let question = text(&args.question)?;
    let (project, store) = open(global).await?;
    let said = worded(&project, store.as_ref(), &args.who, &question, args.context.as_deref()).await?;
    let to = args.role.map_or(Recipients::Everybody, Recipients::Role);
    // Who waits has an inbox for the answer.
    let reader = if args.wait { Some(args.who.reader(store.as_ref()).await?) } else { None };
    let posted = post(store.as_ref(), &args.who, to, MessageKind::Help, &said, None).await?;
    match reader {
        None => Ok(tell(&posted, ui)),
        Some(reader) => {
            let wanted = Wanted { reply_to: Some(posted.id), ..Wanted::default() };
            until(&project, store.as_ref(), &reader, &wanted, args.timeout.as_deref(), ui).await
        }
    }
}

/// A question in the words of the template `help`.
pub(crate) async fn worded(
    project: &Project,
    store: &dyn Store,
    who: &As,
    question: &str,
    context: Option<&str>,
) -> Result<String, CliError> {
    let template = Text::Help.load(&project.repo.state_dir).map_err(unusable)?;
    let author = who.author(store).await?.name;
    let said = template.render(|name| match name {
        "from" => author.to_string(),
        "question" => question.to_owned(),
        _ => context.unwrap_or_default().to_owned(),
    });
    Ok(said.trim_end().to_owned())
}
