import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createRecorder, type Recorder } from "./recorder.ts";

let gateway: Server;
let recorder: Recorder;
let left: Promise<unknown>;

beforeAll(async () => {
  gateway = createServer(async (request, response) => {
    const body = JSON.parse(await text(request));
    if (body.refuse) return response.writeHead(400).end("refused");
    response.writeHead(200, { "x-request-id": `${request.headers.authorization}` }).write("first ");
    left = once(response, "close");
    if (!body.hang) response.end("second");
  });
  gateway.listen(0, "127.0.0.1");
  await once(gateway, "listening");
  recorder = await createRecorder(new URL(`http://127.0.0.1:${(gateway.address() as AddressInfo).port}/functions`));
});

afterAll(() => {
  recorder.close();
  gateway.closeAllConnections();
  gateway.close();
});

const ask = (body: object, signal?: AbortSignal) =>
  fetch(`${recorder.url}/v1/chat`, {
    method: "POST",
    headers: { authorization: "key" },
    body: JSON.stringify(body),
    signal: signal ?? null,
  });

test("the recorder passes on requests and responses, and records them", async () => {
  const answer = await ask({ n: 1 });
  expect([answer.headers.get("x-request-id"), await answer.text()]).toEqual(["key", "first second"]);
  const refused = await ask({ refuse: true });
  expect([refused.status, await refused.text()]).toEqual([400, "refused"]);
  const path = "/functions/v1/chat";
  expect(recorder.take()).toEqual([
    { path, body: { n: 1 }, status: 200 },
    { path, body: { refuse: true }, status: 400, answer: "refused" },
  ]);
  expect(recorder.take()).toEqual([]);
});

test("the recorder passes on a stream as it arrives, and aborts the request when the client disconnects", async () => {
  const leaving = new AbortController();
  const answer = await ask({ hang: true }, leaving.signal);
  const { value } = (await answer.body?.getReader().read()) ?? {};
  expect(new TextDecoder().decode(value)).toBe("first ");
  leaving.abort();
  await left;
});
