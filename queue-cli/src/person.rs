//! The operator at the command line: the name, and confirmations.

use std::{
    env,
    io::{self, BufRead, IsTerminal, Write},
};

use super::exit::{Exit, Failure};

/// The name of the user from the environment; empty if it is not set.
pub(super) fn name() -> String {
    ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(|name| env::var(name).ok().filter(|name| !name.is_empty())).unwrap_or_default()
}

/// Prints the effect, and asks for confirmation. On a terminal, `yes` confirms. Elsewhere, the
/// option `--yes` is needed.
pub(super) fn confirm(yes: bool, what: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    match answer(&format!("{what}; write `yes` to continue"))? {
        Some(answer) if answer == "yes" => Ok(()),
        Some(answer) => Err(Failure::new(Exit::Usage, format!("`{answer}` is not `yes`: nothing was changed"))),
        None => Err(Failure::new(Exit::Usage, format!("{what}; add --yes to confirm"))),
    }
}

/// Asks on the terminal, and waits for a line. `None` if standard input is not a terminal.
fn answer(question: &str) -> io::Result<Option<String>> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    write!(io::stderr(), "{question}: ")?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(Some(line.trim().to_owned()))
}
