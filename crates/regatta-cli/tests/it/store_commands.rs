//! `regatta store`: whole stores, moved between SQLite, PostgreSQL and ZooKeeper, checked, saved and migrated.

use std::path::{Path, PathBuf};

use regatta_testkit::daemon::until;
use regatta_testkit::postgres::Server;
use regatta_testkit::world::{PLAN, World, text};
use regatta_testkit::zookeeper::Ensemble;
use serde_json::Value;

use super::REGATTA;

/// A world in which a plan has run, with messages, context and a follow-up prompt.
fn lived_in() -> World {
    let world = World::new(REGATTA);
    world.run(&world.plan_file(PLAN), &[]).exited(1);
    world.regatta(["ctx", "set", "api", "v1"]).exited(0);
    world.regatta(["ctx", "set", "db", "old"]).exited(0);
    world.regatta(["ctx", "set", "api", "v2"]).exited(0);
    world.regatta(["crew", "register", "Ada", "--role", "developer", "--lease", "1h"]).exited(0);
    world.regatta(["msg", "send", "Ada", "the schema is ready"]).exited(0);
    world.regatta(["add", "a task that waits", "--agent", "sh"]).exited(0);
    world
}

fn dump(world: &World, store: &str) -> String {
    let dump = world.regatta(["store", "dump", "--store", store]).exited(0).stdout;
    // The first line names the store.
    dump.lines().skip(1).map(|line| format!("{line}\n")).collect()
}

fn sqlite(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

fn own(world: &World) -> String {
    sqlite(&world.state_dir().join("regatta.db"))
}

fn version(db: &rusqlite::Connection) -> u32 {
    db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

/// Lowers the version of the schema.
fn lower(db: &rusqlite::Connection, by: u32) {
    db.pragma_update(None, "user_version", version(db) - by).unwrap();
}

/// The text without what differs from run to run.
fn shown(world: &World, text: &str) -> String {
    let root = world.root().canonicalize().unwrap();
    let outside = root.parent().unwrap().to_string_lossy().into_owned();
    let text = text.replace(&*root.to_string_lossy(), "ROOT").replace(&outside, "OUTSIDE");
    let mut shown = String::new();
    let mut rest = text.as_str();
    while let Some(at) = ["postgres://", "zookeeper://"].iter().filter_map(|scheme| rest.find(scheme)).min() {
        let end = rest[at..].find(['?', ';', '`', ' ', ',', '\n']).map_or(rest.len(), |n| at + n);
        shown.push_str(&rest[..at]);
        shown.push_str(&rest[at..][..rest[at..].find(':').unwrap()]);
        shown.push_str("://SERVER");
        rest = &rest[end..];
    }
    shown.push_str(rest);
    shown
}

/// Moves the store of a world to `to` and back. Returns what the two old places say.
fn moves_there_and_back(world: &World, to: &str) -> [String; 2] {
    let from = own(world);
    let before = dump(world, &from);
    let moved = world.regatta(["store", "copy", "sqlite", to, "--json"]).exited(0).json();
    assert_eq!((&moved["resumed"], &moved["moved"]), (&Value::Bool(false), &Value::Bool(true)));
    let kinds: Vec<&str> =
        moved["records"].as_array().unwrap().iter().map(|kind| text(&kind["kind"])).collect();
    for kind in [
        "session",
        "role",
        "task",
        "spec",
        "dependency",
        "attempt",
        "member",
        "message",
        "delivery",
        "context",
        "written",
        "request",
        "event",
        "counters",
    ] {
        assert!(kinds.contains(&kind), "no {kind} in {kinds:?}");
    }
    assert_eq!(dump(world, to), before);
    // The old place says where it moved; nothing is written there.
    let moved_there = shown(world, &world.regatta(["list"]).exited(6).stderr);
    world.regatta(["add", "another", "--agent", "sh"]).exited(6);
    let user_version = version(&rusqlite::Connection::open(world.state_dir().join("regatta.db")).unwrap());
    assert!(user_version > 1_000_000, "older programs refuse it: {user_version}");
    // The new place works.
    let on = |args: &[&str]| world.regatta(args.iter().chain(&["--store", to]));
    let states = on(&["list", "--status", "all", "--json"]).exited(0).json();
    assert_eq!(states.as_array().unwrap().len(), 5);
    assert_eq!(on(&["ctx", "get", "api"]).exited(0).stdout, "v2\n");
    on(&["ctx", "set", "more", "x"]).exited(0);
    let check = on(&["store", "check"]).exited(0);
    assert!(check.stderr.starts_with("no violation in "), "{}", check.stderr);
    // And back, into a new file.
    let back = sqlite(&world.outside("back.db"));
    let after = dump(world, to);
    let copied = world.regatta(["store", "copy", to, &back]).exited(0);
    assert!(
        copied.stdout.starts_with("copied ") && copied.stdout.contains(" (5 tasks, "),
        "{}",
        copied.stdout
    );
    assert_eq!(dump(world, &back), after);
    let moved_back = shown(world, &on(&["list"]).exited(6).stderr);
    let used = world.regatta(["ctx", "set", "more", "y", "--store", &back]).exited(0);
    assert_eq!(used.stderr, "");
    [moved_there, moved_back]
}

#[test]
fn a_store_moves_to_postgresql_and_back_and_is_the_same() {
    let world = lived_in();
    let [there, back] = moves_there_and_back(&world, &Server::shared().url("moves"));
    insta::assert_snapshot!(there, @"
    error: sqlite:ROOT/.regatta/regatta.db has moved to postgres://SERVER?project=moves
    hint: set `store` in regatta.yaml, or REGATTA_STORE, to that address
    ");
    insta::assert_snapshot!(back, @"
    error: postgres://SERVER?project=moves has moved to sqlite:OUTSIDE/back.db
    hint: set `store` in regatta.yaml, or REGATTA_STORE, to that address
    ");
}

#[test]
fn a_store_moves_to_zookeeper_and_back_and_is_the_same() {
    let world = lived_in();
    let [there, back] = moves_there_and_back(&world, &Ensemble::shared().url("moves"));
    insta::assert_snapshot!(there, @"
    error: sqlite:ROOT/.regatta/regatta.db has moved to zookeeper://SERVER
    hint: set `store` in regatta.yaml, or REGATTA_STORE, to that address
    ");
    insta::assert_snapshot!(back, @"
    error: zookeeper://SERVER has moved to sqlite:OUTSIDE/back.db
    hint: set `store` in regatta.yaml, or REGATTA_STORE, to that address
    ");
}

#[test]
fn work_continues_in_zookeeper_after_a_move_from_postgresql_and_in_another_node_of_it() {
    let mut world = World::new(REGATTA);
    let [first, second] = [Ensemble::shared().url("continues/one"), Ensemble::shared().url("continues/two")];
    let database = Server::shared().url("continues");
    world.env("REGATTA_STORE", &database);
    world.run(&world.plan_file(PLAN), &[]).exited(1);
    world.regatta(["add", "first", "--id", "first", "--agent", "sh"]).exited(0);
    let before = dump(&world, &database);
    world.regatta(["store", "copy", &database, &first]).exited(0);
    world.regatta(["store", "copy", &first, &second]).exited(0);
    assert_eq!(dump(&world, &second), before);
    // The daemon works on what was moved, and the store stays sound.
    world.env("REGATTA_STORE", &second);
    let daemon = world.daemon();
    world.regatta(["wait", "first", "--timeout", "60s"]);
    let states = world.regatta(["list", "--status", "all", "--json"]).exited(0).json();
    let first_state = states.as_array().unwrap().iter().find(|task| task["id"] == "first").unwrap();
    assert_ne!(first_state["state"]["state"], "pending", "{first_state}");
    let busy = world.regatta(["store", "copy", &second, "sqlite"]).exited(6);
    assert!(busy.stderr.contains("is in use: daemon on "), "{}", busy.stderr);
    // A dump and a check need no pause.
    world.regatta(["store", "check"]).exited(0);
    world.regatta(["store", "copy", &second, "sqlite", "--keep"]).exited(0);
    world.regatta(["daemon", "stop"]).exited(0);
    daemon.wait().exited(0);
    let check = world.regatta(["store", "check"]).exited(0);
    assert!(check.stderr.starts_with("no violation in "), "{}", check.stderr);
}

/// A copy to `to` that is killed after so many pages, and continued.
fn dies_and_continues(world: &mut World, from: &str, to: &str, pages: &str) {
    world.env("REGATTA_TEST_COPY_DIES", pages);
    let died = world.regatta(["store", "copy", from, to]);
    assert_eq!(died.code, 128 + 9, "{}", died.stderr);
    world.env("REGATTA_TEST_COPY_DIES", "");
    // Neither can be used in between.
    let half = world.regatta(["list", "--store", to]).exited(6);
    assert!(half.stderr.contains("is an unfinished copy of "), "{}", half.stderr);
    let moving = world.regatta(["list", "--store", from]).exited(6);
    assert!(moving.stderr.contains("is being moved to "), "{}", moving.stderr);
    let other = world.regatta(["store", "copy", from, to, "--keep"]).exited(6);
    assert!(other.stderr.contains("is being moved"), "{}", other.stderr);
    let copied = world.regatta(["store", "copy", from, to, "--json"]).exited(0).json();
    assert_eq!(copied["resumed"], true);
}

#[test]
fn a_copy_that_was_killed_continues_wherever_it_was() {
    let mut world = lived_in();
    let from = own(&world);
    let before = dump(&world, &from);
    for pages in ["1", "4", "12"] {
        for to in [
            Server::shared().url(&format!("killed_{pages}")),
            Ensemble::shared().url(&format!("killed{pages}")),
        ] {
            dies_and_continues(&mut world, &from, &to, pages);
            assert_eq!(dump(&world, &to), before);
            // A way back for the next round, by hand.
            let db = rusqlite::Connection::open(world.state_dir().join("regatta.db")).unwrap();
            db.execute_batch("update project set mark = null").unwrap();
            lower(&db, 1_000_000);
        }
    }
    // From ZooKeeper as well.
    let back = sqlite(&world.outside("back.db"));
    dies_and_continues(&mut world, &Ensemble::shared().url("killed4"), &back, "7");
    assert_eq!(dump(&world, &back), before);
}

#[test]
fn an_unfinished_move_is_undone_and_a_source_that_changed_since_is_copied_again() {
    let mut world = lived_in();
    let (from, to) = (own(&world), sqlite(&world.outside("copy.db")));
    let there = Ensemble::shared().url("undone");
    // A copy that was begun in ZooKeeper is emptied there, and nothing of it is left.
    world.env("REGATTA_TEST_COPY_DIES", "9");
    world.regatta(["store", "copy", "sqlite", &there]);
    world.env("REGATTA_TEST_COPY_DIES", "");
    world.regatta(["store", "copy", "--undo", &there]).exited(0);
    world.regatta(["store", "copy", "--undo", "sqlite"]).exited(0);
    assert_eq!(
        world.regatta(["list", "--status", "all", "--json", "--store", &there]).exited(0).stdout.trim(),
        "[]"
    );
    world.regatta(["store", "copy", "sqlite", &there, "--keep"]).exited(0);
    assert_eq!(dump(&world, &there), dump(&world, &from));
    let again = world.regatta(["store", "copy", "--undo", &there]).exited(6);
    insta::assert_snapshot!(shown(&world, &again.stderr), @"
    error: zookeeper://SERVER is not being moved
    hint: there is nothing to undo
    ");
    world.env("REGATTA_TEST_COPY_DIES", "3");
    world.regatta(["store", "copy", "sqlite", &to]);
    world.env("REGATTA_TEST_COPY_DIES", "");
    let undone = world.regatta(["store", "copy", "--undo", "sqlite"]).exited(0);
    assert_eq!(undone.stdout, format!("{from} can be used again\n"));
    world.regatta(["store", "copy", "--undo", "sqlite"]).exited(6);
    world.regatta(["ctx", "set", "later", "x"]).exited(0);
    let copied = world.regatta(["store", "copy", "sqlite", &to, "--keep", "--json"]).exited(0).json();
    assert_eq!((&copied["resumed"], &copied["moved"]), (&Value::Bool(true), &Value::Bool(false)));
    assert_eq!(dump(&world, &to), dump(&world, &from));
    world.regatta(["list"]).exited(0);
    let full = world.regatta(["store", "copy", "sqlite", &to]).exited(6);
    insta::assert_snapshot!(shown(&world, &full.stderr), @"
    error: sqlite:OUTSIDE/copy.db is not empty
    hint: name a store that does not exist yet
    ");
}

#[test]
fn a_store_in_use_is_not_moved_and_a_missing_one_is_named() {
    let world = World::new(REGATTA);
    let daemon = world.daemon();
    let to = sqlite(&world.outside("copy.db"));
    let refused = world.regatta(["store", "copy", "sqlite", &to]).exited(6);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let stderr = refused.stderr.replace(&format!(" on {}", host.trim()), " on MACHINE");
    insta::assert_snapshot!(shown(&world, &stderr), @"
    error: sqlite:ROOT/.regatta/regatta.db is in use: daemon on MACHINE
    hint: stop the daemon when its tasks have ended, with `regatta daemon stop --drain`, or let the run end; `regatta reclaim` ends the sessions of processes that are gone
    ");
    world.regatta(["list"]).exited(0);
    world.regatta(["daemon", "stop"]).exited(0);
    daemon.wait().exited(0);
    world.regatta(["store", "copy", "sqlite", &to]).exited(0);
    world.regatta(["store", "copy", "sqlite:nowhere.db", &to]).exited(4);
    world.regatta(["store", "copy", &to, &to]).exited(2);
    world.regatta(["store", "copy", &to]).exited(2);
}

/// A dump in a file.
fn dumped(world: &World) -> (PathBuf, String) {
    let text = world.regatta(["store", "dump"]).exited(0).stdout;
    let path = world.outside("dump.jsonl");
    std::fs::write(&path, &text).unwrap();
    (path, text)
}

#[test]
fn a_dump_is_loaded_into_an_empty_store_of_every_kind() {
    let mut world = lived_in();
    let (path, _) = dumped(&world);
    let path = path.to_str().unwrap();
    let before = dump(&world, &own(&world));
    let stores = [
        sqlite(&world.outside("loaded.db")),
        Server::shared().url("loaded"),
        Ensemble::shared().url("loaded"),
    ];
    for store in stores {
        world.env("REGATTA_TEST_COPY_DIES", "3");
        let died = world.regatta(["store", "load", path, "--store", &store]);
        assert_eq!(died.code, 128 + 9, "{}", died.stderr);
        world.env("REGATTA_TEST_COPY_DIES", "");
        let half = world.regatta(["list", "--store", &store]).exited(6);
        assert!(half.stderr.contains("is an unfinished copy of a dump"), "{}", half.stderr);
        let loaded = world.regatta(["store", "load", path, "--store", &store, "--json"]).exited(0).json();
        assert!(loaded["records"].as_array().unwrap().len() > 10);
        assert_eq!(dump(&world, &store), before);
        world.regatta(["store", "check", "--store", &store]).exited(0);
        let again = world.regatta(["store", "load", path, "--store", &store]).exited(6);
        assert!(again.stderr.contains("is not empty"), "{}", again.stderr);
    }
}

#[test]
fn a_dump_that_is_damaged_truncated_or_foreign_is_refused_with_its_line() {
    let world = lived_in();
    let (path, good) = dumped(&world);
    let lines: Vec<&str> = good.lines().collect();
    let joined = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let without = |n: usize| joined(&[&lines[..n], &lines[n + 1..]].concat());
    let mut swapped = lines.clone();
    let last = lines.len() - 2;
    swapped.swap(1, last);
    let store = world.outside("bad.db");
    let mut refusals = String::new();
    for (what, text) in [
        ("empty", String::new()),
        ("foreign", "{\"some\":\"json\"}\n".to_owned()),
        ("no JSON", "hello\n".to_owned()),
        ("newer", good.replacen("\"format\":1", "\"format\":2", 1)),
        ("cut in a line", good[..good.len() / 2].to_owned()),
        ("cut after a line", joined(&lines[..lines.len() / 2])),
        ("a line is missing", without(3)),
        ("a line is there twice", joined(&[&lines[..3], &lines[2..]].concat())),
        ("a word is changed", good.replacen("good", "gold", 1)),
        ("lines are exchanged", joined(&swapped)),
        ("something follows", format!("{good}more\n")),
        ("unknown record", good.replacen("\"record\":\"task\"", "\"record\":\"boat\"", 1)),
    ] {
        std::fs::write(&path, text).unwrap();
        let refused = world.regatta(["store", "load", path.to_str().unwrap(), "--store", &sqlite(&store)]);
        let refused = refused.exited(2).stderr;
        let why = refused.lines().next().unwrap().rsplit("dump.jsonl: ").next().unwrap().to_owned();
        let n_task = lines.iter().position(|line| line.starts_with("{\"record\":\"task\"")).unwrap() + 1;
        let n_cut = good[..good.len() / 2].lines().count();
        let why = if what == "unknown record" {
            why.replace(&format!("line {n_task}:"), "line TASK:")
        } else {
            why
        };
        let why =
            if what == "cut in a line" { why.replace(&format!("line {n_cut}:"), "line CUT:") } else { why };
        let why = why.replace(&format!("line {}:", lines.len()), "line LAST:");
        let why = why.replace(&format!("line {}:", lines.len() + 1), "line AFTER:");
        let why = why.replace(&format!("line {}:", lines.len() - 1), "line LAST-1:");
        let why = why.replace(&format!("line {}:", lines.len() / 2 + 1), "line MIDDLE:");
        refusals.push_str(&format!("{what}: {why}\n"));
    }
    let list = world.regatta(["list", "--status", "all", "--json", "--store", &sqlite(&store)]);
    assert_eq!(list.exited(0).stdout.trim(), "[]", "nothing was changed");
    insta::assert_snapshot!(refusals, @r#"
    empty: line 1: the file is empty
    foreign: line 1: this is not the beginning of a dump by `regatta store dump`
    no JSON: line 1: it is not a JSON object: expected value at line 1 column 1
    newer: line 1: the format is 2, and this version reads 1; use the version that wrote it
    cut in a line: line CUT: the file ends in the middle of this line
    cut after a line: line MIDDLE: the file ends before the end of the dump
    a line is missing: line LAST-1: the lines before it are not those that the dump had: some were changed, lost or added
    a line is there twice: line AFTER: the lines before it are not those that the dump had: some were changed, lost or added
    a word is changed: line LAST: the lines before it are not those that the dump had: some were changed, lost or added
    lines are exchanged: line 3: a session cannot come after a counters
    something follows: line AFTER: something follows the end of the dump
    unknown record: line TASK: this version knows no record "boat"
    "#);
}

#[test]
fn commands_that_read_make_no_project() {
    let server = Server::start();
    let schemas =
        || server.execute("select nspname from pg_namespace where nspname like 'regatta%' order by 1");
    let mut world = World::new(REGATTA);
    world.env("REGATTA_STORE", server.url("shop"));
    let plan = world.plan("  - id: a\n    agent: sh\n    prompt: 'true'\n");
    world.enqueue(&plan);
    let doctor = world.regatta(["doctor"]).stdout;
    assert!(doctor.contains("/postgres?project=shop: 1 task, 1 event"), "{doctor}");
    world.env("REGATTA_STORE", server.url("shpo"));
    let reading: [&[&str]; 17] = [
        &["list"],
        &["list", "--json"],
        &["list", "--watch"],
        &["status", "a"],
        &["events"],
        &["events", "--follow"],
        &["summary"],
        &["cost"],
        &["top", "--once"],
        &["logs", "a"],
        &["diff", "a"],
        &["cancel", "a"],
        &["node", "list"],
        &["crew", "list"],
        &["profiles"],
        &["store", "check"],
        &["store", "dump"],
    ];
    for words in reading {
        let refused = world.regatta(words);
        assert_eq!((refused.code, refused.stdout.as_str()), (4, ""), "{words:?}: {}", refused.stderr);
        if words.contains(&"--json") {
            assert!(refused.stderr.contains("has no project shpo; it has: shop"), "{}", refused.stderr);
            continue;
        }
        insta::allow_duplicates! {
            insta::assert_snapshot!(refused.stderr, @"
            error: the store has no project shpo; it has: shop
            hint: correct `project=` in the address of the store; `regatta init`, `run`, `enqueue` and `daemon` create a new one
            ");
        }
    }
    let doctor = world.regatta(["doctor"]).stdout;
    assert!(doctor.contains("the store has no project shpo; it has: shop"), "{doctor}");
    assert_eq!(world.regatta(["daemon", "status"]).exited(4).stdout, "daemon: none\n");
    let copy = |from: &str, to: &str| world.regatta(["store", "copy", &server.url(from), &server.url(to)]);
    assert!(copy("shpo", "copy").exited(4).stderr.contains("the store has no project shpo"));
    assert_eq!(schemas(), "regatta_shop\n");
    // A copy that is refused leaves nothing behind, and one that is not makes its target.
    world.env("REGATTA_STORE", server.url("shop"));
    let daemon = world.daemon();
    let copy = |from: &str, to: &str| world.regatta(["store", "copy", &server.url(from), &server.url(to)]);
    assert!(copy("shop", "copy").exited(6).stderr.contains("?project=shop is in use: daemon on "));
    assert_eq!(schemas(), "regatta_shop\n");
    world.regatta(["daemon", "stop", "--drain"]).exited(0);
    daemon.wait().exited(0);
    copy("shop", "copy").exited(0);
    assert!(copy("shop", "other").exited(6).stderr.contains("has moved to"));
    assert_eq!(schemas(), "regatta_copy\nregatta_shop\n");
    // Commands that queue tasks may make a project.
    world.env("REGATTA_STORE", server.url("next"));
    world.enqueue(&plan);
    assert_eq!(schemas(), "regatta_copy\nregatta_next\nregatta_shop\n");

    world.env("REGATTA_STORE", Ensemble::shared().url("none/there"));
    for _ in 0..2 {
        let refused = world.regatta(["list"]).exited(4).stderr;
        insta::allow_duplicates! {
            insta::assert_snapshot!(shown(&world, &refused), @"
            error: there is no store at zookeeper://SERVER yet
            hint: correct the address of the store; `regatta init`, `run`, `enqueue` and `daemon` create a new one
            ");
        }
    }
    world.enqueue(&plan);
    world.regatta(["list"]).exited(0);
}

#[test]
fn roles_that_an_administrator_made_work_without_owning_anything() {
    let server = Server::start();
    let world = World::new(REGATTA);
    let url = |user: &str| server.url("roles").replace("regatta@", &format!("{user}@"));
    server
        .execute("create role build login; create role eyes login; revoke all on schema public from public");
    // Before the schema is there, a node says what has to be done.
    let early = world.regatta(["store", "migrate", "--store", &url("build")]).exited(6);
    insta::assert_snapshot!(early.stderr, @"
    error: the schema regatta_roles has to be created or migrated, and this role may not do that: PostgreSQL: permission denied for database postgres (42501)
    hint: an administrator runs the SQL that `regatta store migrate --print` prints
    ");
    let print = || world.regatta(["store", "migrate", "--print", "--store", &url("build")]).exited(0).stdout;
    server.execute(&print());
    server.execute("grant regatta_node to build; grant regatta_viewer to eyes");
    // It can be run again.
    server.execute(&print());
    world.run(&world.plan_file(PLAN), &["--store", &url("build")]).exited(1);
    let list = world.regatta(["list", "--status", "all", "--json", "--store", &url("eyes")]).exited(0).json();
    assert_eq!(list.as_array().unwrap().len(), 4);
    let refused = world.regatta(["add", "x", "--agent", "sh", "--store", &url("eyes")]).exited(6);
    assert!(refused.stderr.contains("permission denied"), "{}", refused.stderr);
    let owners =
        server.execute("select distinct tableowner from pg_tables where schemaname = 'regatta_roles'");
    assert_eq!(owners, "regatta_owner\n");
    world.regatta(["store", "check", "--store", &url("eyes")]).exited(0);
    let file = world.regatta(["store", "migrate", "--print"]).exited(2);
    assert!(file.stderr.contains("no SQL to print for a SQLite store"), "{}", file.stderr);
    let ensemble = Ensemble::shared().url("roles");
    let print = world.regatta(["store", "migrate", "--print", "--store", &ensemble]).exited(2);
    insta::assert_snapshot!(print.stderr, @"
    error: there is no SQL to print for a store in ZooKeeper
    hint: `regatta store migrate` brings its layout to this version; name a PostgreSQL store with --store to print its SQL
    ");
    let migrated = world.regatta(["store", "migrate", "--store", &ensemble]).exited(0);
    assert!(migrated.stdout.ends_with("/roles is at version 1, it was at 0\n"), "{}", migrated.stdout);
    let migrated = world.regatta(["store", "migrate", "--store", &ensemble]).exited(0);
    assert!(migrated.stdout.ends_with("/roles is at version 1 already\n"), "{}", migrated.stdout);
}

/// The variables of a program that has one more migration than this one.
fn newer(world: &mut World, migration: &str) {
    let file = world.outside("next.sql");
    std::fs::write(&file, migration).unwrap();
    world.env("REGATTA_TEST_MIGRATION", &file).env("REGATTA_TEST_PROGRAM", "2");
}

/// This program again.
fn older(world: &mut World) {
    world.env("REGATTA_TEST_MIGRATION", "").env("REGATTA_TEST_PROGRAM", "");
}

fn world_at(url: Option<&String>) -> World {
    let mut world = World::new(REGATTA);
    if let Some(url) = url {
        world.env("REGATTA_STORE", url);
    }
    world
}

#[test]
fn a_migration_that_only_adds_is_applied_beside_an_older_version() {
    let (database, ensemble) = (Server::shared().url("neighbours"), Ensemble::shared().url("neighbours"));
    for (url, adds) in [
        (None, "-- adds\ncreate table extra(x integer);\n"),
        (Some(&database), "-- adds\ncreate table extra(x bigint);\n"),
        (Some(&ensemble), "-- adds\ncreate /extra\n"),
    ] {
        let mut world = world_at(url);
        let daemon = world.daemon();
        until("the daemon has a session", || {
            let dump = world.regatta(["store", "dump"]).exited(0).stdout;
            dump.contains("{\"record\":\"session\"").then_some(())
        });
        newer(&mut world, adds);
        world.regatta(["list"]).exited(0);
        older(&mut world);
        world.regatta(["ctx", "set", "still", "here"]).exited(0);
        world.regatta(["daemon", "stop"]).exited(0);
        daemon.wait().exited(0);
    }
}

#[test]
fn a_migration_that_shuts_older_versions_out_names_who_is_in_the_way() {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let (database, ensemble) = (Server::shared().url("versions"), Ensemble::shared().url("versions"));
    let sql = "-- oldest program: 2\ncreate table extra(x integer);\n";
    for (url, breaks) in
        [(None, sql), (Some(&database), sql), (Some(&ensemble), "-- oldest program: 2\ncreate /extra\n")]
    {
        let mut world = world_at(url);
        let daemon = world.daemon();
        until("the daemon has a session", || {
            let dump = world.regatta(["store", "dump"]).exited(0).stdout;
            dump.contains("{\"record\":\"session\"").then_some(())
        });
        newer(&mut world, breaks);
        let refused = world.regatta(["store", "migrate"]).exited(6);
        assert_eq!(
            refused.stderr.replace(host.trim(), "MACHINE").lines().next().unwrap(),
            "error: this version of Regatta has to change the store so that older versions can no longer use it, and \
             these are at work: MACHINE (daemon)",
        );
        older(&mut world);
        world.regatta(["daemon", "stop"]).exited(0);
        daemon.wait().exited(0);
        newer(&mut world, breaks);
        let migrated = world.regatta(["store", "migrate", "--json"]).exited(0).json();
        assert_eq!(migrated["version"].as_u64().unwrap(), migrated["before"].as_u64().unwrap() + 1);
        world.regatta(["list"]).exited(0);
        older(&mut world);
        let refused = world.regatta(["list"]).exited(3);
        let expected =
            format!("for program 2 or newer, this is program 1; upgrade Regatta on {})", host.trim());
        assert!(refused.stderr.contains(&expected), "{}", refused.stderr);
    }
}

#[test]
fn after_an_accepted_loss_claims_have_higher_fences() {
    for url in [None, Some(Ensemble::shared().url("lost"))] {
        let mut world = World::new(REGATTA);
        if let Some(url) = &url {
            world.env("REGATTA_STORE", url);
        }
        has_higher_fences_after_a_loss(&world, &url.unwrap_or_else(|| own(&world)));
    }
}

fn has_higher_fences_after_a_loss(world: &World, store: &str) {
    world.regatta(["add", "before", "--agent", "sh"]).exited(0);
    let accepted = world.regatta(["store", "accept-loss", "--json"]).exited(0).json();
    assert_eq!((&accepted["era"], &accepted["ended"]), (&serde_json::json!(1), &serde_json::json!([])));
    world.run(&world.plan_file(PLAN), &[]).exited(1);
    let fences: Vec<u64> = dump(world, store)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["record"] == "task" && line["attempts"] != 0)
        .map(|line| line["fence"].as_u64().unwrap())
        .collect();
    assert!(fences.len() >= 3 && fences.iter().all(|fence| *fence > 1 << 32), "{fences:?}");
    world.regatta(["store", "check"]).exited(0);
}

#[test]
fn a_loss_is_not_accepted_while_machines_work_unless_that_is_said() {
    let world = World::new(REGATTA);
    let daemon = world.daemon();
    let refused = world.regatta(["store", "accept-loss"]).exited(6);
    assert!(refused.stderr.starts_with("error: sessions are open: daemon on "), "{}", refused.stderr);
    let accepted = world.regatta(["store", "accept-loss", "--yes"]).exited(0);
    assert!(accepted.stdout.contains("era 1 begins"), "{}", accepted.stdout);
    daemon.signal("TERM");
    daemon.wait();
}
