//! Sending, shared by all commands that send.

use std::io::Read as _;

use regatta_core::config::Config;
use regatta_ops::crew::sentence;
use regatta_ops::documents::crew::PostedDocument;
use regatta_ops::secrets::redactor_here;
use regatta_store::Posted;

use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// A text from the command line; `-` reads standard input.
pub(crate) fn given(text: &str) -> Result<String, Refusal> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| Refusal::usage(format!("reading from standard input: {error}")))?;
    Ok(text)
}

/// The same for a message, which must not be empty.
pub(crate) fn text(text: &str) -> Result<String, Refusal> {
    let text = given(text)?;
    if text.trim().is_empty() {
        Err(Refusal::usage("the message is empty").hinted("say something: regatta msg send NAME \"…\""))
    } else {
        Ok(text)
    }
}

/// A text that leaves the sandbox, without the secrets of this environment.
pub(crate) fn masked(text: &str) -> String {
    redactor_here(&Config::default()).redact(text).into_owned()
}

/// Reports what was sent, and to whom.
pub(crate) fn tell(posted: &Posted, ui: &Ui) -> Exit {
    if ui.json {
        ui.document(&PostedDocument::from(posted));
    } else if !ui.quiet {
        if posted.to.is_empty() { ui.note(sentence(posted)) } else { ui.line(sentence(posted)) }
    }
    Exit::Ok
}
