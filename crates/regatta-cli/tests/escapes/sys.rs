//! System calls that no safe wrapper offers, because no honest program makes them this way.
#![expect(unsafe_code, reason = "each call tries what the sandbox must refuse")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use libc::{c_long, c_ulong};

/// The bit that selects the x32 calls of x86-64.
const X32: c_long = 0x4000_0000;
const AF_VSOCK: i32 = 40;
const TIOCSTI: c_ulong = 0x5412;

fn answer(result: c_long) -> io::Result<c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("a path without NUL")
}

/// Attaches to a process as a debugger, so that it ends with this one.
pub(crate) fn ptrace(pid: u32) -> io::Result<()> {
    // SAFETY: no memory is passed.
    answer(unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0, libc::PTRACE_O_EXITKILL) }).map(drop)
}

/// Makes a user namespace with `unshare`.
pub(crate) fn user_namespace() -> io::Result<()> {
    // SAFETY: this process has one thread.
    answer(unsafe { libc::unshare(libc::CLONE_NEWUSER) }.into()).map(drop)
}

/// Makes a user namespace with `clone3`, whose flags no filter can read.
pub(crate) fn clone3_namespace() -> io::Result<()> {
    let mut args = [0u64; 11];
    args[0] = libc::CLONE_NEWUSER as u64;
    args[4] = libc::SIGCHLD as u64;
    // SAFETY: the arguments outlive the call, and the child ends at once.
    let child = unsafe { libc::syscall(libc::SYS_clone3, args.as_ptr(), std::mem::size_of_val(&args)) };
    if child == 0 {
        // SAFETY: ends the child without running anything of the parent.
        unsafe { libc::_exit(0) };
    }
    answer(child).map(drop)
}

/// Mounts a file system in place, without a namespace of its own.
pub(crate) fn mount(at: &Path) -> io::Result<()> {
    let (at, kind) = (c_path(at), c"tmpfs");
    // SAFETY: the strings outlive the call.
    let result = unsafe { libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) };
    answer(result.into()).map(drop)
}

/// Types a character into a terminal.
pub(crate) fn type_into(terminal: i32) -> io::Result<()> {
    // SAFETY: the character outlives the call.
    answer(unsafe { libc::ioctl(terminal, TIOCSTI, c"x".as_ptr()) }.into()).map(drop)
}

/// Sets up a ring for asynchronous calls, which no filter sees.
pub(crate) fn io_uring() -> io::Result<()> {
    let mut params = [0u8; 120];
    // SAFETY: the parameters outlive the call.
    answer(unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, params.as_mut_ptr()) }).map(drop)
}

/// Reads the session keyring, which other sessions of the user share.
pub(crate) fn keyring() -> io::Result<()> {
    // SAFETY: no memory is passed. 0 is KEYCTL_GET_KEYRING_ID, -3 the session's keyring.
    answer(unsafe { libc::syscall(libc::SYS_keyctl, 0, -3, 1) }).map(drop)
}

/// Opens a socket to the host of a virtual machine.
pub(crate) fn vsock() -> io::Result<()> {
    socket(AF_VSOCK, libc::SOCK_STREAM)
}

/// Opens a socket that reads the network's packets.
pub(crate) fn packets() -> io::Result<()> {
    socket(libc::AF_PACKET, libc::SOCK_RAW)
}

fn socket(family: i32, kind: i32) -> io::Result<()> {
    // SAFETY: no memory is passed.
    let fd = answer(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, 0) }.into())?;
    // SAFETY: the descriptor was just opened.
    unsafe { libc::close(i32::try_from(fd).unwrap_or(-1)) };
    Ok(())
}

/// Creates a map for a program in the kernel.
pub(crate) fn bpf() -> io::Result<()> {
    let attributes = [1u32, 4, 4, 1, 0, 0, 0, 0];
    // SAFETY: the attributes outlive the call.
    let size = std::mem::size_of_val(&attributes);
    answer(unsafe { libc::syscall(libc::SYS_bpf, 0, attributes.as_ptr(), size) }).map(drop)
}

/// Makes a device node for the first disk and opens it.
pub(crate) fn device(at: &Path) -> io::Result<()> {
    // SAFETY: the path outlives the call.
    answer(unsafe { libc::mknod(c_path(at).as_ptr(), libc::S_IFBLK | 0o600, libc::makedev(254, 0)) }.into())?;
    std::fs::File::open(at).map(drop)
}

/// The longest handle, in words, with its length and its type before it.
const HANDLE: usize = 34;

/// The handle of a file, which leads to it without a path.
pub(crate) fn handle_of(file: &Path) -> io::Result<Vec<u32>> {
    let mut handle = vec![0u32; HANDLE];
    handle[0] = 128;
    let mut id = 0i32;
    let path = c_path(file);
    // SAFETY: handle and id outlive the call and have the announced size.
    answer(unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            path.as_ptr(),
            handle.as_mut_ptr(),
            &mut id,
            0,
        )
    })?;
    Ok(handle)
}

/// Opens a file by its handle; `beside` is anything on the same disk.
pub(crate) fn by_handle(handle: &[u32], beside: &Path) -> io::Result<std::fs::File> {
    let mut handle = handle.to_vec();
    handle.resize(HANDLE, 0);
    let beside = std::fs::File::open(beside)?;
    // SAFETY: the handle outlives the call and is as long as any.
    let fd = answer(unsafe {
        libc::syscall(libc::SYS_open_by_handle_at, beside.as_raw_fd(), handle.as_mut_ptr(), libc::O_RDONLY)
    })?;
    // SAFETY: the descriptor was just opened and belongs to nobody else.
    Ok(unsafe { std::fs::File::from_raw_fd(i32::try_from(fd).unwrap_or(-1)) })
}

/// Makes an ordinary call by its x32 number, which a filter may forget.
pub(crate) fn x32() -> io::Result<()> {
    // SAFETY: no memory is passed.
    answer(unsafe { libc::syscall(X32 | libc::SYS_getpid) }).map(drop)
}

/// Sets an extended attribute.
pub(crate) fn set_attribute(file: &Path) -> io::Result<()> {
    let path = c_path(file);
    // SAFETY: all strings outlive the call.
    let result =
        unsafe { libc::setxattr(path.as_ptr(), c"user.escape".as_ptr(), c"x".as_ptr().cast(), 1, 0) };
    answer(result.into()).map(drop)
}

/// The text in a segment of shared memory.
pub(crate) fn shared_memory(key: i32) -> io::Result<String> {
    // SAFETY: no memory is passed.
    let id = answer(unsafe { libc::shmget(key, 0, 0) }.into())?;
    let address = attach(i32::try_from(id).unwrap_or(-1), libc::SHM_RDONLY)?;
    // SAFETY: the segment is attached and ends with a zero.
    let text = unsafe { std::ffi::CStr::from_ptr(address.cast()) }.to_string_lossy().into_owned();
    // SAFETY: it was attached above, and nothing refers to it any more.
    unsafe { libc::shmdt(address) };
    Ok(text)
}

fn attach(id: i32, flags: i32) -> io::Result<*mut libc::c_void> {
    // SAFETY: the kernel chooses the address.
    let address = unsafe { libc::shmat(id, std::ptr::null(), flags) };
    if address as isize == -1 { Err(io::Error::last_os_error()) } else { Ok(address) }
}

/// Makes a segment of shared memory with a text; returns its id.
pub(crate) fn make_shared_memory(key: i32, text: &str) -> io::Result<i32> {
    // SAFETY: no memory is passed.
    let id = answer(unsafe { libc::shmget(key, 4096, libc::IPC_CREAT | 0o666) }.into())?;
    let id = i32::try_from(id).unwrap_or(-1);
    let address = attach(id, 0)?;
    // SAFETY: a new segment has 4096 zeros, and the text is shorter.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), address.cast(), text.len().min(4095));
        libc::shmdt(address);
    }
    Ok(id)
}

/// Removes a segment of shared memory.
pub(crate) fn remove_shared_memory(id: i32) {
    // SAFETY: no memory is passed.
    unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
}

/// Ends a process.
pub(crate) fn kill(pid: u32) -> io::Result<()> {
    // SAFETY: no memory is passed.
    answer(unsafe { libc::kill(i32::try_from(pid).unwrap_or(i32::MAX), libc::SIGKILL) }.into()).map(drop)
}

/// Sends to a datagram socket from one of a pair, which `socket` did not make.
pub(crate) fn send_from_pair(to: &Path, text: &[u8]) -> io::Result<()> {
    let mut pair = [0; 2];
    // SAFETY: the pair outlives the call.
    answer(unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, pair.as_mut_ptr()) }.into())?;
    // SAFETY: all zeros is a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = u16::try_from(libc::AF_UNIX).unwrap_or_default();
    for (place, byte) in address.sun_path.iter_mut().zip(to.as_os_str().as_bytes()) {
        *place = libc::c_char::from_ne_bytes([*byte]);
    }
    let length = libc::socklen_t::try_from(std::mem::size_of_val(&address)).unwrap_or_default();
    // SAFETY: text and address outlive the call and have the announced sizes.
    let sent = unsafe {
        let address = std::ptr::from_ref(&address).cast();
        libc::sendto(pair[0], text.as_ptr().cast(), text.len(), 0, address, length)
    };
    let sent = answer(sent as c_long).map(drop);
    for fd in pair {
        // SAFETY: it was just opened.
        unsafe { libc::close(fd) };
    }
    sent
}

/// Changes a limit of another process.
pub(crate) fn limit(pid: u32) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: 7, rlim_max: 7 };
    let pid = i32::try_from(pid).unwrap_or(i32::MAX);
    // SAFETY: the limit outlives the call.
    answer(unsafe { libc::prlimit(pid, libc::RLIMIT_CORE, &limit, std::ptr::null_mut()) }.into()).map(drop)
}

/// A terminal: the end that a person sits at, and the path of the other.
pub(crate) fn terminal() -> io::Result<(std::fs::File, std::path::PathBuf)> {
    // SAFETY: no memory is passed.
    let fd = answer(unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC) }.into())?;
    // SAFETY: the descriptor was just opened and belongs to nobody else.
    let master = unsafe { std::fs::File::from_raw_fd(i32::try_from(fd).unwrap_or(-1)) };
    let mut name = [0; 64];
    // SAFETY: the descriptor is a terminal's, and the name has the announced size.
    unsafe {
        answer(libc::grantpt(master.as_raw_fd()).into())?;
        answer(libc::unlockpt(master.as_raw_fd()).into())?;
        answer(c_long::from(-libc::ptsname_r(master.as_raw_fd(), name.as_mut_ptr(), name.len())))?;
    }
    let name: String = name.iter().take_while(|c| **c != 0).map(|c| char::from(c.to_ne_bytes()[0])).collect();
    Ok((master, name.into()))
}
