import { lookup } from "node:dns";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import type { LookupFunction } from "node:net";
import { isPrivateAddress, isPrivateHost } from "#shared/private-addresses.ts";
import { UnreadablePrices } from "./price-source.ts";
import { mostSourceBytes, mostSourceText } from "./read-source.ts";

const withinMs = 20_000;
const mostRedirects = 3;

/** Overrides the name lookup, private addresses, trusted certificate and limits in tests. */
export type DownloadOptions = {
  lookup?: typeof lookup;
  isPrivate?: (host: string) => boolean;
  ca?: string;
  withinMs?: number;
  mostBytes?: number;
};

/**
 * Downloads a price file from a public https address. Redirects must meet the same condition, and host names are
 * checked when connecting.
 * @throws UnreadablePrices with a message that says what to do
 */
export async function downloadPrices(url: string, options: DownloadOptions = {}): Promise<string> {
  const signal = AbortSignal.timeout(options.withinMs ?? withinMs);
  let next = url;
  for (let redirects = 0; redirects <= mostRedirects; redirects += 1) {
    const address = checkAddress(next, { isPrivate: options.isPrivate });
    const response = await get(address, { ...options, signal });
    const { statusCode = 0, headers } = response;
    if (statusCode >= 300 && statusCode < 400 && headers.location && URL.canParse(headers.location, address)) {
      response.destroy();
      next = new URL(headers.location, address).href;
      continue;
    }
    if (statusCode !== 200) {
      response.destroy();
      throw new UnreadablePrices(
        `${address.host} answered ${statusCode}. Check the URL, or download the file and use that.`,
      );
    }
    return await readText(response, { host: address.host, mostBytes: options.mostBytes ?? mostSourceBytes, signal });
  }
  throw new UnreadablePrices(
    `${new URL(url).host} redirects more than ${mostRedirects} times. Use the URL of the file itself.`,
  );
}

/** @throws UnreadablePrices for a URL that is not https, has credentials or names a private host */
function checkAddress(text: string, { isPrivate }: Pick<DownloadOptions, "isPrivate">): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== "https:") throw new UnreadablePrices("The URL of a price file must begin with https://.");
  if (url.username || url.password) throw new UnreadablePrices("The URL of a price file must not contain credentials.");
  const host = url.hostname.replace(/^\[|\]$/g, "");
  if (isPrivate ? isPrivate(host) : isPrivateHost(url.hostname)) throw leadsInside(url.host);
  return url;
}

function leadsInside(host: string): UnreadablePrices {
  return new UnreadablePrices(`${host} is a private address. Download the file and use that.`);
}

async function get(
  url: URL,
  { signal, ca, isPrivate = isPrivateAddress, lookup: resolve = lookup }: DownloadOptions & { signal: AbortSignal },
): Promise<IncomingMessage> {
  const sent = request(url, {
    headers: { accept: "application/json" },
    agent: false,
    signal,
    ca,
    // Connects to the address that was checked.
    lookup: publicLookup(resolve, isPrivate),
  });
  try {
    const answered = once(sent, "response") as Promise<[IncomingMessage]>;
    sent.end();
    const [response] = await answered;
    return response;
  } catch (error) {
    throw failure(error, { host: url.host, signal });
  }
}

function publicLookup(resolve: typeof lookup, isPrivate: (address: string) => boolean): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      const [first] = addresses ?? [];
      if (error || !first) return callback(error ?? new Error("no address"), "", 0);
      if (addresses.some(({ address }) => isPrivate(address))) return callback(leadsInside(hostname), "", 0);
      if (options.all) return callback(null, addresses);
      callback(null, first.address, first.family);
    });
  };
}

async function readText(
  response: IncomingMessage,
  { host, mostBytes, signal }: { host: string; mostBytes: number; signal: AbortSignal },
): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const piece of response) {
      bytes += piece.byteLength;
      if (bytes > mostBytes)
        throw new UnreadablePrices(`${host} sent more than ${mostSourceText}: this isn’t a price file.`);
      pieces.push(piece);
    }
  } catch (error) {
    throw failure(error, { host, signal });
  }
  return Buffer.concat(pieces).toString();
}

function failure(error: unknown, { host, signal }: { host: string; signal: AbortSignal }): UnreadablePrices {
  if (error instanceof UnreadablePrices) return error;
  const why = signal.aborted ? "didn’t answer in time" : "couldn’t be reached";
  return new UnreadablePrices(`${host} ${why}. Try again, or download the file and use that.`);
}
