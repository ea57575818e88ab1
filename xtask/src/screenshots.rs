//! `cargo xtask screenshots`: screenshots of the dashboard, for review.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, ExitCode, Stdio},
};

use clap::Args;

use crate::{
    run::{cargo, pass_on, target},
    servers,
};

/// Options of `cargo xtask screenshots`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Installs a missing chromium with the system's package manager, also when not root.
    #[arg(long)]
    install: bool,
    /// Where the pictures go. Default: target/screenshots
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// The broker of the scene. Default: a SQLite file
    #[arg(long)]
    url: Option<String>,
}

/// The dashboard of the screenshots. It ends with this program.
struct Scene(Child);

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    match take(arguments) {
        Ok(code) => code,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn take(arguments: &Arguments) -> Result<ExitCode, String> {
    servers::chromium(arguments.install)?;
    if !cargo().args(["build", "-p", "queue-dashboard", "--examples"]).status().is_ok_and(|status| status.success()) {
        return Err("the examples of queue-dashboard cannot be built".to_owned());
    }
    let mut scene = cargo();
    scene.args(["run", "--quiet", "-p", "queue-dashboard", "--example", "scene", "--"]).args(&arguments.url).stdout(Stdio::piped());
    let mut scene = Scene(scene.spawn().map_err(|error| format!("the scene does not start: {error}"))?);
    let mut url = String::new();
    let said = scene.0.stdout.take().ok_or("the scene says nothing")?;
    BufReader::new(said).read_line(&mut url).map_err(|error| error.to_string())?;
    let folder = arguments.folder.clone().unwrap_or_else(|| target().join("screenshots"));
    let mut pictures = cargo();
    pictures.args(["run", "--quiet", "-p", "queue-dashboard", "--example", "screenshots", "--", url.trim()]).arg(folder);
    Ok(pass_on(&mut pictures))
}
