//! A TCP proxy between a program and its server, which can inject faults.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// The fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Harm {
    /// All bytes pass.
    None = 0,
    /// Requests pass, and replies are swallowed: the peer looks alive. A connection that has lost a
    /// reply loses all later ones.
    SwallowReplies = 1,
    /// No bytes pass in either direction. A connection with swallowed bytes does not recover.
    BlackHole = 2,
    /// Requests pass, then the connection is closed before the reply.
    CutReplies = 3,
    /// New connections are refused, and existing ones are closed.
    Refuse = 4,
    /// A request is swallowed and its connection is closed, so it never arrives.
    CutRequests = 5,
    /// All bytes pass [`LATENCY`] later.
    Slow = 6,
    /// No bytes pass until the fault ends. Then all pass in order.
    Hold = 7,
    /// All bytes pass, a few at a time.
    Drip = 8,
}

/// The delay of bytes on a slow connection.
pub const LATENCY: Duration = Duration::from_millis(150);

/// A function that gets every request before it passes.
type Gate = Mutex<Box<dyn FnMut(&[u8]) + Send>>;

/// A proxy with its own port. When it is dropped, it accepts no further connections. Existing ones
/// continue.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    server: Arc<AtomicU16>,
    harm: Arc<AtomicU8>,
    cut: Arc<AtomicUsize>,
    ended: Arc<AtomicBool>,
}

impl Proxy {
    /// A proxy to a server of this machine.
    ///
    /// # Panics
    /// If no port is free.
    pub fn to(server: u16) -> Proxy {
        Proxy::with_gate(server, |_| ())
    }

    /// A proxy that passes each request to `gate`, and forwards it when `gate` has returned.
    ///
    /// # Panics
    /// If no port is free.
    pub fn with_gate(server: u16, gate: impl FnMut(&[u8]) + Send + 'static) -> Proxy {
        let gate: Arc<Gate> = Arc::new(Mutex::new(Box::new(gate)));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let (harm, cut) = (Arc::new(AtomicU8::new(0)), Arc::new(AtomicUsize::new(0)));
        let (shared, counted) = (harm.clone(), cut.clone());
        let server = Arc::new(AtomicU16::new(server));
        let leads_to = server.clone();
        let ended = Arc::new(AtomicBool::new(false));
        let over = ended.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                if shared.load(Ordering::SeqCst) == Harm::Refuse as u8 {
                    continue;
                }
                let Ok(upstream) = TcpStream::connect(("127.0.0.1", leads_to.load(Ordering::SeqCst))) else { continue };
                for stream in [&client, &upstream] {
                    let _ = stream.set_nodelay(true);
                    let _ = stream.set_read_timeout(Some(Duration::from_millis(20)));
                }
                let (Ok(client_again), Ok(upstream_again)) = (client.try_clone(), upstream.try_clone()) else { continue };
                let (one, other) = (shared.clone(), shared.clone());
                let (counted, gate) = (counted.clone(), gate.clone());
                thread::spawn(move || pump(client, upstream, &one, false, None, Some(&gate)));
                thread::spawn(move || pump(upstream_again, client_again, &other, true, Some(&counted), None));
            }
        });
        Proxy { port, server, harm, cut, ended }
    }

    /// The URL of the proxy.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// New connections are forwarded to another server, as after a change of a DNS record.
    pub fn lead_to(&self, server: u16) {
        self.server.store(server, Ordering::SeqCst);
    }

    /// Changes the fault from now on.
    pub fn set(&self, harm: Harm) {
        self.harm.store(harm as u8, Ordering::SeqCst);
    }

    /// The number of replies that were swallowed or cut.
    pub fn harmed(&self) -> usize {
        self.cut.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts connections, so that it ends.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, harm: &AtomicU8, replies: bool, harmed: Option<&AtomicUsize>, gate: Option<&Gate>) {
    let mut buffer = [0; 64 * 1024];
    // A connection that has lost bytes carries no more. Later bytes could be taken for the lost
    // ones.
    let mut torn = false;
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
        if let Some(gate) = gate {
            gate.lock().unwrap_or_else(PoisonError::into_inner)(&buffer[..size]);
        }
        torn |= now == Harm::BlackHole as u8;
        let now = harm.load(Ordering::SeqCst);
        let count = || {
            if let Some(harmed) = harmed {
                harmed.fetch_add(1, Ordering::SeqCst);
            }
        };
        torn |= now == Harm::BlackHole as u8 || (replies && now == Harm::SwallowReplies as u8);
        if torn {
            count();
            continue;
        }
        let cut = if replies { Harm::CutReplies } else { Harm::CutRequests };
        if now == Harm::Refuse as u8 || now == cut as u8 {
            count();
            break;
        }
        if now == Harm::Slow as u8 {
            thread::sleep(LATENCY);
        }
        while harm.load(Ordering::SeqCst) == Harm::Hold as u8 {
            thread::sleep(Duration::from_millis(5));
        }
        let step = if now == Harm::Drip as u8 { 16 } else { size };
        let passed = buffer[..size].chunks(step).try_for_each(|piece| {
            if harm.load(Ordering::SeqCst) == Harm::Drip as u8 {
                thread::sleep(Duration::from_millis(5));
            }
            to.write_all(piece)
        });
        if passed.is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
