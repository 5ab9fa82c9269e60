//! "Did you mean": the nearest of the names that would have been right.

/// The candidate that `word` was probably meant to be, if one is near enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(MAX_LENGTH).flat_map(char::to_lowercase).collect();
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, &candidate.to_lowercase().chars().collect::<Vec<_>>()), candidate))
        .filter(|(distance, candidate)| *distance <= 1.max(candidate.chars().count() / 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `; did you mean "…"?`, or nothing.
pub(super) fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or(String::new(), |name| format!("; did you mean \"{name}\"?"))
}

/// Insertions, deletions, replacements and exchanges of neighbours (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *y && *x == b[j - 1] {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = last;
        last = row;
    }
    last[b.len()]
}

const MAX_LENGTH: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn between(a: &str, b: &str) -> usize {
        distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>())
    }

    #[test]
    fn distances() {
        assert_eq!(between("", "abc"), 3);
        assert_eq!(between("abc", "abc"), 0);
        assert_eq!(between("privte_key", "private_key"), 1);
        assert_eq!(between("lisetn", "listen"), 1);
        assert_eq!(between("kitten", "sitting"), 3);
    }

    #[test]
    fn suggests_what_is_near_and_nothing_else() {
        let fields = ["name", "private_key", "public_key", "listen", "endpoints", "tun"];
        assert_eq!(nearest("endpoint", fields), Some("endpoints"));
        assert_eq!(nearest("privte_key", fields), Some("private_key"));
        assert_eq!(nearest("Listen", fields), Some("listen"));
        assert_eq!(nearest("tunn", fields), Some("tun"));
        assert_eq!(nearest("colour", fields), None);
        assert_eq!(nearest("", ["tun"]), None);
    }
}
