//! The part of a task in something larger: it plans, or it is one link of a chain.
//!
//! A chain is a build followed by links, each an ordinary task: the task itself builds, and the links judge its work.
//! What follows from their verdicts is in [`chain`](crate::chain).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::TaskId;

/// The part of a task in something larger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "kebab-case")]
pub enum Part {
    /// It turns a goal into a plan.
    Planner {
        /// Whether every task of the plan gets a whole chain.
        #[serde(default)]
        chain: bool,
    },
    /// The build of its own chain: it makes the work that the links judge.
    Builder {
        /// The links behind it, in order. Never empty.
        links: Vec<Link>,
        /// Whether its work lands once the last link has passed.
        lands: bool,
    },
    /// A later link.
    Link {
        /// The build it judges.
        chain: TaskId,
        /// Which link it is.
        link: Link,
    },
}

/// The links behind a build, in the order they have in every chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// Runs the build's checks once more, on a separate checkout.
    Verify,
    /// Another agent reads the work.
    Review,
    /// Another agent compares the work with the order.
    Accept,
}

impl Link {
    /// All links, in order.
    pub const ALL: [Link; 3] = [Link::Verify, Link::Review, Link::Accept];

    /// Its name, which is also the suffix of its task's id.
    pub const fn as_str(self) -> &'static str {
        match self {
            Link::Verify => "verify",
            Link::Review => "review",
            Link::Accept => "accept",
        }
    }

    /// Its role: the name under `roles` in `regatta.yaml`.
    pub const fn role(self) -> &'static str {
        match self {
            Link::Verify => "verifier",
            Link::Review => "reviewer",
            Link::Accept => "accepter",
        }
    }

    /// The id of this link's task in the chain of `build`; `None` if that would not be a valid id.
    pub fn task(self, build: &TaskId) -> Option<TaskId> {
        TaskId::parse(&format!("{build}.{self}")).ok()
    }

    /// The build and the link that an id refers to by its form.
    pub fn of_id(id: &TaskId) -> Option<(TaskId, Link)> {
        let (build, link) = id.as_str().rsplit_once('.')?;
        Some((TaskId::parse(build).ok()?, link.parse().ok()?))
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Link {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        Link::ALL.into_iter().find(|link| link.as_str() == text).ok_or(())
    }
}

impl Part {
    /// Its role: the name under `roles` in `regatta.yaml`.
    pub const fn role(&self) -> &'static str {
        match self {
            Part::Planner { .. } => "planner",
            Part::Builder { .. } => "builder",
            Part::Link { link, .. } => link.role(),
        }
    }

    /// The chain it belongs to, named after its build; `own` is the task's id.
    pub fn chain<'a>(&'a self, own: &'a TaskId) -> Option<&'a TaskId> {
        match self {
            Part::Planner { .. } => None,
            Part::Builder { .. } => Some(own),
            Part::Link { chain, .. } => Some(chain),
        }
    }

    /// The name of its link.
    pub const fn link(&self) -> Option<&'static str> {
        match self {
            Part::Planner { .. } => None,
            Part::Builder { .. } => Some("build"),
            Part::Link { link, .. } => Some(link.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_links_lead_to_their_build_and_back() {
        let build = TaskId::parse("api.v2").unwrap();
        for link in Link::ALL {
            let id = link.task(&build).unwrap();
            assert_eq!(Link::of_id(&id), Some((build.clone(), link)));
        }
        assert_eq!(Link::of_id(&build), None);
        let long = TaskId::parse(&"x".repeat(60)).unwrap();
        assert_eq!(Link::Review.task(&long), None);
    }
}
