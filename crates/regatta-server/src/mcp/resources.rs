//! Resources: tasks, transcripts, shared context.

use regatta_store::{ContextQuery, TaskQuery};
use rmcp::ErrorData;
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource, ResourceContents,
    ResourceTemplate,
};

use super::Server;
use super::answer::{Refused, refusal};
use regatta_ops::Refusal;
use regatta_ops::documents::crew::ContextDocument;
use regatta_ops::look;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
/// How many tasks and how many keys are listed.
const MOST_LISTED: usize = 100;
/// The maximum size of a transcript, in bytes: its end.
const MOST_LOG: usize = 64 * 1024;

/// The current resources: the list of tasks, the tasks that changed last, and the shared context.
pub(super) async fn list(server: &Server) -> Result<ListResourcesResult, ErrorData> {
    let tasks = server
        .store()
        .briefs(&TaskQuery { limit: MOST_LISTED, latest: true, ..TaskQuery::default() })
        .await
        .map_err(|error| protocol(&error.into()))?;
    let keys =
        server.store().contexts(&ContextQuery::default()).await.map_err(|error| protocol(&error.into()))?;
    let mut resources = vec![
        Resource::new("regatta://tasks", "tasks")
            .with_description("All tasks with their states")
            .with_mime_type(JSON),
    ];
    for task in &tasks {
        let id = &task.id;
        resources.push(
            Resource::new(format!("regatta://task/{id}"), id.as_str())
                .with_title(task.title.clone())
                .with_description(format!("{}: everything about it", task.state.name()))
                .with_mime_type(JSON),
        );
        if task.attempts > 0 {
            resources.push(
                Resource::new(format!("regatta://task/{id}/log"), format!("{id} log"))
                    .with_description("What its agent said and did")
                    .with_mime_type(TEXT),
            );
        }
    }
    for entry in keys.iter().take(MOST_LISTED) {
        resources.push(
            Resource::new(format!("regatta://context/{}", encoded(&entry.key)), entry.key.clone())
                .with_description("A value of the shared context")
                .with_mime_type(JSON),
        );
    }
    Ok(ListResourcesResult { resources, ..ListResourcesResult::default() })
}

/// The address templates of tasks and keys.
pub(super) fn templates() -> ListResourceTemplatesResult {
    let resource_templates = vec![
        ResourceTemplate::new("regatta://task/{id}", "task")
            .with_description("Everything about one task")
            .with_mime_type(JSON),
        ResourceTemplate::new("regatta://task/{id}/log", "task log")
            .with_description(
                "What the agent of a task said and did, without secrets; the end of it where it is long",
            )
            .with_mime_type(TEXT),
        ResourceTemplate::new("regatta://context/{key}", "context")
            .with_description("A value of the shared context")
            .with_mime_type(JSON),
    ];
    ListResourceTemplatesResult { resource_templates, ..ListResourceTemplatesResult::default() }
}

/// The content of a resource.
pub(super) async fn read(server: &Server, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let unknown = || {
        ErrorData::resource_not_found(
            format!(
                "there is no resource {uri:?} (hint: regatta://tasks, regatta://task/ID, regatta://task/ID/log, regatta://context/KEY)"
            ),
            None,
        )
    };
    let path = uri.strip_prefix("regatta://").ok_or_else(unknown)?;
    let missing = |why: Refusal| ErrorData::resource_not_found(Refused::from(why).to_string(), None);
    let (desk, project) = (&server.desk, &server.desk.crew.project);
    let (text, kind) = match path.split_once('/') {
        None if path == "tasks" => {
            let tasks = look::tasks::documents(project, desk.store(), "all", 500).await.map_err(missing)?;
            (json(&tasks), JSON)
        }
        Some(("task", rest)) => match rest.split_once('/') {
            None => (json(&desk.status(&decoded(rest)).await.map_err(missing)?), JSON),
            Some((id, "log")) => {
                let log = look::log::end_of(project, desk.store(), &decoded(id), MOST_LOG).await;
                (log.map_err(missing)?, TEXT)
            }
            Some(_) => return Err(unknown()),
        },
        Some(("context", key)) => {
            let key = decoded(key);
            let entry = server.store().context(&key).await.map_err(|error| missing(error.into()))?;
            let entry = entry.ok_or_else(|| {
                missing(refusal(format!("there is no value {key:?}"), "list_context_keys shows the keys"))
            })?;
            (json(&ContextDocument::from(&entry)), JSON)
        }
        _ => return Err(unknown()),
    };
    let contents = ResourceContents::text(text, uri).with_mime_type(kind);
    Ok(ReadResourceResult::new(vec![contents]))
}

fn json(document: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(document).expect("our own values serialise")
}

fn protocol(refused: &Refused) -> ErrorData {
    ErrorData::internal_error(refused.to_string(), None)
}

/// A key as a part of an address.
fn encoded(key: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:".contains(&byte);
    key.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// The key of a part of an address; invalid escapes stay as they are.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match escape.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_address() {
        for key in ["api/url", "Ärger & Co?", "100%", "a b#c", "%41"] {
            assert_eq!(decoded(&encoded(key)), key);
        }
        assert_eq!(decoded("%zz%4"), "%zz%4");
    }
}
