//! The network of the other tests: does each fault do what its name says?

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use regatta_testkit::net::{Host, Net};
use regatta_testkit::running::Running;

use crate::Story;

pub(crate) const STORIES: &[Story] = &[
    ("a_cut_node_hears_nothing_until_it_is_healed", cut),
    ("a_node_can_be_cut_from_one_host_only", from_one),
    ("a_refused_port_answers_at_once_and_a_reset_ends_what_is_open", refused),
    ("a_lossy_network_still_delivers", lossy),
    ("what_a_network_made_is_gone_with_it", gone),
];

const PORT: u16 = 7000;

/// A server on a host that sends back each line.
fn echo(host: &Host) {
    let listener: TcpListener = host.listen(PORT);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut piece = [0; 256];
                while let Ok(n @ 1..) = stream.read(&mut piece) {
                    if stream.write_all(&piece[..n]).is_err() {
                        return;
                    }
                }
            });
        }
    });
}

/// A client on a node. Prints each answer, or how it failed.
const CLIENT: &str = r#"
exec 3<>/dev/tcp/$0/$1 || exit 7
echo connected
while read -r line; do
    echo "$line" >&3 || exit 8
    read -r -t "${2:-60}" -u 3 answer || exit 9
    echo "answer $answer"
done
"#;

fn client(from: &Host, to: &Host, seconds: &str) -> Running {
    let mut command = from.command("bash");
    command.args(["-c", CLIENT, &to.address.to_string(), &PORT.to_string(), seconds]);
    command.stdin(Stdio::piped());
    Running::start(command)
}

/// Asks once; whether an answer came, also on a busy machine.
fn reaches(from: &Host, to: &Host) -> bool {
    is_answered(from, to, 20)
}

/// Asks once; whether no answer came in a time that is long enough.
fn misses(from: &Host, to: &Host) -> bool {
    !is_answered(from, to, 2)
}

fn is_answered(from: &Host, to: &Host, seconds: u32) -> bool {
    let mut command = from.command("bash");
    let script = format!("echo hello | timeout {seconds} bash -c '{CLIENT}' {} {PORT} {seconds}", to.address);
    let output = command.args(["-c", &script]).stderr(Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&output.stdout).contains("answer hello")
}

fn cut() {
    let net = Net::new(2);
    echo(net.store());
    assert!(reaches(net.node(1), net.store()) && reaches(net.node(2), net.store()));
    net.node(1).cut();
    assert!(misses(net.node(1), net.store()));
    assert!(reaches(net.node(2), net.store()), "the others have their own cable");
    net.node(1).heal();
    assert!(reaches(net.node(1), net.store()));
}

fn from_one() {
    let net = Net::new(1);
    echo(net.store());
    echo(net.hub());
    net.node(1).cut_from(net.store());
    assert!(misses(net.node(1), net.store()));
    assert!(reaches(net.node(1), net.hub()));
    net.node(1).heal();
    net.node(1).deaf(net.hub());
    assert!(reaches(net.node(1), net.store()));
    assert!(misses(net.node(1), net.hub()));
}

fn refused() {
    let net = Net::new(1);
    echo(net.store());
    let (node, store) = (net.node(1), net.store());
    // An open connection, which waits for a line that does not come.
    let open = client(node, store, "60");
    let mut open = open;
    open.wait_line("connected");
    node.refuse(store, PORT);
    let started = Instant::now();
    assert!(!is_answered(node, store, 60));
    assert!(started.elapsed() < Duration::from_secs(50), "it was refused, not lost");
    node.heal();
    assert!(reaches(node, store));
    node.reset(store, PORT);
    drop(open);
    let held = store.listen(PORT + 1);
    let mut waiting = node.command("bash");
    waiting.args([
        "-c",
        &format!("exec 3<>/dev/tcp/{}/{}; echo up; read -r -u 3 x || echo over", store.address, PORT + 1),
    ]);
    let mut waiting = Running::start(waiting);
    let (mut accepted, _) = held.accept().unwrap();
    waiting.wait_line("up");
    node.reset(store, PORT + 1);
    waiting.wait_line("over");
    accepted.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert_eq!(accepted.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

fn lossy() {
    let net = Net::new(1);
    echo(net.store());
    net.node(1).lossy(30);
    let answers = (0..5).filter(|_| reaches(net.node(1), net.store())).count();
    assert!(answers > 0, "not everything is lost");
}

fn gone() {
    let names =
        || String::from_utf8(Command::new("ip").args(["netns", "list"]).output().unwrap().stdout).unwrap();
    let net = Net::new(1);
    let file = net.node(1).file();
    let name = file.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(names().contains(&name));
    drop(net);
    assert!(!names().contains(&name));
}
