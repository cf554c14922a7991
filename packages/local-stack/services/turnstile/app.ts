import { readFile } from "node:fs/promises";
import path from "node:path";
import type { HttpBindings } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { framePage } from "./frame.ts";
import { createTokens } from "./tokens.ts";

export interface TurnstileOptions {
  siteKey: string;
  secret: string;
  /** The site hostnames for which the widget is registered. */
  hostnames: readonly string[];
  clock?: () => Date;
}

/**
 * Creates a local replacement for Cloudflare Turnstile. It serves the widget's script and frame, and verifies tokens
 * (https://developers.cloudflare.com/turnstile/get-started/server-side-validation/). Every visitor of a registered site
 * passes.
 */
export function createTurnstile({
  siteKey,
  secret,
  hostnames,
  clock,
}: TurnstileOptions): Hono<{ Bindings: HttpBindings }> {
  const tokens = createTokens(clock);
  const app = new Hono<{ Bindings: HttpBindings }>();

  app.get("/healthz", (c) => c.json({ name: "turnstile", status: "ok" }));
  app.get("/turnstile/v0/api.js", async (c) => {
    const script = await readFile(path.join(import.meta.dirname, "widget.js"), "utf8");
    return c.body(script, 200, { "Content-Type": "text/javascript; charset=utf-8", "Cache-Control": "no-store" });
  });
  app.get("/frame", (c) => c.html(framePage, 200, { "Cache-Control": "no-store" }));
  app.post("/challenge", async (c) => {
    const body = (await c.req.json().catch(() => ({}))) as { siteKey?: unknown; hostname?: unknown };
    if (body.siteKey !== siteKey) return c.json({ error: "110100" });
    if (typeof body.hostname !== "string" || !hostnames.includes(body.hostname)) return c.json({ error: "110200" });
    return c.json({ token: tokens.issue(body.hostname) });
  });
  app.post("/turnstile/v0/siteverify", async (c) => {
    const fields = await readFields(c);
    const refuse = (code: string) => c.json({ success: false, "error-codes": [code], messages: [] });
    if (!fields) return refuse("bad-request");
    if (!fields.secret) return refuse("missing-input-secret");
    if (fields.secret !== secret) return refuse("invalid-input-secret");
    if (!fields.response) return refuse("missing-input-response");
    const redeemed = tokens.redeem(fields.response);
    if (redeemed.status === "unknown") return refuse("invalid-input-response");
    if (redeemed.status === "used-or-old") return refuse("timeout-or-duplicate");
    const { hostname, issuedAt } = redeemed.token;
    return c.json({
      success: true,
      "error-codes": [],
      challenge_ts: issuedAt.toISOString(),
      hostname,
      action: "",
      cdata: "",
    });
  });
  return app;
}

/** Reads the fields of a verification request, sent as a form or as JSON. */
async function readFields(c: Context): Promise<Record<string, string> | null> {
  const type = c.req.header("content-type") ?? "";
  const body: unknown = type.startsWith("application/json")
    ? await c.req.json().catch(() => null)
    : Object.fromEntries(new URLSearchParams(await c.req.text()));
  if (typeof body !== "object" || body === null) return null;
  return Object.fromEntries(Object.entries(body).map(([name, value]) => [name, String(value)]));
}
