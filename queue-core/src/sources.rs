//! Scripts and statements in separate files.

/// The text of a file of the sources: `compiled`. A debug build reads the file again where
/// `QUEUE_TEST_SOURCES` names the folder of the workspace, so that a changed script is tested
/// without a compiler.
#[cfg(debug_assertions)]
pub(crate) fn current(file: &std::path::Path, compiled: &'static str) -> &'static str {
    let Some(workspace) = std::env::var_os("QUEUE_TEST_SOURCES") else { return compiled };
    let file = std::path::Path::new(&workspace).join(file);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("QUEUE_TEST_SOURCES: {}: {error}", file.display())).leak()
}

/// In a release build, the text is always the compiled one.
#[cfg(not(debug_assertions))]
pub(crate) fn current(_file: &std::path::Path, compiled: &'static str) -> &'static str {
    compiled
}
