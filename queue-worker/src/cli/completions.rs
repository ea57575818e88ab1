//! `completions`: the completion script of a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{
    args::{Args, program},
    exit::Failure,
    output::print,
};

#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(super) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), program(), &mut script);
    Ok(print(&String::from_utf8_lossy(&script))?)
}
