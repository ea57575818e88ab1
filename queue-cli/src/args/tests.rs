use std::collections::BTreeSet;

use super::*;

#[test]
fn the_arguments_are_consistent_and_every_command_has_examples() {
    fn examples(command: &clap::Command) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.contains("Examples:\n"), "`{}` has no examples", command.get_name());
        command.get_subcommands().for_each(examples);
    }
    operator_command().debug_assert();
    examples(&operator_command());
    assert_eq!(operator_command().get_about().map(ToString::to_string).as_deref(), Some("Inspect and repair background jobs"));
}

#[test]
fn a_duration_without_a_unit_is_refused_with_advice() {
    assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5400)));
    assert!(duration("10").unwrap_err().contains("`10s`"));
    assert!(duration("soon").unwrap_err().contains("`10s`"));
}

#[test]
fn a_noun_without_a_verb_lists() {
    let given = |words: &str| {
        let words = words.split(' ').map(OsString::from).collect();
        let words: Vec<String> = add_default_verb(&operator_command(), words).into_iter().map(|word| word.into_string().unwrap()).collect();
        words.join(" ")
    };
    assert_eq!(given("queue limits"), "queue limits list");
    assert_eq!(given("queue --url sqlite://x.db groups --json"), "queue --url sqlite://x.db groups list --json");
    assert_eq!(given("queue workers --queue mail"), "queue workers list --queue mail");
    assert_eq!(given("queue groups --url=sqlite://x.db"), "queue groups list --url=sqlite://x.db");
    for same in [
        "queue queues --url sqlite://x.db pause mail",
        "queue limits --url sqlite://x.db list",
        "queue limits show orders/stripe",
        "queue limits --help",
        "queue status",
        "queue",
    ] {
        assert_eq!(given(same), same);
    }
}

/// The table of `docs/command-line.md` has exactly the commands of the program.
#[test]
#[cfg(all(feature = "sqlite", feature = "dashboard"))]
fn the_reference_has_every_command() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/command-line.md")).unwrap();
    let table = page.split("\n## Commands\n").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("it has the section");
    let mut documented = BTreeSet::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let mut noun = String::new();
        for name in row.split(" | ").next().unwrap_or_default().split('`').skip(1).step_by(2) {
            let words: Vec<&str> = name.split(' ').filter(|word| !word.starts_with(char::is_uppercase)).collect();
            match words[..] {
                [first, _] => {
                    noun = first.to_owned();
                    documented.insert(words.join(" "))
                }
                [verb] if !noun.is_empty() => documented.insert(format!("{noun} {verb}")),
                _ => documented.insert(words.join(" ")),
            };
        }
    }
    let program = operator_command();
    let nouns = program.get_subcommands().flat_map(|noun| {
        let name = noun.get_name().to_owned();
        let verbs: Vec<String> = noun.get_subcommands().map(|verb| format!("{name} {}", verb.get_name())).collect();
        verbs.into_iter().chain((!noun.is_subcommand_required_set()).then_some(name))
    });
    assert_eq!(documented, nouns.collect());
}
