import { AsyncLocalStorage } from "node:async_hooks";
import type { EventEmitter } from "node:events";
import http, { type IncomingMessage, type RequestOptions } from "node:http";
import { Readable } from "node:stream";

/**
 * Preloaded into a web server under test (`--import`). Groups its outgoing calls into rounds, so that a call's round is
 * the number of calls that waited for each other until it was made. A round is answered as a whole: no call gets its
 * answer before all concurrent calls have theirs. Reports the calls that requests have made when asked, not those of the
 * schedule.
 */
export interface TracedCall {
  name: string;
  /** Counted from one. */
  round: number;
}

/** True within a request. The schedule's calls are made outside. */
const inRequest = new AsyncLocalStorage<true>();
const emit: EventEmitter["emit"] = http.Server.prototype.emit;
http.Server.prototype.emit = function (this: http.Server, name: string, ...values: unknown[]) {
  const pass = () => emit.call(this, name, ...values);
  return name === "request" ? inRequest.run(true, pass) : pass();
};
/** A process reads our signing keys now and then, for all requests. */
const readsKeys = /\/rpc\/read_signing_keys$/;
const passOn = globalThis.fetch;
const request = http.request as (url: URL, options: RequestOptions) => http.ClientRequest;
let calls: TracedCall[] = [];
let round = 1;
let unanswered = 0;
const release: (() => void)[] = [];

/** Answers the round's calls once all of them have been answered and no further call joins them. */
async function waitForRound(): Promise<void> {
  const released = new Promise<void>((resolve) => release.push(resolve));
  await new Promise(setImmediate);
  if (unanswered > 0 && release.length === unanswered) {
    round += 1;
    unanswered = 0;
    for (const answer of release.splice(0)) answer();
  }
  await released;
}

/** Records a request's call to Supabase. Returns false for other calls. */
function record(pathname: string): boolean {
  if (!inRequest.getStore() || readsKeys.test(pathname) || !/^\/(rest|auth)\/v1\//.test(pathname)) return false;
  calls.push({ name: pathname.slice(pathname.indexOf("/v1/") + 4).replace("rpc/", ""), round });
  unanswered += 1;
  return true;
}

globalThis.fetch = async (input, init) => {
  const { pathname } = new URL(input instanceof Request ? input.url : input);
  if (!record(pathname)) return passOn(input, init);
  let response: Response;
  let body: ArrayBuffer;
  try {
    response = await passOn(input, init);
    body = await response.arrayBuffer();
  } finally {
    await waitForRound();
  }
  const { status, statusText, headers } = response;
  return new Response([204, 205, 304].includes(status) ? null : body, { status, statusText, headers });
};

function tracedRequest(url: URL, options: RequestOptions): http.ClientRequest {
  const call = request(url, options);
  if (!record(url.pathname)) return call;
  const pass: (event: string | symbol, ...values: unknown[]) => boolean = call.emit.bind(call);
  call.emit = (event: string | symbol, ...values: unknown[]) => {
    if (event === "response") void answer(values[0] as IncomingMessage).then((response) => pass(event, response));
    else if (event === "error") void waitForRound().then(() => pass(event, ...values));
    else return pass(event, ...values);
    return true;
  };
  return call;
}

/** Reads a response as a whole before its round is answered. */
async function answer(response: IncomingMessage) {
  const { statusCode, statusMessage, headers } = response;
  const body = await response.toArray();
  await waitForRound();
  return Object.assign(Readable.from(body), { statusCode, statusMessage, headers });
}

http.request = tracedRequest as typeof http.request;

process.on("message", async () => {
  while (unanswered > 0) await new Promise((resolve) => setTimeout(resolve, 1));
  process.send?.(calls);
  calls = [];
  round = 1;
});
