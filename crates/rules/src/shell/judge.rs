//! What the rules say about one thing a line does.
//!
//! A command whose words are all known is a text like any other. One with a part that is known only when it runs
//! (`echo $X`) stands for many texts, and an opaque line for every text there is. About these only a rule that speaks
//! about *all* of them may decide; no narrower allow can vouch for them. A narrower rule that is stricter counts as a
//! doubt: whoever writes "allow `*`, deny `rm *`" means that `rm` is not run, and nobody can say that an opaque line does
//! not run it, so it is asked. A deny is at worst a question, and never undone by adding `; eval $X` to a line.

use proto::{Action, Rule};

use super::program::places::Inside;
use super::word::Word;
use super::{Want, program};
use crate::wildcard::{covers, matches, overlaps};
use crate::{Source, Verdict, speaking_of};

/// Judges one want by all sets, read as one list.
pub(crate) fn evaluate<'r>(want: &Want, sets: &[&'r [Rule]]) -> Verdict<'r> {
    let said = itself(want, sets);
    inside(want, sets, said.action).unwrap_or(said)
}

fn itself<'r>(want: &Want, sets: &[&'r [Rule]]) -> Verdict<'r> {
    match &want.spread {
        Some(spread) => {
            let (text, looks) = (spread.text.clone(), spread.looks.clone());
            many(&Want { text, looks, ..want.clone() }, sets)
        }
        None if want.open => many(want, sets),
        None => one(want, sets),
    }
}

/// Commands inside another one that are looked at; of more, one is taken to be what a rule forbids.
const MOST_INSIDE: usize = 8;

/// A doubt because of a command that may be inside another one, if a rule that is stricter begins with its very name.
fn inside<'r>(want: &Want, sets: &[&'r [Rule]], said: Action) -> Option<Verdict<'r>> {
    if want.parts.is_empty() {
        return None;
    }
    let rules = sets.iter().enumerate().flat_map(|(set, rules)| rules.iter().map(move |rule| (set, rule)));
    let stricter = rules.filter(|(_, rule)| rule.action < said && matches(&rule.permission, want.permission()));
    let named = stricter.filter_map(|(set, rule)| Some((head(&rule.pattern)?, set, rule))).collect::<Vec<_>>();
    // A name that is written nowhere cannot be found below. Quotes may stand in the middle of it.
    let written: String = want.source.chars().filter(|c| !"'\"\\\n".contains(*c)).collect();
    if !named.iter().any(|(head, ..)| written.contains(head)) {
        return None;
    }
    let commands = program::places::inside(&want.parts);
    let rule_of = |word: &Word| {
        let name = program::base(&word.text);
        named.iter().find(|(head, ..)| *head == name).filter(|_| program::places::is_named(&word.text))
    };
    let begins = |inside: &Inside| if inside.anywhere { inside.words.len() } else { inside.words.len().min(1) };
    let places = commands.iter().flat_map(|inside| (0..begins(inside)).map(|at| &inside.words[at..]));
    let mut begin = places.filter_map(|words| Some((words, rule_of(&words[0])?)));
    let found = begin.by_ref().take(MOST_INSIDE).find_map(|(words, (name, ..))| {
        let found = itself(&Want::command(words), sets);
        (found.action < said && found.rule.is_some_and(|rule| head(&rule.pattern) == Some(name))).then_some(found)
    });
    let unseen = |(_, (_, set, rule)): (&[Word], &(&str, usize, &'r Rule))| Verdict {
        action: Action::Ask,
        rule: Some(rule),
        source: Source::Set(*set),
    };
    found.or_else(|| begin.next().map(unseen)).map(|found| Verdict { action: Action::Ask, ..found })
}

/// The name of the program that a rule is about, if it names one.
fn head(pattern: &str) -> Option<&str> {
    let name = program::base(pattern.split(' ').next()?.trim_end_matches('*'));
    (!name.is_empty() && !name.contains(['*', '?'])).then_some(name)
}

/// The last rule that matches decides. What a command looks like to a person (`/bin/rm` is `rm`) is a reason to forbid it
/// and none to allow it; a later allow that speaks about the look only takes that reason away.
fn one<'r>(want: &Want, sets: &[&'r [Rule]]) -> Verdict<'r> {
    let mut looks: Vec<&String> = want.looks.iter().collect();
    for (set, rule) in speaking_of(want.permission(), sets).rev() {
        let seen = looks.iter().any(|look| matches(&rule.pattern, look));
        if matches(&rule.pattern, &want.text) || seen && rule.action < Action::Allow {
            return Verdict { action: rule.action, rule: Some(rule), source: Source::Set(set) };
        }
        if seen {
            looks.retain(|look| !matches(&rule.pattern, look));
        }
    }
    Verdict::ASK
}

/// A stricter rule that may speak about a want. A sure one speaks about all that it looks like.
struct Doubt<'r> {
    set: usize,
    rule: &'r Rule,
    sure: bool,
}

fn many<'r>(want: &Want, sets: &[&'r [Rule]]) -> Verdict<'r> {
    let (mut wide, mut doubts) = (None, Vec::<Doubt>::new());
    for (set, rule) in speaking_of(want.permission(), sets) {
        // What a later rule takes over completely can neither decide nor be a reason to doubt.
        doubts.retain(|doubt| !covers(&rule.pattern, &doubt.rule.pattern));
        if covers(&rule.pattern, &want.text) {
            wide = Some((set, rule));
            doubts.clear();
        } else if rule.pattern == want.source {
            // Somebody spoke about this very line; earlier doubts about it stay.
            wide = Some((set, rule));
        } else if rule.action < Action::Allow {
            let sure = want.looks.iter().any(|look| covers(&rule.pattern, look));
            let mut texts = want.looks.iter().chain([&want.text]).flat_map(|text| shortened(text));
            if sure || texts.any(|text| overlaps(&rule.pattern, &text)) && !is_option(rule, want) {
                doubts.push(Doubt { set, rule, sure });
            }
        }
    }
    let denied = doubts.iter().find(|doubt| doubt.sure && doubt.rule.action == Action::Deny);
    let doubt = doubts.iter().min_by_key(|doubt| doubt.rule.action);
    let (action, (set, rule)) = match (wide, denied, doubt) {
        (Some(wide), ..) if wide.1.action == Action::Deny => (Action::Deny, wide),
        (_, Some(denied), _) => (Action::Deny, (denied.set, denied.rule)),
        (_, _, Some(doubt)) => (Action::Ask, (doubt.set, doubt.rule)),
        (Some(wide), ..) => (wide.1.action, wide),
        (None, None, None) => return Verdict::ASK,
    };
    Verdict { action, rule: Some(rule), source: Source::Set(set) }
}

/// Whether a rule is about an option where a command has a pattern for names. A file may be called like an option, and
/// that is beyond what a line tells.
fn is_option(rule: &Rule, want: &Want) -> bool {
    let names = want.spread.as_ref().map_or(&[][..], |spread| &spread.names);
    let mut words = rule.pattern.split(' ').enumerate();
    let first_open = words.by_ref().find(|(_, word)| word.starts_with('-') || word.contains(['*', '?']));
    first_open.is_some_and(|(at, word)| word.starts_with('-') && names.contains(&at))
}

/// Words nobody knows that are left out one by one; of more, all may be gone.
const MOST_GAPS: usize = 4;

/// An open text, and what it comes to when words in it that nobody knows are empty: the shell leaves such words out.
pub(super) fn shortened(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split(' ').collect();
    let gaps: Vec<usize> = (1..words.len()).filter(|at| words[*at] == "*").collect();
    if gaps.len() > MOST_GAPS {
        // With whatever stands there, or nothing, in one pattern.
        return vec![text.to_owned(), text.replace(" *", "*")];
    }
    (0..1_usize << gaps.len())
        .map(|left_out| {
            let stays = |at: &usize| gaps.iter().position(|gap| gap == at).is_none_or(|gap| left_out & (1 << gap) == 0);
            let words: Vec<&str> = (0..words.len()).filter(stays).map(|at| words[at]).collect();
            words.join(" ")
        })
        .collect()
}
