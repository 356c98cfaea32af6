//! The known name that is most like a wrong one, for hints.

/// Longer texts are not mistyped names.
const LONGEST: usize = 64;

/// The most similar name, unless none is similar.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if wrong.chars().count() > LONGEST {
        return None;
    }
    let plain = |text: &str| text.replace(['_', '-'], "").to_lowercase();
    let wrong = plain(wrong);
    let with_distance = known.into_iter().map(|name| (distance(&wrong, &plain(name)), name));
    let (distance, name) = with_distance.min_by_key(|(distance, _)| *distance)?;
    // A third of it may be wrong.
    (distance <= wrong.chars().count().div_ceil(3)).then_some(name)
}

/// How many letters have to be added, left out or changed.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = changed.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(wrong: &str, expected: Option<&str>) {
        assert_eq!(nearest(wrong, ["sessionId", "message", "model"]), expected, "{wrong}");
    }

    #[test]
    fn similar_names_are_found_and_others_are_not() {
        check("mesage", Some("message"));
        check("session_id", Some("sessionId"));
        check("SESSIONID", Some("sessionId"));
        check("modle", Some("model"));
        check("modl", Some("model"));
        check("colour", None);
        check("", None);
        check(&"m".repeat(1000), None);
        assert_eq!(nearest("x", []), None);
    }
}
