//! The report page: a Markdown file, the plots beside it, and the numbers that both were made of.
//!
//! The numbers are kept in `figures.jsonl`, so that a figure can be taken again without the others:
//! it takes its place there.

mod cost;
mod machine;
mod page;
mod plot;
mod plots;

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Error, bars::Bar, take::Line};

/// A page, and the folder of the same name beside it.
#[derive(Debug)]
pub(crate) struct Report {
    page: PathBuf,
    folder: PathBuf,
}

impl Report {
    pub(crate) fn at(page: &Path) -> Self {
        Report { page: page.to_owned(), folder: page.with_extension("") }
    }

    /// Replaces earlier measurements of these figures by these lines, and rewrites the report.
    pub(crate) fn add(&self, new: Vec<Line>, server: &Path, order: &[(String, String)]) -> Result<(), Error> {
        fs::create_dir_all(&self.folder)?;
        let stored = self.folder.join("figures.jsonl");
        let mut lines = read(&stored)?;
        lines.retain(|old| !new.iter().any(|line| (&line.broker, &line.figure) == (&old.broker, &old.figure)));
        // A page that is only drawn anew has numbers of another day.
        let is_busy = !new.is_empty() && machine::is_busy();
        lines.extend(new);
        lines.iter_mut().for_each(Bar::judge);
        // As the figures are listed; what is not there any more goes. Contestants are not listed,
        // and follow by name.
        let place = |line: &Line| order.iter().position(|(broker, name)| (broker, name) == (&line.broker, &line.figure));
        lines.retain(|line| place(line).is_some() || order.iter().all(|(broker, _)| *broker != line.broker));
        // Those of a broker together: the page has a table for each.
        let broker = |line: &Line| order.iter().position(|(broker, _)| *broker == line.broker);
        lines.sort_by_cached_key(|line| match place(line) {
            Some(place) => (broker(line), place, String::new()),
            None => (Some(usize::MAX), usize::MAX, line.broker.clone()),
        });
        let text: Result<Vec<String>, _> = lines.iter().map(serde_json::to_string).collect();
        fs::write(&stored, text?.join("\n") + "\n")?;

        let plots = plots::of(&lines);
        for plot in &plots {
            fs::write(self.folder.join(plot.file), &plot.svg)?;
        }
        let name = self.folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        fs::write(&self.page, page::page(&lines, &plots, &name, &machine::facts(server), is_busy, &cost::table()?))?;
        Ok(())
    }
}

fn read(stored: &Path) -> Result<Vec<Line>, Error> {
    let text = match fs::read_to_string(stored) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    text.lines().map(|line| serde_json::from_str(line).map_err(|error| format!("{}: {error}", stored.display()).into())).collect()
}
