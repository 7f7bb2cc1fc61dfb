//! Replaces the HTTP client in a program without a provider that needs it.

use std::sync::Arc;

use super::{ProfileError, Profiles, RecordedProfile};
use crate::client::Client;
use crate::models::KnownModels;
use crate::profile::Profile;
use crate::request::Request;

pub(super) type Connections = ();

impl Profiles {
    pub(super) fn remote(
        &self,
        _: &str,
        profile: &Profile,
        _: &Arc<KnownModels>,
    ) -> Result<Arc<dyn Client>, ProfileError> {
        Err(ProfileError::not_compiled(profile.provider))
    }

    pub(super) fn record(&self, _: Option<&str>, _: &Profile) -> Option<RecordedProfile> {
        None
    }
}

pub(super) fn host_of(_: &str) -> Option<String> {
    None
}

pub(super) fn server_of(_: &str) -> Option<(String, u16)> {
    None
}

pub(super) fn body(
    profile: &Profile,
    _: &str,
    _: &Arc<KnownModels>,
    _: &Request,
) -> Result<Option<Vec<u8>>, ProfileError> {
    match profile.provider.feature() {
        Some(_) => Err(ProfileError::not_compiled(profile.provider)),
        None => Ok(None),
    }
}
