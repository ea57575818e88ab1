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
}

#[test]
fn a_duration_without_a_unit_is_told_what_it_needs() {
    assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5400)));
    assert!(duration("10").unwrap_err().contains("`10s`"));
    assert!(duration("soon").unwrap_err().contains("`10s`"));
}
