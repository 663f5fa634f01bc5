//! Long texts, odd quantities and many shapes.
