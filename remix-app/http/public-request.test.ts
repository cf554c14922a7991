import type { LookupOptions } from "node:dns";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { selfSigned } from "@gatehousehq/local-stack/contract/support/certificate";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import {
  allowsLoopback,
  PrivateAddress,
  type PublicRequest,
  ResponseTooLarge,
  readResponse,
  requestPublic,
} from "./public-request.ts";

const { key, certificate } = selfSigned(["app.example.com"]);
let requests: string[] = [];
const answer: Parameters<typeof createHttpServer>[1] = ({ method, url, headers }, response) => {
  requests.push(`${method} ${url} ${headers.host?.split(":")[0]}`);
  if (url === "/moved") response.writeHead(302, { location: "/elsewhere" });
  response.end("a".repeat(100));
};
const [tls, plain] = [createServer({ key, cert: certificate }, answer), createHttpServer(answer)];
const portOf = (server: { address(): unknown }) => (server.address() as AddressInfo).port;

beforeAll(async () => {
  for (const server of [tls, plain]) await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
beforeEach(() => {
  requests = [];
});
afterAll(() => {
  for (const server of [tls, plain]) server.close();
});

/** Resolves names to these addresses: the first list for the first lookup, and so on. */
function resolving(...answers: string[][]): NonNullable<PublicRequest["lookup"]> {
  return ((_name: string, _options: LookupOptions, callback: (error: null, found: object[]) => void) => {
    const addresses = answers.shift() ?? [];
    callback(
      null,
      addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 })),
    );
  }) as unknown as NonNullable<PublicRequest["lookup"]>;
}

const send = (url: string, options: Partial<PublicRequest> = {}) =>
  requestPublic(new URL(url), {
    signal: AbortSignal.timeout(5_000),
    allowLoopback: false,
    ca: certificate,
    ...options,
  });

test.each(["10.0.0.1", "127.0.0.1", "169.254.169.254", "192.168.0.1", "::1", "fd00::1", "::ffff:127.0.0.1", "0.0.0.0"])(
  "a name that resolves to %s is not called",
  async (address) => {
    const url = `https://app.example.com:${portOf(tls)}/`;
    await expect(send(url, { lookup: resolving([address]) })).rejects.toThrow(PrivateAddress);
    await expect(send(url, { lookup: resolving(["192.0.2.1", address]) })).rejects.toThrow(PrivateAddress);
    expect(requests).toEqual([]);
  },
);

test("connects to the address that was checked, and looks a name up once", async () => {
  const url = `https://app.example.com:${portOf(tls)}/`;
  // Treats 127.0.0.1 as public, because the test server listens there. A second lookup would answer a private address.
  const lookup = resolving(["127.0.0.1"], ["10.0.0.1"]);
  const response = await send(url, { lookup, isPrivate: (host) => host.startsWith("10.") });
  expect((await readResponse(response, { maxBytes: 100 })).byteLength).toBe(100);
  expect(requests).toEqual(["GET / app.example.com"]);
});

test.each([
  "https://127.0.0.1/",
  "https://2130706433/",
  "https://[::ffff:10.0.0.1]/",
  "https://localhost/",
  "https://router/",
  "https://metadata.google.internal/",
])("%s is private by its text", async (url) => {
  await expect(send(url)).rejects.toThrow(PrivateAddress);
});

test("a platform on loopback may call loopback, also without TLS, and no other private address", async () => {
  const allowed = { allowLoopback: allowsLoopback({ BASE_URL: "http://localhost:3000" }) };
  const response = await send(`http://127.0.0.1:${portOf(plain)}/moved`, allowed);
  expect(response.statusCode).toBe(302);
  response.destroy();
  expect(requests).toEqual(["GET /moved 127.0.0.1"]);
  await expect(send("https://10.0.0.1/", allowed)).rejects.toThrow(PrivateAddress);
  // A public name that leads to loopback stays private.
  const url = `https://app.example.com:${portOf(tls)}/`;
  await expect(send(url, { ...allowed, lookup: resolving(["127.0.0.1"]) })).rejects.toThrow(PrivateAddress);
  await expect(send("http://app.example.com/", allowed)).rejects.toThrow("is not https:");
});

test("a platform on a public address calls no loopback address", async () => {
  const allowed = { allowLoopback: allowsLoopback({ BASE_URL: "https://app.example.com" }) };
  await expect(send(`https://127.0.0.1:${portOf(tls)}/`, allowed)).rejects.toThrow(PrivateAddress);
  await expect(send(`http://127.0.0.1:${portOf(plain)}/`, allowed)).rejects.toThrow("is not https:");
});

test("stops reading a response that is too large", async () => {
  const url = `http://localhost:${portOf(plain)}/`;
  const read = async (maxBytes: number) =>
    (await readResponse(await send(url, { allowLoopback: true }), { maxBytes })).byteLength;
  expect(await read(100)).toBe(100);
  await expect(read(99)).rejects.toThrow(ResponseTooLarge);
});
