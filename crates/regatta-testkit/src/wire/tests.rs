use super::*;

/// A server that sends back what it gets.
fn echo() -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heard: Arc<Mutex<Vec<u8>>> = Arc::default();
    let hears = Arc::clone(&heard);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, heard) = (stream.unwrap(), Arc::clone(&hears));
            thread::spawn(move || {
                let mut piece = [0; 1024];
                while let Ok(n @ 1..) = stream.read(&mut piece) {
                    heard.lock().unwrap().extend(&piece[..n]);
                    if stream.write_all(&piece[..n]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, heard)
}

fn wired() -> (Wire, TcpStream, Arc<Mutex<Vec<u8>>>) {
    let (address, heard) = echo();
    let wire = Wire::start(Upstream::Tcp(address));
    let client = TcpStream::connect(wire.address()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    (wire, client, heard)
}

fn say(client: &mut TcpStream, text: &str) {
    client.write_all(text.as_bytes()).unwrap();
}

#[track_caller]
fn hear(client: &mut TcpStream, len: usize) -> String {
    let mut answer = vec![0; len];
    client.read_exact(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

/// Waits until the server has heard this much.
#[track_caller]
fn until_heard(heard: &Mutex<Vec<u8>>, len: usize) {
    let started = Instant::now();
    while heard.lock().unwrap().len() < len {
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", heard.lock().unwrap());
        thread::sleep(Duration::from_millis(1));
    }
}

/// Nothing arrives for a while.
#[track_caller]
fn hear_nothing(client: &mut TcpStream) {
    client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let read = client.read(&mut [0]);
    assert!(read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock), "{read:?}");
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
}

#[test]
fn bytes_pass_in_both_directions_and_are_counted() {
    let (wire, mut client, _) = wired();
    say(&mut client, "hello");
    assert_eq!(hear(&mut client, 5), "hello");
    assert_eq!((wire.carried(Way::Up), wire.carried(Way::Down)), (5, 5));
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0, "the end of a stream passes too");
}

#[test]
fn a_delay_counts_for_each_direction_and_does_not_add_up_over_pieces() {
    let (wire, mut client, _) = wired();
    say(&mut client, "x");
    hear(&mut client, 1);
    for way in [Way::Up, Way::Down] {
        wire.set(way, |rules| rules.delay = Duration::from_millis(500));
    }
    let started = Instant::now();
    for _ in 0..10 {
        say(&mut client, "x");
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(hear(&mut client, 10), "xxxxxxxxxx");
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn a_rate_limits_what_passes() {
    let (wire, mut client, _) = wired();
    wire.set(Way::Up, |rules| rules.rate = Some(1000));
    let started = Instant::now();
    say(&mut client, &"x".repeat(300));
    say(&mut client, "y");
    hear(&mut client, 301);
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    assert!(started.elapsed() >= Duration::from_millis(300), "{:?}", started.elapsed());
}

#[test]
fn what_is_held_arrives_later_and_what_is_swallowed_never() {
    let (wire, mut client, heard) = wired();
    wire.set(Way::Down, |rules| rules.flow = Flow::Held);
    say(&mut client, "a");
    hear_nothing(&mut client);
    // The other direction passes.
    until_heard(&heard, 1);
    wire.heal();
    assert_eq!(hear(&mut client, 1), "a");

    wire.swallow();
    say(&mut client, "b");
    hear_nothing(&mut client);
    // A connection that comes now is taken and gets no answer.
    let mut second = TcpStream::connect(wire.address()).unwrap();
    say(&mut second, "c");
    hear_nothing(&mut second);
    assert_eq!(*heard.lock().unwrap(), b"a");
    wire.heal();
    for client in [&mut client, &mut second] {
        let read = client.read(&mut [0]);
        assert!(read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset), "{read:?}");
    }
    let mut third = TcpStream::connect(wire.address()).unwrap();
    say(&mut third, "d");
    assert_eq!(hear(&mut third, 1), "d");
}

#[test]
fn a_cut_lets_exactly_the_given_bytes_through_once() {
    for bytes in [0, 1, 4, 5] {
        let (wire, mut client, heard) = wired();
        wire.cut_after(Way::Up, bytes);
        let _may_be_cut = client.write_all(b"hello");
        let _may_be_cut = client.write_all(b"!");
        let mut answer = Vec::new();
        let _how = client.read_to_end(&mut answer);
        until_heard(&heard, usize::try_from(bytes).unwrap());
        assert_eq!(heard.lock().unwrap().len() as u64, bytes);
        assert_eq!(wire.cuts(), 1);
        let mut again = TcpStream::connect(wire.address()).unwrap();
        say(&mut again, "hello again");
        assert_eq!(hear(&mut again, 11), "hello again");
    }
}

#[test]
fn a_close_is_an_end_and_a_reset_is_an_error() {
    let (wire, mut client, _) = wired();
    say(&mut client, "x");
    hear(&mut client, 1);
    wire.close();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);

    let (wire, mut client, _) = wired();
    say(&mut client, "x");
    hear(&mut client, 1);
    wire.reset();
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn one_connection_is_steered_without_the_others() {
    let (wire, mut first, _) = wired();
    say(&mut first, "1");
    hear(&mut first, 1);
    let mut second = TcpStream::connect(wire.address()).unwrap();
    say(&mut second, "2");
    hear(&mut second, 1);
    let links = wire.links();
    assert_eq!(links.len(), 2);
    links[0].set(Way::Up, |rules| rules.flow = Flow::Held);
    say(&mut first, "a");
    say(&mut second, "b");
    assert_eq!(hear(&mut second, 1), "b");
    hear_nothing(&mut first);
    links[0].reset();
    assert_eq!(first.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    say(&mut second, "c");
    assert_eq!(hear(&mut second, 1), "c");
}

#[test]
fn connections_are_refused_on_request_and_while_the_server_is_away() {
    let (wire, _client, _) = wired();
    wire.refuse();
    let refused = TcpStream::connect(wire.address()).and_then(|mut client| client.read(&mut [0]));
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    wire.heal();
    let mut client = TcpStream::connect(wire.address()).unwrap();
    say(&mut client, "x");
    assert_eq!(hear(&mut client, 1), "x");

    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let wire = Wire::start(Upstream::Tcp(nowhere));
    let away = TcpStream::connect(wire.address()).and_then(|mut client| client.read(&mut [0]));
    assert_eq!(away.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn a_socket_file_is_reached_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        stream.write_all(&byte).unwrap();
    });
    let wire = Wire::start(Upstream::Unix(path));
    let mut client = TcpStream::connect(wire.address()).unwrap();
    say(&mut client, "x");
    assert_eq!(hear(&mut client, 1), "x");
}
