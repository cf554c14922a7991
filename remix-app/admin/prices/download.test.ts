import type { LookupOptions } from "node:dns";
import { createServer, type Server } from "node:https";
import type { Socket } from "node:net";
import { selfSigned } from "@gatehousehq/local-stack/contract/support/certificate";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type DownloadOptions, downloadPrices } from "./download.ts";
import { UnreadablePrices } from "./price-source.ts";
import { maxSourceBytes } from "./read-source.ts";

const host = "prices.example.com";
const { key, certificate } = selfSigned([host]);
let server: Server;
let origin: string;
let asked: string[];
/** The TCP connection under the newest TLS connection. */
let connection: Socket | undefined;
/** The server's answers by path. */
const pages: Record<
  string,
  { status?: number; location?: string; body?: string | Buffer; hangs?: true; breaks?: true }
> = {
  "/api.json": { body: '{"openai": {}}' },
  "/missing": { status: 404 },
  "/moved": { status: 302, location: "/api.json" },
  "/around": { status: 302, location: "/around" },
  "/plain": { status: 301, location: "http://prices.example.com/api.json" },
  "/metadata": { status: 302, location: "https://169.254.169.254/latest" },
  "/loopback": { status: 307, location: "https://localhost/" },
  "/named": { status: 302, location: "https://inside.example.com/" },
  "/silent": { hangs: true },
  "/broken": { breaks: true },
  "/large": { body: Buffer.alloc(101, "a") },
  "/fits": { body: Buffer.alloc(100, "a") },
};

beforeAll(async () => {
  server = createServer({ key, cert: certificate }, (request, response) => {
    asked.push(request.url ?? "");
    const { status = 200, location, body = "", hangs, breaks } = pages[request.url ?? ""] ?? {};
    response.writeHead(status, location ? { location } : {});
    if (breaks) response.write("{", () => setTimeout(() => connection?.resetAndDestroy(), 100));
    else if (hangs) response.write("{");
    else response.end(body);
  });
  server.on("connection", (socket) => {
    connection = socket as Socket;
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  origin = `https://${host}:${typeof address === "object" ? address?.port : ""}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  asked = [];
});

/** Resolves every name to one address. */
const resolving = (address: string) =>
  ((_name: string, _options: LookupOptions, callback: (error: null, found: object[]) => void) =>
    callback(null, [{ address, family: 4 }])) as unknown as NonNullable<DownloadOptions["lookup"]>;
/** Treats 127.0.0.1 as public, because the test server listens there. */
const onTestServer: DownloadOptions = {
  lookup: resolving("127.0.0.1"),
  isPrivate: (address) => /^(169\.254|10\.|localhost)/.test(address),
  ca: certificate,
};
const download = (path: string, options: DownloadOptions = {}) =>
  downloadPrices(`${origin}${path}`, { ...onTestServer, ...options });

test("downloads a price file, including after a redirect", async () => {
  expect(await download("/api.json")).toBe('{"openai": {}}');
  expect(await download("/moved")).toBe('{"openai": {}}');
  expect(asked).toEqual(["/api.json", "/moved", "/api.json"]);
});

test.each([
  ["http://prices.example.com/api.json", "must begin with https://"],
  ["ftp://prices.example.com/api.json", "must begin with https://"],
  ["api.json", "must begin with https://"],
  ["https://me:secret@prices.example.com/", "must not contain credentials"],
  ["https://127.0.0.1/", "is a private address"],
  ["https://2130706433/", "is a private address"],
  ["https://0x7f.1/", "is a private address"],
  ["https://[::1]/", "is a private address"],
  ["https://[::ffff:10.0.0.1]/", "is a private address"],
  ["https://[::ffff:0:127.0.0.1]/", "is a private address"],
  ["https://[64:ff9b::10.0.0.1]/", "is a private address"],
  ["https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/", "is a private address"],
  ["https://[fe80::1]/", "is a private address"],
  ["https://10.0.0.1/", "is a private address"],
  ["https://192.168.1.1/", "is a private address"],
  ["https://169.254.169.254/latest/meta-data", "is a private address"],
  ["https://100.100.100.200/", "is a private address"],
  ["https://metadata.google.internal/", "is a private address"],
  ["https://localhost/", "is a private address"],
  ["https://router/", "is a private address"],
])("refuses to download %s and sends no request", async (url, message) => {
  const lookup = () => {
    throw new Error("no name may be looked up");
  };
  const failed = downloadPrices(url, { lookup: lookup as unknown as NonNullable<DownloadOptions["lookup"]> });
  await expect(failed).rejects.toThrow(UnreadablePrices);
  await expect(failed).rejects.toThrow(message);
});

test.each(["127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1"])(
  "refuses a public host name that resolves to %s, before connecting",
  async (address) => {
    const failed = downloadPrices(`${origin}/api.json`, { lookup: resolving(address), ca: certificate });
    await expect(failed).rejects.toThrow("is a private address");
    expect(asked).toEqual([]);
  },
);

test.each([
  ["/plain", "must begin with https://"],
  ["/metadata", "169.254.169.254 is a private address"],
  ["/loopback", "localhost is a private address"],
  ["/around", "redirects more than 3 times"],
  ["/missing", "answered 404"],
])("refuses a redirect or response that breaks the download rules: %s", async (path, message) => {
  await expect(download(path)).rejects.toThrow(message);
});

test("looks up the host name of each redirect", async () => {
  const inside: NonNullable<DownloadOptions["lookup"]> = ((name: string, options: LookupOptions, callback: never) =>
    resolving(name === host ? "127.0.0.1" : "10.0.0.1")(name, options, callback)) as never;
  await expect(download("/named", { lookup: inside })).rejects.toThrow("inside.example.com is a private address");
});

test("limits the size and duration of a download", async () => {
  expect(await download("/fits", { maxBytes: 100 })).toHaveLength(100);
  await expect(download("/large", { maxBytes: 100 })).rejects.toThrow("sent more than");
  await expect(download("/silent", { timeoutMs: 200 })).rejects.toThrow("didn’t answer in time");
  expect(maxSourceBytes).toBe(8 * 1024 * 1024);
});

test("a connection that breaks in the middle of a file doesn't crash the server", async () => {
  await expect(download("/broken")).rejects.toThrow("couldn’t be reached");
});

test("a price download refuses a certificate for another host", async () => {
  await expect(downloadPrices(origin.replace(host, "other.example.com"), onTestServer)).rejects.toThrow(
    "couldn’t be reached",
  );
});
