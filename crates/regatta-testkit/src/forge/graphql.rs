//! GraphQL: the fields of GitHub's schema that clients here ask for, whatever queries they put them into.
//!
//! A query is read, the objects that it names are built as JSON, and what it selects of them is copied. A field that
//! the objects do not have is an error, as it is at GitHub, and a stranger to the test.

mod mutations;
mod nodes;
mod parse;
mod project;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::shapes::View;
use super::site::Site;
use super::state::{Moment, State};
pub(super) use parse::{Document, Field, Operation, Selection};
use project::Projection;

/// What a request asks for.
#[derive(Debug)]
pub(super) struct Asked {
    document: Document,
    pub(super) operation: Operation,
    variables: Value,
}

/// What is known of the caller's quota.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quota {
    pub(super) limit: u64,
    pub(super) remaining: u64,
    pub(super) reset: i64,
}

/// An answer: the body, and what was not known.
pub(super) struct Answered {
    pub(super) body: Value,
    pub(super) unknown: Vec<String>,
}

impl Asked {
    /// Reads the body of a request.
    pub(super) fn read(body: &Value) -> Result<Self, String> {
        let text =
            body["query"].as_str().ok_or("A query attribute must be specified and must be a string.")?;
        let document = Document::read(text)?;
        let operation = document.operation(body["operationName"].as_str())?.clone();
        let mut variables = Value::Object(operation.defaults.clone());
        for (name, value) in body["variables"].as_object().into_iter().flatten() {
            variables[name] = value.clone();
        }
        Ok(Self { document, operation, variables })
    }

    /// The operation's name, or its first field.
    pub(super) fn name(&self) -> String {
        let first =
            self.operation.selection.iter().find_map(Selection::field).map(|field| field.name.clone());
        self.operation.name.clone().or(first).unwrap_or_default()
    }

    /// Points by GitHub's rule: a hundredth of the requests that the connections stand for, at least one.
    pub(super) fn points(&self) -> u64 {
        (self.requests(&self.operation.selection, 1) / 100).max(1)
    }

    fn requests(&self, selection: &[Selection], times: u64) -> u64 {
        let projection = self.projection();
        let mut sum = 0;
        for part in selection {
            sum += match part {
                Selection::Field(field) => {
                    let args = projection.args(field);
                    let size = args["first"].as_u64().or_else(|| args["last"].as_u64());
                    let here = if size.is_some() { times } else { 0 };
                    here + self.requests(&field.selection, times * size.unwrap_or(1))
                }
                Selection::Inline { selection, .. } => self.requests(selection, times),
                Selection::Spread(name) => {
                    let fragment = self.document.fragments.get(name);
                    fragment.map_or(0, |(_, selection)| self.requests(selection, times))
                }
            };
        }
        sum
    }

    fn projection(&self) -> Projection<'_> {
        Projection { fragments: &self.document.fragments, variables: &self.variables }
    }

    /// Answers it.
    pub(super) fn answer(&self, state: &mut State, site: &Site, user: &str, quota: Quota) -> Answered {
        let (mut data, mut errors, mut unknown) = (Map::new(), Vec::new(), Vec::new());
        let projection = self.projection();
        for field in projection
            .fields(&self.operation.selection, if self.operation.mutates { "Mutation" } else { "Query" })
        {
            let points = self.points();
            let mut scene =
                Scene { state, site, user, quota, points, projection: &projection, errors: Vec::new() };
            let built = if self.operation.mutates { scene.mutate(field) } else { scene.root(field) };
            errors.append(&mut scene.errors);
            let value = built.and_then(|built| projection.value(&built, field, &field.name));
            let key = field.key().to_owned();
            match value {
                Ok(value) => drop(data.insert(key, value)),
                Err(Trouble::Unknown(what)) => {
                    errors.push(json!({"message": what, "path": [key]}));
                    unknown.push(what);
                }
                Err(Trouble::Refused(kind, what)) => {
                    errors.push(json!({"type": kind, "message": what, "path": [key]}));
                    data.insert(key, Value::Null);
                }
            }
        }
        let mut body = json!({"data": data});
        if !unknown.is_empty() {
            body = json!({"errors": errors});
        } else if !errors.is_empty() {
            body["errors"] = errors.into();
        }
        Answered { body, unknown }
    }
}

/// Why a field has no value.
#[derive(Debug)]
pub(super) enum Trouble {
    /// GitHub has no such field, or this server does not know it.
    Unknown(String),
    /// GitHub's kind of error and its words.
    Refused(&'static str, String),
}

/// One operation at work.
struct Scene<'a> {
    state: &'a mut State,
    site: &'a Site,
    user: &'a str,
    quota: Quota,
    points: u64,
    projection: &'a Projection<'a>,
    /// What could not be found beside what could.
    errors: Vec<Value>,
}

impl Scene<'_> {
    fn view(&self) -> View<'_> {
        View { state: self.state, site: self.site, user: self.user }
    }

    /// A field of the query itself.
    fn root(&mut self, field: &Field) -> Result<Value, Trouble> {
        let args = self.projection.args(field);
        match field.name.as_str() {
            "rateLimit" => Ok(json!({
                "__typename": "RateLimit", "limit": self.quota.limit, "cost": self.points, "nodeCount": 0,
                "remaining": self.quota.remaining, "used": self.quota.limit - self.quota.remaining,
                "resetAt": Moment(self.quota.reset).iso(),
            })),
            "viewer" => Ok(self.view().actor(self.user)),
            "node" => Ok(self.node(args["id"].as_str().unwrap_or_default(), &field.selection)?),
            "nodes" => {
                let ids: Vec<String> = args["ids"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|id| id.as_str().unwrap_or_default().to_owned())
                    .collect();
                if ids.len() > 100 {
                    let words =
                        format!("You may not provide more than 100 node ids; you provided {}.", ids.len());
                    return Err(Trouble::Refused("ARGUMENT_LIMIT", words));
                }
                // For an id that it does not know GitHub answers null, and says so in an error; the others are there.
                let mut nodes = Vec::new();
                for (at, id) in ids.iter().enumerate() {
                    nodes.push(match self.node(id, &field.selection) {
                        Ok(node) => node,
                        Err(Trouble::Refused(kind, words)) => {
                            self.errors
                                .push(json!({"type": kind, "message": words, "path": [field.key(), at]}));
                            Value::Null
                        }
                        Err(unknown) => return Err(unknown),
                    });
                }
                Ok(Value::Array(nodes))
            }
            "repository" => self.repository(&args, &field.selection),
            name => Err(Trouble::Unknown(format!("Field '{name}' doesn't exist on type 'Query'"))),
        }
    }

    fn repository(&mut self, args: &Value, selection: &[Selection]) -> Result<Value, Trouble> {
        let full_name = format!(
            "{}/{}",
            args["owner"].as_str().unwrap_or_default(),
            args["name"].as_str().unwrap_or_default()
        );
        let had = |former: &String| former.eq_ignore_ascii_case(&full_name);
        let renamed = || self.state.repos.iter().position(|repo| repo.former.iter().any(had));
        let at = self.state.position(&full_name).or_else(renamed);
        let at = at.filter(|at| self.state.repos[*at].permission(self.user).is_some());
        let Some(at) = at else {
            let words = format!("Could not resolve to a Repository with the name '{full_name}'.");
            return Err(Trouble::Refused("NOT_FOUND", words));
        };
        let mut whole = self.view().repository_node(&self.state.repos[at]);
        for field in self.projection.fields(selection, "Repository") {
            let args = self.projection.args(field);
            let number = args["number"].as_u64().unwrap_or_default();
            let wants_pull = matches!(field.name.as_str(), "pullRequest" | "issueOrPullRequest");
            let wants_issue = matches!(field.name.as_str(), "issue" | "issueOrPullRequest");
            if !wants_pull && !wants_issue {
                continue;
            }
            let found = self.state.repos[at].issues.get(&number);
            let fits = found.is_some_and(|issue| if issue.pull.is_some() { wants_pull } else { wants_issue });
            whole[field.key()] = match found.filter(|_| fits) {
                Some(issue) => {
                    let id = issue.node_id();
                    self.node(&id, &field.selection)?
                }
                None => Value::Null,
            };
            whole[&field.name] = whole[field.key()].clone();
        }
        Ok(whole)
    }

    /// An object by its id.
    fn node(&mut self, id: &str, selection: &[Selection]) -> Result<Value, Trouble> {
        let unresolved = || {
            Trouble::Refused(
                "NOT_FOUND",
                format!("Could not resolve to a node with the global id of '{id}'."),
            )
        };
        let (kind, number) = id.split_once('_').ok_or_else(unresolved)?;
        let number: u64 = number.parse().map_err(|_| unresolved())?;
        if kind == "R" {
            let at = self.state.by_id(number).ok_or_else(unresolved)?;
            return Ok(self.view().repository_node(&self.state.repos[at]));
        }
        let (at, number) = self.state.find_issue(number).ok_or_else(unresolved)?;
        if self.state.repos[at].permission(self.user).is_none() {
            return Err(unresolved());
        }
        let is_pull = self.state.repos[at].issues[&number].pull.is_some();
        if (kind == "PR") != is_pull {
            return Err(unresolved());
        }
        if !is_pull {
            let repo = &self.state.repos[at];
            return Ok(self.view().issue_node(repo, &repo.issues[&number]));
        }
        // Only a look at one of these makes the server compare head and base.
        let looked = ["mergeable", "mergeStateStatus", "canBeRebased"];
        let fields = self.projection.fields(selection, "PullRequest");
        let names: BTreeSet<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        let mergeable = looked.iter().any(|name| names.contains(name)).then(|| self.state.look(at, number));
        let repo = &self.state.repos[at];
        Ok(self.view().pull_node(repo, &repo.issues[&number], mergeable, &names))
    }
}
