import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";

/** A client's call and how the gateway answered it. */
export type Exchange = {
  path: string;
  /** The parsed JSON of the request's body, or its text if it is not JSON. */
  body: unknown;
  status: number;
  /** The body of an error response. */
  answer?: string;
};

export type Recorder = {
  /** The URL that clients call instead of the gateway's. */
  url: string;
  /** Returns the exchanges since the last call, and clears them. */
  take: () => Exchange[];
  close: () => void;
};

/** Starts a proxy in front of the gateway that passes on bytes unchanged and records requests and refusals. */
export async function createRecorder(gateway: URL): Promise<Recorder> {
  let exchanges: Exchange[] = [];
  const server = createServer(async (incoming, outgoing) => {
    try {
      const body = await text(incoming);
      const { method, url: path = "/", headers } = incoming;
      const passedOn = request(new URL(path, gateway), { method, headers: { ...headers, host: gateway.host } });
      outgoing.once("close", () => passedOn.destroy());
      passedOn.end(body);
      const [answer] = await once(passedOn, "response");
      const exchange: Exchange = { path, body: parsed(body), status: answer.statusCode };
      exchanges.push(exchange);
      outgoing.writeHead(answer.statusCode, answer.headers);
      if (answer.statusCode < 400) return await pipeline(answer, outgoing);
      exchange.answer = await text(answer);
      outgoing.end(exchange.answer);
    } catch {
      // The client disconnected or the gateway closed the connection, so the other side is disconnected too.
      outgoing.destroy();
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${gateway.pathname}`,
    take() {
      const taken = exchanges;
      exchanges = [];
      return taken;
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return body;
  }
}
