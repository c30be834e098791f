//! The one comment with a key.

use regatta_core::forge::marker::Marker;
use regatta_core::forge::quota::Purpose;
use serde_json::{Value, json};

use super::json::{items, lacks, node};
use super::{GitHub, good, repo_path};
use crate::forge::error::{ForgeError, Result};
use crate::forge::values::{CommentId, Place};
use crate::forge::wire::Call;

/// Most pages of comments that are searched for our own.
const PAGES: usize = 20;

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
                // Somebody deleted it.
                Err(ForgeError::Gone(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let below = format!("/issues/{}/comments", place.number.0);
        let answer = self.send("POST", &place.repo, &below, &json!({"body": text})).await?;
        comment_id(&good(answer, "issues/comments", 201)?)
    }

    /// Our own comment with that key: a mark that somebody else copied proves nothing.
    async fn find_comment(&self, place: &Place, key: &str) -> Result<Option<CommentId>> {
        let viewer = self.viewer().await?.login;
        let mut path = format!("{}/issues/{}/comments?per_page=100", repo_path(&place.repo), place.number.0);
        for _ in 0..PAGES {
            let answer = self.host.ask(&Call::get(path.as_str()), Purpose::Asked).await?;
            let next = answer.next_page();
            let json = good(answer, &path, 200)?;
            let ours = items(&json).find(|comment| {
                let is_ours =
                    comment["user"]["login"].as_str().is_some_and(|by| by.eq_ignore_ascii_case(&viewer));
                let marker = comment["body"].as_str().and_then(Marker::find);
                is_ours && marker.is_some_and(|marker| marker.get("key") == Some(key))
            });
            if let Some(ours) = ours {
                return comment_id(ours).map(Some);
            }
            match next {
                Some(next) => path = next,
                None => break,
            }
        }
        Ok(None)
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
