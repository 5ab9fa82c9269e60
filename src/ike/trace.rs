//! One line a message at debug level: `b ◄ IKE_SA_INIT request 0 [SA KE No N(COOKIE)]`.

use super::context::Context;
use super::sa::Core;
use crate::wire::ike::{Exchange, Header, Payload};

pub(super) fn message(ctx: &Context, core: &Core, sent: bool, header: &Header, payloads: &[Payload]) {
    if log::log_enabled!(log::Level::Debug) {
        let arrow = if sent { '►' } else { '◄' };
        log::debug!("{} {} {arrow} {}", core.peer_name(ctx), core.path, line(header, payloads));
    }
}

pub(super) fn line(header: &Header, payloads: &[Payload]) -> String {
    let kind = if header.response { "response" } else { "request" };
    let names: Vec<String> = payloads.iter().map(name).collect();
    format!("{} {kind} {} [{}]", header.exchange, header.message_id, names.join(" "))
}

/// The name of an exchange of ours.
pub(super) fn exchange(exchange: Exchange) -> &'static str {
    match exchange {
        Exchange::IKE_SA_INIT => "IKE_SA_INIT",
        Exchange::IKE_INTERMEDIATE => "IKE_INTERMEDIATE",
        Exchange::IKE_AUTH => "IKE_AUTH",
        Exchange::CREATE_CHILD_SA => "CREATE_CHILD_SA",
        Exchange::IKE_FOLLOWUP_KE => "IKE_FOLLOWUP_KE",
        _ => "INFORMATIONAL",
    }
}

fn name(payload: &Payload) -> String {
    match payload {
        Payload::Notify(notify) => format!("N({})", notify.kind),
        Payload::Nonce(_) => "No".to_owned(),
        Payload::IdI(_) => "IDi".to_owned(),
        Payload::IdR(_) => "IDr".to_owned(),
        Payload::TsI(_) => "TSi".to_owned(),
        Payload::TsR(_) => "TSr".to_owned(),
        Payload::Delete(_) => "D".to_owned(),
        Payload::Vendor(_) => "V".to_owned(),
        Payload::Sa(_)
        | Payload::Ke(_)
        | Payload::Cert(_)
        | Payload::CertReq(_)
        | Payload::Auth(_)
        | Payload::Unknown(_) => payload.kind().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ike::{Ke, Notify, NotifyType, PayloadType, Unknown};

    #[test]
    fn a_line_names_the_exchange_and_its_payloads() {
        let header = Header {
            spi_initiator: 1,
            spi_responder: 0,
            exchange: Exchange::IKE_SA_INIT,
            from_initiator: true,
            response: false,
            message_id: 0,
        };
        let payloads = [
            Payload::Notify(Notify::new(NotifyType::COOKIE, [1])),
            Payload::Ke(Ke { method: 31, data: vec![] }),
            Payload::Nonce(vec![]),
            Payload::Notify(Notify::new(NotifyType(40_000), [])),
            Payload::Unknown(Unknown { kind: PayloadType(200), critical: false, body: vec![] }),
        ];
        assert_eq!(line(&header, &payloads), "IKE_SA_INIT request 0 [N(COOKIE) KE No N(40000) 200]");
    }
}
