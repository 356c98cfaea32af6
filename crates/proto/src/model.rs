//! How a model is chosen: `provider/model`, and behind a `#` the variant it is asked in, such as `provider/model#high`.
//!
//! One text, so that whatever carries a model (a letter, an entry, a row, a setting) carries how hard it is to think. A
//! choice may be a variant alone (`#high`): whichever model it is, in that variant. An empty one (`#`) is the plain model.

/// Families of models that Claude Code names by one word.
pub const SHORT: [&str; 3] = ["sonnet", "opus", "haiku"];

/// Whether a choice names a family or a model without a provider, as Claude Code does.
pub fn is_short(choice: &str) -> bool {
    let (model, _) = split(choice);
    SHORT.contains(&model) || (model.starts_with("claude-") && !model.contains('/'))
}

/// The model, and the variant if one is named. The model of a variant alone is empty.
pub fn split(choice: &str) -> (&str, Option<&str>) {
    match choice.split_once('#') {
        Some((model, variant)) => (model, Some(variant)),
        None => (choice, None),
    }
}

/// A model and a variant, as one choice.
pub fn choice(model: Option<String>, variant: Option<&str>) -> Option<String> {
    let Some(variant) = variant else { return model };
    let model = model.as_deref().map_or("", |model| split(model).0);
    Some(format!("{model}#{variant}"))
}

/// What a choice comes to where `usual` is the model without one.
pub fn chosen(choice: Option<&str>, usual: impl FnOnce() -> String) -> String {
    let Some(choice) = choice else { return usual() };
    let (model, variant) = split(choice);
    let model = if model.is_empty() { split(&usual()).0.to_owned() } else { model.to_owned() };
    match variant.filter(|variant| !variant.is_empty()) {
        Some(variant) => format!("{model}#{variant}"),
        None => model,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(wanted: Option<&str>, usual: &str, expected: &str) {
        assert_eq!(chosen(wanted, || usual.to_owned()), expected, "{wanted:?} where {usual} is usual");
    }

    #[test]
    fn a_variant_alone_is_the_usual_model_in_it() {
        check(None, "p/m", "p/m");
        check(None, "p/m#low", "p/m#low");
        check(Some("q/n"), "p/m#low", "q/n");
        check(Some("q/n#high"), "p/m", "q/n#high");
        check(Some("#high"), "p/m", "p/m#high");
        check(Some("#high"), "p/m#low", "p/m#high");
        check(Some("#"), "p/m#low", "p/m");
    }

    #[test]
    fn a_model_and_a_variant_are_one_choice() {
        let of = |model: Option<&str>, variant| choice(model.map(str::to_owned), variant);
        assert_eq!(of(None, None), None);
        assert_eq!(of(Some("p/m#low"), None).as_deref(), Some("p/m#low"));
        assert_eq!(of(Some("p/m#low"), Some("high")).as_deref(), Some("p/m#high"));
        assert_eq!(of(None, Some("high")).as_deref(), Some("#high"));
        assert_eq!((split("p/m"), split("p/a:b#x")), (("p/m", None), ("p/a:b", Some("x"))));
    }
}
