//! `cargo xtask publish`: sets the repository and the contacts, which are unknown before the
//! publication, and publishes the packages.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;

use crate::run::{cargo, pass_on, root};

/// Options of `cargo xtask publish`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The address of the repository, such as `https://code.example.com/queue`
    #[arg(long, value_name = "URL")]
    repository: Option<String>,
    /// Where vulnerabilities are reported: an e-mail address or a URL
    #[arg(long, value_name = "CONTACT")]
    security: Option<String>,
    /// Where violations of the code of conduct are reported: an e-mail address or a URL
    #[arg(long, value_name = "CONTACT")]
    conduct: Option<String>,
    /// Upload the packages, once the files with the repository and the contacts are committed;
    /// without it, they are built and checked as an upload would do
    #[arg(long, conflicts_with_all = ["repository", "security", "conduct"])]
    execute: bool,
}

/// A value that is missing in the files until it is known.
struct Unknown<'a> {
    option: &'static str,
    value: Option<&'a str>,
    file: &'static str,
    /// The placeholder in the file.
    find: &'static str,
    replace: &'static str,
}

fn unknown(arguments: &Arguments) -> [Unknown<'_>; 3] {
    [
        Unknown {
            option: "--repository URL",
            value: arguments.repository.as_deref(),
            file: "Cargo.toml",
            find: "license = \"MIT OR Apache-2.0\"\nreadme",
            replace: "license = \"MIT OR Apache-2.0\"\nrepository = \"{}\"\nreadme",
        },
        Unknown {
            option: "--security CONTACT",
            value: arguments.security.as_deref(),
            file: "SECURITY.md",
            find: "The private contact is added here when the project is published.",
            replace: "Report to {}.",
        },
        Unknown {
            option: "--conduct CONTACT",
            value: arguments.conduct.as_deref(),
            file: "CODE_OF_CONDUCT.md",
            find: "to the maintainers in private. The contact is added here when the project is\npublished.",
            replace: "to the maintainers in private: {}.",
        },
    ]
}

pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let missing = missing(&root(), arguments);
    for option in &missing {
        eprintln!("{}: {option} is missing", if arguments.execute { "error" } else { "warning" });
    }
    if arguments.execute && !missing.is_empty() {
        return ExitCode::from(2);
    }
    match set(&root(), arguments) {
        Err(problem) => {
            eprintln!("error: {problem}");
            return ExitCode::from(2);
        }
        Ok(changed) => changed.iter().for_each(|file| println!("changed {file}")),
    }
    let mut command = cargo();
    command.args(["publish", "--workspace"]);
    if !arguments.execute {
        command.args(["--dry-run", "--allow-dirty"]);
    }
    pass_on(&mut command)
}

/// The options of the values that are missing in the files.
fn missing(root: &Path, arguments: &Arguments) -> Vec<&'static str> {
    let lacks = |unknown: &Unknown<'_>| fs::read_to_string(root.join(unknown.file)).is_ok_and(|text| text.contains(unknown.find));
    unknown(arguments).iter().filter(|unknown| unknown.value.is_none() && lacks(unknown)).map(|unknown| unknown.option).collect()
}

/// Sets the given values, and returns the names of the changed files. If a value is invalid, no
/// file is changed.
fn set(root: &Path, arguments: &Arguments) -> Result<Vec<String>, String> {
    let read = |file: &str| fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"));
    let (mut texts, mut problems) = (Vec::new(), Vec::new());
    for Unknown { option, value, file, find, replace } in unknown(arguments) {
        let text = read(file)?;
        match (value, text.matches(find).count()) {
            (None, _) => {}
            (Some(value), 1) if is_contact(value) => texts.push((file.to_owned(), text.replace(find, &replace.replace("{}", value)))),
            (Some(value), 1) => problems.push(format!("{option} is `{value}`: it must be an e-mail address or start with `https://`")),
            (Some(_), _) => problems.push(format!("{option} is set already: edit {file} to change it")),
        }
    }
    if arguments.repository.as_deref().is_some_and(|url| !url.starts_with("https://")) {
        problems.push("--repository URL must start with `https://`".to_owned());
    }
    if !problems.is_empty() {
        return Err(problems.join("\n       "));
    }
    if arguments.repository.is_some() {
        for file in packages(root)? {
            let text = read(&file)?;
            texts.push((file, text.replacen("license.workspace = true\n", "license.workspace = true\nrepository.workspace = true\n", 1)));
        }
    }
    for (file, text) in &texts {
        fs::write(root.join(file), text).map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(texts.into_iter().map(|(file, _)| file).collect())
}

fn is_contact(value: &str) -> bool {
    let is_word = !value.is_empty() && value.chars().all(|c| c.is_ascii_graphic() && !"\"<>\\".contains(c));
    is_word && (value.starts_with("https://") || value.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.')))
}

/// The manifests of the packages that are published.
fn packages(root: &Path) -> Result<Vec<String>, String> {
    let problem = |error: std::io::Error| format!("{}: {error}", root.display());
    let folders = fs::read_dir(root).map_err(problem)?.collect::<Result<Vec<_>, _>>().map_err(problem)?;
    let manifests = folders.iter().map(|folder| Path::new(&folder.file_name()).join("Cargo.toml"));
    let is_published = |file: &PathBuf| {
        fs::read_to_string(root.join(file)).is_ok_and(|text| text.contains("license.workspace = true") && !text.contains("publish = false"))
    };
    let mut found: Vec<String> = manifests.filter(is_published).map(|file| file.display().to_string()).collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(values: [Option<&str>; 3]) -> Arguments {
        let [repository, security, conduct] = values.map(|value| value.map(str::to_owned));
        Arguments { repository, security, conduct, execute: false }
    }

    /// Files with their contents before the publication.
    fn workspace(name: &str) -> PathBuf {
        let folder = crate::run::target().join("publish").join(name);
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(folder.join("core")).unwrap();
        for Unknown { file, find, .. } in unknown(&arguments([None; 3])) {
            fs::write(folder.join(file), format!("before\n{find}\nbehind\n")).unwrap();
        }
        fs::write(folder.join("core/Cargo.toml"), "[package]\nlicense.workspace = true\n").unwrap();
        folder
    }

    #[test]
    fn the_files_of_the_project_lack_a_value_or_have_it() {
        let lacking = missing(&root(), &arguments([None; 3]));
        let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
        assert_eq!(lacking.contains(&"--repository URL"), !manifest.contains("\nrepository = "), "{lacking:?}");
        assert!(packages(&root()).unwrap().contains(&"queue-core/Cargo.toml".to_owned()));
    }

    #[test]
    fn what_is_missing_is_named_and_a_wrong_value_changes_nothing() {
        let folder = workspace("without");
        let before = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let some = arguments([Some("https://code.example.com/queue"), None, None]);
        assert_eq!(missing(&folder, &some), ["--security CONTACT", "--conduct CONTACT"]);
        for wrong in ["queue", "http://code.example.com", "https://a\"b", ""] {
            let refused = set(&folder, &arguments([Some(wrong), Some("a@example.com"), Some("b@example.com")])).unwrap_err();
            assert!(refused.contains("--repository URL"), "{refused}");
        }
        assert_eq!(fs::read_to_string(folder.join("Cargo.toml")).unwrap(), before, "no file has changed");
    }

    #[test]
    fn what_was_not_known_is_set_once() {
        let folder = workspace("with");
        let all = arguments([Some("https://code.example.com/queue"), Some("security@example.com"), Some("https://example.com/conduct")]);
        let changed = set(&folder, &all).unwrap();
        assert_eq!(changed, ["Cargo.toml", "SECURITY.md", "CODE_OF_CONDUCT.md", "core/Cargo.toml"]);
        let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap();
        assert!(read("Cargo.toml").contains("\nrepository = \"https://code.example.com/queue\"\n"));
        assert!(read("core/Cargo.toml").contains("\nrepository.workspace = true\n"));
        assert!(read("SECURITY.md").contains("Report to security@example.com."));
        assert!(read("CODE_OF_CONDUCT.md").contains("in private: https://example.com/conduct."));
        assert_eq!(missing(&folder, &arguments([None; 3])), Vec::<&str>::new(), "the next publication asks for nothing");
    }
}
