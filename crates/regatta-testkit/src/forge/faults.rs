//! Trouble that a test scripts: which request meets it, and what it is.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use serde_json::json;

use super::call::refusal;
use super::state::{Moment, State};
use crate::daemon::DEADLINE;
use crate::http::Reply;

/// What happens to a request instead of, or besides, its answer.
#[derive(Clone, Debug)]
pub enum Fault {
    /// An answer with this status and GitHub's usual words for it. The act is not done.
    Status(u16),
    /// 422 with this reason. The act is not done.
    Invalid(String),
    /// 403 for too many requests in a short time; the client is asked to wait that many seconds.
    Secondary {
        /// Seconds.
        retry_after: u64,
    },
    /// 429 with the same request.
    TooMany {
        /// Seconds.
        retry_after: u64,
    },
    /// 403 for a used up quota, which is filled again after that many seconds.
    Primary {
        /// Seconds.
        reset_in: u64,
    },
    /// 403 that names the page on which to allow the token for an organisation.
    Sso,
    /// No answer until the client leaves. The act is not done.
    Hang,
    /// The act is done, half of the answer is sent, and the connection ends.
    Cut,
    /// The act is done, and the connection ends without an answer.
    Lost,
    /// The connection ends without an act and without an answer.
    Refuse,
    /// 301 to this address.
    Moved(String),
    /// 307 to this address.
    Redirected(String),
    /// A page instead of JSON.
    Html(u16),
    /// The request waits at the gate; then it is done and answered as ever. See [`Forge::hold`](super::Forge::hold).
    Hold(Gate),
    /// The answer that the request would have got when the fault was scripted: lists lag behind.
    Lag,
}

/// A place where a request waits until the test lets it go.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<Passage>, Condvar)>);

#[derive(Debug, Default)]
struct Passage {
    arrived: bool,
    open: bool,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, Passage> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, what: &str, over: impl Fn(&Passage) -> bool) {
        let waited = self.0.1.wait_timeout_while(self.lock(), DEADLINE, |passage| !over(passage));
        let (passage, _) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(over(&passage), "{what}");
    }

    /// The request is here, and waits.
    pub(super) fn pass(&self) {
        self.lock().arrived = true;
        self.0.1.notify_all();
        self.wait("the gate was not opened", |passage| passage.open);
    }

    /// Waits until the request has come.
    #[track_caller]
    pub fn arrived(&self) {
        self.wait("no request has come to the gate", |passage| passage.arrived);
    }

    /// Lets it go.
    pub fn open(&self) {
        self.lock().open = true;
        self.0.1.notify_all();
    }
}

/// Faults that wait for their requests.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Scripted>);

#[derive(Debug)]
struct Scripted {
    pattern: String,
    fault: Fault,
    left: usize,
    then: Option<Box<State>>,
}

/// A fault that a request meets, with the state of the time when it was scripted.
#[derive(Debug)]
pub(super) struct Met {
    pub(super) fault: Fault,
    pub(super) then: Option<Box<State>>,
}

impl Faults {
    pub(super) fn add(&mut self, pattern: &str, fault: Fault, times: usize, state: &State) {
        let then = matches!(fault, Fault::Lag).then(|| Box::new(state.clone()));
        self.0.push(Scripted { pattern: pattern.to_owned(), fault, left: times, then });
    }

    /// Takes the first fault that fits the request: `POST /repos/acme/shop/pulls`, `POST /graphql Watch`.
    pub(super) fn take(&mut self, line: &str) -> Option<Met> {
        let met = self.0.iter_mut().find(|scripted| scripted.left > 0 && fits(&scripted.pattern, line))?;
        met.left -= 1;
        Some(Met { fault: met.fault.clone(), then: met.then.clone() })
    }

    /// Patterns of faults that nobody has met yet.
    pub(super) fn left(&self) -> Vec<String> {
        self.0.iter().filter(|scripted| scripted.left > 0).map(|scripted| scripted.pattern.clone()).collect()
    }
}

/// Whether a pattern in which `*` stands for anything fits.
fn fits(pattern: &str, line: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == line,
        Some((before, after)) => line.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| fits(after, &rest[at..]))
        }),
    }
}

impl Fault {
    /// The answer, if it is one that needs no act.
    pub(super) fn reply(&self) -> Option<Reply> {
        let limited = |status: u16, seconds: &u64| {
            let words =
                "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
            refusal(status, words).header("retry-after", seconds)
        };
        let moved = |status: u16, words: &str, address: &str| {
            let body = json!({"message": words, "url": address, "documentation_url": "https://docs.github.com/rest"});
            Reply::json(status, &body).header("location", address)
        };
        Some(match self {
            Self::Status(status) => refusal(*status, words(*status)),
            Self::Invalid(reason) => super::call::invalid("PullRequest", reason),
            Self::Secondary { retry_after } => limited(403, retry_after),
            Self::TooMany { retry_after } => limited(429, retry_after),
            Self::Primary { reset_in } => {
                let reset = Moment::now().0 + i64::try_from(*reset_in).unwrap_or(i64::MAX);
                refusal(403, "API rate limit exceeded for user ID 1.")
                    .header("x-ratelimit-limit", 5000)
                    .header("x-ratelimit-remaining", 0)
                    .header("x-ratelimit-used", 5000)
                    .header("x-ratelimit-reset", reset)
            }
            Self::Sso => refusal(403, "Resource protected by organization SAML enforcement. You must grant your OAuth token access to this organization.")
                .header("x-github-sso", "required; url=https://github.com/orgs/acme/sso?authorization_request=1"),
            Self::Moved(address) => moved(301, "Moved Permanently", address),
            Self::Redirected(address) => moved(307, "Temporary Redirect", address),
            Self::Html(status) => {
                let page = "<!DOCTYPE html><html><body><h1>Unicorn!</h1></body></html>";
                Reply::of(*status, "text/html; charset=utf-8", page)
            }
            Self::Hang | Self::Cut | Self::Lost | Self::Refuse | Self::Hold(_) | Self::Lag => return None,
        })
    }
}

fn words(status: u16) -> &'static str {
    match status {
        401 => "Bad credentials",
        403 => "Resource not accessible by personal access token",
        404 => "Not Found",
        405 => "Pull Request is not mergeable",
        409 => "Head branch was modified. Review and try the merge again.",
        410 => "Issues are disabled for this repo",
        422 => "Validation Failed",
        500.. => "Server Error",
        _ => "Trouble",
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, line, expected) in [
            ("GET /user", "GET /user", true),
            ("GET /user", "GET /users", false),
            ("POST /repos/*/pulls", "POST /repos/acme/shop/pulls", true),
            ("POST /repos/*/pulls", "POST /repos/acme/shop/pulls/1", false),
            ("* /repos/*/pulls/*", "PUT /repos/a/b/pulls/1/merge", true),
            ("POST /graphql Watch", "POST /graphql Watch", true),
            ("*", "anything", true),
        ] {
            assert_eq!(fits(pattern, line), expected, "{pattern} {line}");
        }
    }
}
