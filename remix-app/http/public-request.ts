import { lookup } from "node:dns";
import { once } from "node:events";
import { request as httpRequest, type IncomingMessage, type RequestOptions } from "node:http";
import { request as httpsRequest } from "node:https";
import type { LookupFunction } from "node:net";
import { isLoopback } from "#shared/loopback.ts";
import { isPrivateAddress, isPrivateHost } from "#shared/private-addresses.ts";

/** Overrides of name lookup, private addresses and trusted certificates, for tests. */
export interface ConnectionOptions {
  lookup?: typeof lookup;
  isPrivate?: (host: string) => boolean;
  ca?: string;
}

export interface PublicRequest extends ConnectionOptions {
  method?: "GET" | "POST";
  headers?: Record<string, string>;
  body?: string;
  /** Aborts the request and the reading of its response. */
  signal: AbortSignal;
  /** Whether this machine may be called, by its own names and over plain http. See `allowsLoopback`. */
  allowLoopback: boolean;
}

/** The URL leads to this machine or to a private network. Nothing was sent. */
export class PrivateAddress extends Error {
  constructor(host: string) {
    super(`${host} is a private address`);
  }
}

/** The response has more bytes than its reader accepts. */
export class ResponseTooLarge extends Error {}

/** Returns whether URLs from outside may lead to this machine: only if the platform itself runs on loopback. */
export function allowsLoopback({ BASE_URL }: { BASE_URL: string }): boolean {
  return isLoopback(new URL(BASE_URL).hostname);
}

/**
 * Calls a URL that somebody else chose. The host must be public: its addresses are checked when connecting, and the
 * connection goes to a checked address, so a name server can't answer differently in between (DNS rebinding). Follows
 * no redirect. The caller must read or destroy the response.
 * @throws PrivateAddress
 * @throws Error if the protocol is not https, or the server can't be reached before the signal aborts
 */
export async function requestPublic(
  url: URL,
  { body, allowLoopback, isPrivate, lookup: resolve = lookup, ...options }: PublicRequest,
): Promise<IncomingMessage> {
  const isOwnMachine = allowLoopback && isLoopback(url.hostname);
  if (url.protocol !== "https:" && !(isOwnMachine && url.protocol === "http:")) {
    throw new Error(`${url.protocol} is not https:`);
  }
  const host = url.hostname.replace(/^\[|\]$/g, "");
  // An address in the URL is not looked up.
  if (!isOwnMachine && (isPrivate ?? isPrivateHost)(host)) throw new PrivateAddress(url.host);
  const isRefused = (address: string) => !isOwnMachine && (isPrivate ?? isPrivateAddress)(address);
  const settings: RequestOptions & { ca?: string } = {
    ...options,
    agent: false,
    lookup: checkedLookup(resolve, isRefused),
  };
  const request = url.protocol === "https:" ? httpsRequest(url, settings) : httpRequest(url, settings);
  const responseEvent = once(request, "response") as Promise<[IncomingMessage]>;
  request.end(body);
  const [response] = await responseEvent;
  return response;
}

function checkedLookup(resolve: typeof lookup, isRefused: (address: string) => boolean): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      const [first] = addresses ?? [];
      if (error || !first) return callback(error ?? new Error("no address"), "", 0);
      if (addresses.some(({ address }) => isRefused(address))) return callback(new PrivateAddress(hostname), "", 0);
      if (options.all) return callback(null, addresses);
      callback(null, first.address, first.family);
    });
  };
}

/**
 * Reads a response's body.
 * @throws ResponseTooLarge as soon as more than `maxBytes` have arrived
 * @throws Error if the connection breaks or the request's signal aborts
 */
export async function readResponse(response: IncomingMessage, { maxBytes }: { maxBytes: number }): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of response) {
    bytes += piece.byteLength;
    // Leaving the loop destroys the response.
    if (bytes > maxBytes) throw new ResponseTooLarge(`The response has more than ${maxBytes} bytes`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}
