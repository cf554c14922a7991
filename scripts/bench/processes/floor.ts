import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import process from "node:process";
import { buffer } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import pg from "pg";

/**
 * Commits one row, then forwards the call to UPSTREAM. This is the least that a gateway in this runtime can do if it
 * must record each call before the call costs money.
 */
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 8 });
const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
const insert = { name: "insert", text: "insert into bench.calls (id, at) values ($1, now())" };

async function forward(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const body = await buffer(incoming);
  await pool.query({ ...insert, values: [crypto.randomUUID()] });
  const headers = { "content-type": "application/json", "content-length": body.length };
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const url = `${process.env.UPSTREAM}${incoming.url}`;
    request(url, { method: "POST", agent, headers }, resolve).once("error", reject).end(body);
  });
  outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
  await pipeline(answer, outgoing);
}

createServer((incoming, outgoing) => {
  if (incoming.method !== "POST") outgoing.end();
  // A client that disconnects ends only its own call.
  else forward(incoming, outgoing).catch(() => outgoing.destroy());
}).listen(Number(process.env.PORT), "127.0.0.1");
