//! Which crew members are still present.
//!
//! A member belongs to a process or to heartbeats. A process is looked up: on its machine its end is visible at once,
//! and its start time distinguishes it from another with its pid. Heartbeats are watched: a member with the same beat
//! for longer than its lease, by the watcher's own clock, has left; a watcher that has just started gives all members
//! the full time. Either way the session is ended by compare-and-swap on the beat, so that no member is removed that
//! has just been renewed. A process on another machine is judged only by that machine.

use std::collections::HashMap;

use regatta_core::crew::MemberName;
use regatta_store::{Beat, Member, Result, SessionId, Store, StoreError};
use tokio::time::Instant;

use crate::clock;
use crate::process::Identity;
use crate::process::identity::Stat;
use crate::session::{identity_of, is_certainly_dead};

/// Maximum number of ancestor processes to check.
const DEEPEST: usize = 64;

/// Ends the sessions of members whose processes have certainly ended. Their tasks are back in their queues afterwards.
pub async fn bury(store: &dyn Store) -> Result<Vec<MemberName>> {
    let mut buried = Vec::new();
    for member in store.members().await? {
        if member.is_there && is_certainly_dead(&member.node) && end(store, &member).await? {
            buried.push(member.name);
        }
    }
    Ok(buried)
}

async fn end(store: &dyn Store, member: &Member) -> Result<bool> {
    match store.expire_session(&member.session, member.beat, None, clock::now()).await {
        Ok(_) => Ok(true),
        // It was renewed just now.
        Err(StoreError::Conflict(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Watches heartbeats, for as long as the watching process lives.
#[derive(Debug, Default)]
pub struct MemberWatch {
    seen: HashMap<SessionId, (Beat, Instant)>,
}

impl MemberWatch {
    /// Ends the sessions of members who have left, by their processes or by their heartbeats, and returns their names.
    pub async fn look(&mut self, store: &dyn Store) -> Result<Vec<MemberName>> {
        let mut left = Vec::new();
        let members = store.members().await?;
        for member in self.overdue(members, Instant::now()) {
            if end(store, &member).await? {
                left.push(member.name);
            }
        }
        Ok(left)
    }

    fn overdue(&mut self, mut members: Vec<Member>, now: Instant) -> Vec<Member> {
        members.retain(|member| member.is_there);
        self.seen.retain(|session, _| members.iter().any(|member| member.session == *session));
        members.retain(|member| {
            let seen = self.seen.entry(member.session.clone()).or_insert((member.beat, now));
            if seen.0 != member.beat {
                *seen = (member.beat, now);
            }
            let silent = now.duration_since(seen.1);
            is_certainly_dead(&member.node) || member.lease.is_some_and(|lease| silent >= lease)
        });
        members
    }
}

/// The members that this process acts for: those of its nearest ancestor that any member belongs to.
pub fn of_this_process(members: &[Member]) -> Vec<&Member> {
    for ancestor in ancestors() {
        let is_its = |member: &&Member| member.is_there && identity_of(&member.node).is_same(&ancestor);
        let found: Vec<&Member> = members.iter().filter(is_its).collect();
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// This process and those above it, the nearest first.
fn ancestors() -> Vec<Identity> {
    let mut found = Vec::new();
    let mut pid = std::process::id();
    while let (Ok(identity), Ok(stat)) = (Identity::of(pid), Stat::load(pid)) {
        found.push(identity);
        if stat.ppid == 0 || found.len() == DEEPEST {
            break;
        }
        pid = stat.ppid;
    }
    found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use regatta_core::crew::Role;
    use regatta_core::time::Timestamp;
    use regatta_store::NodeInfo;

    use super::*;

    fn member(name: &str, beat: Beat, lease: Option<u64>, pid: u32) -> Member {
        let name = MemberName::parse(name).unwrap();
        let beats = NodeInfo::of_beats("elsewhere", &name);
        Member {
            role: Role::parse("tester").unwrap(),
            session: SessionId(format!("member-{name}")),
            node: NodeInfo { pid, ..beats },
            lease: lease.map(Duration::from_secs),
            beat,
            is_there: true,
            since: Timestamp::from_millis(0),
            tasks: Vec::new(),
            name,
        }
    }

    #[test]
    fn only_who_is_silent_for_its_lease_has_left() {
        let start = Instant::now();
        let mut watch = MemberWatch::default();
        let mut at = |seconds: u64, members: &[Member]| -> Vec<String> {
            let left = watch.overdue(members.to_vec(), start + Duration::from_secs(seconds));
            left.into_iter().map(|member| member.name.to_string()).collect()
        };
        let (a, b, c) = (member("a", 1, Some(60), 0), member("b", 1, Some(10), 0), member("c", 1, None, 7));
        assert!(at(0, &[a.clone(), b.clone(), c.clone()]).is_empty());
        assert!(at(9, &[a.clone(), b.clone(), c.clone()]).is_empty());
        assert!(at(9, &[a.clone(), Member { beat: 2, ..b.clone() }, c.clone()]).is_empty());
        assert_eq!(at(20, &[a.clone(), Member { beat: 2, ..b }, c.clone()]), ["b"]);
        // A process on another machine is not judged from here, and one that is not checked is dropped.
        assert_eq!(at(1000, std::slice::from_ref(&c)), Vec::<String>::new());
        assert_eq!(at(2000, &[a, c]), Vec::<String>::new());
    }

    #[test]
    fn this_process_is_its_own_first_ancestor() {
        let found = ancestors();
        assert_eq!(found.first().map(|identity| identity.pid), Some(std::process::id()));
        assert!(found.len() > 1);
    }
}
