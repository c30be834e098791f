//! What is seen and what can be written, judged from outside.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use regatta_core::exit::Exit;
use regatta_core::sandbox::{Level, PathAccess, PathRule};
use regatta_engine::confine::Weaker;
use serde_json::json;

use super::{World, everywhere, in_full, users};

#[test]
fn the_lane_can_be_written_and_nothing_else_changes() {
    everywhere(|world, document| {
        let home = world.path("home");
        let script = format!(
            "echo new > made && echo more >> work && mv made moved && ln work linked && mkdir d && mv moved d/ || exit 9
             for target in {home}/.bashrc {home}/new {home}/.ssh/id {home}/.ssh/new {project}/README {project}/new \
                 {project}/.regatta/store {other} /etc/regatta-test /usr/regatta-test /proc/sys/kernel/hostname /sys/regatta
             do echo bad >> $target; rm -f $target; done 2> /dev/null; true",
            home = home.display(),
            project = world.path("project").display(),
            other = world.path("lanes/other/work").display(),
        );
        let ran = world.shell(document, &script);
        assert_eq!(ran.exit, Exit::Exited { code: 0 }, "{ran:?}");
        assert_eq!(world.read("lanes/mine/work"), "mine\nmore\n");
        assert_eq!(world.read("lanes/mine/d/moved"), "new\n");
        for (file, text) in [
            ("home/.bashrc", "echo hello\n"),
            ("home/.ssh/id", "a key\n"),
            ("project/README", "read me\n"),
            ("project/.regatta/store", "a token\n"),
            ("lanes/other/work", "another's\n"),
        ] {
            assert_eq!(world.read(file), text, "{file} at {:?} as {:?}", document.level, world.user);
        }
        for file in ["home/new", "home/.ssh/new", "home/.missing", "project/new"] {
            assert!(!world.path(file).exists(), "{file}");
        }
        assert!(!std::path::Path::new("/etc/regatta-test").exists());
    });
}

#[test]
fn what_is_hidden_cannot_be_read() {
    everywhere(|world, document| {
        let mut script = String::new();
        for file in ["home/.ssh/id", "home/.netrc", "project/.regatta/store", "lanes/other/work"] {
            script += &format!("cat {} 2> /dev/null\n", world.path(file).display());
        }
        script += &format!("cat {} work\n", world.path("project/README").display());
        let ran = world.shell(document, &script);
        assert_eq!(ran.stdout, "read me\nmine\n", "{:?} as {:?}: {ran:?}", document.level, world.user);
    });
}

#[test]
fn the_home_is_a_copy_and_its_state_is_real() {
    in_full(|world, document| {
        let script = "cd $HOME && echo planted >> .bashrc && mkdir -p .cache/x && cat .bashrc && \
            echo new > .agent/state && ! echo evil > .agent/settings && ls -A .ssh && cat .netrc";
        let ran = world.shell(&document, script);
        assert_eq!(ran.exit, Exit::Exited { code: 0 }, "{ran:?}");
        assert_eq!(ran.stdout, "echo hello\nplanted\n");
        assert_eq!(world.read("home/.bashrc"), "echo hello\n");
        assert!(!world.path("home/.cache").exists());
        assert_eq!(world.read("home/.agent/state"), "new\n");
        assert_eq!(world.read("home/.agent/settings"), "honest\n");
        assert!(ran.confined.unwrap().weaker.is_empty());
    });
}

#[test]
fn where_an_overlay_is_refused_the_home_is_read_only_and_that_is_reported() {
    in_full(|world, document| {
        let env = json!([
            "PATH=/usr/bin:/bin",
            "REGATTA_TEST_SANDBOX=no-overlay,no-proc",
            format!("HOME={}", world.path("home").display())
        ]);
        let script = "cat $HOME/.bashrc; echo x >> $HOME/.bashrc || echo refused; echo y > $HOME/.agent/state; \
            echo z > work; cat $HOME/.ssh/id; kill -0 $$ && echo own";
        let ran = world.start(Some(&document), &["sh", "-c", script], json!({ "env": env })).ended();
        assert_eq!(ran.stdout, "echo hello\nrefused\nown\n", "{ran:?}");
        assert_eq!(
            (world.read("home/.agent/state"), world.read("lanes/mine/work")),
            ("y\n".into(), "z\n".into())
        );
        let weaker = ran.confined.unwrap().weaker;
        assert!(
            matches!(&weaker[..], [Weaker::SharedProc { .. }, Weaker::NotCopied { path, .. }]
            | [Weaker::NotCopied { path, .. }, Weaker::SharedProc { .. }] if *path == world.path("home")),
            "{weaker:?}"
        );
    });
}

#[test]
fn the_usual_places_are_its_own() {
    in_full(|world, document| {
        fs::write("/dev/shm/regatta-test-outside", "x").unwrap();
        let script = "echo t > /tmp/t && echo v > /var/tmp/v && echo s > /dev/shm/s && cat /tmp/v && ls /dev/shm && \
            ls -A /run | grep -v -x -e systemd -e resolvconf -e NetworkManager; \
            echo x > /dev/null; head -c 2 /dev/urandom | wc -c; test -c /dev/tty && readlink /dev/fd; \
            ls /proc | grep -x -e 1 -e 2 | wc -l; test -e /dev/ptmx && ls -d /dev/pts; ls /dev | grep -x -e mem -e kmsg -e sda -e vda; true";
        let ran = world.shell(&document, script);
        let _ = fs::remove_file("/dev/shm/regatta-test-outside");
        assert_eq!(ran.stdout, "v\ns\n2\n/proc/self/fd\n2\n/dev/pts\n", "{ran:?}");
        assert_eq!(world.read("box/tmp/t"), "t\n");
        assert!(!std::path::Path::new("/tmp/t").exists() || world.read("../t") != "t\n");
        assert!(!std::path::Path::new("/dev/shm/s").exists());
    });
}

#[test]
fn a_project_below_a_place_that_is_replaced_stays_visible() {
    for user in users() {
        let dir = tempfile::Builder::new().prefix("regatta-test").tempdir_in("/dev/shm").unwrap();
        let world = World::within(dir, user);
        let mut document = world.document(Level::Full);
        // An overlay of memory onto memory.
        document.rules.retain(|rule| !matches!(rule.access, PathAccess::Copy { .. }));
        let script = format!(
            "echo ok > made; cat {}/README; cat {}/.regatta/store; ls -A {}",
            world.path("project").display(),
            world.path("project").display(),
            world.path("lanes").display(),
        );
        let ran = world.shell(&document, &script);
        assert_eq!(ran.stdout, "read me\nmine\n", "{ran:?}");
        assert_eq!(world.read("lanes/mine/made"), "ok\n");
    }
}

#[test]
fn sockets_of_other_processes_do_not_answer() {
    everywhere(|world, document| {
        let (stranger, mine, left) = (
            world.path("home/service.sock"),
            world.path("lanes/mine/own.sock"),
            world.path("project/db.sock"),
        );
        let _listening = [&stranger, &mine, &left].map(|path| UnixListener::bind(path).unwrap());
        for path in [&stranger, &mine, &left] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        }
        let mut document = document.clone();
        document.sockets = vec![left.clone()];
        let connect = |path: &std::path::Path| world.attempt(&document, &["connect", path.to_str().unwrap()]);
        assert_ne!(connect(&stranger), "ok");
        assert_eq!(world.attempt(&document, &["pair"]), "ok");
        let own = world.attempt(&document, &["listen", "made.sock"]);
        if document.level == Level::Full {
            assert_eq!((connect(&mine), connect(&left), own), ("ok".into(), "ok".into(), "ok".into()));
        } else {
            // No kernel of today can tell one socket from another without a mount.
            assert_ne!(connect(&left), "ok");
        }
    });
}

#[test]
fn a_link_that_was_put_in_the_way_stops_the_start() {
    for user in users() {
        let world = World::new(user);
        fs::remove_dir_all(world.path("home/.ssh")).unwrap();
        std::os::unix::fs::symlink("/etc", world.path("home/.ssh")).unwrap();
        let ran = world.shell(&world.document(Level::Full), "echo ran");
        let Exit::NeverStarted { error, .. } = &ran.exit else { panic!("{ran:?}") };
        assert!(error.contains("home/.ssh: Too many levels of symbolic links"), "{error}");
    }
}

#[test]
fn only_the_standard_streams_are_open_inside() {
    everywhere(|world, document| {
        // Every descriptor of the test that is not closed on exec would be inherited, and the shim's lock is.
        let script = "ls /proc/self/fd | tr '\\n' ' '; cat /dev/stdin";
        fs::write(world.path("runs/input"), "from a file\n").unwrap();
        let more = json!({ "stdin": world.path("runs/input") });
        let ran = world.start(Some(document), &["sh", "-c", script], more).ended();
        // The last one is the listing's own.
        assert_eq!(ran.stdout, "0 1 2 3 from a file\n", "{ran:?}");
    });
}

#[test]
fn older_landlock_is_enough() {
    for user in users() {
        for (level, abi) in [(Level::Files, 2), (Level::Files, 4), (Level::Full, 2), (Level::Full, 4)] {
            let world = World::new(user);
            let mut document = world.document(level);
            document.abi = Some(abi);
            let script = format!(
                "echo ok > made && mkdir d && mv made d/ && cat d/made; cat {} 2> /dev/null; : > {}; truncate -s 0 {}; true",
                world.path("home/.ssh/id").display(),
                world.path("project/README").display(),
                world.path("project/README").display()
            );
            let ran = world.shell(&document, &script);
            assert_eq!(ran.stdout, "ok\n", "{level} with {abi}: {ran:?}");
            assert_eq!(world.read("project/README"), "read me\n");
            assert_eq!(ran.confined.unwrap().landlock, Some(abi));
        }
    }
}

#[test]
fn the_files_level_says_what_it_cannot_keep() {
    let world = World::new(None);
    let mut document = world.document(Level::Files);
    let ran = world.shell(&document, "true");
    assert_eq!(ran.confined.unwrap().weaker, [Weaker::Writable { path: world.path("home/.agent/settings") }]);
    document.rules.push(PathRule { path: world.path("lanes/mine/work"), access: PathAccess::Hide });
    let Exit::NeverStarted { error, .. } = world.shell(&document, "true").exit else {
        panic!("it cannot be hidden")
    };
    assert!(error.contains("needs the level full"), "{error}");
}

#[test]
fn a_home_with_a_mount_below_is_copied_as_far_as_possible() {
    for user in users() {
        let world = World::new(user);
        fs::create_dir_all(world.path("home/disk")).unwrap();
        fs::create_dir_all(world.path("home/.cache")).unwrap();
        world.give(&world.path("home"));
        let disk = world.path("home/disk");
        let mount = "mount -t tmpfs t \"$0\" && echo data > \"$0/file\" && exec \"$@\"";
        // A namespace around the launcher, in which a disk is mounted.
        let around =
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, disk.to_str().unwrap()];
        let script = "cat $HOME/disk/file; echo x > $HOME/disk/new || echo refused; echo y > $HOME/.cache/y && echo copied; \
            echo z > $HOME/z || echo refused; cat $HOME/.ssh/id; echo ok > made";
        let document = world.document(Level::Full);
        let ran = world.start_in(&around, Some(&document), &["sh", "-c", script], json!({})).ended();
        assert_eq!(ran.stdout, "data\nrefused\ncopied\nrefused\n", "{ran:?}");
        assert!(!world.path("home/.cache/y").exists());
        assert_eq!(world.read("lanes/mine/made"), "ok\n");
        let weaker = ran.confined.unwrap().weaker;
        assert!(
            matches!(&weaker[..], [Weaker::NotCopied { path, .. }] if *path == world.path("home")),
            "{weaker:?}"
        );
    }
}
