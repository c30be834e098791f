//! Values for unit tests.

use std::collections::BTreeMap;
use std::path::PathBuf;

use regatta_core::id::TaskId;
use regatta_core::spec::{TaskSpec, TimeLimits};
use regatta_core::verdict::VerdictAdapter;

/// A task with nothing special about it.
pub(crate) fn spec(id: &str) -> TaskSpec {
    TaskSpec {
        id: TaskId::parse(id).expect("a test id"),
        title: id.to_owned(),
        prompt: "do it".to_owned(),
        agent: "sim".to_owned(),
        model: None,
        persona: None,
        priority: 0,
        deps: Vec::new(),
        writes: Vec::new(),
        concurrency_group: None,
        read_only: false,
        env: BTreeMap::new(),
        checks: Vec::new(),
        max_attempts: 3,
        limits: TimeLimits::default(),
        verdict_adapter: VerdictAdapter::Chain,
        auto_commit: true,
        land: true,
        workdir: PathBuf::new(),
        plan: None,
        source: String::new(),
    }
}
