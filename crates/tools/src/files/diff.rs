//! What a change makes of a file, as a unified diff: for a person who is asked about it.

use similar::TextDiff;
use std::time::Duration;

/// A diff that takes longer is coarser, not better.
const PATIENCE: Duration = Duration::from_millis(500);

/// `before` and `after` are `None` where there is no file.
pub(crate) fn unified(name: &str, before: Option<&str>, after: Option<&str>) -> String {
    let side = |letter: char, text: Option<&str>| match text {
        Some(_) => format!("{letter}/{name}"),
        None => "/dev/null".to_owned(),
    };
    let (old, new) = (side('a', before), side('b', after));
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(before, after);
    let body = diff.unified_diff().context_radius(3).header(&old, &new).to_string();
    // What has no lines to show is still made or removed.
    if body.is_empty() { format!("--- {old}\n+++ {new}\n") } else { body }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_names_the_file_and_its_lines() {
        let diff = unified("a.txt", Some("one\ntwo\n"), Some("one\nthree\n"));
        assert_eq!(diff, "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n");
        assert_eq!(unified("n", None, Some("x\n")), "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n");
        assert_eq!(unified("n", Some(""), None), "--- a/n\n+++ /dev/null\n");
    }
}
