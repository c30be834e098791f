//! What a tool says: a sentence and a document, or why not.

use regatta_core::causes::with_causes;
use regatta_store::StoreError;
use rmcp::handler::server::tool::IntoCallToolResult;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::Value;

/// What came of a call.
pub(super) type Told = Result<Answer, Refusal>;

/// A sentence for whoever reads, and the same as a document.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    text: String,
    document: Value,
}

impl Answer {
    /// The sentence says it all; the document has the particulars, and the sentence too: claude and codex show their
    /// model the document alone.
    pub(super) fn said(text: impl Into<String>, document: &impl Serialize) -> Self {
        let text = text.into();
        let mut document = value(document);
        if let Some(fields) = document.as_object_mut() {
            fields.entry("message").or_insert_with(|| text.clone().into());
        }
        Self { text, document }
    }

    /// What was asked for is the document. It stands in the text as well: others show that alone.
    pub(super) fn found(text: impl Into<String>, document: &impl Serialize) -> Self {
        let Self { text, document } = Self::said(text, document);
        Self { text: format!("{text}\n{document}"), document }
    }
}

/// As JSON; structured content is an object, whatever else it is.
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

/// Why something is not done, and the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is in the way.
    pub why: String,
    /// What to do.
    pub hint: String,
}

impl Refusal {
    /// With a next step.
    pub fn new(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { why: why.into(), hint: hint.into() }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, " (hint: {})", self.hint) }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let hint = match &error {
            StoreError::Fenced(_) => "this attempt is over; what it says no longer counts",
            StoreError::NotFound(_) => "list_tasks shows what there is",
            StoreError::Conflict(_) => "read it again, and decide again",
            StoreError::Busy(_) => "try again: nothing was changed",
            StoreError::Unavailable(_) | StoreError::Corrupt(_) => "`regatta doctor` looks at the store",
            StoreError::SessionExpired => "register_instance comes back",
            StoreError::Held(_) | StoreError::Refused(_) | StoreError::Invalid(_) => "",
        };
        Refusal::new(with_causes(&error), hint)
    }
}

impl IntoCallToolResult for Refusal {
    fn into_call_tool_result(self) -> Result<CallToolResponse, rmcp::ErrorData> {
        Ok(CallToolResult::error(vec![ContentBlock::text(self.to_string())]).into())
    }
}

impl From<regatta_ops::Refusal> for Refusal {
    fn from(refusal: regatta_ops::Refusal) -> Self {
        let hint = refusal.hint();
        let mut why = refusal.message;
        for diagnostic in refusal.diagnostics.iter().take(20) {
            why.push_str(&format!("\n{diagnostic}"));
        }
        Refusal::new(why, hint)
    }
}
