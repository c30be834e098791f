//! Sending, as every command that sends does it.

use std::io::Read as _;

use regatta_core::causes::with_causes;
use regatta_engine::templates::TemplateFault;
use regatta_ops::crew::PostRequest;
pub(crate) use regatta_ops::crew::sentence;
use regatta_ops::documents::crew::PostedDocument;
use regatta_store::{MessageKind, Posted, Recipients, Store};

use crate::crew::As;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// A text of the command line; `-` is what comes on standard input.
pub(crate) fn given(text: &str) -> Result<String, CliError> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| CliError::usage(format!("reading from standard input: {error}")))?;
    Ok(text)
}

/// The same, of a message: it says something.
pub(crate) fn text(text: &str) -> Result<String, CliError> {
    let text = given(text)?;
    match text.trim().is_empty() {
        true => {
            Err(CliError::usage("the message is empty").hinted("say something: regatta msg send NAME \"…\""))
        }
        false => Ok(text),
    }
}

/// A template that is wrong, with its place.
pub(crate) fn unusable(fault: TemplateFault) -> CliError {
    CliError::usage(with_causes(&fault))
        .hinted("put it right, or take the file away: then the usual words are used")
}

/// Sends a message from the speaker.
pub(crate) async fn post(
    store: &dyn Store,
    who: &As,
    to: Recipients,
    kind: MessageKind,
    text: &str,
    reply_to: Option<u64>,
) -> Result<Posted, CliError> {
    let request = PostRequest { from: who.speaker(), to, kind, text: text.to_owned(), reply_to };
    regatta_ops::crew::post(store, request).await
}

/// Says what was sent, and to whom.
pub(crate) fn tell(posted: &Posted, ui: &Ui) -> Exit {
    if ui.json {
        ui.document(&PostedDocument::from(posted));
    } else if !ui.quiet {
        match posted.to.as_slice() {
            [] => ui.note("nobody is there to read it"),
            _ => ui.line(sentence(posted)),
        }
    }
    Exit::Ok
}
