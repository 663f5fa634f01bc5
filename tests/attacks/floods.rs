//! Connections, requests, bodies and tokens in large numbers, against both servers.
