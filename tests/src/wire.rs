//! One connection to a server with its raw commands and replies.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

/// A persistent connection, unlike those of [`Server::ask`](crate::server::Server::ask).
#[derive(Debug)]
pub struct Wire(BufReader<TcpStream>);

impl Wire {
    /// A connection to a server of this machine. It waits five seconds for each reply.
    ///
    /// # Errors
    /// If no server listens there.
    pub fn to(port: u16) -> io::Result<Wire> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok(Wire(BufReader::new(stream)))
    }

    /// Sends one command. Returns the line of its reply, or the text of a bulk reply.
    ///
    /// # Errors
    /// If the connection is closed, or there is no reply.
    pub fn say(&mut self, words: &[&str]) -> io::Result<String> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.0.get_mut().write_all(request.as_bytes())?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        if let Some(length) = line.strip_prefix('$').and_then(|length| length.trim().parse::<usize>().ok()) {
            let mut body = vec![0; length + 2];
            self.0.read_exact(&mut body)?;
            body.truncate(length);
            return Ok(String::from_utf8_lossy(&body).into_owned());
        }
        Ok(line)
    }
}
