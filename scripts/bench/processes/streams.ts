import { createHash } from "node:crypto";
import { Agent, request } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { callSchema, streamBody } from "../gateway/call.ts";
import { isContent } from "../upstream/answers.ts";

/**
 * Opens streams one after another until all are open, and notes when the first content event of each stream arrives.
 * Reads its configuration from standard input.
 */
const config = z
  .object({
    call: callSchema,
    names: z.array(z.string()),
    staggerMs: z.number(),
  })
  .parse(JSON.parse(await text(process.stdin)));
const { call, names, staggerMs } = config;
const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });

type Seen = { name: string; firstMs: number; chunks: number; sha256: string; whole: boolean };

function open(name: string, index: number): Promise<Seen> {
  const body = streamBody(name);
  const headers = {
    ...call.headers,
    authorization: call.authorizations[index % call.authorizations.length] ?? "",
    "content-type": "application/json",
    "x-request-id": name,
    "content-length": Buffer.byteLength(body),
  };
  const hash = createHash("sha256");
  const seen: Seen = { name, firstMs: Number.NaN, chunks: 0, sha256: "", whole: false };
  const sentAt = process.hrtime.bigint();
  return new Promise((resolve) => {
    const end = () => {
      seen.sha256 ||= hash.digest("hex");
      resolve(seen);
    };
    const sent = request(call.url, { method: "POST", agent, headers }, (response) => {
      let pending = "";
      response.setEncoding("utf8");
      response.on("data", (bytes: string) => {
        const now = process.hrtime.bigint();
        pending += bytes;
        for (let at = pending.indexOf("\n\n"); at >= 0; at = pending.indexOf("\n\n")) {
          const event = pending.slice(0, at + 2);
          pending = pending.slice(at + 2);
          if (event === "data: [DONE]\n\n") seen.whole = true;
          if (!isContent(event)) continue;
          if (seen.chunks === 0) seen.firstMs = Number(now - sentAt) / 1e6;
          seen.chunks += 1;
          hash.update(event);
        }
      });
      response.once("error", end).once("close", end);
    });
    sent.once("error", end).end(body);
  });
}

/**
 * Returns the delay between one stream and the next: half to one and a half times `staggerMs`, derived from the index
 * alone so that every target gets the same delays. With equal delays, all chunks would be due at the same moment,
 * because the delay is a multiple of the interval between chunks. Real callers aren't synchronized.
 */
function waitMs(index: number): number {
  return staggerMs * (0.5 + createHash("sha256").update(`${index}`).digest().readUInt32BE() / 2 ** 32);
}

const opened: Promise<Seen>[] = [];
for (const [index, name] of names.entries()) {
  opened.push(open(name, index));
  await sleep(waitMs(index));
}
const streams = await Promise.all(opened);
agent.destroy();
process.stdout.write(JSON.stringify({ streams }));
