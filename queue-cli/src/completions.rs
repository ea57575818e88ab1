//! `completions`: the completion script of a shell.

use clap_complete::Shell;

use super::{args::program, exit::Failure, output::print};

#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(super) fn completions(args: &CompletionsArgs, mut command: clap::Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, program(), &mut script);
    Ok(print(&String::from_utf8_lossy(&script))?)
}
