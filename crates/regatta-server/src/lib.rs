//! Network access to Regatta for programs: the MCP server, on standard input and output and over HTTP.

pub mod mcp;
