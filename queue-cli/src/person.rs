//! The operator at the command line: the name, and confirmations of deletions.

use std::{
    env,
    io::{self, BufRead, IsTerminal, Write},
};

/// The name of the user, as the environment has it; empty if it has none.
pub(super) fn name() -> String {
    ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(|name| env::var(name).ok().filter(|name| !name.is_empty())).unwrap_or_default()
}

/// Asks on the terminal, and waits for a line. `None`: standard input is no terminal.
pub(super) fn answer(question: &str) -> io::Result<Option<String>> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    write!(io::stderr(), "{question}: ")?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(Some(line.trim().to_owned()))
}
