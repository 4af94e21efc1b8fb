//! Parses the paths of the admin interface.

/// A path of the interface, parsed.
pub(super) enum Route<'a> {
    Accounts,
    Account(&'a str),
    Keys,
    Key(&'a str),
    Rotation(&'a str),
}

impl<'a> Route<'a> {
    pub(super) fn of(path: &'a str) -> Option<Self> {
        match path {
            "/accounts" => Some(Self::Accounts),
            "/keys" => Some(Self::Keys),
            _ => {
                let (collection, item) = path.strip_prefix('/')?.split_once('/')?;
                let rotated = item.strip_suffix("/rotate").filter(|id| !id.is_empty());
                match (collection, rotated) {
                    ("accounts", _) if !item.is_empty() => Some(Self::Account(item)),
                    ("keys", Some(id)) => Some(Self::Rotation(id)),
                    ("keys", None) if !item.is_empty() => Some(Self::Key(item)),
                    _ => None,
                }
            }
        }
    }
}
