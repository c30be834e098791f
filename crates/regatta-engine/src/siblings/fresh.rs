//! How current a repository is when a lane is put beside it: its remote is asked at most once in five minutes, and an
//! answer that does not come holds nothing back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use regatta_core::repos::Pull;
use regatta_core::repos::freshness::Freshness;
use regatta_core::time::counted;

use crate::context::Context;
use crate::git::{GitError, Oid};
use crate::landing::local::{Followed, follow};
use crate::upstream::Upstream;

/// How often the remote of a repository is asked.
const EVERY: Duration = Duration::from_secs(5 * 60);

/// What was found out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fresh {
    /// A commit of the remote to use instead of the target's tip, as long as it contains that.
    pub(crate) newer: Option<Oid>,
    /// What an agent has to know about it, after the repository's name.
    pub(crate) note: Option<String>,
}

/// The last look at the remote. Held while one is under way.
pub(crate) type LastLook = tokio::sync::Mutex<Option<(Instant, Fresh)>>;

impl Context {
    /// How current this repository is, as far as its row's `pull` wants to know.
    pub(crate) async fn fresh(self: &Arc<Self>, pull: Pull) -> Fresh {
        if pull == Pull::Never {
            return Fresh::default();
        }
        let mut last = self.memory.upstream.lock().await;
        if let Some((at, fresh)) = &*last
            && at.elapsed() < EVERY
        {
            return fresh.clone();
        }
        let fresh = match self.blocking(move |ctx| look(ctx, pull)).await {
            Ok(fresh) => fresh,
            Err(error) => {
                self.say(format!("a remote was not asked: could not {error}"));
                Fresh::default()
            }
        };
        *last = Some((Instant::now(), fresh.clone()));
        fresh
    }
}

fn look(ctx: &Context, pull: Pull) -> Result<Fresh, GitError> {
    let (repo, work, target) = (&ctx.repository.repo, &ctx.repository.work, &ctx.repository.target);
    let compared = Upstream { repo, work, target }.compare_soon()?;
    let (Some(remote), Some(there)) = (compared.remote, compared.there) else { return Ok(Fresh::default()) };
    let behind = compared.counts.map_or(0, |(behind, _)| behind as u64);
    let note = match compared.freshness {
        Freshness::Behind if pull == Pull::Auto => {
            if let Followed::Behind { why } = follow(repo, work, target, &there, &remote)? {
                let name = ctx.repo_name().map_or_else(String::new, |name| format!("{name}: "));
                let at = there.short();
                ctx.say(format!(
                    "{name}{target} stays behind {remote}: {why}; new lanes have {at} beside them"
                ));
            }
            return Ok(Fresh { newer: Some(there), note: None });
        }
        Freshness::Behind => format!("{} behind {target} of {remote}", counted(behind, "commit")),
        Freshness::Diverged => {
            format!(
                "its {target} and that of {remote} have diverged; {} are not here",
                counted(behind, "commit")
            )
        }
        _ => return Ok(Fresh::default()),
    };
    Ok(Fresh { newer: None, note: Some(note) })
}
