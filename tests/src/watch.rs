//! The commands that a server has received (`MONITOR`).

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
};

use queue_conformance::patience::patience;

use crate::server::Server;

/// A view of all commands of a server, from now on.
#[derive(Debug)]
pub struct Watch(BufReader<TcpStream>);

impl Watch {
    /// # Panics
    /// If the server cannot be reached.
    pub fn on(server: &Server) -> Watch {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("the server listens");
        stream.set_read_timeout(Some(patience())).expect("a timeout can be set");
        stream.write_all(b"MONITOR\r\n").expect("the server reads");
        let mut watch = Watch(BufReader::new(stream));
        assert_eq!(watch.line(), "+OK");
        watch
    }

    /// The next command: its time, its client, and its words.
    ///
    /// # Panics
    /// If there is none in time.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a command comes");
        line.trim_end().to_owned()
    }

    /// All commands up to now.
    ///
    /// # Panics
    /// If one does not arrive in time.
    pub fn until_now(mut self, server: &Server) -> Vec<String> {
        server.command(&["ECHO", "until now"]);
        let lines = std::iter::repeat_with(|| self.line());
        lines.take_while(|line| words(line)[0] != "ECHO").collect()
    }

    /// The words of the next call of a script with this argument.
    ///
    /// # Panics
    /// If there is none.
    pub fn call_with(&mut self, argument: &str) -> Vec<String> {
        loop {
            let line = self.line();
            if line.contains("\"EVALSHA") && line.contains(argument) {
                return words(&line);
            }
        }
    }
}

/// The words of a command.
pub fn words(line: &str) -> Vec<String> {
    let words = line.split_once("] ").map_or("", |(_, words)| words);
    words.trim_matches('"').split("\" \"").map(str::to_owned).collect()
}
