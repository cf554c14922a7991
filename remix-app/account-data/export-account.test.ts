import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createExportClient, exportAccount } from "./export-account.ts";

const server = createServer();

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
});
afterEach(async () => {
  vi.useRealTimers();
  server.removeAllListeners("request").closeAllConnections();
  await new Promise((closed) => server.close(closed));
});

/** Exports an account from a database that answers after some time. */
async function exportAfter(ms: number): Promise<unknown> {
  const { port } = server.address() as AddressInfo;
  const client = createExportClient({ SUPABASE_URL: `http://127.0.0.1:${port}`, SUPABASE_SECRET_KEY: "secret" });
  const called = new Promise<() => void>((resolve) => {
    server.once("request", (_, response) =>
      resolve(() => response.setHeader("Content-Type", "application/json").end("null")),
    );
  });
  const document = exportAccount(client, { userId: "7c9e6679-7425-40de-944b-e07fc1f90ae7" });
  const answered = document.catch((error: unknown) => error);
  const answer = await called;
  vi.advanceTimersByTime(ms);
  answer();
  return answered;
}

test("an account's export waits 10 seconds for the database", async () => {
  expect(await exportAfter(9_999)).toBeNull();
  expect(await exportAfter(10_000)).toBeInstanceOf(Error);
});
