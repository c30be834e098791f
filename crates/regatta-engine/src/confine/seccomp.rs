//! Which system calls the program may make: all but those that reach around the other restrictions, or into parts of
//! the kernel that no build or test needs.
//!
//! The filter allows by default, because programs fail in strange ways without a call they expect. `ptrace` stays: the
//! pid namespace or Landlock keeps it inside, and debuggers need it. Calls of another architecture (32-bit programs,
//! x32) do not exist here, because their numbers would not match this table.

use std::collections::BTreeMap;

use libc::{EAFNOSUPPORT, ENOSYS, EPERM};
use regatta_core::sandbox::{Confinement, Level, Net};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter, sock_filter,
};

use super::report::Fault;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type Built<T> = Result<T, seccompiler::BackendError>;

/// Refused to everybody.
const NEVER: &[i64] = &[
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_open_by_handle_at,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_syslog,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Refused unless the program may build a sandbox of its own.
const MOUNTING: &[i64] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
];

/// `open_tree_attr`, newer than the constants of the library.
const OPEN_TREE_ATTR: i64 = 467;

/// Families of sockets that programs use. Every other one is part of the kernel with few users and many defects, or a
/// way out of the network namespace (`AF_VSOCK`).
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The bit that marks a call of the x32 variant.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// The filters for this document, in the order in which they are applied.
pub(super) fn apply(document: &Confinement, abi: Option<u32>) -> Result<(), Fault> {
    for program in programs(document, abi).map_err(|error| Fault::because("seccomp", error.to_string()))? {
        apply_filter(&program).map_err(|error| Fault::because("seccomp", error.to_string()))?;
    }
    Ok(())
}

fn programs(document: &Confinement, abi: Option<u32>) -> Built<Vec<BpfProgram>> {
    let mut groups = vec![(EPERM, refused(document, abi)?), (EAFNOSUPPORT, sockets(document, abi)?)];
    if !document.nested {
        // Its flags are in memory, where a filter cannot look. As if the kernel lacked it, callers use `clone`.
        groups.push((ENOSYS, BTreeMap::from([(libc::SYS_clone3, Vec::new())])));
    }
    groups.into_iter().map(|(errno, rules)| compile(rules, errno)).collect()
}

fn refused(document: &Confinement, abi: Option<u32>) -> Built<Rules> {
    let mut rules: Rules = NEVER.iter().map(|number| (*number, Vec::new())).collect();
    if !document.nested {
        rules.extend(MOUNTING.iter().chain([&OPEN_TREE_ATTR]).map(|number| (*number, Vec::new())));
        let new_user = || flag(0, libc::CLONE_NEWUSER);
        rules.insert(libc::SYS_unshare, vec![new_user()?]);
        rules.insert(libc::SYS_clone, vec![new_user()?]);
    }
    // Typing into the terminal of the person who started it.
    rules.insert(libc::SYS_ioctl, vec![all([equal(1, libc::TIOCSTI)])?, all([equal(1, libc::TIOCLINUX)])?]);
    // Landlock cannot refuse a truncation by path before its third version, and a mount may not do it either.
    if document.level == Level::Files && abi.is_some_and(|abi| abi < 3) {
        rules.insert(libc::SYS_truncate, Vec::new());
    }
    // Without a pid namespace, a limit of another process of this user.
    if document.level == Level::Files {
        let new_limit = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0);
        let of_another = all([compare(0, SeccompCmpOp::Ne, 0), new_limit])?;
        rules.insert(libc::SYS_prlimit64, vec![of_another]);
    }
    Ok(rules)
}

/// Conditions on `socket(family, type, protocol)` and `socketpair`.
fn sockets(document: &Confinement, abi: Option<u32>) -> Built<Rules> {
    // The low four bits of a type; the others are flags.
    const TYPE: u64 = 0xf;
    let mut families = FAMILIES.to_vec();
    let mut rules = Vec::new();
    let mut pairs = Vec::new();
    if document.level == Level::Files {
        // A path to another process's socket cannot be refused before the ninth version of Landlock. A pair of sockets
        // is another call and stays, unless one of the pair could send to a path.
        if abi.is_none_or(|abi| abi < 9) {
            families.retain(|family| *family != libc::AF_UNIX);
            for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
                pairs.push(all([masked(1, TYPE, u64::from(kind.unsigned_abs()))])?);
            }
        }
        if document.network == Net::None {
            if abi.is_none_or(|abi| abi < 4) {
                families.retain(|family| ![libc::AF_INET, libc::AF_INET6].contains(family));
            }
            for family in [libc::AF_INET, libc::AF_INET6] {
                // Landlock refuses TCP and knows nothing else that carries data, not even multipath TCP.
                for other in (0..=TYPE).filter(|kind| *kind != u64::from(libc::SOCK_STREAM.unsigned_abs())) {
                    rules.push(all([equal(0, family), masked(1, TYPE, other)])?);
                }
                rules.push(all([
                    equal(0, family),
                    compare(2, SeccompCmpOp::Ne, 0),
                    compare(2, SeccompCmpOp::Ne, libc::IPPROTO_TCP.unsigned_abs().into()),
                ])?);
            }
        }
    }
    // The gaps between the allowed families.
    families.sort_unstable();
    let mut from = 0;
    for family in families.into_iter().map(Some).chain([None]) {
        let mut gap = vec![compare(0, SeccompCmpOp::Ge, from)];
        if let Some(family) = family {
            let family = u64::from(family.unsigned_abs());
            gap.push(compare(0, SeccompCmpOp::Lt, family));
            from = family + 1;
        }
        rules.push(SeccompRule::new(gap.into_iter().collect::<Built<_>>()?)?);
    }
    let mut calls = BTreeMap::from([(libc::SYS_socket, rules)]);
    // An empty list would refuse every pair.
    if !pairs.is_empty() {
        calls.insert(libc::SYS_socketpair, pairs);
    }
    Ok(calls)
}

fn compile(rules: Rules, errno: i32) -> Built<BpfProgram> {
    let arch = if cfg!(target_arch = "aarch64") { TargetArch::aarch64 } else { TargetArch::x86_64 };
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?;
    let mut program = head();
    program.extend(BpfProgram::try_from(filter)?);
    Ok(program)
}

/// Calls of another architecture do not exist. Without this the compiled filter ends the program for a 32-bit call, and
/// lets every x32 call pass.
fn head() -> BpfProgram {
    const LOAD: u16 = 0x20;
    const JUMP_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const ARCH: u32 = if cfg!(target_arch = "aarch64") { 0xc000_00b7 } else { 0xc000_003e };
    let step = |code, k, jt, jf| sock_filter { code, jt, jf, k };
    let missing = libc::SECCOMP_RET_ERRNO | ENOSYS.unsigned_abs();
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "x32 is a variant of x86-64"))]
    let mut head = vec![step(LOAD, 4, 0, 0), step(JUMP_EQUAL, ARCH, 1, 0), step(RETURN, missing, 0, 0)];
    #[cfg(target_arch = "x86_64")]
    {
        const JUMP_GREATER_OR_EQUAL: u16 = 0x35;
        head.extend([
            step(LOAD, 0, 0, 0),
            step(JUMP_GREATER_OR_EQUAL, X32, 0, 1),
            step(RETURN, missing, 0, 0),
        ]);
    }
    head
}

fn all<const N: usize>(conditions: [Built<SeccompCondition>; N]) -> Built<SeccompRule> {
    SeccompRule::new(conditions.into_iter().collect::<Built<_>>()?)
}

fn compare(argument: u8, how: SeccompCmpOp, value: u64) -> Built<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)
}

fn equal(argument: u8, value: impl TryInto<u64>) -> Built<SeccompCondition> {
    // The constants are small and positive.
    compare(argument, SeccompCmpOp::Eq, value.try_into().unwrap_or_default())
}

fn masked(argument: u8, mask: u64, value: u64) -> Built<SeccompCondition> {
    compare(argument, SeccompCmpOp::MaskedEq(mask), value)
}

fn flag(argument: u8, bit: i32) -> Built<SeccompRule> {
    let bit = u64::from(bit.unsigned_abs());
    all([masked(argument, bit, bit)])
}
