//! A limited network, with a server outside that has a public address: in a network namespace of its own, so that no
//! packet leaves the machine.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use regatta_testkit::repo::{ScratchRepo, program, write};
use regatta_testkit::world::task;

use crate::network::{PROXY, proxy};
use crate::outside::Services;
use crate::scene::{Setting, User, closed_world, say};
use crate::stories::Story;

/// Told once.
pub(crate) const ONCE: &[Story] = &[("67_a_listed_host_and_others_behind_it", listed_host)];

/// An address that counts as public; in the namespace it is this machine's.
const ADDRESS: &str = "93.184.216.34";
const LISTED: &str = "listed.example.com";
const OTHER: &str = "other.example.com";
/// More than the proxy serves at once.
const CONNECTIONS: usize = 500;

fn listed_host(_: User, _: Setting) {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--mount"]).arg(std::env::current_exe().unwrap()).arg("proxied");
    let ran = command.output().unwrap();
    let said = [ran.stdout, ran.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(ran.status.success() && said.contains("all was tried"), "{}: {said}", ran.status);
}

/// The story itself, in the namespace.
pub(crate) fn inside_namespace() -> io::Result<()> {
    let repo = ScratchRepo::new();
    let hosts = repo.outside().join("hosts");
    write(&hosts, format!("127.0.0.1 localhost\n{ADDRESS} {LISTED} {OTHER}\n"));
    let setup = format!(
        "ip link set lo up && ip addr add {ADDRESS}/32 dev lo && mount --bind '{}' /etc/hosts",
        hosts.display()
    );
    let status = Command::new("sh").args(["-c", &setup]).status()?;
    if !status.success() {
        return Err(io::Error::other("the namespace could not be prepared"));
    }
    let services = Services::default();
    for port in [443, 80] {
        services.tcp_at(ADDRESS, port);
    }
    services.udp_at(ADDRESS, 53);
    let world = closed_world(repo);
    world.config(&format!("sandbox: {{ mode: full, network: list, hosts: [{LISTED}] }}\n"));
    let tool = world.root().join("tool");
    program(&std::env::current_exe()?, &tool);
    world.repo().commit_all("tool");
    let ran = world.run(&world.plan(&task("asks", "max_attempts: 1", "./tool ask >asked.txt 2>&1")), &[]);
    let asked = world.landed("asked.txt").unwrap_or_default();
    let heard = services.heard();
    let shown =
        format!("{}\n{asked}\n{}\nheard: {heard}", ran.shown(), world.regatta(["logs", "asks"]).shown());
    for mark in ["own-sni", "own-host", "after-flood"] {
        assert!(heard.contains(&format!("ALLOWED-{mark};")), "{mark} did not arrive: {shown}");
    }
    assert!(!heard.contains("ESCAPED-"), "{shown}");
    let status = world.regatta(["status", "asks"]).stdout;
    assert!(status.contains("TLS asks for another host inside"), "{status}\n{shown}");
    say("all was tried");
    Ok(())
}

/// What the agent tries.
pub(crate) fn ask() -> io::Result<()> {
    let tls = |named: &str, mark: &str| tunnel(443, &[&hello(named)[..], mark.as_bytes()].concat());
    let plain = |port: u16, host: &str, mark: &str| {
        tunnel(port, format!("GET /{mark} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())
    };
    let get = |host: &str, mark: &str| {
        let mut stream = proxy()?;
        let text =
            format!("GET http://{LISTED}/{mark} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(text.as_bytes())?;
        first_line(&mut stream)
    };
    report("own sni", tls(LISTED, "ALLOWED-own-sni;"));
    report("other sni", tls(OTHER, "ESCAPED-other-sni;"));
    report("no tls", plain(443, LISTED, "ESCAPED-no-tls;"));
    report("own host", get(LISTED, "ALLOWED-own-host;"));
    report("other host", get(OTHER, "ESCAPED-other-host;"));
    report("other host in a tunnel", plain(80, OTHER, "ESCAPED-tunnel;"));
    let direct = TcpStream::connect_timeout(&([93, 184, 216, 34], 80).into(), Duration::from_secs(2));
    report("directly", direct.and_then(|mut it| it.write_all(b"ESCAPED-directly;").map(|()| String::new())));
    for to in [(ADDRESS, 53), ("127.0.0.1", 53)] {
        let sent = UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.send_to(b"ESCAPED-udp;", to));
        report("a datagram", sent.map(|n| n.to_string()));
    }
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        let Ok(mut stream) = TcpStream::connect_timeout(&PROXY.into(), Duration::from_secs(2)) else { break };
        // Half a request: it says neither what it wants nor that it is over.
        let _ = stream.write_all(format!("CONNECT {LISTED}:443 HT").as_bytes());
        held.push(stream);
    }
    report("one too many", get(LISTED, "while-flooded"));
    report("held", Ok(held.len().to_string()));
    drop(held);
    // The proxy notices the end of each by itself.
    for _ in 0..200 {
        let answer = get(LISTED, "ALLOWED-after-flood;");
        if answer.as_ref().is_ok_and(|line| line.contains(" 200 ")) {
            report("after the flood", answer);
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(io::Error::other("the proxy did not recover"))
}

#[expect(clippy::print_stdout, reason = "the program that an agent runs reports this way")]
fn report(what: &str, came: io::Result<String>) {
    println!("{what}: {came:?}");
}

/// Sends bytes through a connection to the listed host.
fn tunnel(port: u16, bytes: &[u8]) -> io::Result<String> {
    let mut stream = proxy()?;
    stream.write_all(format!("CONNECT {LISTED}:{port} HTTP/1.1\r\nHost: {LISTED}\r\n\r\n").as_bytes())?;
    let line = first_line(&mut stream)?;
    stream.write_all(bytes)?;
    // An answer of the server, or the end of the connection.
    let _ = first_line(&mut stream);
    Ok(line)
}

fn first_line(stream: &mut TcpStream) -> io::Result<String> {
    let mut bytes = [0; 1024];
    let length = stream.read(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes[..length]).lines().next().unwrap_or_default().to_owned())
}

/// The first message of a TLS client that asks for this host.
fn hello(name: &str) -> Vec<u8> {
    let block = |data: &[u8]| [&u16::try_from(data.len()).unwrap_or(0).to_be_bytes()[..], data].concat();
    let names = block(&[&[0][..], &block(name.as_bytes())].concat());
    let extension = [&[0, 0][..], &block(&names)].concat();
    let body = [&[3, 3][..], &[7; 32], &[0], &block(&[0x13, 1]), &[1, 0], &block(&extension)].concat();
    let message = [&[1, 0][..], &block(&body)].concat();
    [&[0x16, 3, 1][..], &block(&message)].concat()
}
