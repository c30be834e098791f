//! The system calls that no safe wrapper offers. This is the only file of the crate with unsafe code.
//!
//! All of it runs in `regatta confine`, or in a shim before its first thread: a fork there copies the whole program.
#![expect(unsafe_code, reason = "namespaces, forks and signals have no safe interface")]

use std::ffi::{CStr, OsStr};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use rustix::process::Pid;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Takes over a descriptor that the parent passed by its number. Fails if there is none, or if it is a standard stream.
pub(super) fn take_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    if number <= libc::STDERR_FILENO {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: no pointer is involved; a number that is not open is an error.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: it is open, and the numbers on the command line are taken once each, before anything else is opened.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Closes every descriptor above the standard streams except these.
pub(super) fn close_all_but(keep: &[RawFd]) -> io::Result<()> {
    let mut keep: Vec<RawFd> = keep.iter().copied().filter(|fd| *fd > libc::STDERR_FILENO).collect();
    keep.sort_unstable();
    let mut first = libc::STDERR_FILENO + 1;
    for last in keep.into_iter().map(Some).chain([None]) {
        let end = last.map_or(libc::c_uint::MAX, |fd| fd.unsigned_abs().wrapping_sub(1));
        if first.unsigned_abs() <= end {
            // SAFETY: called before any other descriptor is owned by this program.
            let result = unsafe { libc::syscall(libc::SYS_close_range, first.unsigned_abs(), end, 0) };
            if result < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        first = last.map_or(first, |fd| fd + 1);
    }
    Ok(())
}

/// Moves this process into new namespaces; its next child is the first process of a new pid namespace.
pub(super) fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: no thread shares what is unshared, and descriptors stay (`CLONE_FILES` is not among the flags).
    check(unsafe { libc::unshare(flags) }).map(drop)
}

/// Forks. `None` in the child.
pub(super) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: this process has one thread, so the child's memory is consistent and its locks are free.
    let pid = check(unsafe { libc::fork() })?;
    Ok(Pid::from_raw(pid))
}

/// Ends this process without running destructors: they would act on what the parent or the child owns too.
pub(super) fn exit(code: i32) -> ! {
    // SAFETY: always sound.
    unsafe { libc::_exit(code) }
}

/// What `mount_setattr` changes.
#[derive(Clone, Copy, Default)]
pub(super) struct MountAttributes {
    pub(super) set: u64,
    pub(super) clear: u64,
}

/// Changes the attributes of the mount that this descriptor is in, and with `recursive` of all below it.
pub(super) fn mount_setattr(
    mount: BorrowedFd<'_>,
    recursive: bool,
    attributes: MountAttributes,
) -> io::Result<()> {
    #[repr(C)]
    struct MountAttr {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    let attr = MountAttr { set: attributes.set, clear: attributes.clear, propagation: 0, user_namespace: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    let empty: &CStr = c"";
    // SAFETY: both pointers are valid for the call, and the size is that of the structure.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            empty.as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets the loopback interface of this network namespace up.
pub(super) fn loopback_up(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: all zeroes are a valid value of this structure of numbers.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        // Signed on some machines and unsigned on others.
        *to = *from as libc::c_char;
    }
    // `IFF_UP | IFF_RUNNING` is below 2^15.
    request.ifr_ifru.ifru_flags = 0x41;
    // SAFETY: the kernel reads the structure during the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) }).map(drop)
}

/// The version of the kernel's Landlock, if it is there and switched on.
pub(super) fn landlock_abi() -> io::Result<u32> {
    // SAFETY: with this flag the kernel reads no memory.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, 1_u32) };
    u32::try_from(version).map_err(|_| io::Error::last_os_error())
}

/// Asks whether this system call filter action exists: a cheap way to learn whether filters do.
pub(super) fn has_seccomp() -> bool {
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the kernel reads one number.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0_u32, &raw const action) };
    result == 0
}

/// Gives every signal that has a handler its default action, as the start of a program would. Ignored ones stay ignored.
pub(super) fn drop_handlers() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: the structure is filled by the first call before it is read; numbers that are no signal, and the two
        // that cannot have a handler, are refused.
        unsafe {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed();
            if libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) != 0 {
                continue;
            }
            let mut action = action.assume_init();
            if action.sa_sigaction != libc::SIG_IGN && action.sa_sigaction != libc::SIG_DFL {
                action.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    }
}

/// Replaces what lists of processes show after the program's own name. What does not fit is cut off.
///
/// To be called in a process with one thread that no longer reads its command line.
pub(super) fn show_as(words: &[&OsStr]) -> Option<()> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The process name in parentheses may contain anything, even a `)`. `arg_start` and `arg_end` are numbers 48 and 49.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(45);
    let start: usize = fields.next()?.parse().ok()?;
    let end: usize = fields.next()?.parse().ok()?;
    let size = end.checked_sub(start).filter(|_| start != 0)?;
    // SAFETY: the kernel put the words of the command line there, one after the other, in writable memory of this
    // process; one thread means that nobody reads them meanwhile.
    let line =
        unsafe { std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut::<u8>(start), size) };
    let own = line.iter().position(|byte| *byte == 0)? + 1;
    // The last byte stays the end of the last word.
    let rest = line.get_mut(own..size - 1)?;
    rest.fill(0);
    let bytes = words.iter().flat_map(|word| word.as_bytes().iter().chain([&0]));
    for (to, from) in rest.iter_mut().zip(bytes) {
        *to = *from;
    }
    Some(())
}

/// A signal mask of this thread.
pub(super) struct Mask(libc::sigset_t);

/// Blocks every signal and returns the mask before.
pub(super) fn block_signals() -> io::Result<Mask> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are filled by the calls before they are read.
    unsafe {
        check(libc::sigfillset(all.as_mut_ptr()))?;
        check(libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()))?;
        Ok(Mask(before.assume_init()))
    }
}

/// Puts an earlier mask back.
pub(super) fn restore_signals(mask: &Mask) {
    // SAFETY: the set is one that the kernel filled.
    unsafe {
        libc::sigprocmask(libc::SIG_SETMASK, &raw const mask.0, std::ptr::null_mut());
    }
}

/// A blocked signal that has arrived.
#[derive(Clone, Copy)]
pub(super) struct Arrived {
    pub(super) signal: i32,
    /// Whether a process sent it that this process cannot see: one outside its pid namespace.
    pub(super) from_outside: bool,
}

/// Sleeps until a blocked signal arrives.
pub(super) fn wait_signal() -> io::Result<Arrived> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the set is filled before it is read; the kernel fills the other.
    unsafe {
        check(libc::sigfillset(all.as_mut_ptr()))?;
        let signal = check(libc::sigwaitinfo(all.as_ptr(), info.as_mut_ptr()))?;
        let info = info.assume_init();
        Ok(Arrived { signal, from_outside: info.si_code <= 0 && info.si_pid() == 0 })
    }
}

/// Sends a signal by number, to a process or (negative) to a group.
pub(super) fn kill(target: i32, signal: i32) {
    // SAFETY: no memory is involved.
    unsafe {
        libc::kill(target, signal);
    }
}
