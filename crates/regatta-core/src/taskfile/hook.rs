//! The webhooks of a parallel-orchestra plan: `on_complete` and `on_failure`.
//!
//! A plan may come from anywhere, so its webhooks reach only the public internet, over `https`. An address in the
//! user's own network is called only if `regatta.yaml` names it under `notify` with `allow_private: true`.

use serde_json::{Value, json};

use crate::config::fields::Fields;
use crate::config::{Config, Sink};
use crate::diagnostic::Report;
use crate::id::TaskId;
use crate::notify::{WebhookUrl, is_public};
use crate::report;
use crate::state::StateName;

use super::draft::{Draft, SourcePlace};

/// When a webhook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookEvent {
    /// At the end of every run.
    Complete,
    /// At the end of a run with a failed task.
    Failure,
}

/// A webhook to call when the tasks of a plan have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// When it is called.
    pub event: HookEvent,
    /// The address to call.
    pub url: WebhookUrl,
    /// Whether the address may be in the user's own network.
    pub allow_private: bool,
    plan: String,
    tasks: Vec<TaskId>,
}

impl Hook {
    /// The key in the plan.
    pub fn key(&self) -> &'static str {
        match self.event {
            HookEvent::Complete => "on_complete",
            HookEvent::Failure => "on_failure",
        }
    }

    /// The body to send at the end of a run that took `seconds`; `None` if this webhook is not called for such an end.
    pub fn payload(&self, report: &report::Report, seconds: f64) -> Option<Value> {
        let own = report.tasks.iter().filter(|task| self.tasks.contains(&task.id));
        let (mut total, mut succeeded, mut skipped) = (0, 0, 0);
        for task in own {
            total += 1;
            match task.state {
                state if state.is_met() => succeeded += 1,
                StateName::Skipped => skipped += 1,
                _ => {}
            }
        }
        let failed = total - succeeded - skipped;
        let event = match self.event {
            HookEvent::Complete => "complete",
            HookEvent::Failure if failed > 0 => "failure",
            HookEvent::Failure => return None,
        };
        Some(json!({
            "event": event,
            "manifest": self.plan,
            "total": total,
            "succeeded": succeeded,
            "failed": failed,
            "skipped": skipped,
            "duration_sec": (seconds * 10.0).round() / 10.0,
        }))
    }
}

/// Parses both webhooks of a plan.
pub(super) fn read(
    fields: &Fields,
    plan: &str,
    drafts: &[Draft],
    place: SourcePlace<'_>,
    report: &mut Report,
) -> Vec<Hook> {
    let tasks: Vec<TaskId> =
        drafts.iter().filter_map(|draft| draft.id.as_ref()).map(|id| id.value.clone()).collect();
    let mut hooks = Vec::new();
    for (name, event) in [("on_complete", HookEvent::Complete), ("on_failure", HookEvent::Failure)] {
        let (Some(field), Some(section)) = (fields.field(name), fields.section(name)) else { continue };
        let Some(text) = section.text("webhook_url") else {
            if section.lacks("webhook_url") {
                report.error(field.key_pos, name, format!("`{name}` has no `webhook_url`"));
            }
            continue;
        };
        let (pos, path) = (section.pos_of("webhook_url"), section.path_of("webhook_url"));
        let url = match WebhookUrl::parse(text) {
            Ok(url) => url,
            Err(why) => {
                report.error(pos, &path, format!("the address in `webhook_url` {why}"));
                continue;
            }
        };
        let allow_private = is_allowed(place.settings.config, &url);
        if !allow_private && (!url.is_https() || url.ip().is_some_and(|ip| !is_public(ip))) {
            let message = "`webhook_url` must be a public https address";
            report.error(pos, &path, message).hint = Some(
                "for a machine of your own, name the same address in regatta.yaml: notify: [{ on: [failed], webhook: \"…\", allow_private: true }]"
                    .into(),
            );
            continue;
        }
        hooks.push(Hook { event, url, allow_private, plan: plan.to_owned(), tasks: tasks.clone() });
    }
    hooks
}

/// Whether the user's own configuration allows this address wherever it leads.
fn is_allowed(config: &Config, url: &WebhookUrl) -> bool {
    config
        .notify
        .iter()
        .any(|row| matches!(&row.sink, Sink::Webhook { url: own, allow_private: true } if own == url))
}
