import type { Stack } from "../../test/stack.ts";
import { median } from "../statistics.ts";
import type { GrowthTenant } from "./data.ts";
import type { Bound } from "./operations.ts";

/** Times of pages and calls in ms, with the bytes of their answers. */
export type PageTimes = { what: string; bound: Bound; ms: number; bytes: number }[];

const warmUp = 5;
const readings = 15;
const days = { linear: "reads the runs of today and the sums of each day" } as const;

/** Reads pages of the workspace's owner and calls the gateway, each to the last byte. */
export async function timePages(
  stack: Stack,
  { tenant, webUrl, cookie }: { tenant: GrowthTenant; webUrl: string; cookie: string },
): Promise<PageTimes> {
  const workspace = `/workspaces/${tenant.workspaceId}`;
  const asOwner = { headers: { cookie, accept: "text/html", "x-forwarded-for": "2001:db8::1" } };
  const ownerPage = (path: string) => [new URL(path, webUrl), asOwner] as const;
  const byKey = { authorization: `Bearer ${stack.aiKey}`, "content-type": "application/json" };
  const functions = stack.services.find(({ name }) => name === "functions");
  const gateway = (path: string) => new URL(path, `http://127.0.0.1:${functions?.port}`);
  const chat = JSON.stringify({ model: "demo-chat", messages: [{ role: "user", content: "Hello" }] });
  const calls: [what: string, bound: Bound, url: URL, init: RequestInit][] = [
    ["chat call", "constant", gateway("/chat/completions"), { method: "POST", headers: byKey, body: chat }],
    ["GET /v1/models", "constant", gateway("/models"), { headers: byKey }],
    ["page: runs", "constant", ...ownerPage(`${workspace}/ai/runs`)],
    ["page: overview", days, ...ownerPage(`${workspace}/ai`)],
    ["page: credits", days, ...ownerPage(`${workspace}/ai/credits`)],
    ["page: costs", { linear: "reads the imported costs of 30 days" }, ...ownerPage(`${workspace}/ai/costs`)],
    ["page: members", "constant", ...ownerPage(`${workspace}/members`)],
    ["page: security", "constant", ...ownerPage("/settings/security")],
  ];
  const times: PageTimes = [];
  for (const [what, bound, url, init] of calls) times.push({ what, bound, ...(await timeFetch(url, init)) });
  return times;
}

async function timeFetch(url: URL, init: RequestInit): Promise<{ ms: number; bytes: number }> {
  const tookMs: number[] = [];
  let bytes = 0;
  for (let reading = 0; reading < warmUp + readings; reading += 1) {
    const before = performance.now();
    const response = await fetch(url, init);
    const body = await response.arrayBuffer();
    if (!response.ok) throw new Error(`${url.pathname} answered ${response.status}`);
    if (reading >= warmUp) tookMs.push(performance.now() - before);
    bytes = body.byteLength;
  }
  return { ms: median(tookMs), bytes };
}
