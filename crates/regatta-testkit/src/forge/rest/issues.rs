//! Issues: listed, opened, changed, labelled, linked; and the comments below them.

use serde_json::Value;

use super::Scene;
use crate::forge::call::{invalid, not_found, refusal};
use crate::forge::state::{Comment, Happened, Issue, Moment, Permission};
use crate::http::Reply;

/// Answers a call below a repository; none if it is about something else.
pub(super) fn answer(scene: &mut Scene, rest: &[&str]) -> Option<Reply> {
    let number = |text: &str| text.parse::<u64>().ok();
    let is_off = matches!(rest, ["issues", ..]) && !scene.state.repos[scene.at].has_issues;
    let result = match (scene.call.method.as_str(), rest) {
        (_, ["issues"]) if is_off => Err(refusal(410, "Issues has been disabled in this repository.")),
        ("GET", ["issues"]) => list(scene),
        ("POST", ["issues"]) => open(scene),
        ("PATCH", ["issues", "comments", id]) => edit_comment(scene, number(id)),
        ("GET", ["issues", "comments", id]) => comment_by_id(scene, number(id)),
        ("GET", ["issues", n]) => found(scene, number(n)).map(|n| whole(scene, n, 200)),
        ("PATCH", ["issues", n]) => found(scene, number(n)).and_then(|n| change(scene, n)),
        ("GET", ["issues", n, "comments"]) => found(scene, number(n)).map(|n| comments(scene, n)),
        ("POST", ["issues", n, "comments"]) => found(scene, number(n)).and_then(|n| comment(scene, n)),
        ("GET", ["issues", n, "labels"]) => found(scene, number(n)).map(|n| labels(scene, n)),
        ("POST", ["issues", n, "labels"]) => found(scene, number(n)).and_then(|n| label(scene, n)),
        ("DELETE", ["issues", n, "labels", name]) => {
            found(scene, number(n)).and_then(|n| unlabel(scene, n, name))
        }
        ("POST", ["issues", n, "assignees"]) => found(scene, number(n)).and_then(|n| assign(scene, n)),
        ("GET", ["issues", n, "sub_issues"]) => found(scene, number(n)).map(|n| linked(scene, n, Link::Sub)),
        ("POST", ["issues", n, "sub_issues"]) => {
            found(scene, number(n)).and_then(|n| link(scene, n, Link::Sub))
        }
        ("GET", ["issues", n, "dependencies", "blocked_by"]) => {
            found(scene, number(n)).map(|n| linked(scene, n, Link::BlockedBy))
        }
        ("POST", ["issues", n, "dependencies", "blocked_by"]) => {
            found(scene, number(n)).and_then(|n| link(scene, n, Link::BlockedBy))
        }
        ("GET", ["labels", name]) => {
            let repo = &scene.state.repos[scene.at];
            let is_there = repo.labels.contains(*name);
            is_there.then(|| Reply::json(200, &scene.view().label(repo, name))).ok_or_else(not_found)
        }
        _ => return None,
    };
    Some(result.unwrap_or_else(|refused| refused))
}

/// How two issues are linked.
#[derive(Clone, Copy)]
enum Link {
    Sub,
    BlockedBy,
}

impl Link {
    fn ids(self, issue: &mut Issue) -> &mut Vec<u64> {
        match self {
            Self::Sub => &mut issue.sub_issues,
            Self::BlockedBy => &mut issue.blocked_by,
        }
    }
}

fn found(scene: &Scene, number: Option<u64>) -> Result<u64, Reply> {
    let known = |n: &u64| scene.state.repos[scene.at].issues.contains_key(n);
    number.filter(known).ok_or_else(not_found)
}

fn whole(scene: &Scene, number: u64, status: u16) -> Reply {
    let repo = &scene.state.repos[scene.at];
    Reply::json(status, &scene.view().issue(repo, &repo.issues[&number]))
}

fn since(scene: &Scene) -> Result<Option<Moment>, Reply> {
    let Some(text) = scene.call.asked("since") else { return Ok(None) };
    let read = Moment::read(text).ok_or_else(|| invalid("Issue", &format!("{text} is not a valid time")))?;
    Ok(Some(read))
}

fn list(scene: &Scene) -> Result<Reply, Reply> {
    let (call, repo) = (scene.call, &scene.state.repos[scene.at]);
    let state = call.asked("state").unwrap_or("open");
    let labels: Vec<&str> =
        call.asked("labels").unwrap_or_default().split(',').filter(|name| !name.is_empty()).collect();
    let since = since(scene)?;
    let fits = |issue: &&Issue| {
        let is = if issue.is_open { "open" } else { "closed" };
        (state == "all" || state == is)
            && labels.iter().all(|name| issue.labels.iter().any(|known| known.eq_ignore_ascii_case(name)))
            && since.is_none_or(|since| issue.updated >= since)
            && call.asked("creator").is_none_or(|login| issue.author == login)
            && match call.asked("assignee") {
                None | Some("*") => true,
                Some("none") => issue.assignees.is_empty(),
                Some(login) => issue.assignees.iter().any(|known| known == login),
            }
    };
    // Pull requests are issues too; the client tells them apart by their field `pull_request`.
    let mut found: Vec<&Issue> = repo.issues.values().filter(fits).collect();
    match call.asked("sort") {
        Some("updated") => found.sort_by_key(|issue| (issue.updated, issue.number)),
        Some("comments") => found.sort_by_key(|issue| (issue.comments.len(), issue.number)),
        _ => found.sort_by_key(|issue| issue.number),
    }
    if call.asked("direction") != Some("asc") {
        found.reverse();
    }
    Ok(call.page(found.into_iter().map(|issue| scene.view().issue(repo, issue)).collect()))
}

fn open(scene: &mut Scene) -> Result<Reply, Reply> {
    let call = scene.call;
    let Some(title) = call.text("title").filter(|title| !title.trim().is_empty()) else {
        return Err(invalid("Issue", "title can't be blank"));
    };
    let number = scene.state.open_issue(scene.at, &call.user, title, call.text("body").unwrap_or_default());
    let moment = scene.state.moment();
    // GitHub drops labels and assignees of users who may not set them.
    if scene.demand(Permission::Triage).is_ok() {
        for name in call.names("labels") {
            scene.state.label(scene.at, number, moment, &call.user, &name);
        }
        assign_all(scene, number, moment);
    }
    Ok(whole(scene, number, 201))
}

fn assign_all(scene: &mut Scene, number: u64, moment: Moment) {
    for login in scene.call.names("assignees") {
        let repo = &mut scene.state.repos[scene.at];
        let may = repo.members.contains_key(&login);
        let issue = repo.issues.get_mut(&number).expect("the caller has found it");
        if may && !issue.assignees.contains(&login) {
            issue.assignees.push(login.clone());
            scene.state.note(scene.at, number, moment, &scene.call.user, Happened::Assigned(login));
        }
    }
}

/// The author may change text and state; others need the role.
fn demand_author(scene: &Scene, author: &str) -> Result<(), Reply> {
    if author == scene.call.user { Ok(()) } else { scene.demand(Permission::Triage) }
}

fn change(scene: &mut Scene, number: u64) -> Result<Reply, Reply> {
    let (call, at) = (scene.call, scene.at);
    demand_author(scene, &scene.state.repos[at].issues[&number].author)?;
    let moment = scene.state.moment();
    scene.state.rewrite(at, number, moment, &call.user, call.text("title"), call.text("body"));
    let is_pull = scene.state.repos[at].issues[&number].pull.is_some();
    match call.text("state") {
        Some("closed") => {
            let reason = call.text("state_reason").unwrap_or("completed");
            scene.state.close(at, number, moment, &call.user, (!is_pull).then_some(reason));
        }
        Some("open") => {
            scene.state.reopen(at, number, moment, &call.user).map_err(|words| invalid("Issue", words))?;
        }
        _ => {}
    }
    if call.body["labels"].is_array() {
        scene.demand(Permission::Triage)?;
        let wanted = call.names("labels");
        let gone: Vec<String> = scene.state.repos[at].issues[&number]
            .labels
            .iter()
            .filter(|known| !wanted.contains(known))
            .cloned()
            .collect();
        gone.iter().for_each(|name| remove_label(scene, number, moment, name));
        wanted.iter().for_each(|name| scene.state.label(at, number, moment, &call.user, name));
    }
    assign_all(scene, number, moment);
    Ok(whole(scene, number, 200))
}

fn remove_label(scene: &mut Scene, number: u64, moment: Moment, name: &str) {
    let issue = scene.state.repos[scene.at].issues.get_mut(&number).expect("the caller has found it");
    issue.labels.retain(|known| known != name);
    scene.state.note(scene.at, number, moment, &scene.call.user, Happened::Unlabeled(name.to_owned()));
}

fn comments(scene: &Scene, number: u64) -> Reply {
    let repo = &scene.state.repos[scene.at];
    let issue = &repo.issues[&number];
    let since = match since(scene) {
        Ok(since) => since,
        Err(refused) => return refused,
    };
    let shown = issue.comments.iter().filter(|comment| since.is_none_or(|since| comment.updated >= since));
    scene.call.page(shown.map(|comment| scene.view().comment(repo, issue, comment)).collect())
}

fn body_of(scene: &Scene) -> Result<String, Reply> {
    let body = scene.call.text("body").filter(|body| !body.trim().is_empty());
    let body = body.ok_or_else(|| invalid("IssueComment", "body can't be blank"))?;
    if body.chars().count() > 65_536 {
        return Err(invalid("IssueComment", "body is too long (maximum is 65536 characters)"));
    }
    Ok(body.to_owned())
}

fn comment(scene: &mut Scene, number: u64) -> Result<Reply, Reply> {
    let body = body_of(scene)?;
    if scene.state.repos[scene.at].issues[&number].locked {
        scene.demand(Permission::Write)?;
    }
    let moment = scene.state.moment();
    let id = scene.state.comment(scene.at, number, moment, &scene.call.user, &body);
    shown_comment(scene, id, 201)
}

fn at_comment(scene: &Scene, id: u64) -> Option<(u64, usize)> {
    scene.state.repos[scene.at].issues.values().find_map(|issue| {
        let at = issue.comments.iter().position(|comment| comment.id == id)?;
        Some((issue.number, at))
    })
}

fn shown_comment(scene: &Scene, id: u64, status: u16) -> Result<Reply, Reply> {
    let (number, at) = at_comment(scene, id).ok_or_else(not_found)?;
    let repo = &scene.state.repos[scene.at];
    let issue = &repo.issues[&number];
    Ok(Reply::json(status, &scene.view().comment(repo, issue, &issue.comments[at])))
}

fn comment_by_id(scene: &Scene, id: Option<u64>) -> Result<Reply, Reply> {
    shown_comment(scene, id.ok_or_else(not_found)?, 200)
}

fn edit_comment(scene: &mut Scene, id: Option<u64>) -> Result<Reply, Reply> {
    let id = id.ok_or_else(not_found)?;
    let (number, at) = at_comment(scene, id).ok_or_else(not_found)?;
    let body = body_of(scene)?;
    let author = scene.state.repos[scene.at].issues[&number].comments[at].author.clone();
    if author != scene.call.user {
        scene.demand(Permission::Write)?;
    }
    let moment = scene.state.moment();
    let issue = scene.state.repos[scene.at].issues.get_mut(&number).expect("it was found");
    issue.updated = moment;
    let comment: &mut Comment = &mut issue.comments[at];
    comment.edit(moment, &scene.call.user, &body);
    shown_comment(scene, id, 200)
}

fn labels(scene: &Scene, number: u64) -> Reply {
    let repo = &scene.state.repos[scene.at];
    let labels = repo.issues[&number].labels.iter();
    Reply::json(200, &Value::Array(labels.map(|name| scene.view().label(repo, name)).collect()))
}

fn label(scene: &mut Scene, number: u64) -> Result<Reply, Reply> {
    scene.demand(Permission::Triage)?;
    let moment = scene.state.moment();
    for name in scene.call.names("labels") {
        scene.state.label(scene.at, number, moment, &scene.call.user, &name);
    }
    Ok(labels(scene, number))
}

fn unlabel(scene: &mut Scene, number: u64, name: &str) -> Result<Reply, Reply> {
    scene.demand(Permission::Triage)?;
    if !scene.state.repos[scene.at].issues[&number].labels.iter().any(|known| known == name) {
        return Err(refusal(404, "Label does not exist"));
    }
    let moment = scene.state.moment();
    remove_label(scene, number, moment, name);
    Ok(labels(scene, number))
}

fn assign(scene: &mut Scene, number: u64) -> Result<Reply, Reply> {
    scene.demand(Permission::Triage)?;
    let moment = scene.state.moment();
    assign_all(scene, number, moment);
    Ok(whole(scene, number, 201))
}

fn linked(scene: &mut Scene, number: u64, link: Link) -> Reply {
    let issue = scene.state.repos[scene.at].issues.get_mut(&number).expect("the caller has found it");
    let ids = link.ids(issue).clone();
    let shown = ids.iter().filter_map(|id| {
        let (at, number) = scene.state.find_issue(*id)?;
        let repo = &scene.state.repos[at];
        Some(scene.view().issue(repo, &repo.issues[&number]))
    });
    scene.call.page(shown.collect())
}

fn link(scene: &mut Scene, number: u64, link: Link) -> Result<Reply, Reply> {
    scene.demand(Permission::Triage)?;
    let field = match link {
        Link::Sub => "sub_issue_id",
        Link::BlockedBy => "issue_id",
    };
    let Some(other) = scene.call.body[field].as_u64() else {
        return Err(refusal(422, &format!("Invalid request.\n\n\"{field}\" wasn't supplied.")));
    };
    if scene.state.find_issue(other).is_none() {
        return Err(not_found());
    }
    let has_parent = |issue: &Issue| issue.sub_issues.contains(&other);
    let taken = scene.state.repos.iter().any(|repo| repo.issues.values().any(has_parent));
    if matches!(link, Link::Sub) && taken && scene.call.body["replace_parent"] != true {
        return Err(invalid(
            "Issue",
            "Issue may not contain duplicate sub-issues and Sub issue may only have one parent",
        ));
    }
    let moment = scene.state.moment();
    for repo in &mut scene.state.repos {
        if matches!(link, Link::Sub) {
            repo.issues.values_mut().for_each(|issue| issue.sub_issues.retain(|known| *known != other));
        }
    }
    let issue = scene.state.repos[scene.at].issues.get_mut(&number).expect("the caller has found it");
    if link.ids(issue).contains(&other) {
        return Err(invalid("Issue", "Dependency already exists"));
    }
    link.ids(issue).push(other);
    issue.updated = moment;
    Ok(whole(scene, number, 201))
}
