//! Prints messages.

use regatta_ops::documents::crew::MessageDocument;
use regatta_store::{Message, MessageKind};

use crate::render::shown::{clean, clean_line};
use crate::ui::{Style, Ui};

/// Prints one message for people.
fn line(message: &Message, ui: &Ui) {
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

/// Prints one message, for people or as one line of JSON.
pub(crate) fn one(message: &Message, ui: &Ui) {
    if ui.json { ui.object(&MessageDocument::from(message)) } else { line(message, ui) }
}

/// Prints messages, for people or as one JSON document.
pub(crate) fn all(messages: &[Message], ui: &Ui) {
    if ui.json {
        ui.document(&messages.iter().map(MessageDocument::from).collect::<Vec<_>>());
    } else {
        messages.iter().for_each(|message| line(message, ui));
    }
}
