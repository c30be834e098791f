//! Merges, and entries into the merge queue.

use regatta_core::forge::pull::PullState;
use regatta_core::forge::quota::Purpose;
use regatta_core::oid::Oid;
use regatta_core::train::Strategy;
use serde_json::json;

use super::GitHub;
use super::json::oid;
use crate::forge::error::{ForgeError, Result};
use crate::forge::values::{MergeRequest, Merged, Pull};

const ENQUEUE: &str = include_str!("queries/enqueue.graphql");

impl GitHub {
    pub(super) async fn merge_or_find(&self, pull: &Pull, head: &Oid, how: &MergeRequest) -> Result<Merged> {
        match how {
            MergeRequest::Now { method, title, message } => {
                self.merge_now(pull, head, *method, title, message).await
            }
            MergeRequest::Queue => self.enqueue(pull, head).await,
        }
    }

    async fn merge_now(
        &self,
        pull: &Pull,
        head: &Oid,
        method: Strategy,
        title: &str,
        message: &str,
    ) -> Result<Merged> {
        let name = match method {
            Strategy::Rebase => "rebase",
            Strategy::Squash => "squash",
            Strategy::Merge => "merge",
        };
        // GitHub would write title and message itself, from texts that others wrote.
        let body = json!({
            "sha": head.as_str(), "merge_method": name, "commit_title": title, "commit_message": message,
        });
        let below = format!("/pulls/{}/merge", pull.number.0);
        let answer = self.send("PUT", &pull.repo, &below, &body).await?;
        match answer.status {
            200 => {
                let json = answer.json().unwrap_or_default();
                if json["merged"] == true {
                    return Ok(Merged::Done { commit: oid(&json, "sha").ok() });
                }
                self.why_not(pull, head, answer.message()).await
            }
            405 | 409 => self.why_not(pull, head, answer.message()).await,
            422 => Err(ForgeError::Refused(format!("{}: {}", pull.number, answer.message()))),
            status => Err(ForgeError::Away(format!("PUT merge: status {status} {}", answer.message()))),
        }
    }

    async fn enqueue(&self, pull: &Pull, head: &Oid) -> Result<Merged> {
        let variables = json!({"id": pull.id.as_str(), "head": head.as_str()});
        match self.graphql(ENQUEUE, variables, Purpose::Write).await {
            Ok(data) if data["enqueuePullRequest"]["mergeQueueEntry"].is_object() => Ok(Merged::Queued),
            Ok(_) => self.why_not(pull, head, "the queue gave no entry".to_owned()).await,
            Err(ForgeError::Refused(why)) if why.contains("already") && why.contains("queue") => {
                Ok(Merged::Queued)
            }
            Err(ForgeError::Refused(why)) => self.why_not(pull, head, why).await,
            Err(error) => Err(error),
        }
    }

    /// What a refusal means: merged before, another head, or not now.
    async fn why_not(&self, pull: &Pull, head: &Oid, why: String) -> Result<Merged> {
        let now = self.pull_by_number(&pull.repo, pull.number).await?;
        match now.state {
            // A person may have merged another head than the one that was asked for.
            PullState::Merged { .. } if now.head.commit != *head => Err(ForgeError::Stale),
            PullState::Merged { commit } => Ok(Merged::Done { commit }),
            _ if now.head.commit != *head => Err(ForgeError::Stale),
            _ => Ok(Merged::NotNow { why }),
        }
    }
}
