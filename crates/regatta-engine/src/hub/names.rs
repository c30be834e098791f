//! The names of Regatta's refs at the hub, and of what was fetched from it.

use regatta_core::id::TaskId;
use regatta_core::oid::Oid;

/// Prefix of the refs here that hold what was fetched.
pub const HERE: &str = "refs/regatta/hub/";
/// Prefix of the commits of attempts that ended.
pub const WORK: &str = "refs/regatta/work/";
/// Prefix of the checkpoints of running attempts.
pub const WIP: &str = "refs/regatta/wip/";

/// Prefix of saved work.
pub const SALVAGE: &str = "refs/regatta/salvage/";

/// The ref here that holds a ref of the hub.
pub fn here(name: &str) -> String {
    format!("{HERE}{}", name.strip_prefix("refs/").unwrap_or(name))
}

/// A branch.
pub fn branch(name: &str) -> String {
    format!("refs/heads/{name}")
}

/// The commits of an attempt. Each owner of the attempt has its own.
pub fn work(task: &TaskId, attempt: u32, fence: u64) -> String {
    format!("{WORK}{task}/{attempt}.{fence}")
}

/// Prefix of the commits of a task's attempts.
pub fn work_of(task: &TaskId) -> String {
    format!("{WORK}{task}/")
}

/// What of an attempt was sent to land, where that is another commit than its own last one.
pub fn boarded(task: &TaskId, attempt: u32, head: &Oid) -> String {
    format!("{WORK}{task}/{attempt}.land-{}", head.short())
}

/// A commit that the work of an attempt started from and does not contain.
pub fn base(task: &TaskId, attempt: u32, base: &Oid) -> String {
    format!("{WORK}{task}/{attempt}.base-{}", base.short())
}

/// The checkpoint of an attempt. Each owner of the attempt has its own.
pub fn wip(task: &TaskId, attempt: u32, fence: u64) -> String {
    format!("{WIP}{task}/{attempt}.{fence}")
}

/// Prefix of the checkpoints of a task's attempts.
pub fn wip_of(task: &TaskId) -> String {
    format!("{WIP}{task}/")
}

/// Work that a clone saved: its own number there, with the clone's name.
pub fn salvage(task: &TaskId, clone: &str, n: u64) -> String {
    format!("{SALVAGE}{task}/{clone}.{n}")
}

/// Prefix of the saved work of a task.
pub fn salvage_of(task: &TaskId) -> String {
    format!("{SALVAGE}{task}/")
}

/// Which clone saved it, and its number there.
pub fn saved_by(name: &str) -> Option<(&str, u64)> {
    let (clone, n) = name.rsplit('/').next()?.rsplit_once('.')?;
    Some((clone, n.parse().ok()?))
}

/// The task of a ref below one of these prefixes.
pub fn task_of(name: &str) -> Option<TaskId> {
    let rest = [WORK, WIP, SALVAGE].iter().find_map(|prefix| name.strip_prefix(prefix))?;
    TaskId::parse(rest.split_once('/')?.0).ok()
}

/// Which attempt and which owner a ref of a task is of.
pub fn attempt_of(name: &str) -> Option<(u32, u64)> {
    let (attempt, fence) = name.rsplit('/').next()?.split_once('.')?;
    Some((attempt.parse().ok()?, fence.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_be_read_back() {
        let task = TaskId::parse("a-1").unwrap();
        assert_eq!(work(&task, 3, 17), "refs/regatta/work/a-1/3.17");
        assert_eq!(attempt_of(&wip(&task, 3, 17)), Some((3, 17)));
        assert_eq!(attempt_of("refs/regatta/salvage/a-1/node.x"), None);
        assert_eq!(here("refs/heads/main"), "refs/regatta/hub/heads/main");
        assert_eq!(saved_by(&salvage(&task, "big.1-0c", 4)), Some(("big.1-0c", 4)));
        assert_eq!(saved_by("refs/regatta/salvage/a-1/4"), None);
        assert_eq!(task_of(&wip(&task, 3, 17)), Some(task.clone()));
        assert_eq!(task_of("refs/regatta/train/main"), None);
        let oid = Oid::parse(&"a".repeat(40)).unwrap();
        assert_eq!(attempt_of(&base(&task, 3, &oid)), None);
    }
}
