//! What git says after a push, as data.

use crate::git::Ran;

/// The result of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Answer {
    /// All refs are where they should be.
    Done,
    /// These refs had another value than the caller expected.
    Stale(Vec<String>),
    /// The hub does not allow it. Contains the reason.
    Refused(String),
    /// It may have arrived or not. Contains the reason.
    Unknown(String),
}

/// Reasons for which git rejects a ref that is not where the caller saw it.
const STALE: [&str; 7] = [
    "stale info",
    "fetch first",
    "non-fast-forward",
    "needs force",
    "remote ref updated since checkout",
    "incorrect old value provided",
    "reference already exists",
];
/// Reasons that only say that another ref of the same push was rejected.
const WITH_ANOTHER: [&str; 3] = ["atomic push failed", "atomic push failure", "atomic transaction failed"];
/// What the hub prints if a ref is not where it was when the push began.
const MOVED: [&str; 3] = ["but expected", "reference already exists", "unable to resolve reference"];

/// Reads what a push with `--porcelain` printed.
pub(super) fn read(hub: &str, ran: &Ran) -> Answer {
    if ran.code == Some(0) {
        return Answer::Done;
    }
    let said = String::from_utf8_lossy(&ran.stdout);
    let mut stale = Vec::new();
    let mut refused = Vec::new();
    let mut unsure = false;
    for line in said.lines().filter(|line| line.starts_with("!\t")) {
        let mut fields = line.split('\t').skip(1);
        let (Some(refs), Some(summary)) = (fields.next(), fields.next()) else { continue };
        let name = refs.rsplit_once(':').map_or(refs, |(_, to)| to);
        let reason = summary.rsplit_once(" (").map_or(summary, |(_, why)| why.trim_end_matches(')'));
        // Named by the hub in a message of its own, whatever the reason says.
        let lock = ran.stderr.lines().filter(|line| line.contains("cannot lock ref"));
        let own = lock.filter(|line| line.contains(&format!("'{name}'"))).collect::<Vec<_>>();
        if STALE.contains(&reason) || own.iter().any(|line| MOVED.iter().any(|sign| line.contains(sign))) {
            stale.push(name.to_owned());
        } else if own.iter().any(|line| line.contains("File exists")) || reason == "failed to update ref" {
            unsure = true;
        } else if !WITH_ANOTHER.contains(&reason) {
            refused.push(reason.to_owned());
        }
    }
    let hints = last_words(&ran.stderr);
    if !stale.is_empty() {
        return Answer::Stale(stale);
    }
    if let Some(reason) = refused.first() {
        let hints = if hints.is_empty() { String::new() } else { format!(": {hints}") };
        return Answer::Refused(format!("the hub {hub} refused the push ({reason}){hints}"));
    }
    if ran.stderr.contains("does not support --atomic push") {
        return Answer::Refused(format!("the hub {hub} does not support atomic pushes"));
    }
    let why = match ran.code {
        None => "git was killed".to_owned(),
        Some(_) if unsure => format!("a ref was locked there: {hints}"),
        Some(_) => hints,
    };
    Answer::Unknown(format!("the push to the hub {hub} did not finish: {why}"))
}

/// The lines of git's error output that say something, as one.
pub(super) fn last_words(stderr: &str) -> String {
    const MOST: usize = 4;
    let advice = [
        "fatal: Could not read from remote repository.",
        "Please make sure you have the correct access rights",
        "and the repository exists.",
        "error: failed to push some refs",
        "hint:",
        "To ",
    ];
    let said = |line: &&str| !line.is_empty() && !advice.iter().any(|prefix| line.starts_with(prefix));
    let mut lines: Vec<&str> = stderr.lines().map(str::trim).filter(said).collect();
    if lines.is_empty() {
        lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).take(1).collect();
    }
    lines.drain(..lines.len().saturating_sub(MOST));
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(code: i32, stdout: &str, stderr: &str) -> Ran {
        let (stdout, stderr) = (stdout.as_bytes().to_vec(), stderr.to_owned());
        Ran { code: Some(code), stdout, stderr, command: "git push".to_owned() }
    }

    #[test]
    fn a_ref_that_is_elsewhere_is_stale() {
        let said = "To /hub\n!\tabc:refs/heads/main\t[rejected] (stale info)\n!\tdef:refs/regatta/train/main\t[rejected] (atomic push failed)\n";
        assert_eq!(read("hub", &ran(1, said, "")), Answer::Stale(vec!["refs/heads/main".into()]));
        let said = "!\ta:refs/heads/main\t[remote rejected] (failed to update ref)\n!\tb:refs/regatta/train/main\t[remote rejected] (failed to update ref)\n";
        let error = "remote: error: cannot lock ref 'refs/regatta/train/main': is at 1 but expected 2";
        assert_eq!(read("hub", &ran(1, said, error)), Answer::Stale(vec!["refs/regatta/train/main".into()]));
    }

    #[test]
    fn a_refusal_and_a_broken_connection_are_told_apart() {
        let said = "!\ta:refs/heads/main\t[remote rejected] (pre-receive hook declined)\n";
        let Answer::Refused(why) = read("hub", &ran(1, said, "remote: no pushes on Fridays")) else {
            panic!()
        };
        assert!(why.contains("pre-receive hook declined") && why.contains("Fridays"), "{why}");
        let error = "fatal: the receiving end does not support --atomic push";
        assert!(matches!(read("hub", &ran(128, "", error)), Answer::Refused(_)));
        let error = "fatal: the remote end hung up unexpectedly";
        assert!(matches!(read("hub", &ran(128, "", error)), Answer::Unknown(_)));
        let said = "!\ta:refs/x\t[remote rejected] (failed to update ref)\n";
        let error =
            "remote: error: cannot lock ref 'refs/x': Unable to create '/hub/refs/x.lock': File exists.";
        assert!(matches!(read("hub", &ran(1, said, error)), Answer::Unknown(_)));
    }
}
