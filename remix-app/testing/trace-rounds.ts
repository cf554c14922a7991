import http, { type IncomingMessage, type RequestOptions } from "node:http";
import { Readable } from "node:stream";

/**
 * Preloaded into a web server under test (`--import`). Groups its outgoing calls into rounds, so that a call's round is
 * the number of calls that waited for each other until it was made. A round is answered as a whole: no call gets its
 * answer before all concurrent calls have theirs. Reports the calls of one request when asked, without those of the
 * schedule.
 */
export interface TracedCall {
  name: string;
  /** Counted from one. */
  round: number;
}

/** Calls of the schedule, and those that read our signing keys, which a process reads now and then for all requests. */
const scheduled =
  /\/rpc\/(read_signing_keys|sweep_\w+|delete_expired\w*|roll_up_usage|claim_due_mails|claim_logout_notices)$/;
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

/** Records a call to Supabase. Returns false for other calls, and for those of the schedule. */
function record(pathname: string): boolean {
  if (scheduled.test(pathname) || !/^\/(rest|auth)\/v1\//.test(pathname)) return false;
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
