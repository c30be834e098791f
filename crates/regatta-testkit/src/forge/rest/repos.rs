//! Repositories: themselves, rules, permissions, checks and jobs.

use serde_json::json;

use super::Scene;
use crate::forge::call::not_found;
use crate::http::Reply;

/// Answers a call below a repository; none if it is about something else.
pub(super) fn answer(scene: &mut Scene, rest: &[&str]) -> Option<Reply> {
    let repo = &scene.state.repos[scene.at];
    let view = scene.view();
    Some(match (scene.call.method.as_str(), rest) {
        ("GET", []) => Reply::json(200, &view.whole_repo(repo)),
        ("GET", ["collaborators", login, "permission"]) => {
            let Some(permission) = repo.permission(login).filter(|_| scene.state.users.contains_key(*login))
            else {
                return Some(not_found());
            };
            // The old word knows four roles only.
            let old = match permission.name() {
                "maintain" => "write",
                "triage" => "read",
                name => name,
            };
            let user = super::super::shapes::with(view.user(login), json!({"role_name": permission.name()}));
            Reply::json(200, &json!({"permission": old, "role_name": permission.name(), "user": user}))
        }
        _ => return None,
    })
}
