//! How deep and how long a text is, found without taking it apart: what comes before a parser that would go down as far
//! as the text does.

/// The longest pattern of names: as long as the longest path.
pub const LONGEST_PATTERN: usize = crate::LONGEST_PATH;

/// Braces in one pattern of names. What takes it apart goes down once for each that is open, and which are open depends
/// on classes and escapes; how many there are does not.
const MOST_BRACES: usize = 64;

/// Why a pattern of names is not taken apart, if it is not.
pub fn pattern_is_too_much(pattern: &str) -> Option<String> {
    if pattern.len() > LONGEST_PATTERN {
        return Some(format!("it has {} bytes, and {LONGEST_PATTERN} is the most", pattern.len()));
    }
    let braces = pattern.bytes().filter(|byte| *byte == b'{').count();
    (braces > MOST_BRACES).then(|| format!("it has {braces} braces, and {MOST_BRACES} is the most"))
}

/// Why a text names no file, if it cannot.
pub fn path_is_wrong(path: &str) -> Option<String> {
    let (longest, length) = (crate::LONGEST_PATH, path.len());
    if length >= longest {
        return Some(format!("it has {length} bytes, and fewer than {longest} are allowed"));
    }
    path.contains('\0').then(|| "it has a NUL in it".into())
}

/// How many brackets of JSON are open at most. Strings are passed over.
pub fn json_depth(text: &str) -> usize {
    let (mut deep, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                deep += 1;
                deepest = deepest.max(deep);
            }
            b']' | b'}' if !quoted => deep = deep.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_would_lead_too_far_down_are_known_by_their_braces() {
        for fine in ["*.{rs,{c,h}}", "", "a/**/b", "{a,b}{c,d}[{]"] {
            assert_eq!(pattern_is_too_much(fine), None, "{fine}");
        }
        for bad in ["{".repeat(20_000), "{[}]".repeat(65), "\\{{".repeat(40), "a".repeat(5000)] {
            assert!(pattern_is_too_much(&bad).is_some());
        }
    }

    #[test]
    fn brackets_in_strings_are_not_counted() {
        assert_eq!(json_depth(r#"{"a":["[[[","\"[["]}"#), 2);
        assert_eq!(json_depth("3"), 0);
        assert_eq!(json_depth(&"[".repeat(1_000_000)), 1_000_000);
    }
}
