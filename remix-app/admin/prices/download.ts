import {
  type ConnectionOptions,
  PrivateAddress,
  ResponseTooLarge,
  readResponse,
  requestPublic,
} from "../../http/public-request.ts";
import { UnreadablePrices } from "./price-source.ts";
import { maxSourceBytes, maxSourceSizeText, type PriceFile } from "./read-source.ts";

const timeoutMs = 20_000;
const maxRedirects = 3;

/** Overrides the connection and the limits in tests. */
export type DownloadOptions = ConnectionOptions & { timeoutMs?: number; maxBytes?: number };

/**
 * Downloads a price file from a public https address. Redirects must meet the same condition.
 * @throws UnreadablePrices with a message that says what to do
 */
export async function downloadPrices(url: string, options: DownloadOptions = {}): Promise<string> {
  const { timeoutMs: limitMs = timeoutMs, maxBytes = maxSourceBytes, ...connection } = options;
  const signal = AbortSignal.timeout(limitMs);
  let next = url;
  for (let redirects = 0; redirects <= maxRedirects; redirects += 1) {
    const address = parsePriceFileUrl(next);
    try {
      const headers = { accept: "application/json" };
      const response = await requestPublic(address, { ...connection, headers, allowLoopback: false, signal });
      const { statusCode = 0, headers: responseHeaders } = response;
      if (
        statusCode >= 300 &&
        statusCode < 400 &&
        responseHeaders.location &&
        URL.canParse(responseHeaders.location, address)
      ) {
        response.destroy();
        next = new URL(responseHeaders.location, address).href;
        continue;
      }
      if (statusCode !== 200) {
        response.destroy();
        throw new UnreadablePrices(
          `${address.host} answered ${statusCode}. Check the URL, or download the file and use that.`,
        );
      }
      return (await readResponse(response, { maxBytes })).toString();
    } catch (error) {
      throw toUnreadablePrices(error, { host: address.host, signal });
    }
  }
  throw new UnreadablePrices(
    `${new URL(url).host} redirects more than ${maxRedirects} times. Use the URL of the file itself.`,
  );
}

/** Downloads the price files of `PRICE_SOURCE_URLS`. @throws UnreadablePrices */
export function downloadConfigured(urls: readonly string[]): Promise<PriceFile[]> {
  return Promise.all(urls.map(async (url) => ({ from: new URL(url).host, text: await downloadPrices(url) })));
}

/** @throws UnreadablePrices for a URL that is not https or has credentials */
function parsePriceFileUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== "https:") throw new UnreadablePrices("The URL of a price file must begin with https://.");
  if (url.username || url.password) throw new UnreadablePrices("The URL of a price file must not contain credentials.");
  return url;
}

function toUnreadablePrices(error: unknown, { host, signal }: { host: string; signal: AbortSignal }): UnreadablePrices {
  if (error instanceof UnreadablePrices) return error;
  if (error instanceof PrivateAddress) {
    return new UnreadablePrices(`${error.message}. Download the file and use that.`);
  }
  if (error instanceof ResponseTooLarge) {
    return new UnreadablePrices(`${host} sent more than ${maxSourceSizeText}: this isn’t a price file.`);
  }
  const reason = signal.aborted ? "didn’t answer in time" : "couldn’t be reached";
  return new UnreadablePrices(`${host} ${reason}. Try again, or download the file and use that.`);
}
