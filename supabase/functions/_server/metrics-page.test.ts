import { expect, test } from "vitest";
import { createMetricsAccess } from "../_shared/metrics-access.ts";
import { createMetricsPage } from "./metrics-page.ts";

const key = "sb_secret_of_the_project";
const peer = "10.0.0.2";

/** Asks as a client that is connected from `peer`, or through a proxy with that address. */
function ask(headers: Record<string, string>, { trustedHops = 0, addresses = ["10.0.0.0/8"], method = "GET" } = {}) {
  const access = createMetricsAccess({ METRICS_ADDRESSES: addresses });
  const page = createMetricsPage({ access, respond: async () => new Response("metrics"), trustedHops });
  return page(new Request("http://127.0.0.1/metrics", { headers, method }), { remoteAddress: peer });
}

test("is for connections from an allowed address", async () => {
  expect((await ask({}))?.status).toBe(200);
  expect((await ask({}, { trustedHops: 1 }))?.status).toBe(200);
  expect(await ask({}, { addresses: ["10.0.0.3"] })).toBeUndefined();
});

test.for<[Record<string, string>, number]>([
  [{ "x-forwarded-for": "203.0.113.7" }, 1],
  [{ "x-forwarded-for": "10.0.0.9, 203.0.113.7" }, 1],
  [{ "x-forwarded-for": "203.0.113.7, 10.0.0.9" }, 2],
  [{ "x-forwarded-for": "10.0.0.9" }, 2],
  [{ "x-forwarded-for": "" }, 1],
  [{ "x-forwarded-for": "203.0.113.7", "x-platform-forwarded-for": "10.0.0.9", apikey: key }, 1],
])("hides the metrics from a caller with %j, whose proxies are allowed (%d hops)", async ([headers, trustedHops]) => {
  expect(await ask(headers, { trustedHops })).toBeUndefined();
});

test("takes the address that the trusted proxy saw, and ignores the header without one", async () => {
  expect((await ask({ "x-forwarded-for": "203.0.113.7, 10.0.0.9" }, { trustedHops: 1 }))?.status).toBe(200);
  expect((await ask({ "x-forwarded-for": "203.0.113.7" }, { trustedHops: 0 }))?.status).toBe(200);
});

test("answers only reads, and a wrong token with 401", async () => {
  expect(await ask({}, { method: "POST" })).toBeUndefined();
  const access = createMetricsAccess({ METRICS_TOKEN: "a-token-of-the-metrics-of-this-test" });
  const page = createMetricsPage({ access, respond: async () => new Response("metrics"), trustedHops: 0 });
  const refused = await page(new Request("http://127.0.0.1/metrics"), { remoteAddress: peer });
  expect(refused?.status).toBe(401);
  expect(refused?.headers.get("www-authenticate")).toBe("Bearer");
});
