//! Messages as they are shown, and marked once they have been.

use std::fs::File;

use regatta_core::crew::MemberName;
use regatta_engine::clock;
use regatta_ops::documents::crew::MessageDocument;
use regatta_store::{Mark, Message, MessageKind, Store};

use crate::error::CliError;
use crate::project::Project;
use crate::render::shown::{clean, clean_line};
use crate::ui::{Style, Ui};

/// One message for people.
pub(crate) fn line(message: &Message, ui: &Ui) {
    let kind = match message.kind {
        MessageKind::Direct => "",
        MessageKind::Broadcast => " to everybody",
        MessageKind::Help => " asks everybody",
    };
    let answers = message.reply_to.map_or_else(String::new, |id| format!(", in answer to {id}"));
    let head = format!("{}  {}{kind}{answers}", message.id, clean_line(message.from.as_str()));
    let at = ui.paint(Style::Dim, &crate::render::when::stamp(message.at));
    ui.line(format!("{}  {at}", ui.paint(Style::Strong, &head)));
    for line in clean(&message.text).lines() {
        ui.line(format!("    {line}"));
    }
}

/// One message, for people or on a line of its own.
pub(crate) fn one(message: &Message, ui: &Ui) {
    match ui.json {
        true => ui.object(&MessageDocument::from(message)),
        false => line(message, ui),
    }
}

/// The right to show the inbox of a member and mark what was shown: one process at a time, given back by a crash too.
/// Marks are made after showing, so what was shown and not marked is shown again, and nothing is lost.
pub(crate) async fn turn(project: &Project, name: &MemberName) -> Result<File, CliError> {
    let dir = project.repo.state_dir.join("inboxes");
    std::fs::create_dir_all(&dir).map_err(|error| CliError::io("making", &dir, &error))?;
    let path = dir.join(format!("{}.lock", name.folded()));
    let locked = tokio::task::spawn_blocking(move || {
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let locked = file.and_then(|file| file.lock().map(|()| file));
        locked.map_err(|error| CliError::io("locking", &path, &error))
    });
    locked.await.expect("locking does not panic")
}

/// Remembers that messages were shown.
pub(crate) async fn shown(
    store: &dyn Store,
    name: &MemberName,
    messages: &[Message],
) -> Result<(), CliError> {
    let new: Vec<u64> =
        messages.iter().filter(|message| message.read_at.is_none()).map(|message| message.id).collect();
    if !new.is_empty() {
        store.mark(name, &new, Mark::Read, clock::now()).await?;
    }
    Ok(())
}
