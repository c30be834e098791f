//! A network of its own: loopback, and listeners that the shim serves from outside.
//!
//! A socket belongs to the network in which it was made. So the confined side listens on its own loopback address and
//! hands the listeners to the shim, which accepts what comes from inside and connects outside. There is no bridge and no
//! route, and nothing else leads out.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use regatta_core::sandbox::Net;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socket_with,
};

use super::report::Fault;
use super::sys;

pub use regatta_core::sandbox::hosts::PROXY_PORT;

/// The most listeners that are handed over: below what the kernel passes in one message.
pub(super) const MOST_LISTENERS: usize = 128;

/// The ports to listen on inside, each once.
pub(super) fn ports(net: &Net) -> Vec<u16> {
    let Net::Own { proxy, local } = net else { return Vec::new() };
    let mut ports: Vec<u16> = proxy.then_some(PROXY_PORT).into_iter().chain(local.iter().copied()).collect();
    let mut seen = std::collections::HashSet::new();
    ports.retain(|port| seen.insert(*port));
    ports
}

/// Sets up the new network namespace that this process is in, and hands its listeners over.
pub(super) fn set_up(net: &Net, shim: Option<&OwnedFd>) -> Result<(), Fault> {
    let failed = |error: io::Error| Fault::new("set the loopback interface up", error);
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    sys::loopback_up(socket.map_err(|error| failed(error.into()))?.as_fd()).map_err(failed)?;
    let ports = ports(net);
    if ports.is_empty() {
        return Ok(());
    }
    let Some(shim) = shim else {
        return Err(Fault::because("hand over the listeners", "no socket was passed"));
    };
    let mut listeners = Vec::with_capacity(ports.len());
    for port in &ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, *port))
            .map_err(|error| Fault::new(&format!("listen on port {port}"), error))?;
        listeners.push(listener);
    }
    send(shim.as_fd(), &ports, &listeners).map_err(|error| Fault::new("hand over the listeners", error))
}

fn send(shim: BorrowedFd<'_>, ports: &[u16], listeners: &[TcpListener]) -> io::Result<()> {
    let bytes: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
    let fds: Vec<BorrowedFd<'_>> = listeners.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_LISTENERS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(shim, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// In the shim: the listeners of a network of its own, with their ports inside. Does not wait: they are there once the
/// confinement has been reported.
pub(crate) fn receive(socket: BorrowedFd<'_>) -> io::Result<Vec<(u16, TcpListener)>> {
    let mut bytes = [0; MOST_LISTENERS * 2];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_LISTENERS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
        Ok(message) => message.bytes,
        Err(rustix::io::Errno::AGAIN) => 0,
        Err(error) => return Err(error.into()),
    };
    let listeners = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.map(TcpListener::from).collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let ports = bytes[..received].chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    Ok(ports.zip(listeners).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn listeners_arrive_with_their_ports() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        assert!(receive(ours.as_fd()).unwrap().is_empty());
        let listeners = [0, 0].map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap());
        let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        send(theirs.as_fd(), &[PROXY_PORT, 5432], &listeners).unwrap();
        drop(listeners);
        let received = receive(ours.as_fd()).unwrap();
        let found: Vec<_> = received.iter().map(|(port, is)| (*port, is.local_addr().unwrap())).collect();
        assert_eq!(found, [(PROXY_PORT, addresses[0]), (5432, addresses[1])]);
    }

    #[test]
    fn each_port_is_listened_on_once() {
        let net = Net::Own { proxy: true, local: vec![5432, PROXY_PORT, 5432] };
        assert_eq!(ports(&net), [PROXY_PORT, 5432]);
        assert!(ports(&Net::None).is_empty());
    }
}
