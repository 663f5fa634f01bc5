//! The reapi_cli C ABI of Fluxion.
