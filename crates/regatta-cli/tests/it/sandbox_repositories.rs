//! Unusual repositories and small builds with the sandbox on: an agent edits, commits and lands as in any other.

use std::fs;
use std::path::Path;

use regatta_testkit::repo::{ScratchRepo, write};
use regatta_testkit::world::{World, task};

use crate::REGATTA;

/// A world whose agents do not even see the directory around it.
fn closed(repo: ScratchRepo, config: &str) -> World {
    let mut world = World::around(REGATTA, repo);
    world.env("REGATTA_TEST_SANDBOX_WRITE", "");
    world.config(&format!("agents: {{ bash: {{ kind: command, argv: [bash, -e] }} }}\n{config}"));
    world
}

/// Runs these one after the other; each must land, and nothing may be left to commit.
fn lands(world: &World, bodies: &[&str]) {
    for (n, body) in bodies.iter().enumerate() {
        let id = format!("t{n}");
        let plan = world.plan_with("", &task(&id, "agent: bash\nmax_attempts: 1", body));
        let ran = world.run(&plan, &[]);
        let logs = world.regatta(["logs", &id]);
        assert_eq!(ran.code, 0, "{}\n{}", ran.shown(), logs.shown());
        assert_eq!(world.task(&id)["attempts"][0]["sandbox"], level(world), "{body}");
        assert_eq!(world.repo().git(["status", "--porcelain", "--ignore-submodules"]), "", "{body}");
    }
    world.repo().git(["fsck", "--full", "--no-dangling"]);
    world.assert_tidy();
}

/// The best level of this machine.
fn level(world: &World) -> serde_json::Value {
    world.regatta(["sandbox", "show", "--json"]).exited(0).json()["level"].clone()
}

/// What agents do with git, and what must work everywhere. It leaves one commit and an uncommitted change.
const ORDINARY: &str = "git config user.name a; git config user.email a@b\n\
    echo more >>README.md; git add README.md; git commit -qm 'by the agent'; git show --stat | cat\n\
    echo even more >>README.md; git stash -q; git stash pop -q; git diff | grep -q '^+even'\n\
    git switch -qc aside; git checkout -q -; git log --oneline | cat; git fsck --connectivity-only\n";

/// Two commits on `main`, so that there is a past.
fn with_past(repo: &ScratchRepo) {
    repo.commit_file("README.md", "first\n", "first");
    repo.commit_file("README.md", "second\n", "second");
    repo.commit_file("in/file.txt", "in\n", "in");
    repo.commit_file("out/file.txt", "out\n", "out");
}

#[test]
fn a_repository_with_sha256() {
    let repo = ScratchRepo::at("repo", "main", &["--object-format=sha256"]);
    with_past(&repo);
    let world = closed(repo, "");
    lands(
        &world,
        &[ORDINARY, "git rev-parse HEAD | tr -d '\\n' | wc -c >length.txt; git mv README.md moved.md"],
    );
    assert_eq!(world.landed("length.txt").as_deref(), Some("64\n"));
    assert_eq!(world.landed("moved.md").as_deref(), Some("second\nmore\neven more\n"));
}

#[test]
fn a_sparse_checkout() {
    let repo = ScratchRepo::empty("main");
    with_past(&repo);
    repo.git(["sparse-checkout", "set", "in"]);
    let world = closed(repo, "");
    lands(
        &world,
        &[ORDINARY, "echo changed >in/file.txt; git commit -qam changed; git sparse-checkout list | cat >&2"],
    );
    assert_eq!(world.landed("in/file.txt").as_deref(), Some("changed\n"));
    assert_eq!(world.landed("out/file.txt").as_deref(), Some("out\n"), "what is not checked out stays");
    assert!(!world.root().join("out").exists(), "the checkout stays sparse");
}

/// Blobs are fetched when they are needed: those of the past never are, and those outside of a sparse checkout only
/// when a lane wants them.
#[test]
fn a_partial_clone() {
    for sparse in [false, true] {
        let origin = ScratchRepo::at("origin", "main", &[]);
        with_past(&origin);
        origin.git(["config", "uploadpack.allowFilter", "true"]);
        origin.git(["config", "uploadpack.allowAnySHA1InWant", "true"]);
        let repo = ScratchRepo::empty("main");
        let url = format!("file://{}", origin.root().display());
        repo.git(["remote", "add", "origin", &url]);
        repo.git(["fetch", "-q", "--filter=blob:none", "origin", "main"]);
        if sparse {
            repo.git(["sparse-checkout", "set", "in"]);
        }
        repo.git(["reset", "-q", "--hard", "FETCH_HEAD"]);
        let missing = |repo: &ScratchRepo| {
            let listed = repo.git(["rev-list", "--objects", "--all", "--missing=print", "FETCH_HEAD"]);
            listed.lines().filter(|line| line.starts_with('?')).count()
        };
        assert!(missing(&repo) > 0, "it is partial");
        let world = closed(repo, "");
        lands(
            &world,
            &[ORDINARY, "echo changed >in/file.txt; git commit -qam changed; git log --format=%s | cat"],
        );
        assert_eq!(world.landed("in/file.txt").as_deref(), Some("changed\n"));
        assert!(missing(world.repo()) > 0, "it stays partial");
    }
}

#[test]
fn submodules_with_an_edit_of_their_pointer() {
    let world = closed(ScratchRepo::new(), "");
    let inner = world.outside("inner");
    fs::create_dir_all(&inner).unwrap();
    let repo = world.repo();
    let commit = |text: &str| {
        write(&inner.join("lib.txt"), text);
        repo.git_in(&inner, ["add", "-A"]);
        repo.git_in(&inner, ["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", text]);
        repo.git_in(&inner, ["rev-parse", "HEAD"])
    };
    repo.git_in(&inner, ["init", "-q", "-b", "main"]);
    let first = commit("one");
    let url = inner.to_str().unwrap();
    repo.git(["-c", "protocol.file.allow=always", "submodule", "add", "-q", url, "vendor/inner"]);
    let second = commit("two");
    // The user's own has both, as after a fetch.
    repo.git_in(&world.root().join("vendor/inner"), ["fetch", "-q"]);
    repo.commit_all("submodule");
    let inside = format!(
        "{ORDINARY}test $(cat vendor/inner/lib.txt) = one; git -C vendor/inner status --short\n\
         git submodule status | cat"
    );
    let moved = format!(
        "git -C vendor/inner checkout -q {second}; git add vendor/inner; git diff --cached --submodule | cat"
    );
    lands(&world, &[&inside, &moved]);
    let at = world.repo().git(["rev-parse", "main:vendor/inner"]);
    assert!(at == second && at != first, "the new pointer landed");
}

#[test]
fn large_files_by_git_lfs() {
    let repo = ScratchRepo::new();
    repo.git(["lfs", "install", "--local"]);
    repo.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    repo.write("old.bin", "an old large file\n");
    repo.commit_all("large");
    let world = closed(repo, "");
    let body = format!(
        "{ORDINARY}test \"$(cat old.bin)\" = 'an old large file'\n\
         echo 'a new large file' >new.bin; git add new.bin; git commit -qm new; git show HEAD:new.bin | grep -q git-lfs\n\
         echo 'not committed' >late.bin; git status --short"
    );
    lands(&world, &[&body, "test \"$(cat new.bin)\" = 'a new large file'; echo 'changed' >old.bin"]);
    for (name, content) in
        [("new.bin", "a new large file\n"), ("late.bin", "not committed\n"), ("old.bin", "changed\n")]
    {
        let pointer = world.landed(name).unwrap();
        assert!(pointer.starts_with("version https://git-lfs"), "{name}: {pointer}");
        assert_eq!(fs::read_to_string(world.root().join(name)).unwrap(), content, "in the checkout");
        let id = pointer.lines().find_map(|line| line.strip_prefix("oid sha256:")).unwrap().to_owned();
        let stored = Path::new(".git/lfs/objects").join(&id[..2]).join(&id[2..4]).join(&id);
        assert!(world.root().join(stored).exists(), "{name} is where `git lfs push` looks for it");
    }
}

/// A filter of the user's own, outside of the repository.
#[test]
fn a_filter_that_the_user_trusts() {
    let repo = ScratchRepo::new();
    repo.git(["config", "filter.upper.clean", "tr a-z A-Z"]);
    repo.git(["config", "filter.upper.smudge", "tr A-Z a-z"]);
    repo.git(["config", "filter.upper.required", "true"]);
    repo.write(".gitattributes", "*.low filter=upper\n");
    repo.write("old.low", "old\n");
    repo.commit_all("filtered");
    assert_eq!(repo.git(["show", "main:old.low"]), "OLD");
    let world = closed(repo, "");
    lands(
        &world,
        &[
            ORDINARY,
            "test $(cat old.low) = old; echo new >new.low; echo committed >mine.low; git add mine.low; git commit -qm mine",
        ],
    );
    assert_eq!(world.landed("new.low").as_deref(), Some("NEW\n"));
    assert_eq!(world.landed("mine.low").as_deref(), Some("COMMITTED\n"));
    assert_eq!(fs::read_to_string(world.root().join("mine.low")).unwrap(), "committed\n");
}

#[test]
fn a_filter_and_a_notification_that_are_files_of_the_repository_run_as_the_user_has_them() {
    let repo = ScratchRepo::new();
    repo.git(["config", "filter.own.clean", "./scripts/clean.sh"]);
    repo.git(["config", "filter.own.smudge", "sh scripts/clean.sh"]);
    repo.git(["config", "diff.own.textconv", "scripts/clean.sh"]);
    repo.write(".gitattributes", "*.low filter=own diff=own\n");
    for name in ["clean", "notify"] {
        repo.write(format!("scripts/{name}.sh"), "#!/bin/sh\nexec cat\n");
        repo.git(["update-index", "--add", "--chmod=+x", &format!("scripts/{name}.sh")]);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(repo.root().join(format!("scripts/{name}.sh")), mode).unwrap();
    }
    repo.write("old.low", "old\n");
    repo.commit_all("filtered");
    let world = closed(repo, "notify:\n  - { on: [landed, blocked], command: [./scripts/notify.sh] }\n");
    // A sandbox has its own temporary directory: what is written there was written outside.
    let outside = world.outside("ran-outside");
    let evil = format!("printf '#!/bin/sh\\nid >>{}\\ncat\\n' >scripts/", outside.display());
    let tasks = [
        task("filter", "agent: bash\nmax_attempts: 1", &format!("{evil}clean.sh\necho new >new.low")),
        task("notify", "agent: bash\nmax_attempts: 1", &format!("{evil}notify.sh")),
        task("plain", "agent: bash\nmax_attempts: 1", "echo more >more.low"),
    ];
    world.run(&world.plan(&tasks.concat()), &[]).exited(1);
    world.assert_states(["filter blocked", "notify blocked", "plain landed"]);
    assert!(!outside.exists(), "{}", fs::read_to_string(&outside).unwrap_or_default());
    assert_eq!(world.landed("more.low").as_deref(), Some("more\n"));
}

#[test]
fn a_database_in_the_lane() {
    let world = closed(ScratchRepo::new(), "");
    let body = "/usr/bin/python3 - <<'END'\n\
        import sqlite3\n\
        for mode in ('wal', 'delete'):\n\
        \x20   one, two = (sqlite3.connect('data.db', timeout=10) for _ in range(2))\n\
        \x20   print(one.execute(f'pragma journal_mode={mode}').fetchone())\n\
        \x20   one.execute('create table if not exists t (n integer)')\n\
        \x20   one.execute('insert into t values (1)'); one.commit()\n\
        \x20   two.execute('insert into t values (2)'); two.commit()\n\
        \x20   one.close(); two.close()\n\
        db = sqlite3.connect('data.db'); db.execute('vacuum')\n\
        print(db.execute('select sum(n) from t').fetchone()[0], file=open('sum.txt', 'w'))\n\
        END";
    lands(&world, &[body]);
    assert_eq!(world.landed("sum.txt").as_deref(), Some("6\n"));
}

#[test]
fn a_build_with_go_and_a_package_of_python() {
    let repo = ScratchRepo::new();
    repo.write("go.mod", "module tiny\n\ngo 1.19\n");
    repo.write(
        "main.go",
        "package main\n\nimport (\n\t\"fmt\"\n\t\"tiny/lib\"\n)\n\nfunc main() { fmt.Println(lib.Name()) }\n",
    );
    repo.write("lib/lib.go", "package lib\n\nfunc Name() string { return \"built\" }\n");
    repo.write("lib/lib_test.go", "package lib\n\nimport \"testing\"\n\nfunc TestName(t *testing.T) {\n\tif Name() != \"built\" {\n\t\tt.Fatal()\n\t}\n}\n");
    repo.write(
        "pkg/setup.py",
        "from setuptools import setup\nsetup(name='tiny', version='1.0', py_modules=['tiny'])\n",
    );
    repo.write("pkg/tiny.py", "print('installed')\n");
    repo.write(".gitignore", "/.installed\n/tiny\nbuild\n*.egg-info\n__pycache__\n");
    repo.commit_all("sources");
    let world = closed(repo, "");
    let go = "go build -o tiny . && ./tiny >go.txt && go test ./... && go vet ./...";
    let pip = "/usr/bin/python3 -m pip install -q --no-index --no-build-isolation --disable-pip-version-check \\\n\
        --root-user-action=ignore --target .installed ./pkg\n\
        PYTHONPATH=.installed /usr/bin/python3 -c 'import tiny' >pip.txt";
    lands(&world, &[go, pip]);
    assert_eq!(world.landed("go.txt").as_deref(), Some("built\n"));
    assert_eq!(world.landed("pip.txt").as_deref(), Some("installed\n"));
    let home = world.outside("home");
    let left: Vec<_> =
        [".cache", "go", ".config/go", ".local"].into_iter().filter(|dir| home.join(dir).exists()).collect();
    assert!(left.is_empty() || left == [".local"], "{left:?}");
}
