//! Questions that a model puts to a person, as they are stored and shown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// So many questions go into one call: more is a form, not a question.
pub const MOST_QUESTIONS: usize = 4;
/// A person reads them at a glance.
const MOST_CHOICES: usize = 10;
const LONGEST: usize = 2_000;
const LONGEST_LABEL: usize = 200;
/// What a person says to one question.
const LONGEST_ANSWER: usize = 10_000;

/// One question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// The question, whole.
    #[serde(alias = "text")]
    pub question: String,
    /// A word or two that stand above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// What there is to choose from; without any, the answer is free. Other words than these can always be answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<Choice>,
    /// Several of the options may be chosen.
    #[serde(default, alias = "multiSelect", alias = "multi_select", skip_serializing_if = "std::ops::Not::not")]
    pub multiple: bool,
}

/// One of the answers that are offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Choice {
    /// The answer, in a few words.
    pub label: String,
    /// What follows from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Questions as they can be put, or what is wrong with them.
pub fn checked(mut questions: Vec<Question>) -> Result<Vec<Question>, String> {
    if questions.is_empty() || questions.len() > MOST_QUESTIONS {
        return Err(format!("ask 1 to {MOST_QUESTIONS} questions at once, not {}", questions.len()));
    }
    for (question, at) in questions.iter_mut().zip(1..) {
        question.question = question.question.trim().to_owned();
        question.header = question.header.take().map(|header| line(&header)).filter(|header| !header.is_empty());
        let of = |what: &str| format!("question {at}: {what}");
        if question.question.is_empty() {
            return Err(of("it says nothing"));
        }
        if question.question.chars().count() > LONGEST {
            return Err(of(&format!("it is longer than {LONGEST} characters")));
        }
        if question.options.len() > MOST_CHOICES {
            return Err(of(&format!("it has more than {MOST_CHOICES} options")));
        }
        for option in &mut question.options {
            option.label = line(&option.label);
            if option.label.is_empty() || option.label.chars().count() > LONGEST_LABEL {
                return Err(of(&format!("an option needs a `label` of at most {LONGEST_LABEL} characters")));
            }
        }
        if question.header.as_ref().is_some_and(|header| header.chars().count() > LONGEST_LABEL) {
            return Err(of(&format!("its `header` is longer than {LONGEST_LABEL} characters")));
        }
    }
    Ok(questions)
}

fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Answers as the questions can take them, one list for each, or what is wrong with them.
pub fn fits(questions: &[Question], answers: &[Vec<String>]) -> Result<(), String> {
    if answers.len() != questions.len() {
        return Err(format!("there are {} questions, and {} answers", questions.len(), answers.len()));
    }
    for ((question, answer), at) in questions.iter().zip(answers).zip(1..) {
        if answer.is_empty() || (answer.len() > 1 && !question.multiple) {
            return Err(format!("question {at} takes one answer{}", if question.multiple { " or more" } else { "" }));
        }
        for text in answer {
            if !crate::letter::says_something(text) || text.chars().count() > LONGEST_ANSWER {
                return Err(format!("an answer to question {at} says nothing, or is over {LONGEST_ANSWER} characters"));
            }
        }
    }
    Ok(())
}

impl Question {
    /// The answer that somebody means who typed this: numbers of options, their words in any letters, or words of their
    /// own. Where several may be chosen, commas stand between them.
    pub fn understood(&self, typed: &str) -> Vec<String> {
        let one = |text: &str| {
            let text = text.trim();
            let number = text.parse().ok().and_then(|at: usize| self.options.get(at.checked_sub(1)?));
            let named = || self.options.iter().find(|option| option.label.eq_ignore_ascii_case(text));
            number.or_else(named).map_or_else(|| text.to_owned(), |option| option.label.clone())
        };
        if self.multiple && !self.options.is_empty() {
            typed.split(',').map(one).filter(|text| !text.is_empty()).collect()
        } else {
            Some(one(typed)).filter(|text| !text.is_empty()).into_iter().collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(options: &[&str], multiple: bool) -> Question {
        let option = |label: &&str| Choice { label: (*label).to_owned(), description: None };
        Question { question: "Which?".into(), header: None, options: options.iter().map(option).collect(), multiple }
    }

    #[test]
    fn what_is_typed_is_a_number_a_label_or_words() {
        let one = question(&["SQLite", "Postgres, hosted"], false);
        let many = question(&["Linux", "macOS"], true);
        let free = question(&[], true);
        for (question, typed, expected) in [
            (&one, "1", vec!["SQLite"]),
            (&one, " sqlite ", vec!["SQLite"]),
            (&one, "3", vec!["3"]),
            (&one, "0", vec!["0"]),
            (&one, "postgres, hosted", vec!["Postgres, hosted"]),
            (&one, "  ", vec![]),
            (&many, "1, 2", vec!["Linux", "macOS"]),
            (&many, "macos,BSD,", vec!["macOS", "BSD"]),
            (&free, "this, and that", vec!["this, and that"]),
        ] {
            assert_eq!(question.understood(typed), expected, "{typed}");
        }
    }

    #[test]
    fn questions_are_bounded_and_say_something() {
        assert!(checked(vec![question(&["a"], false)]).is_ok());
        let blank = Question { question: "  ".into(), ..question(&[], false) };
        let long = Question { question: "x".repeat(LONGEST + 1), ..question(&[], false) };
        let above = Question { header: Some("x".repeat(LONGEST_LABEL + 1)), ..question(&[], false) };
        for (bad, why) in [
            (vec![], "1 to 4 questions"),
            (vec![question(&[], false); MOST_QUESTIONS + 1], "1 to 4 questions"),
            (vec![question(&[], false), blank], "question 2: it says nothing"),
            (vec![long], "longer than"),
            (vec![above], "header"),
            (vec![question(&[""], false)], "label"),
            (vec![question(&["x"; MOST_CHOICES + 1], false)], "more than 10 options"),
        ] {
            assert!(checked(bad).unwrap_err().contains(why), "{why}");
        }
    }

    #[test]
    fn answers_fit_their_questions() {
        let questions = [question(&["a", "b"], false), question(&["a", "b"], true)];
        let words = |of: &[&str]| of.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(fits(&questions, &[words(&["a"]), words(&["a", "b"])]), Ok(()));
        assert_eq!(fits(&questions, &[words(&["my own"]), words(&["b"])]), Ok(()));
        for (answers, why) in [
            (vec![words(&["a"])], "2 questions, and 1 answers"),
            (vec![words(&["a", "b"]), words(&["a"])], "question 1 takes one answer"),
            (vec![words(&["a"]), words(&[])], "question 2 takes one answer or more"),
            (vec![words(&["a"]), words(&["  "])], "says nothing"),
        ] {
            assert!(fits(&questions, &answers).unwrap_err().contains(why), "{why}");
        }
    }
}
