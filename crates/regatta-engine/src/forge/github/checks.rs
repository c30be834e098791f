//! Logs of failed checks, and another try.

use regatta_core::forge::Slug;
use regatta_core::forge::pull::Check;
use regatta_core::forge::quota::Purpose;
use serde_json::json;

use super::{GitHub, repo_path};
use crate::forge::error::{ForgeError, Result};
use crate::forge::wire::Call;

/// The end of a log that is kept.
const END: usize = 256 * 1024;

impl GitHub {
    pub(super) async fn output_of(&self, repo: &Slug, check: &Check) -> Result<String> {
        let is_job = check.app.as_deref() == Some("github-actions");
        if let Some(job) = check.id.filter(|_| is_job) {
            let path = format!("{}/actions/jobs/{job}/logs", repo_path(repo));
            let answer = self.host.ask(&Call::get(path), Purpose::Asked).await;
            match answer {
                Ok(answer) if answer.status == 200 && !answer.body.is_empty() => {
                    let from = answer.body.len().saturating_sub(END);
                    return Ok(String::from_utf8_lossy(&answer.body[from..]).into_owned());
                }
                // Logs expire, and a job that never ran has none.
                Ok(_) | Err(ForgeError::Denied(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(check.summary.clone())
    }

    pub(super) async fn rerun_failed(&self, repo: &Slug, run: u64) -> Result<()> {
        let below = format!("/actions/runs/{run}/rerun-failed-jobs");
        let answer = self.send("POST", repo, &below, &json!({})).await?;
        match answer.status {
            201 => Ok(()),
            _ => Err(ForgeError::Refused(answer.message())),
        }
    }
}
