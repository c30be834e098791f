//! `regatta mcp`: Regatta as a Model Context Protocol server.

mod reach;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use regatta_core::crew::{MemberName, Role};
use regatta_engine::crew::MemberWatch;
use regatta_ops::documents::ListeningDocument;
use regatta_server::mcp::{Authority, Desk, Server, http, stdio};
use regatta_store::Store;
use tokio::net::TcpListener;

use super::crew::register::role;
use crate::cli::Global;
use crate::crew::{create, member_name};
use crate::door;
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::worker::AttemptHere;
use regatta_ops::{Refusal, RefusalKind};

/// A member that registered over HTTP has left after this long without a call.
const LEASE: Duration = Duration::from_secs(600);
/// Time between two checks for members that left.
const MEMBERS_INTERVAL: Duration = Duration::from_secs(5);

/// Serve Regatta's tools to an agent over the Model Context Protocol.
///
/// Uses standard input and output, or HTTP. In the environment of an attempt (REGATTA_TASK, REGATTA_ATTEMPT,
/// REGATTA_TOKEN) it offers only what an agent may do; Regatta attaches it to claude and codex by itself. Otherwise
/// it offers what a person may do: `regatta setup claude` and `regatta setup codex` add it to your own agent.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Join the crew under this name for as long as the server runs.
    #[arg(long, value_name = "NAME", value_parser = member_name, conflicts_with = "http")]
    name: Option<MemberName>,
    /// The member's role.
    #[arg(long, value_name = "ROLE", default_value = "general", value_parser = role, requires = "name")]
    role: Role,
    /// Serve over HTTP: a port on the loopback interface, or an address with a port. Clients need the token.
    #[arg(long, value_name = "ADDR", value_parser = reach::address)]
    http: Option<SocketAddr>,
    /// With --http: a name by which other machines reach this one; may be repeated. Without it only the loopback
    /// interface is served.
    #[arg(long = "host", value_name = "NAME", requires = "http")]
    hosts: Vec<String>,
    /// With --http: the file that holds the token, readable only by you. It is created if missing; by default
    /// .regatta/mcp.token.
    #[arg(long, value_name = "FILE", requires = "http")]
    token_file: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    if let Some(door) = door::here() {
        if args.name.is_some() || args.http.is_some() {
            return Err(of_an_attempt());
        }
        return door.mcp().map(|()| Exit::Ok);
    }
    let authority = authority()?;
    if authority == Authority::Operator && crate::authority::descends_from_attempt(global) {
        return Err(Refusal::refused("an agent may not start a person's server").hinted(
            "do not change REGATTA_TASK, REGATTA_ATTEMPT and REGATTA_TOKEN: an agent's server needs them",
        ));
    }
    if authority != Authority::Operator && (args.name.is_some() || args.http.is_some()) {
        return Err(of_an_attempt());
    }
    match args.http {
        Some(address) => over_http(args, address, global, ui).await,
        None => over_streams(args, authority, global).await,
    }
}

fn of_an_attempt() -> Refusal {
    Refusal::usage("--name and --http are for a person's server, and this server belongs to an attempt")
}

async fn over_streams(args: Args, authority: Authority, global: &Global) -> Result<Exit, Refusal> {
    let desk = Arc::new(Desk { crew: create(global).await?, lease: None });
    if let Some(name) = &args.name {
        desk.join(name, &args.role).await?;
    }
    let server = Server::new(desk.clone(), authority, args.name);
    let served = tokio::select! {
        served = stdio::serve(server) => served,
        signal = tokio::signal::ctrl_c() => signal.map_err(|error| error.to_string()),
    };
    desk.crew.leave_all().await;
    served.map(|()| Exit::Ok).map_err(|why| {
        Refusal::new(RefusalKind::CannotWork, why)
            .hinted("start it from an agent program: it speaks the MCP protocol on standard input and output")
    })
}

async fn over_http(args: Args, address: SocketAddr, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    reach::check_reach(address, &args.hosts)?;
    let crew = create(global).await?;
    let store = crew.store.clone();
    let token_file = args.token_file.unwrap_or_else(|| crew.project.repo.state_dir.join("mcp.token"));
    let token = reach::token(&token_file)?;
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Refusal::new(RefusalKind::CannotWork, format!("listening on {address}: {error}"))
            .hinted("choose another port; 0 picks a free one")
    })?;
    let bound =
        listener.local_addr().map_err(|error| Refusal::new(RefusalKind::CannotWork, error.to_string()))?;
    let url = format!("http://{bound}{}", http::PATH);
    if ui.json {
        ui.object(&ListeningDocument { token_file, url: url.clone() });
    } else {
        ui.line(format!("{url} (token in {})", token_file.display()));
    }
    let desk = Arc::new(Desk { crew, lease: Some(LEASE) });
    let watching = tokio::spawn(watch(store));
    let make = move || Server::new(desk.clone(), Authority::Operator, None);
    let end = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    let served = http::serve(listener, http::Door { token, hosts: args.hosts }, make, end).await;
    watching.abort();
    served
        .map(|()| Exit::Ok)
        .map_err(|error| Refusal::new(RefusalKind::CannotWork, format!("serving {url}: {error}")))
}

/// Notices members that left.
async fn watch(store: Arc<dyn Store>) {
    let mut watch = MemberWatch::default();
    loop {
        // After an error, the next look will do.
        let _ = watch.look(store.as_ref()).await;
        tokio::time::sleep(MEMBERS_INTERVAL).await;
    }
}

/// Whose server this is: the attempt's whose environment it runs in, or a person's.
fn authority() -> Result<Authority, Refusal> {
    Ok(match AttemptHere::load()? {
        Some(AttemptHere { task, attempt, token_hash }) => Authority::Worker { task, attempt, token_hash },
        None => Authority::Operator,
    })
}
