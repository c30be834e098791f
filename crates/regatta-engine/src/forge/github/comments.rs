//! The one comment with a key.

use regatta_core::forge::marker::Marker;
use serde_json::{Value, json};

use super::json::{has_key, lacks, node};
use super::{GitHub, good, repo_path};
use crate::forge::error::{ForgeError, Result};
use crate::forge::values::{CommentId, Place};

impl GitHub {
    pub(super) async fn write_or_edit(&self, place: &Place, key: &str, text: &str) -> Result<CommentId> {
        let text = with_key(text, key);
        let known = match &place.comment {
            Some(known) => Some(known.clone()),
            None => self.find_comment(place, key).await?,
        };
        if let Some(known) = known {
            let below = format!("/issues/comments/{}", known.number);
            match self.send("PATCH", &place.repo, &below, &json!({"body": text})).await {
                Ok(answer) => {
                    good(answer, "issues/comments", 200)?;
                    return Ok(known);
                }
                // A person deleted it.
                Err(ForgeError::Gone(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let below = format!("/issues/{}/comments", place.number.0);
        let answer = self.send("POST", &place.repo, &below, &json!({"body": text})).await?;
        comment_id(&good(answer, "issues/comments", 201)?)
    }

    /// Our own comment with that key: a mark that another person copied proves nothing.
    async fn find_comment(&self, place: &Place, key: &str) -> Result<Option<CommentId>> {
        let viewer = self.viewer().await?.login;
        let path = format!("{}/issues/{}/comments?per_page=100", repo_path(&place.repo), place.number.0);
        let is_ours = |comment: &Value| {
            let by = comment["user"]["login"].as_str();
            by.is_some_and(|by| by.eq_ignore_ascii_case(&viewer)) && has_key(&comment["body"], key)
        };
        self.find_on_pages(path, is_ours).await?.as_ref().map(comment_id).transpose()
    }
}

fn comment_id(json: &Value) -> Result<CommentId> {
    let number = json["id"].as_u64().ok_or_else(|| lacks("id"))?;
    Ok(CommentId { number, id: node(json, "node_id")? })
}

/// The text with the mark by which it is found again.
fn with_key(text: &str, key: &str) -> String {
    let has = Marker::find(text).is_some_and(|marker| marker.get("key") == Some(key));
    if has { text.to_owned() } else { format!("{text}\n\n{}", Marker::new().with("key", key)) }
}
