import { Buffer } from "node:buffer";
import * as http from "node:http";
import * as https from "node:https";
import { type BodyReader, readerOf } from "./body-reader.ts";
import { decoded } from "./content-encoding.ts";
import { postByFetch } from "./fetch-exchange.ts";
import { NotConnected } from "./not-connected.ts";

/** A connection that nobody has used for longer is not used again, in milliseconds: what is between may have dropped it. */
const idleConnectionMs = 30_000;

/** Deno sends a request again where a connection that was used before is reset, which may be a second charge. */
function neverAgain(agent: http.Agent): http.Agent {
  const reuse = agent.reuseSocket.bind(agent);
  agent.reuseSocket = (socket, request) => {
    reuse(socket, request);
    request.reusedSocket = false;
  };
  return agent;
}

const connections = { keepAlive: true, timeout: idleConnectionMs } as const;
const schemes = {
  "http:": { request: http.request, agent: neverAgain(new http.Agent(connections)) },
  "https:": { request: https.request, agent: neverAgain(new https.Agent(connections)) },
} as const;

/** A provider's answer, from its head on. Its bytes are decoded. */
export type Answer = BodyReader & {
  status: number;
  /** A header by its name in lower case. */
  header: (name: string) => string | undefined;
};

/** A request on its way, and what becomes of it. */
export type Exchange = { answer: Promise<Answer>; abandon: () => void };

/** Posts a body. It follows no redirect, and sends nothing twice. */
type Post = (url: string, headers: Record<string, string>, body: string) => Exchange;

/**
 * How a runtime posts best: by Node's client, since `fetch` takes twice as long, and leaves each call to be found by a
 * full collection. But where Deno's is old, as in the platform's runtime (2.1), an answer that is cut rejects a promise
 * that nobody can catch, which ends the isolate with all of its calls; and neither that nor giving it up ends a reading.
 * @param userAgent as `navigator` has it
 */
export function postOf(userAgent: string): Post {
  const [, major = 0, minor = 0] = /^Deno\/(\d+)\.(\d+)/.exec(userAgent)?.map(Number) ?? [];
  const isWhole = major > 2 || (major === 2 && minor >= 8) || userAgent.startsWith("Node.js/");
  return isWhole ? postByNode : postByFetch;
}

/** As postOf has it for this runtime. */
export const post: Post = postOf(navigator.userAgent);

function postByNode(url: string, headers: Record<string, string>, body: string): Exchange {
  const { protocol, hostname, host, port, path } = partsOf(url);
  const { request, agent } = schemes[protocol === "http:" ? "http:" : "https:"];
  const length = String(Buffer.byteLength(body));
  const sent = request({
    agent,
    method: "POST",
    hostname,
    port,
    path,
    // As a list they go out as they are; as an object, each is checked, kept, and read again.
    headers: listOf({ host, accept: "*/*", "user-agent": "gatehouse", ...headers, "content-length": length }),
  });
  let connected = false;
  let begun = false;
  let whole = false;
  const noteConnected = () => {
    connected = true;
  };
  // What happens once needs no `once`, which makes a listener around each.
  sent.on("finish", noteConnected).on("socket", (socket) => {
    // One that was used before is there already.
    if (!socket.connecting) noteConnected();
    else socket.once(protocol === "http:" ? "connect" : "secureConnect", noteConnected);
  });
  const answer = new Promise<Answer>((resolve, reject) => {
    sent.on("response", (response) => {
      begun = true;
      response.on("end", () => {
        whole = true;
      });
      const { statusCode: status = 0, headers: told } = response;
      resolve({
        status,
        header: (name) => told[name]?.toString(),
        ...decoded(readerOf(response), told["content-encoding"]),
      });
    });
    const fail = (cause: unknown) => reject(connected ? cause : new NotConnected("no connection", { cause }));
    sent.on("error", fail).on("close", () => {
      if (!begun) fail(new Error("the provider closed the connection"));
    });
  });
  sent.end(body);
  return {
    answer,
    abandon() {
      // An answer that is whole has given its connection back.
      if (!whole) sent.destroy();
    },
  };
}

type Parts = { protocol: string; hostname: string; host: string; port: string; path: string };
/** Of the few addresses that there are. */
const known = new Map<string, Parts>();

function partsOf(url: string): Parts {
  const cached = known.get(url);
  if (cached) return cached;
  const { protocol, hostname, host, port, pathname, search } = new URL(url);
  const parts = { protocol, hostname: hostname.replace(/^\[|\]$/g, ""), host, port, path: pathname + search };
  known.set(url, parts);
  return parts;
}

/** Headers as a list: each name before its value. */
function listOf(headers: Record<string, string>): string[] {
  const list: string[] = [];
  for (const name in headers) list.push(name, headers[name] ?? "");
  return list;
}
