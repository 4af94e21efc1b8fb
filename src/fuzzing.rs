//! Support of the fuzz targets: the bodies of the targets are beside the code that they test, in files named `fuzzing.rs`;
//! `fuzz/` runs them under libFuzzer (`make fuzz`), and tests replay the seeds of `fuzz/corpus` through them.
//!
//! Compiled for tests and for fuzzing (`--cfg fuzzing`) only.

/// Runs work and returns its peak of allocated bytes over those before; 0 where nothing counts them, as in tests.
pub type Meter<'a> = &'a dyn Fn(&mut dyn FnMut()) -> usize;

/// Calls `target` with each seed of `fuzz/corpus/{name}`.
#[cfg(test)]
pub(crate) fn replay(name: &str, target: impl Fn(&[u8])) {
    replay_folder(&format!("fuzz/corpus/{name}"), target);
}

/// Calls `target` with each file of a folder of the repository.
#[cfg(test)]
pub(crate) fn replay_folder(folder: &str, target: impl Fn(&[u8])) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> =
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file()).collect();
    files.sort();
    assert!(!files.is_empty(), "no seeds in {}", folder.display());
    for file in files {
        // Shown where the target panics: the last one is the culprit.
        println!("{}", file.display());
        target(&std::fs::read(&file).expect("a seed"));
    }
}

/// A meter that counts nothing.
#[cfg(test)]
pub(crate) fn unmetered(work: &mut dyn FnMut()) -> usize {
    work();
    0
}
