//! The hub, through real git: what a push answers, what a fetch brings, and what neither touches.

use regatta_core::config::HubAddress;
use regatta_engine::git::{GitError, Oid};
use regatta_engine::hub::{Answer, Hub, Move};

use crate::fixture::{Bench, oid};

const A: &str = "refs/regatta/work/a/1.1";
const B: &str = "refs/regatta/work/b/1.1";

struct Hubbed {
    bench: Bench,
    hub: Hub,
}

impl Hubbed {
    fn new() -> Self {
        let bench = Bench::new();
        let path = bench.scratch.outside().join("hub.git");
        bench.scratch.git(["init", "-q", "--bare", path.to_str().unwrap()]);
        let address = HubAddress::parse(path.to_str().unwrap()).unwrap();
        let hub = Hub::at(&bench.repo, &bench.work, &address).unwrap();
        Self { bench, hub }
    }

    fn commit(&self, file: &str) -> Oid {
        oid(&self.bench.scratch.commit_file(file, "x", file))
    }

    fn at_hub(&self, args: &[&str]) -> String {
        self.bench.git_in(&self.bench.scratch.outside().join("hub.git"), args)
    }
}

fn create(name: &str, to: &Oid) -> Move {
    Move::create(name.to_owned(), to.clone())
}

#[test]
fn a_ref_is_made_once_and_moves_only_from_where_it_was_seen() {
    let it = Hubbed::new();
    let (one, two, three) = (it.commit("1"), it.commit("2"), it.commit("3"));
    assert_eq!(it.hub.push(&[create(A, &one)], false).unwrap(), Answer::Done);
    assert_eq!(it.hub.push(&[create(A, &one)], false).unwrap(), Answer::Done, "a repeat is no harm");
    assert_eq!(it.hub.push(&[create(A, &two)], false).unwrap(), Answer::Stale(vec![A.into()]));
    let step =
        |from: &Oid, to: Option<&Oid>| Move { name: A.into(), from: Some(from.clone()), to: to.cloned() };
    assert_eq!(it.hub.push(&[step(&one, Some(&two))], false).unwrap(), Answer::Done);
    assert_eq!(it.hub.push(&[step(&one, Some(&three))], false).unwrap(), Answer::Stale(vec![A.into()]));
    assert_eq!(it.hub.push(&[step(&one, None)], false).unwrap(), Answer::Stale(vec![A.into()]));
    assert_eq!(it.hub.read(&[A]).unwrap()[A], two);
    assert_eq!(it.hub.push(&[step(&two, None)], false).unwrap(), Answer::Done);
    assert!(it.hub.read(&[A]).unwrap().is_empty());
}

#[test]
fn of_two_refs_both_move_or_none() {
    let it = Hubbed::new();
    let (one, two) = (it.commit("1"), it.commit("2"));
    assert_eq!(it.hub.push(&[create(A, &one)], false).unwrap(), Answer::Done);
    let both = [create(A, &two), create(B, &two)];
    assert_eq!(it.hub.push(&both, true).unwrap(), Answer::Stale(vec![A.into()]));
    assert_eq!(it.hub.read_below("refs/regatta/").unwrap().into_keys().collect::<Vec<_>>(), [A]);
    let both = [create(B, &two), create("refs/heads/main", &two)];
    assert_eq!(it.hub.push(&both, true).unwrap(), Answer::Done);
    assert_eq!(it.hub.read(&[B, "refs/heads/main"]).unwrap().len(), 2);
}

#[test]
fn a_refusal_says_why_and_a_hub_that_is_gone_is_not_one() {
    let it = Hubbed::new();
    let one = it.commit("1");
    it.at_hub(&["config", "receive.advertiseAtomic", "false"]);
    let Answer::Refused(why) = it.hub.push(&[create(A, &one), create(B, &one)], true).unwrap() else {
        panic!("it is not atomic");
    };
    assert!(why.contains("atomic"), "{why}");
    let hook = it.bench.scratch.outside().join("hub.git/hooks/pre-receive");
    regatta_testkit::repo::script(&hook, "echo not today >&2; exit 1\n");
    let Answer::Refused(why) = it.hub.push(&[create(A, &one)], false).unwrap() else {
        panic!("the hook refuses");
    };
    assert!(why.contains("not today"), "{why}");
    let (path, away) = (it.bench.scratch.outside().join("hub.git"), it.bench.scratch.outside().join("away"));
    std::fs::rename(&path, &away).unwrap();
    assert!(matches!(it.hub.push(&[create(A, &one)], false).unwrap(), Answer::Unknown(_)));
    let error = it.hub.read(&[A]).unwrap_err();
    assert!(matches!(error, GitError::HubAway { .. }) && error.is_environment(), "{error}");
}

#[test]
fn what_is_fetched_is_complete_and_held_and_no_branch_of_the_user_moves() {
    let it = Hubbed::new();
    let (first, scratch) = (it.bench.rev("main"), &it.bench.scratch);
    assert_eq!(it.hub.push(&[create("refs/heads/main", &first)], false).unwrap(), Answer::Done);
    let other = scratch.outside().join("other");
    let hub = scratch.outside().join("hub.git");
    scratch.git(["clone", "-q", "-b", "main", hub.to_str().unwrap(), other.to_str().unwrap()]);
    std::fs::write(other.join("new"), "from there").unwrap();
    scratch.git_in(&other, ["add", "new"]);
    scratch.git_in(&other, ["-c", "user.name=B", "-c", "user.email=b@example.org", "commit", "-qm", "there"]);
    scratch.git_in(&other, ["push", "-q", "origin", "HEAD:main", &format!("HEAD:{A}")]);
    let there = oid(&scratch.git_in(&other, ["rev-parse", "HEAD"]));

    let fetched = it.hub.fetch(&["refs/heads/main", A, B]).unwrap();
    assert_eq!(
        fetched.into_iter().collect::<Vec<_>>(),
        [("refs/heads/main".to_owned(), there.clone()), (A.to_owned(), there.clone())]
    );
    assert_eq!(it.bench.rev("main"), first, "the user's branch stays");
    scratch.git(["gc", "-q", "--prune=now"]);
    assert_eq!(scratch.git(["show", &format!("{there}:new")]), "from there");
    assert_eq!(it.hub.fetch(&[A]).unwrap()[A], there, "again, from what is here");
    it.hub.forget(&[A, "refs/heads/main"]).unwrap();
    assert_eq!(scratch.git(["for-each-ref", "refs/regatta/"]), "");
}

#[test]
fn a_name_that_is_no_ref_is_never_passed_on() {
    let it = Hubbed::new();
    let one = it.commit("1");
    for name in ["--force", "refs/heads/../x", "HEAD", "refs/heads/a b", "refs/x:refs/y", "refs/*"] {
        assert!(it.hub.push(&[create(name, &one)], false).is_err(), "{name}");
        assert!(it.hub.read(&[name]).is_err(), "{name}");
        assert!(it.hub.fetch(&[name]).is_err(), "{name}");
    }
}

#[test]
fn two_fetches_at_once_do_not_get_in_each_others_way() {
    const MAIN: &str = "refs/heads/main";
    let it = Hubbed::new();
    let mut last = None;
    for n in 0..20 {
        let next = it.commit(&format!("f{n}"));
        let step = Move { name: MAIN.into(), from: last.replace(next.clone()), to: Some(next.clone()) };
        assert_eq!(it.hub.push(&[step], false).unwrap(), Answer::Done);
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    let fetched = it.hub.fetch(&[MAIN]).unwrap_or_else(|error| panic!("move {n}: {error}"));
                    assert_eq!(fetched[MAIN], next);
                });
            }
        });
    }
}
