//! System calls that reach around the other restrictions, and processes without number.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use regatta_core::exit::Exit;
use regatta_core::sandbox::{Level, Net};
use regatta_engine::confine::Weaker;

use super::{World, everywhere, in_full, users};

const CLONE_NEWUSER: &str = "268435456";
const EPERM: &str = "1";
const ENOSYS: &str = "38";
const EAFNOSUPPORT: &str = "97";

#[test]
fn what_reaches_around_is_refused() {
    everywhere(|world, document| {
        let call = |numbers: &[i64]| {
            let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            let what: Vec<&str> = ["syscall"].into_iter().chain(numbers.iter().map(String::as_str)).collect();
            world.attempt(document, &what)
        };
        for (what, numbers, expected) in [
            ("bpf", &[libc::SYS_bpf][..], EPERM),
            ("io_uring", &[libc::SYS_io_uring_setup], EPERM),
            ("keyring", &[libc::SYS_keyctl], EPERM),
            ("mount", &[libc::SYS_mount], EPERM),
            ("open_tree_attr", &[467], EPERM),
            ("setns", &[libc::SYS_setns], EPERM),
            ("handles", &[libc::SYS_open_by_handle_at], EPERM),
            ("unshare", &[libc::SYS_unshare, CLONE_NEWUSER.parse().unwrap()], EPERM),
            ("clone3", &[libc::SYS_clone3], ENOSYS),
            ("typing into the terminal", &[libc::SYS_ioctl, 0, libc::TIOCSTI.cast_signed()], EPERM),
            ("vsock", &[libc::SYS_socket, 40, 1], EAFNOSUPPORT),
            ("packet", &[libc::SYS_socket, 17, 3], EAFNOSUPPORT),
            ("crypto", &[libc::SYS_socket, 38, 5], EAFNOSUPPORT),
            ("a family that does not exist", &[libc::SYS_socket, 4000, 1], EAFNOSUPPORT),
            ("tcp", &[libc::SYS_socket, 2, 1], "ok"),
            ("routes", &[libc::SYS_socket, 16, 3], "ok"),
        ] {
            assert_eq!(call(numbers), expected, "{what} at {:?} as {:?}", document.level, world.user);
        }
        #[cfg(target_arch = "x86_64")]
        assert_eq!(call(&[0x4000_0000 | libc::SYS_getpid]), ENOSYS, "x32");
        let unix = if document.level == Level::Full { "ok" } else { EAFNOSUPPORT };
        assert_eq!(call(&[libc::SYS_socket, 1, 1]), unix);
    });
}

#[test]
fn no_privilege_is_left() {
    everywhere(|world, document| {
        let ran = world.shell(document, "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status");
        let zero = "0000000000000000";
        for line in ran.stdout.lines() {
            let (name, value) = line.split_once(":\t").unwrap();
            let expected = match name {
                "NoNewPrivs" => "1",
                "Seccomp" => "2",
                // An ordinary user without namespaces may not drop it, and can gain nothing from it.
                "CapBnd" if document.level == Level::Files && world.user.is_some() => value,
                _ => zero,
            };
            assert_eq!(value, expected, "{name} at {:?} as {:?}", document.level, world.user);
        }
        assert_eq!(ran.stdout.lines().count(), 7, "{ran:?}");
    });
}

#[test]
fn the_user_is_the_same_inside() {
    in_full(|world, document| {
        let uid = world.user.unwrap_or_else(|| rustix::process::geteuid().as_raw());
        let ran = world.shell(&document, "id -u; stat -c %u work; umask 022; touch made; ps -e 2>/dev/null | wc -l > n; hostname > /dev/null; getent hosts localhost > /dev/null; true");
        assert_eq!(ran.stdout, format!("{uid}\n{uid}\n"), "{ran:?}");
    });
}

/// A program of 32 bits: `exit(42)`, and an instruction that ends it if that call does not exist.
#[cfg(target_arch = "x86_64")]
fn small_program() -> Vec<u8> {
    let code: &[u8] = &[0xb8, 1, 0, 0, 0, 0xbb, 42, 0, 0, 0, 0xcd, 0x80, 0x0f, 0x0b];
    let base: u32 = 0x0804_8000;
    let size = 84 + u32::try_from(code.len()).unwrap();
    let mut file = vec![0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for half in [2_u16, 3] {
        file.extend(half.to_le_bytes());
    }
    for word in [1, base + 84, 52, 0, 0] {
        file.extend(u32::to_le_bytes(word));
    }
    for half in [52_u16, 32, 1, 0, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    for word in [1, 0, base, base, size, size, 5, 0x1000] {
        file.extend(u32::to_le_bytes(word));
    }
    file.extend(code);
    file
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_program_of_32_bits_finds_no_system_calls() {
    everywhere(|world, document| {
        let path = world.path("lanes/mine/small");
        fs::write(&path, small_program()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let ran = world.run(document, &[path.to_str().unwrap()]);
        // Ended by its own last instruction, not by the filter.
        assert_eq!(ran.exit, Exit::Signalled { signal: 4 }, "{ran:?}");
    });
}

#[test]
fn processes_are_bounded_per_sandbox() {
    in_full(|world, mut document| {
        document.processes = Some(500);
        let most: usize = world.attempt(&document, &["forks", "1500"]).parse().unwrap();
        assert!((100..=500).contains(&most), "{most} as {:?}", world.user);
        let ran = world.shell(&document, "true");
        assert!(ran.confined.unwrap().weaker.is_empty());
    });
}

#[test]
fn memory_that_cannot_be_limited_is_reported() {
    everywhere(|world, document| {
        let mut document = document.clone();
        document.memory = Some(1 << 30);
        let ran = world.shell(&document, "cat /proc/self/oom_score_adj");
        assert_eq!(ran.stdout, "500\n", "{ran:?}");
        let confined = ran.confined.unwrap();
        let is_reported = confined.weaker.contains(&Weaker::Memory);
        assert_ne!(is_reported, confined.cgroup.is_some(), "{confined:?}");
    });
}

#[test]
fn a_nested_sandbox_is_possible_if_asked_for() {
    in_full(|world, mut document| {
        let script = "unshare --user --map-root-user --mount sh -c 'mount -t tmpfs none /mnt && echo nested'";
        assert_ne!(world.shell(&document, script).stdout, "nested\n");
        document.nested = true;
        if world.user.is_none() && rustix::process::geteuid().is_root() {
            let Exit::NeverStarted { error, .. } = world.shell(&document, script).exit else {
                panic!("not as root")
            };
            assert!(error.contains("a user other than root"), "{error}");
            return;
        }
        let script = format!(
            "{script}; unshare -Urm umount {} 2>&1; cat {}/.ssh/id",
            world.path("home/.ssh").display(),
            world.path("home").display()
        );
        let ran = world.shell(&document, &script);
        assert!(ran.stdout.starts_with("nested\n") && !ran.stdout.contains("a key"), "{ran:?}");
        let confined = ran.confined.unwrap();
        assert_eq!(
            (confined.landlock, confined.weaker),
            (None, vec![Weaker::NoLandlock, Weaker::AbstractSockets])
        );
    });
}

#[test]
fn without_a_network_the_files_level_has_no_sockets_that_carry_anything() {
    for user in users() {
        for abi in [None, Some(3)] {
            let world = World::new(user);
            let mut document = world.document(Level::Files);
            (document.network, document.abi) = (Net::None, abi);
            let call = |numbers: &[&str]| world.attempt(&document, &[&["syscall"], numbers].concat());
            let socket = libc::SYS_socket.to_string();
            for (what, kind) in [
                ("udp", ["2", "2", "0"]),
                ("raw", ["2", "3", "1"]),
                ("multipath", ["2", "1", "262"]),
                ("udp6", ["10", "2", "0"]),
            ] {
                assert_eq!(call(&[&[socket.as_str()], &kind[..]].concat()), EAFNOSUPPORT, "{what}");
            }
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            assert_ne!(world.attempt(&document, &["tcp", &address]), "ok");
        }
    }
}
