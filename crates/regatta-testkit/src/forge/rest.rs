//! The routes of the REST API.

mod issues;
mod pulls;
mod repos;

use serde_json::json;

use super::call::{Call, not_found, refusal};
use super::shapes::View;
use super::state::{Permission, State};
use crate::http::Reply;

/// A call below a repository.
pub(super) struct Scene<'a> {
    pub(super) state: &'a mut State,
    pub(super) call: &'a Call,
    /// The repository's place in the state.
    pub(super) at: usize,
}

impl Scene<'_> {
    fn view(&self) -> View<'_> {
        View { state: self.state, site: &self.call.site, user: &self.call.user }
    }

    /// Refuses users who may do less.
    fn demand(&self, wanted: Permission) -> Result<(), Reply> {
        let repo = &self.state.repos[self.at];
        if repo.permission(&self.call.user).is_some_and(|has| has >= wanted) {
            return Ok(());
        }
        Err(refusal(403, "Resource not accessible by personal access token"))
    }
}

/// Answers a call; none if there is no such route.
pub(super) fn answer(state: &mut State, call: &Call) -> Option<Reply> {
    let parts = call.parts();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let view = View { state, site: &call.site, user: &call.user };
    match (call.method.as_str(), &parts[..]) {
        ("GET", []) => {
            Some(Reply::json(200, &json!({"current_user_url": format!("{}/user", call.site.api)})))
        }
        ("GET", ["user"]) => Some(Reply::json(200, &view.whole_user(&call.user))),
        ("GET", ["users", login]) if state.users.contains_key(*login) => {
            Some(Reply::json(200, &view.whole_user(login)))
        }
        (_, ["repositories", id, rest @ ..]) => {
            let Some(at) = id.parse().ok().and_then(|id| state.by_id(id)) else { return Some(not_found()) };
            repository(state, call, at, rest)
        }
        (_, ["repos", owner, name, rest @ ..]) => {
            let full_name = format!("{owner}/{name}");
            match state.position(&full_name) {
                Some(at) => repository(state, call, at, rest),
                None => Some(moved(state, call, &full_name, rest)),
            }
        }
        _ => None,
    }
}

fn repository(state: &mut State, call: &Call, at: usize, rest: &[&str]) -> Option<Reply> {
    if state.repos[at].permission(&call.user).is_none() {
        return Some(not_found());
    }
    let mut scene = Scene { state, call, at };
    repos::answer(&mut scene, rest)
        .or_else(|| pulls::answer(&mut scene, rest))
        .or_else(|| issues::answer(&mut scene, rest))
}

/// A repository that had this name once: reads are sent to its number, acts too, but in a way that few clients follow.
fn moved(state: &State, call: &Call, full_name: &str, rest: &[&str]) -> Reply {
    let had = |former: &String| former.eq_ignore_ascii_case(full_name);
    let Some(repo) = state.repos.iter().find(|repo| repo.former.iter().any(had)) else { return not_found() };
    let below: String = rest.iter().map(|part| format!("/{}", super::call::encoded(part))).collect();
    let query: Vec<String> = call
        .query
        .iter()
        .map(|(name, value)| format!("{}={}", super::call::encoded(name), super::call::encoded(value)))
        .collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    let address = format!("{}/repositories/{}{below}{query}", call.site.api, repo.id);
    let (status, words) = match call.method.as_str() {
        "GET" | "HEAD" => (301, "Moved Permanently"),
        _ => (307, "Temporary Redirect"),
    };
    let body = json!({
        "message": words, "url": address,
        "documentation_url": "https://docs.github.com/rest/guides/best-practices-for-using-the-rest-api#follow-redirects",
    });
    Reply::json(status, &body).header("location", address)
}
