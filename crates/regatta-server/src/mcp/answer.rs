//! The result of a tool: a sentence and a document, or a refusal.

use regatta_ops::Refusal;
use regatta_store::StoreError;
use rmcp::handler::server::tool::IntoCallToolResult;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::Value;

/// How many mistakes in files are listed one by one.
const MOST_DIAGNOSTICS: usize = 20;

/// The result of a call.
pub(super) type ToolResult = Result<Answer, Refused>;

/// A sentence for the reader, and the same as a document.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    text: String,
    document: Value,
}

impl Answer {
    /// The sentence is the result; the document adds the details, and repeats the sentence, because claude and codex
    /// show their model only the document.
    pub(super) fn said(text: impl Into<String>, document: &impl Serialize) -> Self {
        let text = text.into();
        let mut document = value(document);
        if let Some(fields) = document.as_object_mut() {
            fields.entry("message").or_insert_with(|| text.clone().into());
        }
        Self { text, document }
    }

    /// The document is the result. It is repeated in the text, because other clients show only that.
    pub(super) fn found(text: impl Into<String>, document: &impl Serialize) -> Self {
        let Self { text, document } = Self::said(text, document);
        Self { text: format!("{text}\n{document}"), document }
    }
}

/// As JSON; structured content is always an object.
pub(super) fn value(document: &impl Serialize) -> Value {
    let value = serde_json::to_value(document).expect("our own values serialise");
    if value.is_object() { value } else { serde_json::json!({ "result": value }) }
}

impl IntoCallToolResult for Answer {
    fn into_call_tool_result(self) -> Result<CallToolResponse, rmcp::ErrorData> {
        let mut result = CallToolResult::success(vec![ContentBlock::text(self.text)]);
        result.structured_content = Some(self.document);
        Ok(result.into())
    }
}

/// A refusal as the result of a tool.
#[derive(Clone, Debug)]
pub(super) struct Refused(Refusal);

/// The request is wrong; `hint` is the next step.
pub(super) fn refusal(why: impl Into<String>, hint: impl Into<String>) -> Refusal {
    Refusal::usage(why).hinted(hint)
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(refusal) = self;
        f.write_str(&refusal.message)?;
        for diagnostic in refusal.diagnostics.iter().take(MOST_DIAGNOSTICS) {
            write!(f, "\n{diagnostic}")?;
        }
        write!(f, " (hint: {})", refusal.hint())
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

/// An error of the store, with the tool that helps.
impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        let hint = match &error {
            StoreError::NotFound(_) => Some("list_tasks shows the tasks"),
            StoreError::Conflict(_) => Some("read it again, and decide again"),
            StoreError::Busy(_) => Some("try again: nothing was changed"),
            StoreError::SessionExpired => Some("register_instance comes back"),
            _ => None,
        };
        let refusal = Refusal::from(error);
        Self(match hint {
            Some(hint) => refusal.hinted(hint),
            None => refusal,
        })
    }
}

impl IntoCallToolResult for Refused {
    fn into_call_tool_result(self) -> Result<CallToolResponse, rmcp::ErrorData> {
        Ok(CallToolResult::error(vec![ContentBlock::text(self.to_string())]).into())
    }
}
