import { host, type Ports } from "@gatehousehq/local-stack/ports";
import { isLoopback } from "../../supabase/functions/_shared/loopback.ts";
import type { Environment } from "./environment.ts";
import type { Secrets } from "./secrets.ts";

/** The addresses of a running stack's parts. */
export type Addresses = {
  /** Origin of the web server. */
  base: string;
  /** Origin of the satellite. */
  notes: string;
  supabase: string;
  identity: string;
  functions: string;
  provider: string;
  oidc: string;
  /** The simulated bot challenge, if it runs. */
  turnstile: string;
  mailbox: string;
};

/** Returns the port to use for the web server: PORT, or the port of a BASE_URL on this machine. */
export function wishedWebPort(settings: Environment["settings"]): number | undefined {
  if (settings.PORT) return settings.PORT;
  if (!settings.BASE_URL) return undefined;
  const { hostname, port } = new URL(settings.BASE_URL);
  return isLoopback(hostname) && port !== "" ? Number(port) : undefined;
}

/**
 * Returns the web server's origin: BASE_URL, or localhost by default. An origin on this machine gets the given port.
 */
export function webOrigin(settings: Environment["settings"], port: number): string {
  const url = new URL(settings.BASE_URL ?? `http://localhost:${port}`);
  if (isLoopback(url.hostname)) url.port = String(port);
  return url.origin;
}

/**
 * Returns the satellite's origin. If the platform is on a subdomain of the parent domain, the satellite is on a sibling
 * subdomain. Otherwise, the satellite uses 127.0.0.1, or localhost if the platform uses 127.0.0.1, since browsers share
 * cookies between ports of a host.
 */
function satelliteOrigin(settings: Environment["settings"], { base, port }: { base: string; port: number }): string {
  const { hostname, protocol } = new URL(base);
  const { PARENT_DOMAIN: parent } = settings;
  if (parent && hostname.endsWith(`.${parent}`)) return `${protocol}//notes.${parent}:${port}`;
  return `http://${hostname === host ? "localhost" : host}:${port}`;
}

/** Returns the addresses of a stack with the given ports. */
export function addressesOf(ports: Ports, settings: Environment["settings"]): Addresses {
  const at = (port: number) => `http://${host}:${port}`;
  const base = webOrigin(settings, ports.web);
  return {
    base,
    notes: satelliteOrigin(settings, { base, port: ports.notes }),
    supabase: at(ports.gateway),
    identity: at(ports.identity),
    functions: at(ports.functions),
    provider: at(ports.provider),
    oidc: at(ports.oidc),
    turnstile: at(ports.turnstile),
    mailbox: at(ports.mail),
  };
}

/** Returns the URL of the stack's database for a login role. */
export function databaseUrl(role: keyof Secrets["passwords"], secrets: Secrets, port: number): string {
  return `postgres://${role}:${encodeURIComponent(secrets.passwords[role])}@${host}:${port}/postgres`;
}
