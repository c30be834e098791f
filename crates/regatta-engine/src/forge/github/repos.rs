//! Repositories, rules and permissions.

use regatta_core::forge::quota::Purpose;
use regatta_core::forge::slug::encoded;
use regatta_core::forge::{Permission, Repository, Rules, Slug, Viewer};
use regatta_core::train::Strategy;
use serde_json::Value;

use super::json::{items, node, slug as slug_of, text, words};
use super::{GitHub, believe, believed, good, repo_path};
use crate::forge::error::{ForgeError, Result};
use crate::forge::values::Home;
use crate::forge::wire::Call;

impl GitHub {
    pub(super) async fn viewer(&self) -> Result<Viewer> {
        if let Some(viewer) = self.viewer.get() {
            return Ok(viewer.clone());
        }
        let user = self.get("user", Purpose::Asked).await?;
        let viewer = Viewer { login: text(&user, "login")?.to_owned() };
        Ok(self.viewer.get_or_init(|| viewer).clone())
    }

    /// Which repositories pull requests go to and come from, by their names of today.
    pub(super) async fn resolve_home(&self) -> Result<Home> {
        if let Some(home) = self.home.get() {
            return Ok(home.clone());
        }
        let head = self.find_repository(&self.names.head, None).await?;
        let base = match self.names.base.as_ref().or(head.parent.as_ref()) {
            Some(base) if !base.is_same(&head.slug) => self.find_repository(base, None).await?,
            _ => head.clone(),
        };
        let home = Home { base, head: head.slug };
        Ok(self.home.get_or_init(|| home).clone())
    }

    pub(super) async fn find_repository(&self, slug: &Slug, branch: Option<&str>) -> Result<Repository> {
        let found = self.get(&repo_path(slug), Purpose::Asked).await?;
        let may = &found["permissions"];
        let granted = [
            ("admin", Permission::Admin),
            ("maintain", Permission::Maintain),
            ("push", Permission::Write),
            ("triage", Permission::Triage),
            ("pull", Permission::Read),
        ];
        let permission =
            granted.into_iter().find(|(name, _)| may[name] == true).map(|(_, permission)| permission);
        let allowed = [
            ("allow_rebase_merge", Strategy::Rebase),
            ("allow_squash_merge", Strategy::Squash),
            ("allow_merge_commit", Strategy::Merge),
        ];
        // A person who may not push is not told which ways are allowed.
        let methods = allowed.into_iter().filter(|(name, _)| found[name] != false).map(|(_, method)| method);
        let mut repository = Repository {
            slug: slug_of(&found, "full_name")?,
            id: node(&found, "node_id")?,
            parent: found["parent"]["full_name"].as_str().and_then(|name| Slug::parse(name).ok()),
            default_branch: text(&found, "default_branch")?.to_owned(),
            permission: permission.unwrap_or(Permission::Read),
            methods: methods.collect(),
            deletes_branches: found["delete_branch_on_merge"] == true,
            archived: found["archived"] == true,
            has_issues: found["has_issues"] != false,
            rules: None,
        };
        if let Some(branch) = branch {
            repository.rules = Some(self.rules_of(&repository.slug, branch).await?);
        }
        Ok(repository)
    }

    /// The rules of a branch: those of rulesets, and those of the older protected branches.
    pub(super) async fn rules_of(&self, slug: &Slug, branch: &str) -> Result<Rules> {
        let key = (slug.clone(), branch.to_owned());
        if let Some(rules) = believed(&self.rules, &key) {
            return Ok(rules);
        }
        let mut rules = Rules::default();
        let path = format!("{}/rules/branches/{}?per_page=100", repo_path(slug), encoded(branch));
        for rule in items(&self.get_or_nothing(&path).await?) {
            add(rule, &mut rules);
        }
        let path = format!("{}/branches/{}", repo_path(slug), encoded(branch));
        let found = self.get_or_nothing(&path).await?;
        for context in items(&found["protection"]["required_status_checks"]["contexts"]) {
            rules.checks.extend(context.as_str().map(str::to_owned));
        }
        rules.checks.sort();
        rules.checks.dedup();
        believe(&self.rules, key, rules.clone());
        Ok(rules)
    }

    /// JSON, or null where there is nothing, as on older Enterprise servers.
    async fn get_or_nothing(&self, path: &str) -> Result<Value> {
        let (answer, _) = self.host.ask_cached(path, Purpose::Asked).await?;
        match good(answer, path, 200) {
            Err(ForgeError::Gone(_)) => Ok(Value::Null),
            other => other,
        }
    }

    pub(super) async fn permission_of(&self, repo: &Slug, login: &str) -> Result<Permission> {
        let key = (repo.clone(), login.to_lowercase());
        if let Some(permission) = believed(&self.permissions, &key) {
            return Ok(permission);
        }
        let path = format!("{}/collaborators/{}/permission", repo_path(repo), encoded(login));
        let answer = self.host.ask(&Call::get(path.as_str()), Purpose::Asked).await?;
        let permission = match good(answer, &path, 200) {
            Ok(found) => {
                // Roles that an organisation made have names of their own.
                let named = |key: &str| Permission::named(&words(&found, key));
                named("role_name").or_else(|| named("permission")).unwrap_or(Permission::None)
            }
            // No such user, or not a collaborator.
            Err(ForgeError::Gone(_)) => Permission::None,
            Err(error) => return Err(error),
        };
        believe(&self.permissions, key, permission);
        Ok(permission)
    }
}

/// Adds one rule of a ruleset.
fn add(rule: &Value, rules: &mut Rules) {
    let with = &rule["parameters"];
    let count = |key: &str| with[key].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    match rule["type"].as_str().unwrap_or_default() {
        "required_status_checks" => {
            rules.strict |= with["strict_required_status_checks_policy"] == true;
            let names = items(&with["required_status_checks"]).filter_map(|check| check["context"].as_str());
            rules.checks.extend(names.map(str::to_owned));
        }
        "pull_request" => {
            rules.approvals = rules.approvals.max(count("required_approving_review_count"));
            rules.code_owners |= with["require_code_owner_review"] == true;
        }
        "required_signatures" => rules.signed = true,
        "required_linear_history" => rules.linear = true,
        "merge_queue" => rules.queue = true,
        _ => {}
    }
}
