//! The paths of other services, each with its wire format and methods.

use super::config::CompatConfig;

/// The wire format of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireFormat {
    RemoveBg,
    Rembg,
    Photoroom,
}

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    CutOut,
    Account,
    /// A route of the service that has no counterpart here.
    Unsupported,
}

/// One path of another service.
#[derive(Debug)]
pub(crate) struct Route {
    pub(super) format: WireFormat,
    pub(super) action: Action,
    pub(super) path: &'static str,
    /// As `Allow` lists them; empty where every method gets the same reply.
    pub(super) methods: &'static str,
}

const ROUTES: &[Route] = &[
    Route { format: WireFormat::RemoveBg, action: Action::CutOut, path: "/v1.0/removebg", methods: "POST" },
    Route { format: WireFormat::RemoveBg, action: Action::Account, path: "/v1.0/account", methods: "GET, HEAD" },
    Route { format: WireFormat::RemoveBg, action: Action::Unsupported, path: "/v1.0/improve", methods: "" },
    Route { format: WireFormat::Rembg, action: Action::CutOut, path: "/api/remove", methods: "GET, POST" },
    Route { format: WireFormat::Photoroom, action: Action::CutOut, path: "/v1/segment", methods: "POST" },
    Route { format: WireFormat::Photoroom, action: Action::Account, path: "/v1/account", methods: "GET, HEAD" },
];

/// The route of a path, where its service is enabled.
pub(crate) fn find(config: &CompatConfig, path: &str) -> Option<&'static Route> {
    let is_enabled = |format| match format {
        WireFormat::RemoveBg => config.removebg,
        WireFormat::Rembg => config.rembg,
        WireFormat::Photoroom => config.photoroom,
    };
    ROUTES.iter().find(|route| route.path == path && is_enabled(route.format))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_found_where_its_service_is_enabled() {
        let all = CompatConfig { rembg: true, ..CompatConfig::default() };
        let none = CompatConfig { removebg: false, photoroom: false, ..CompatConfig::default() };
        for route in ROUTES {
            assert!(find(&all, route.path).is_some() && find(&none, route.path).is_none(), "{}", route.path);
        }
        assert!(find(&CompatConfig::default(), "/api/remove").is_none());
        assert!(find(&all, "/v1.0/").is_none() && find(&all, "/v1.0/removebg/").is_none());
    }
}
