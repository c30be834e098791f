//! Pull requests: opened, listed, changed, merged.

use serde_json::{Value, json};

use super::Scene;
use crate::forge::call::{invalid, not_found, refusal};
use crate::forge::merging::{Refused, Wish};
use crate::forge::proposing::{NotOpened, Proposal};
use crate::forge::state::{Happened, Issue, Method, Permission, Pull};
use crate::http::Reply;

/// Answers a call below a repository; none if it is about something else.
pub(super) fn answer(scene: &mut Scene, rest: &[&str]) -> Option<Reply> {
    let number = |text: &str| text.parse::<u64>().ok();
    let result = match (scene.call.method.as_str(), rest) {
        ("GET", ["pulls"]) => Ok(list(scene)),
        ("POST", ["pulls"]) => open(scene),
        ("GET", ["pulls", n]) => found(scene, number(n)).map(|n| whole(scene, n, 200)),
        ("PATCH", ["pulls", n]) => found(scene, number(n)).and_then(|n| change(scene, n)),
        ("PUT", ["pulls", n, "merge"]) => found(scene, number(n)).map(|n| merge(scene, n)),
        ("POST", ["pulls", n, "requested_reviewers"]) => found(scene, number(n)).and_then(|n| ask(scene, n)),
        _ => return None,
    };
    Some(result.unwrap_or_else(|refused| refused))
}

fn found(scene: &Scene, number: Option<u64>) -> Result<u64, Reply> {
    let known = |n: &u64| scene.state.repos[scene.at].pull(*n).is_some();
    number.filter(known).ok_or_else(not_found)
}

/// A pull request for itself; asking makes the server compare it with its base.
fn whole(scene: &mut Scene, number: u64, status: u16) -> Reply {
    let mergeable = scene.state.look(scene.at, number);
    let repo = &scene.state.repos[scene.at];
    let (issue, pull) = repo.pull(number).expect("the caller has found it");
    Reply::json(status, &scene.view().whole_pull(repo, issue, pull, mergeable))
}

fn list(scene: &Scene) -> Reply {
    let (call, repo) = (scene.call, &scene.state.repos[scene.at]);
    let state = call.asked("state").unwrap_or("open");
    let label = |pull: &Pull| {
        let owner = scene.state.by_id(pull.head_repo).map_or("ghost", |at| &scene.state.repos[at].owner);
        format!("{owner}:{}", pull.head)
    };
    let fits = |(issue, pull): &(&Issue, &Pull)| {
        let open = if issue.is_open { "open" } else { "closed" };
        (state == "all" || state == open)
            // Without an owner GitHub ignores the branch.
            && call.asked("head").filter(|head| head.contains(':')).is_none_or(|head| head == label(pull))
            && call.asked("base").is_none_or(|base| base == pull.base)
    };
    let mut found: Vec<(&Issue, &Pull)> = repo.pulls().filter(fits).collect();
    match call.asked("sort") {
        Some("updated") => found.sort_by_key(|(issue, _)| issue.updated),
        _ => found.sort_by_key(|(issue, _)| issue.number),
    }
    if call.asked("direction") != Some("asc") {
        found.reverse();
    }
    call.page(found.into_iter().map(|(issue, pull)| scene.view().pull(repo, issue, pull)).collect())
}

fn open(scene: &mut Scene) -> Result<Reply, Reply> {
    let call = scene.call;
    let (Some(title), Some(head), Some(base)) = (call.text("title"), call.text("head"), call.text("base"))
    else {
        return Err(refusal(422, "Invalid request.\n\n\"title\", \"head\", \"base\" weren't supplied."));
    };
    let proposal = Proposal {
        author: &call.user,
        title,
        body: call.text("body").unwrap_or_default(),
        head,
        head_repo: call.text("head_repo"),
        base,
        draft: call.body["draft"].as_bool().unwrap_or(false),
    };
    let opened = scene.state.propose(scene.at, &proposal);
    let number = opened.map_err(|refused| match refused {
        NotOpened::Missing(field) => missing(field),
        NotOpened::Because(words) => invalid("PullRequest", &words),
    })?;
    Ok(whole(scene, number, 201))
}

fn missing(field: &str) -> Reply {
    let body = json!({
        "message": "Validation Failed",
        "errors": [{"resource": "PullRequest", "field": field, "code": "invalid"}],
        "documentation_url": "https://docs.github.com/rest",
        "status": "422",
    });
    Reply::json(422, &body)
}

fn change(scene: &mut Scene, number: u64) -> Result<Reply, Reply> {
    let (call, at) = (scene.call, scene.at);
    let author = scene.state.repos[at].issues[&number].author.clone();
    if author != call.user {
        scene.demand(Permission::Write)?;
    }
    let moment = scene.state.moment();
    if let Some(base) = call.text("base") {
        if scene.state.repos[at].bare().tip(base).is_none() {
            return Err(missing("base"));
        }
        scene.state.retarget(at, number, moment, &call.user, base);
    }
    scene.state.rewrite(at, number, moment, &call.user, call.text("title"), call.text("body"));
    match call.text("state") {
        Some("closed") => scene.state.close(at, number, moment, &call.user, None),
        Some("open") => scene
            .state
            .reopen(at, number, moment, &call.user)
            .map_err(|words| invalid("PullRequest", words))?,
        _ => {}
    }
    scene.state.follow(&call.user);
    Ok(whole(scene, number, 200))
}

fn merge(scene: &mut Scene, number: u64) -> Reply {
    let call = scene.call;
    let method = match call.text("merge_method").unwrap_or("merge") {
        "merge" => Method::Merge,
        "squash" => Method::Squash,
        "rebase" => Method::Rebase,
        other => return invalid("PullRequest", &format!("{other} is not a merge method")),
    };
    let wish = Wish {
        by: &call.user,
        method,
        sha: call.text("sha"),
        title: call.text("commit_title"),
        message: call.text("commit_message"),
    };
    match scene.state.merge(scene.at, number, &wish) {
        Ok(sha) => {
            let body = json!({"sha": sha, "merged": true, "message": "Pull Request successfully merged"});
            Reply::json(200, &body)
        }
        Err(Refused(status, words)) => refusal(status, &words),
    }
}

fn ask(scene: &mut Scene, number: u64) -> Result<Reply, Reply> {
    scene.demand(Permission::Write)?;
    let (call, at) = (scene.call, scene.at);
    let moment = scene.state.moment();
    for login in call.names("reviewers") {
        let repo = &scene.state.repos[at];
        let author = &repo.issues[&number].author;
        if login == *author {
            return Err(refusal(422, "Review cannot be requested from pull request author."));
        }
        if !scene.state.users.contains_key(&login)
            || !repo.members.contains_key(&login) && repo.owner != login
        {
            let words = "Reviews may only be requested from collaborators. One or more of the users or teams you specified is not a collaborator of the repository.";
            return Err(refusal(422, words));
        }
        let pull = scene.state.repos[at].issues.get_mut(&number).expect("it was found").pull_mut();
        if !pull.reviewers.contains(&login) {
            pull.reviewers.push(login.clone());
            scene.state.note(at, number, moment, &call.user, Happened::ReviewRequested(login));
        }
    }
    let repo = &scene.state.repos[at];
    let (issue, pull) = repo.pull(number).expect("it was found");
    let shown: Value = scene.view().pull(repo, issue, pull);
    Ok(Reply::json(201, &shown))
}
