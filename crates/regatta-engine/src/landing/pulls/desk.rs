//! What a round needs of the forge: the forge itself, who Regatta is there, and the remotes that lead to it.

use std::sync::Arc;

use regatta_core::causes::with_causes;
use regatta_core::forge::pull::{MergeWhen, Policy};
use regatta_core::forge::record::PullRecord;
use regatta_core::forge::remote::RemoteAddress;
use regatta_core::oid::Oid;

use super::Trouble;
use crate::context::Context;
use crate::forge::{self, Forge, ForgeError};
use crate::git::GitError;
use crate::landing::remote;

/// The forge of a repository, ready for use.
pub(super) struct Desk {
    pub(super) forge: Arc<dyn Forge>,
    /// The login that Regatta acts as.
    pub(super) viewer: String,
    /// The remote that branches are pushed to.
    pub(super) head: String,
    /// The remote that has the target.
    pub(super) base: String,
}

impl Desk {
    pub(super) async fn open(ctx: &Arc<Context>) -> Result<Self, Trouble> {
        let Some(head) = ctx.blocking(remote::name).await? else {
            let why =
                "a pull request needs a remote, and there is none; add one, or set land.via: here".to_owned();
            return Err(ForgeError::Refused(why).into());
        };
        let known = ctx.memory.pulls.known().forge.clone();
        let (forge, viewer) = match known {
            Some(known) => known,
            None => {
                let opened = tokio::task::spawn_blocking({
                    let ctx = ctx.clone();
                    move || {
                        let (repository, settings) = (&ctx.repository, &ctx.settings);
                        let github = &settings.config.github;
                        forge::open(&repository.repo, &repository.work, github, &settings.environment)
                    }
                });
                let forge = opened.await.expect("opening a forge does not panic");
                let forge = forge.map_err(|error| {
                    ForgeError::Refused(format!("{}; {}", with_causes(&error), error.hint()))
                })?;
                let viewer = forge.who().await?.login;
                // Forks and renamed repositories are known from here on.
                forge.home().await?;
                ctx.memory.pulls.known().forge = Some((forge.clone(), viewer.clone()));
                (forge, viewer)
            }
        };
        let base = if forge.base().is_same(forge.head()) {
            head.clone()
        } else {
            let slug = forge.base().clone();
            let found = ctx.blocking(move |ctx| remote_of(ctx, &slug)).await?;
            found.ok_or_else(|| {
                ForgeError::Refused(format!(
                    "pull requests go to {}, and no remote leads there; add one: git remote add upstream URL",
                    forge.base()
                ))
            })?
        };
        Ok(Self { forge, viewer, head, base })
    }

    /// What the user wants of this pull request.
    pub(super) fn policy(&self, ctx: &Context, record: &PullRecord, tested: bool) -> Policy {
        let (land, github) = (&ctx.settings.config.land, &ctx.settings.config.github);
        let mut policy = Policy { draft: record.draft, ..land.policy(github, &self.viewer, tested) };
        let allowed = record.allowed.as_ref().filter(|allowed| Some(&allowed.head) == record.head.as_ref());
        if policy.merge == MergeWhen::Approved && (allowed.is_some() || record.no_review) {
            policy.merge = MergeWhen::Green;
        }
        if let Some(method) = allowed.and_then(|allowed| allowed.method) {
            policy.method = method;
        }
        policy
    }
}

/// The remote whose address is this repository.
pub(super) fn remote_of(ctx: &Context, slug: &regatta_core::forge::Slug) -> Result<Option<String>, GitError> {
    let listed = ctx.repository.work.bare().args(["remote"]).text()?;
    for name in listed.lines() {
        let url =
            ctx.repository.work.bare().args(["config", "--get"]).arg(format!("remote.{name}.url")).run()?;
        let url = String::from_utf8_lossy(&url.stdout).trim().to_owned();
        if RemoteAddress::parse(&url).is_ok_and(|address| address.slug.is_same(slug)) {
            return Ok(Some(name.to_owned()));
        }
    }
    Ok(None)
}

/// Fetches the target from the remote that has it; `None` if it does not exist there.
pub(super) async fn target_there(ctx: &Arc<Context>, desk: &Desk) -> Result<Option<Oid>, GitError> {
    let base = desk.base.clone();
    ctx.blocking(move |ctx| remote::fetch(ctx, &base)).await
}
