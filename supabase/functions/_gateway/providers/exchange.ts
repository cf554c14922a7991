import { Buffer } from "node:buffer";
import * as http from "node:http";
import * as https from "node:https";
import { type BodyReader, createPacedReader } from "./body-reader.ts";
import { decodeBody } from "./content-encoding.ts";
import { postByFetch } from "./fetch-exchange.ts";
import { NotConnected } from "./not-connected.ts";

/**
 * Connections that were idle for longer (in milliseconds) aren't reused, because a network device may have dropped
 * them.
 */
const idleConnectionMs = 30_000;

/**
 * Prevents an agent from sending a request twice. Deno resends a request if a reused connection is reset, and the
 * provider may charge for both requests.
 */
function preventResend(agent: http.Agent): http.Agent {
  const reuse = agent.reuseSocket.bind(agent);
  agent.reuseSocket = (socket, request) => {
    reuse(socket, request);
    request.reusedSocket = false;
  };
  return agent;
}

const connections = { keepAlive: true, timeout: idleConnectionMs } as const;
const schemes = {
  "http:": { request: http.request, agent: preventResend(new http.Agent(connections)) },
  "https:": { request: https.request, agent: preventResend(new https.Agent(connections)) },
} as const;

/** A provider's answer, available once its headers have arrived. Reading the body removes its content coding. */
export type ExchangeAnswer = BodyReader & {
  status: number;
  /** Returns a header by its lower-case name. */
  header: (name: string) => string | undefined;
};

/** A request in flight, with its future answer and a function that abandons it. */
export type Exchange = { answer: Promise<ExchangeAnswer>; abandon: () => void };

/** What to do once the whole body has been handed to the network. */
export type PostOptions = { onSent?: (() => void) | undefined };

/** Posts a body. Follows no redirect, and never sends a request twice. */
type Post = (url: string, headers: Record<string, string>, body: string, options?: PostOptions) => Exchange;

/** A body above this size is sent as bytes, so that its text isn't kept until the provider has read it. */
const largeBytes = 64 * 1024;

/**
 * Returns the best HTTP client for a runtime. Current runtimes use Node's client, because `fetch` takes twice as long
 * and keeps its calls in memory until a full garbage collection. Deno before 2.8, such as hosted Supabase's runtime
 * (2.1), uses `fetch`. In these versions, a cut-off answer makes Node's client reject a promise. The rejection can't be
 * caught and ends the isolate with all its calls. Reading a cut-off or abandoned answer also never finishes.
 * @param userAgent the value of `navigator.userAgent`
 */
export function choosePost(userAgent: string): Post {
  const [, major = 0, minor = 0] = /^Deno\/(\d+)\.(\d+)/.exec(userAgent)?.map(Number) ?? [];
  const isWhole = major > 2 || (major === 2 && minor >= 8) || userAgent.startsWith("Node.js/");
  return isWhole ? postByNode : postByFetch;
}

/** The best HTTP client for this runtime. */
export const post: Post = choosePost(navigator.userAgent);

function postByNode(
  url: string,
  headers: Record<string, string>,
  body: string,
  { onSent }: PostOptions = {},
): Exchange {
  const { protocol, hostname, host, port, path } = partsOf(url);
  const { request, agent } = schemes[protocol === "http:" ? "http:" : "https:"];
  const bytes = Buffer.byteLength(body);
  const outgoing = request({
    agent,
    method: "POST",
    hostname,
    port,
    path,
    // Passes a list, because Node sends a list unchanged. From an object, Node checks, stores and rereads each header.
    headers: flattenHeaders({
      host,
      accept: "*/*",
      "user-agent": "gatehouse",
      ...headers,
      "content-length": String(bytes),
    }),
  });
  /** How far the exchange has come. */
  let state: "connecting" | "connected" | "answered" | "ended" = "connecting";
  const noteConnected = () => {
    if (state === "connecting") state = "connected";
  };
  // These events occur only once, so `once` is not needed. It would wrap each listener.
  const noteSent = () => {
    noteConnected();
    onSent?.();
  };
  outgoing.on("finish", noteSent).on("socket", (socket) => {
    // A reused connection is already open.
    if (!socket.connecting) noteConnected();
    else socket.once(protocol === "http:" ? "connect" : "secureConnect", noteConnected);
  });
  const answer = new Promise<ExchangeAnswer>((resolve, reject) => {
    outgoing.on("response", (response) => {
      state = "answered";
      response.on("end", () => {
        state = "ended";
      });
      const { statusCode: status = 0, headers: answerHeaders } = response;
      resolve({
        status,
        header: (name) => answerHeaders[name]?.toString(),
        ...decodeBody(createPacedReader(response), answerHeaders["content-encoding"]),
      });
    });
    const fail = (cause: unknown) =>
      reject(state === "connecting" ? new NotConnected("no connection", { cause }) : cause);
    outgoing.on("error", fail).on("close", () => {
      if (state === "connecting" || state === "connected") fail(new Error("the provider closed the connection"));
    });
  });
  outgoing.end(bytes > largeBytes ? Buffer.from(body) : body);
  return {
    answer,
    abandon() {
      // A complete answer has already released its connection.
      if (state !== "ended") outgoing.destroy();
    },
  };
}

type Parts = { protocol: string; hostname: string; host: string; port: string; path: string };
/** A cache of parsed URLs. Needs no limit, because providers have only a few. */
const parsedUrls = new Map<string, Parts>();

function partsOf(url: string): Parts {
  const cached = parsedUrls.get(url);
  if (cached) return cached;
  const { protocol, hostname, host, port, pathname, search } = new URL(url);
  const parts = { protocol, hostname: hostname.replace(/^\[|\]$/g, ""), host, port, path: pathname + search };
  parsedUrls.set(url, parts);
  return parts;
}

/** Converts headers to a flat list in which each name precedes its value. */
function flattenHeaders(headers: Record<string, string>): string[] {
  const list: string[] = [];
  for (const name in headers) list.push(name, headers[name] ?? "");
  return list;
}
