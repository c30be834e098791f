//! Messages between members, agents and people.

use regatta_engine::clock;
use regatta_engine::redact::Redactor;
use regatta_store::{
    Author, Authority, MessageKind, NewMessage, Posted, Recipients, RequestId, Store, StoreError,
};

use super::Speaker;
use crate::refusal::Refusal;

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostRequest {
    /// From whom.
    pub from: Speaker,
    /// To whom.
    pub to: Recipients,
    /// What kind it is.
    pub kind: MessageKind,
    /// What it says.
    pub text: String,
    /// The message it answers.
    pub reply_to: Option<u64>,
}

/// Sends a message.
pub async fn post(store: &dyn Store, request: PostRequest) -> Result<Posted, Refusal> {
    let PostRequest { from, to, kind, text, reply_to } = request;
    let author = from.author(store).await?;
    let message = NewMessage { text: without_secrets(&author, &text), author, to, kind, reply_to };
    let posted = store.post(&message, &RequestId::fresh(), clock::now()).await;
    posted.map_err(|error| match error {
        StoreError::NotFound(what) => Refusal::not_found(format!("there is no {what}"))
            .hinted("`regatta crew list --all` shows who there is, `regatta list` the tasks"),
        error => error.into(),
    })
}

/// What an agent says is kept and shown: secrets of its environment stay out.
fn without_secrets(author: &Author, text: &str) -> String {
    if !matches!(author.authority, Authority::Attempt { .. }) {
        return text.to_owned();
    }
    let vars = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Redactor::new(vars).redact(text).into_owned()
}

/// What was sent, and to whom.
pub fn sentence(posted: &Posted) -> String {
    let names: Vec<&str> = posted.to.iter().map(|name| name.as_str()).collect();
    format!("message {} is in the inbox of {}", posted.id, names.join(", "))
}
