//! Networks of its own.

use std::net::TcpListener;

use regatta_core::sandbox::Net;

use super::in_full;

#[test]
fn without_a_network_there_is_loopback_alone() {
    in_full(|world, mut document| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        assert_eq!(world.attempt(&document, &["tcp", &address]), "ok", "the machine's network, by default");
        document.network = Net::None;
        assert_eq!(world.attempt(&document, &["tcp", &address]), "111");
        // No route at all.
        assert_eq!(world.attempt(&document, &["tcp", "192.0.2.1:80"]), "101");
        assert_eq!(world.attempt(&document, &["serve"]), "ok");
        let ran =
            world.shell(&document, "tail -n +3 /proc/net/dev | cut -d: -f1; tail -n +2 /proc/net/route");
        assert_eq!(ran.stdout.trim(), "lo", "{ran:?}");
    });
}

#[test]
fn listeners_inside_belong_to_the_shim() {
    in_full(|world, mut document| {
        document.network = Net::Own { proxy: true, local: vec![5432, 80] };
        // Each connection is accepted by the kernel: a listener is there, and it is not the program's.
        for port in [3128, 5432, 80] {
            assert_eq!(world.attempt(&document, &["tcp", &format!("127.0.0.1:{port}")]), "ok");
        }
        assert_eq!(world.attempt(&document, &["tcp", "127.0.0.1:5433"]), "111");
        let ran = world.shell(&document, "ls /proc/self/fd | wc -l; ls -l /proc/1/fd | grep -c socket");
        assert_eq!(ran.stdout, "4\n0\n", "{ran:?}");
    });
}
