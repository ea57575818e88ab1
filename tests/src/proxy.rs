//! A TCP proxy between a program and its server, which can be told to do harm.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// What is done to the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Harm {
    /// Everything passes.
    None = 0,
    /// Requests pass, replies are swallowed: the peer looks alive.
    SwallowReplies = 1,
    /// Nothing passes in either direction: a black hole.
    BlackHole = 2,
    /// Requests pass, then the connection is cut before the reply.
    CutReplies = 3,
    /// New connections are refused, old ones are cut.
    Refuse = 4,
}

/// A proxy on a port of its own. Its threads end with the connections.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    harm: Arc<AtomicU8>,
    cut: Arc<AtomicUsize>,
}

impl Proxy {
    /// A proxy to a server of this machine.
    ///
    /// # Panics
    /// When no port is free.
    pub fn to(server: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let (harm, cut) = (Arc::new(AtomicU8::new(0)), Arc::new(AtomicUsize::new(0)));
        let (shared, counted) = (harm.clone(), cut.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.load(Ordering::SeqCst) == Harm::Refuse as u8 {
                    continue;
                }
                let Ok(upstream) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                for stream in [&client, &upstream] {
                    let _ = stream.set_nodelay(true);
                    let _ = stream.set_read_timeout(Some(Duration::from_millis(20)));
                }
                let (Ok(client_again), Ok(upstream_again)) = (client.try_clone(), upstream.try_clone()) else { continue };
                let (one, other) = (shared.clone(), shared.clone());
                let counted = counted.clone();
                thread::spawn(move || pump(client, upstream, &one, false, None));
                thread::spawn(move || pump(upstream_again, client_again, &other, true, Some(&counted)));
            }
        });
        Proxy { port, harm, cut }
    }

    /// The URL through it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Changes what is done from now on.
    pub fn set(&self, harm: Harm) {
        self.harm.store(harm as u8, Ordering::SeqCst);
    }

    /// How many replies were swallowed or cut.
    pub fn harmed(&self) -> usize {
        self.cut.load(Ordering::SeqCst)
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, harm: &AtomicU8, replies: bool, harmed: Option<&AtomicUsize>) {
    let mut buffer = [0; 64 * 1024];
    loop {
        let now = harm.load(Ordering::SeqCst);
        let size = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(size) => size,
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                if now == Harm::Refuse as u8 {
                    break;
                }
                continue;
            }
            Err(_) => break,
        };
        let now = harm.load(Ordering::SeqCst).max(if now == Harm::BlackHole as u8 { now } else { 0 });
        let count = || {
            if let Some(harmed) = harmed {
                harmed.fetch_add(1, Ordering::SeqCst);
            }
        };
        if now == Harm::BlackHole as u8 || (replies && now == Harm::SwallowReplies as u8) {
            count();
            continue;
        }
        if now == Harm::Refuse as u8 || (replies && now == Harm::CutReplies as u8) {
            count();
            break;
        }
        if to.write_all(&buffer[..size]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
