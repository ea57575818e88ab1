//! "did you mean": the nearest of a list of words.

/// The word of `known` that is nearest to `word`, if any is near.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(1) + 1;
    known.iter().map(|other| (distance(word, other), *other)).filter(|(distance, _)| *distance <= limit).min().map(|(_, other)| other)
}

/// The number of letters to insert, remove, replace or swap with their neighbour ("optimal string
/// alignment").
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before = vec![0; other.len() + 1];
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for i in 1..=one.len() {
        let mut row = vec![i; other.len() + 1];
        for j in 1..=other.len() {
            let replaced = last[j - 1] + usize::from(one[i - 1] != other[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_a_stranger_is_not() {
        let known = ["queue", "timeout", "max_attempts"];
        assert_eq!(nearest("queu", &known), Some("queue"));
        assert_eq!(nearest("tiemout", &known), Some("timeout"));
        assert_eq!(nearest("max_retries", &known), None);
        assert_eq!(nearest("max_attempt", &known), Some("max_attempts"));
        assert_eq!(nearest("colour", &known), None);
    }
}
