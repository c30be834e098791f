//! Attempts that only complete what an earlier one had finished.

use regatta_core::attempt::Attempt;
use regatta_core::failure::FailureClass;
use regatta_core::verdict::Statement;
use regatta_store::Reported;

use super::gather::Heard;
use super::{Worker, WorkerError};
use crate::agents::AgentEnd;
use crate::persist::until_answered;

impl Worker {
    /// What the agent had reported in the same conversation, if a limit or a failing server then kept it from ending
    /// and this attempt has only completed it. It has no reason to report twice.
    pub(super) async fn said_before_it_was_cut_short(
        &self,
        heard: &Heard,
    ) -> Result<Option<Statement>, WorkerError> {
        if heard.ending.end != AgentEnd::Success || self.claim.prompt.is_some() {
            return Ok(None);
        }
        let cut_short = |attempt: &&Attempt| {
            let outside =
                matches!(attempt.class, Some(FailureClass::RateLimited { .. } | FailureClass::Environment));
            outside && attempt.session.is_some() && attempt.session == self.record.session
        };
        for attempt in self.history.iter().rev().take_while(cut_short) {
            let reported =
                until_answered(|| self.ctx.services.store.reported(&self.claim.task, attempt.n)).await?;
            if reported != Reported::default() {
                return Ok(reported.statement.filter(|_| reported.stuck.is_none()));
            }
        }
        Ok(None)
    }
}
