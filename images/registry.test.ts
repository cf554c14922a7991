import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readDigest } from "./registry.ts";

const manifest = JSON.stringify({ schemaVersion: 2, manifests: [] });
let server: Server;
let host: string;
let needsToken: boolean;

/** A registry of images that gives tokens to anybody, as Docker's and Google's do. */
beforeEach(async () => {
  needsToken = true;
  server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "", `http://${host}`);
    if (pathname === "/token") {
      const { service, scope } = Object.fromEntries(searchParams);
      response.end(JSON.stringify({ token: `${service} ${scope}` }));
    } else if (needsToken && request.headers.authorization !== "Bearer here repository:library/node:pull") {
      const challenge = `Bearer realm="http://${host}/token",service="here",scope="repository:library/node:pull"`;
      response.writeHead(401, { "www-authenticate": challenge }).end();
    } else if (pathname === "/v2/library/node/manifests/24" && request.headers.accept?.includes("image.index")) {
      response.writeHead(200, { "docker-content-digest": `sha256:${"0".repeat(64)}` }).end(manifest);
    } else {
      response.writeHead(404).end();
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(async () => {
  server.close();
  server.closeAllConnections();
  await once(server, "close");
});

const digest = `sha256:${createHash("sha256").update(manifest).digest("hex")}`;

test.each([true, false])("reads the digest of the manifest itself (the registry wants a token: %s)", async (wants) => {
  needsToken = wants;
  expect(await readDigest(`${host}/library/node:24`)).toBe(digest);
});

test("an image that the registry does not have has no digest", async () => {
  await expect(readDigest(`${host}/library/node:25`)).rejects.toThrow("the registry answers 404");
});

test("a registry that can't be reached gives no digest", async () => {
  await expect(readDigest("127.0.0.1:1/library/node:24")).rejects.toThrow(
    /^The digest of 127.0.0.1:1\/library\/node:24 could not be read: /,
  );
});

test.each(["node:24", "docker.io/library/node"])("%s is not a complete reference", async (reference) => {
  await expect(readDigest(reference)).rejects.toThrow("it needs a registry's host, a name and a tag");
});
