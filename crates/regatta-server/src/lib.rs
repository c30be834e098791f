//! How programs reach Regatta over a wire: the MCP server, on standard input and output and over HTTP.

pub mod mcp;
