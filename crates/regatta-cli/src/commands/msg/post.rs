//! Sending, as every command that sends does it.

use std::io::Read as _;

use regatta_core::causes::with_causes;
use regatta_engine::clock;
use regatta_engine::redact::Redactor;
use regatta_engine::templates::TemplateFault;
use regatta_ops::documents::crew::PostedDocument;
use regatta_store::{Author, MessageKind, NewMessage, Posted, Recipients, RequestId, Store, StoreError};

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

/// Sends a message from whoever speaks.
pub(crate) async fn post(
    store: &dyn Store,
    who: &As,
    to: Recipients,
    kind: MessageKind,
    text: &str,
    reply_to: Option<u64>,
) -> Result<Posted, CliError> {
    let author = who.author(store).await?;
    let message = NewMessage { text: without_secrets(&author, text), author, to, kind, reply_to };
    let posted = store.post(&message, &RequestId::fresh(), clock::now()).await;
    posted.map_err(|error| match error {
        StoreError::NotFound(what) => CliError::not_found(format!("there is no {what}"))
            .hinted("`regatta crew list --all` shows who there is, `regatta list` the tasks"),
        error => error.into(),
    })
}

/// What an agent says is kept and shown: secrets of its environment stay out.
fn without_secrets(author: &Author, text: &str) -> String {
    if !matches!(author.authority, regatta_store::Authority::Attempt { .. }) {
        return text.to_owned();
    }
    let vars = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Redactor::new(vars).redact(text).into_owned()
}

/// What was sent, and to whom.
pub(crate) fn sentence(posted: &Posted) -> String {
    let names: Vec<&str> = posted.to.iter().map(|name| name.as_str()).collect();
    format!("message {} is in the inbox of {}", posted.id, names.join(", "))
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
