//! A proxy on a loopback listener, as the shim has it for a network of its own.

use std::net::Shutdown;

use regatta_core::sandbox::hosts::HostRule;

use super::*;

struct Scene {
    _dir: tempfile::TempDir,
    run_dir: std::path::PathBuf,
    proxy: SocketAddr,
    _handle: Proxy,
}

fn scene(hosts: &[String]) -> Scene {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = listener.local_addr().unwrap();
    let hosts = hosts.iter().map(|host| HostRule::parse(host).unwrap()).collect();
    let run_dir = dir.path().to_owned();
    let handle = Proxy::start(vec![(PROXY_PORT, listener)], ProxyRules { hosts }, &run_dir).unwrap();
    Scene { _dir: dir, run_dir, proxy, _handle: handle }
}

/// A server that gives every connection to a function.
fn server(serve: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

fn read_head(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n > 0) {
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).unwrap()
}

fn say(proxy: SocketAddr, text: &str) -> TcpStream {
    let mut client = TcpStream::connect(proxy).unwrap();
    client.write_all(text.as_bytes()).unwrap();
    client
}

fn all(mut client: TcpStream) -> String {
    let mut text = String::new();
    let _ = client.read_to_string(&mut text);
    text
}

#[test]
fn a_host_that_is_not_listed_is_refused_and_recorded_once() {
    let scene = scene(&["example.org".into()]);
    for _ in 0..3 {
        let said = all(say(scene.proxy, "CONNECT evil.test:443 HTTP/1.1\r\n\r\n"));
        assert!(said.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{said}");
        assert!(said.contains("evil.test:443 is not in sandbox.hosts; add it to regatta.yaml"), "{said}");
    }
    for (ask, code) in [
        ("CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n", "403"),
        ("CONNECT localhost:443 HTTP/1.1\r\n\r\n", "403"),
        ("CONNECT 127.0.0.1:443 HTTP/1.1\r\n\r\n", "403"),
        ("CONNECT 127.1:443 HTTP/1.1\r\n\r\n", "400"),
        ("CONNECT example.org:22 HTTP/1.1\r\n\r\n", "403"),
        ("GET http://evil.test/ HTTP/1.1\r\n\r\n", "403"),
        ("GET http://example.org/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "400"),
        ("\x16\x03\x01 what\r\n\r\n", "400"),
    ] {
        let said = all(say(scene.proxy, ask));
        assert!(said.starts_with(&format!("HTTP/1.1 {code} ")), "{ask}: {said}");
    }
    let hosts: Vec<String> = refused_hosts(&scene.run_dir).into_iter().map(|refused| refused.host).collect();
    assert_eq!(
        hosts,
        [
            "evil.test:443",
            "169.254.169.254:80",
            "localhost:443",
            "127.0.0.1:443",
            "example.org:22",
            "evil.test:80"
        ]
    );
}

#[test]
fn a_name_that_leads_to_this_machine_is_refused_although_it_is_listed() {
    let scene = scene(&["localhost".into(), "localhost:9".into()]);
    let said = all(say(scene.proxy, "CONNECT localhost:443 HTTP/1.1\r\n\r\n"));
    assert!(
        said.starts_with("HTTP/1.1 403") && said.contains("no address outside of this machine"),
        "{said}"
    );
    assert_eq!(refused_hosts(&scene.run_dir).len(), 1);
}

#[test]
fn a_written_address_is_reached_and_the_end_of_one_direction_is_passed_on() {
    let echo = server(|mut stream| {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        stream.write_all(format!("heard {text}").as_bytes()).unwrap();
    });
    let scene = scene(&[echo.to_string()]);
    let mut client = say(scene.proxy, &format!("CONNECT {echo} HTTP/1.1\r\n\r\n"));
    assert!(read_head(&mut client).starts_with("HTTP/1.1 200"));
    client.write_all(b"plain words").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(all(client), "heard plain words");
}

#[test]
fn one_request_is_passed_on_and_nothing_behind_it() {
    let web = server(|mut stream| {
        let head = read_head(&mut stream);
        let mut body = vec![0; 5];
        if head.contains("100-continue") {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        }
        if head.starts_with("POST") {
            stream.read_exact(&mut body).unwrap();
        }
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut more = [0; 100];
        let n = stream.read(&mut more).unwrap_or(0);
        let text = format!("[{}] [{}] {n}", head.lines().next().unwrap(), String::from_utf8_lossy(&body));
        stream.write_all(format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{text}").as_bytes()).unwrap();
    });
    let scene = scene(&[web.to_string()]);
    let ask = format!(
        "POST http://{web}/x?y HTTP/1.1\r\nHost: {web}\r\nContent-Length: 5\r\n\r\nhelloGET http://evil.test/ HTTP/1.1\r\n\r\n"
    );
    let said = all(say(scene.proxy, &ask));
    assert!(said.ends_with("[POST /x?y HTTP/1.1] [hello] 0"), "{said}");
    // The body follows only when the server has asked for it.
    let ask = format!(
        "POST http://{web}/ HTTP/1.1\r\nHost: {web}\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    );
    let mut client = say(scene.proxy, &ask);
    assert!(read_head(&mut client).starts_with("HTTP/1.1 100"));
    client.write_all(b"later").unwrap();
    assert!(all(client).ends_with("[later] 0"));
}

#[test]
fn a_port_of_this_machine_is_reached_under_its_number() {
    let echo = server(|mut stream| drop(stream.write_all(b"hello from outside")));
    let dir = tempfile::tempdir().unwrap();
    let inside = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = inside.local_addr().unwrap();
    let proxy = Proxy::start(vec![(echo.port(), inside)], ProxyRules::default(), dir.path()).unwrap();
    assert_eq!(all(TcpStream::connect(address).unwrap()), "hello from outside");
    proxy.end();
}

/// The first message of a client that asks for this host.
fn hello(name: &str) -> Vec<u8> {
    let block = |data: &[u8]| [&u16::try_from(data.len()).unwrap().to_be_bytes()[..], data].concat();
    let names = block(&[&[0][..], &block(name.as_bytes())].concat());
    let extension = [&[0, 0][..], &block(&names)].concat();
    let body = [&[3, 3][..], &[7; 32], &[0], &block(&[0x13, 1]), &[1, 0], &block(&extension)].concat();
    let message = [&[1, 0][..], &block(&body)].concat();
    message.chunks(20).flat_map(|part| [&[0x16, 3, 1][..], &block(part)].concat()).collect()
}

#[test]
fn tls_must_ask_for_the_host_of_the_connection() {
    let decide = |port: u16, bytes: &[u8]| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut inside, _) = listener.accept().unwrap();
        client.write_all(bytes).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        greeting(&mut inside, Vec::new(), &Host::new("example.org", port).unwrap()).unwrap()
    };
    assert_eq!(decide(443, &hello("Example.ORG")).unwrap(), hello("Example.ORG"));
    assert_eq!(decide(443, &hello("evil.test")), Err("TLS asks for another host inside"));
    assert_eq!(decide(8443, &hello("evil.test")), Err("TLS asks for another host inside"));
    assert_eq!(decide(443, b"GET / HTTP/1.1\r\n\r\n"), Err("not TLS on port 443"));
    assert_eq!(decide(443, b""), Err("nothing was said"));
    assert_eq!(decide(443, &hello("example.org")[..30]), Err("nothing was said"));
    assert!(decide(80, b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n").is_ok());
    assert!(decide(80, b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n").is_err());
    assert!(decide(5432, b"\x00\x00\x00\x08").is_ok());
}

#[test]
fn too_many_idle_connections_are_bounded_and_a_slow_one_is_ended() {
    let scene = scene(&["example.org".into()]);
    let begun = Instant::now();
    let mut idle: Vec<TcpStream> = (0..400).map(|_| TcpStream::connect(scene.proxy).unwrap()).collect();
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    assert!(threads() < MOST_CONNECTIONS + 100, "{}", threads());
    // The last one came too late for a place.
    let last = idle.pop().unwrap();
    assert!(all(last).starts_with("HTTP/1.1 503"));
    // One byte now and then does not prolong the time to say something.
    let mut slow = idle.swap_remove(0);
    while slow.write_all(b"C").is_ok() && begun.elapsed() < PATIENCE * 3 {
        slow.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        if slow.read(&mut [0]).is_ok() {
            break;
        }
    }
    assert!(begun.elapsed() >= PATIENCE && begun.elapsed() < PATIENCE * 3, "{:?}", begun.elapsed());
    drop(idle);
    let said = all(say(scene.proxy, "CONNECT evil.test:443 HTTP/1.1\r\n\r\n"));
    assert!(said.starts_with("HTTP/1.1 403"), "{said}");
}

#[test]
fn a_long_stream_arrives_whole() {
    const BYTES: usize = 100_000_000;
    let source = server(|mut stream| {
        let chunk = vec![7; 1024 * 1024];
        let mut left = BYTES;
        while left > 0 {
            let n = left.min(chunk.len());
            if stream.write_all(&chunk[..n]).is_err() {
                return;
            }
            left -= n;
        }
    });
    let scene = scene(&[source.to_string()]);
    let mut client = say(scene.proxy, &format!("CONNECT {source} HTTP/1.1\r\n\r\n"));
    read_head(&mut client);
    let (mut got, mut chunk) = (0, vec![0; 1024 * 1024]);
    while let Ok(n) = client.read(&mut chunk)
        && n > 0
    {
        got += n;
    }
    assert_eq!(got, BYTES);
}
