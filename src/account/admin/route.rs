//! Paths of the admin interface, and the methods of each.

const ROUTES: [(&str, &str); 5] = [
    ("/accounts", "GET, POST"),
    ("/accounts/{id}", "PATCH"),
    ("/keys", "GET, POST"),
    ("/keys/{id}/rotate", "POST"),
    ("/keys/{id}", "DELETE, PATCH"),
];

/// The route of a path with its methods, and the key or account that the path names; `None` for other paths.
pub(super) fn route(path: &str) -> Option<(&'static str, &'static str, &str)> {
    ROUTES.into_iter().find_map(|(route, methods)| {
        let Some((before, after)) = route.split_once("{id}") else {
            return (route == path).then_some((route, methods, ""));
        };
        let id = path.strip_prefix(before)?.strip_suffix(after)?;
        (!id.is_empty()).then_some((route, methods, id))
    })
}
