import { once } from "node:events";
import http, { type IncomingMessage, type RequestOptions } from "node:http";
import type { Trouble } from "./watched-web.ts";

/**
 * Preloaded into a web server under test (`--import`). Writes each call to Supabase to the output, and causes the faults
 * that the test requests.
 */
const passOn = http.request as (url: URL, options: RequestOptions) => http.ClientRequest;
let trouble: Trouble = {};

process.on("message", (message: Trouble) => {
  trouble = message;
  process.send?.("told");
});

/** Returns whether a fault applies to a call. Clears faults that apply only to the first matching call. */
function meets(kind: keyof Trouble, pathname: string): boolean {
  const named = trouble[kind];
  if (named === undefined || !pathname.endsWith(named)) return false;
  if (kind === "holds" || kind === "losesAnswer") delete trouble[kind];
  return true;
}

function watchedRequest(url: URL, options: RequestOptions): http.ClientRequest {
  const { pathname } = url;
  const call = passOn(url, options);
  if (meets("unreachable", pathname)) return call.destroy(new Error("unreachable"));
  if (meets("holds", pathname)) hold(call, pathname);
  const pass: (event: string | symbol, ...values: unknown[]) => boolean = call.emit.bind(call);
  call.emit = (event: string | symbol, ...values: unknown[]) => {
    if (event !== "response") return pass(event, ...values);
    const [response] = values as [IncomingMessage];
    process.stdout.write(`call ${pathname}\n`);
    if (meets("losesAnswer", pathname)) response.resume().once("end", () => pass("error", new Error("lost")));
    else if (meets("dieAfter", pathname)) response.resume().once("end", () => process.kill(process.pid, "SIGKILL"));
    else return pass(event, response);
    return true;
  };
  return call;
}

/** Sends a call when the test releases it. */
function hold(call: http.ClientRequest, pathname: string): void {
  const released = once(process, "SIGUSR2");
  const send = call.end.bind(call);
  process.stdout.write(`held ${pathname}\n`);
  call.end = (...values: unknown[]) => {
    void released.then(() => (send as (...values: unknown[]) => void)(...values));
    return call;
  };
}

http.request = watchedRequest as typeof http.request;
