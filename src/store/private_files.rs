//! File-system helpers: folders and files with owner-only permissions, and durable folder entries.

use std::io;
use std::path::Path;

/// Creates a folder, and its missing parents, with owner-only permissions. An existing one is unchanged.
///
/// # Errors
/// When it cannot be created.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Removes the permissions of group and others from a file or folder.
///
/// # Errors
/// When its mode cannot be read or set.
pub fn make_private(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let before = std::fs::metadata(path)?.permissions();
        let mode = before.mode() & 0o700;
        if before.mode() & 0o777 != mode {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        }
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Makes the entries of a folder durable.
///
/// # Errors
/// When the folder cannot be opened or synced.
pub fn sync_dir(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    std::fs::File::open(folder)?.sync_all()?;
    // A folder cannot be opened as a file on other systems.
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}
