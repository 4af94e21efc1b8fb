//! Folders and files that only the daemon's own user can open.

use std::io;
use std::path::Path;

/// Makes a folder, and those above it, for its owner alone. One that is there already stays as it is.
///
/// # Errors
/// When it cannot be made.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Closes a file or folder of the daemon to all but its owner.
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
