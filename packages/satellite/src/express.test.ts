import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createSatellite, type ExpressSatellite } from "./express.ts";

const maxBodyBytes = 64 * 1024;
const servers: Server[] = [];
let origin = "";

async function listen(answer: (req: IncomingMessage, res: ServerResponse) => unknown): Promise<string> {
  const server = createServer((req, res) => void answer(req, res));
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

beforeAll(async () => {
  const platformUrl = await listen((_req, res) => {
    const session = { active: true, sub: "ada", exp: Math.ceil(Date.now() / 1000) + 2 * 60 * 60 };
    // The delay lets the posted body arrive while the satellite still waits for this response.
    setTimeout(() => res.setHeader("Content-Type", "application/json").end(JSON.stringify(session)), 50);
  });
  let satellite: ExpressSatellite;
  origin = await listen((req, res) =>
    // Reads the body after the satellite's middleware has run, as a body parser does.
    satellite(req, res, async () =>
      res.end(`${(req as { user?: { id: string } }).user?.id} ${(await text(req)).length}`),
    ),
  );
  const app = { appName: "memo", appSecret: "s".repeat(32), origin, platformUrl, introspectionCacheSeconds: 0 };
  satellite = createSatellite({ ...app, env: {}, log: () => {} });
});
afterAll(() => {
  for (const server of servers) server.close();
});

describe("body parsing behind the satellite's Express middleware", () => {
  test.each([5, maxBodyBytes, 4 * maxBodyBytes])(
    "reads all %i bytes of a body that a signed-in person posts",
    async (length) => {
      const headers = { origin, cookie: "platform_app_session=a" };
      const response = await fetch(`${origin}/save`, { method: "POST", headers, body: "x".repeat(length) });
      expect(await response.text()).toBe(`ada ${length}`);
    },
  );
});

describe("satellite endpoints of an Express app", () => {
  test.each([
    [maxBodyBytes, 400],
    [maxBodyBytes + 1, 413],
  ])("answers a chunked request body of %i bytes with status %i", async (length, status) => {
    const headers = { origin, "content-type": "application/json" };
    const answered = await new Promise<number | undefined>((resolve, reject) => {
      const sent = request(`${origin}/api/auth/verify-app-token`, { method: "POST", headers }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      sent.on("error", reject);
      sent.write("x".repeat(1024));
      sent.end("x".repeat(length - 1024));
    });
    expect(answered).toBe(status);
  });
});
