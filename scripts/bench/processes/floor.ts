import { Agent, createServer, request } from "node:http";
import process from "node:process";
import pg from "pg";

/**
 * Forwards each call to UPSTREAM after it has committed one row. A gateway in this runtime that writes down a call before
 * it costs money cannot do less.
 */
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 8 });
const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
const insert = { name: "insert", text: "insert into bench.calls (id, at) values ($1, now())" };

createServer(async (incoming, outgoing) => {
  if (incoming.method !== "POST") return outgoing.end();
  const pieces: Uint8Array[] = [];
  for await (const piece of incoming) pieces.push(piece);
  try {
    await pool.query({ ...insert, values: [crypto.randomUUID()] });
  } catch {
    return outgoing.writeHead(500).end();
  }
  const body = Buffer.concat(pieces);
  const headers = { "content-type": "application/json", "content-length": body.length };
  return request(`${process.env.UPSTREAM}${incoming.url}`, { method: "POST", agent, headers }, (answer) => {
    outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(outgoing);
  })
    .once("error", () => outgoing.destroy())
    .end(body);
}).listen(Number(process.env.PORT), "127.0.0.1");
