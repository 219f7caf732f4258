//! Reading and changing projects, databases, tables, columns and indexes.

pub(crate) mod column_resize;
pub(crate) mod columns;
pub(crate) mod constraints;
pub(crate) mod containers;
pub(crate) mod databases;
pub(crate) mod definition;
pub(crate) mod indexes;
pub(crate) mod listing;
pub(crate) mod options;
pub(crate) mod own_project;
pub(crate) mod projects;
pub(crate) mod relations;
pub(crate) mod tables;
