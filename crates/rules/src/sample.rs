//! Rules for tests, one a line as a person would say them: `allow bash git *`.

use proto::{Action, Rule};

pub(crate) fn rules(text: &str) -> Vec<Rule> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(rule).collect()
}

fn rule(line: &str) -> Rule {
    let mut words = line.splitn(3, ' ');
    let mut word = || words.next().unwrap_or_else(|| panic!("`{line}` is not `action permission pattern`"));
    let action = match word() {
        "allow" => Action::Allow,
        "ask" => Action::Ask,
        "deny" => Action::Deny,
        other => panic!("`{other}` is no action"),
    };
    Rule::new(word(), word(), action)
}
