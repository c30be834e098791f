//! Issues and their comments.

use super::Scene;
use crate::http::Reply;

/// Answers a call below a repository; none if it is about something else.
pub(super) fn answer(_: &mut Scene, _: &[&str]) -> Option<Reply> {
    None
}
