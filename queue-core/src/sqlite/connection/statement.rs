//! Statements in files: long ones, those of several modules, and those that `cargo xtask mutants`
//! changes, because it reads them from disk. All others are constants of the functions that run
//! them.

/// The statement of a `.sql` file next to this Rust file, without the comments at its beginning.
/// SQLite and the cache of prepared statements hash and copy the text at every use, so it should be
/// short.
macro_rules! sql {
    ($file:literal) => {{
        #[cfg(not(debug_assertions))]
        {
            const { $crate::sqlite::connection::statement::body(include_str!($file)) }
        }
        #[cfg(debug_assertions)]
        {
            static TEXT: std::sync::LazyLock<&str> = std::sync::LazyLock::new(|| {
                let file = std::path::Path::new(file!()).with_file_name($file);
                $crate::sqlite::connection::statement::body($crate::sources::current(&file, include_str!($file)))
            });
            *TEXT
        }
    }};
}
pub(crate) use sql;

/// A text without the comment lines at its beginning.
pub(crate) const fn body(text: &str) -> &str {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at + 1 < bytes.len() && bytes[at] == b'-' && bytes[at + 1] == b'-' {
        while at < bytes.len() && bytes[at] != b'\n' {
            at += 1;
        }
        at += 1;
    }
    text.split_at(at).1
}

#[cfg(test)]
mod tests {
    use super::body;

    #[test]
    fn a_statement_is_prepared_without_its_contract() {
        assert_eq!(body("-- What it does.\n-- ?1 queue\nSELECT 1 -- one\n"), "SELECT 1 -- one\n");
        assert_eq!(body("SELECT 1"), "SELECT 1");
    }
}
