import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPerson } from "../../../scripts/test/apps.ts";
import { type AppTenant, createAppTenant } from "../../tests/gateway/app-tenant.ts";
import { createGatewayTenant } from "../../tests/gateway/tenant.ts";

let tenant: AppTenant;
beforeAll(async () => {
  tenant = await createAppTenant();
});
afterAll(() => tenant.close());

const usage = (query: string, sent: Parameters<AppTenant["send"]>[1] = {}) => tenant.send(`/usage${query}`, sent);
const yearMs = 365 * 86_400_000;

describe("GET /v1/usage", () => {
  test("reports what the app used today, to the last digit", async () => {
    const requestId = "usage-1";
    await tenant.client.chat.completions.create(
      { model: "demo-chat", messages: [{ role: "user", content: "hello" }] },
      { headers: { "x-request-id": requestId, "x-platform-operation": "Summaries" } },
    );
    const { run } = await tenant.accountOf(requestId);
    const { status, headers, text, body } = await usage("", { headers: { "x-request-id": "report-1" } });
    expect([status, headers.get("x-request-id"), headers.get("cache-control")]).toEqual([
      200,
      "report-1",
      "private, no-store",
    ]);
    const day = new Date().toISOString().slice(0, 10);
    expect(body).toMatchObject({
      currency: "USD",
      source: "platform_ai_metering",
      workspaceId: tenant.workspaceId,
      appId: tenant.appId,
      previous: null,
      rows: [
        {
          day,
          model: "demo-chat",
          feature: "Summaries",
          executionMode: "background",
          requests: 1,
          failed: 0,
          inputTokens: run.input_tokens,
          outputTokens: run.output_tokens,
          billedCredits: 0,
        },
      ],
    });
    expect(text).toContain(`"amountUsd":${run.cost_usd.replace(/0+$/, "")},`);
    const { from, to } = body as unknown as { from: string; to: string };
    expect(Date.parse(to) - Date.parse(from)).toBe(yearMs);
    expect(Math.abs(Date.parse(to) - Date.now())).toBeLessThan(60_000);
  });

  test("GET /v1/usage covers only the calling app", async () => {
    const other = await createGatewayTenant();
    const person = await createPerson();
    const refusals = [
      [{ key: other.key, headers: { "x-platform-workspace-id": other.workspaceId } }, 403, "credential_not_bound"],
      [{ key: person.accessToken }, 403, "credential_not_bound"],
      [{ headers: { "x-platform-workspace-id": other.workspaceId } }, 403, "workspace_mismatch"],
      [{ headers: { "x-platform-workspace-id": undefined } }, 400, "workspace_header_required"],
      [{ key: "none" }, 401, "invalid_api_key"],
      [{ method: "POST" }, 405, "invalid_request"],
    ] as const;
    for (const [sent, status, code] of refusals) {
      // A caller without access is refused before the requested time range is checked.
      const answer = await usage(status === 405 ? "" : "?from=nonsense", sent);
      expect([answer.status, answer.body.error.code]).toEqual([status, code]);
    }
    await other.close();
  });

  test("the usage report returns its window as days or times, and the previous window only if there is earlier usage", async () => {
    const window = async (query: string) => {
      const { body } = await usage(query);
      const { from, to, previous, rows } = body as Record<string, unknown>;
      return { from, to, previous, rows: (rows as unknown[]).length };
    };
    expect(await window("?from=2026-01-01&to=2026-02-01")).toEqual({
      from: "2026-01-01T00:00:00.000Z",
      to: "2026-02-01T00:00:00.000Z",
      previous: null,
      rows: 0,
    });
    expect(await window("?from=2126-03-01T12:00:00Z&to=2126-03-02T12:00:00.000001Z")).toEqual({
      from: "2126-03-01T12:00:00.000Z",
      to: "2126-03-02T12:00:00.000001Z",
      previous: { from: "2126-02-28T11:59:59.999999Z", to: "2126-03-01T12:00:00.000Z" },
      rows: 0,
    });
  });

  const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);
  test.for([
    ["?from=2025-01-01&to=2026-01-01", "?from=2024-12-31&to=2026-01-01"],
    ["?from=2025-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", "?from=2024-12-31T23:59:59.999999Z&to=2026-01-01T00:00:00Z"],
    ["?from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:00.000001Z", "?from=2026-01-01&to=2026-01-01"],
    ["?to=2026-02-28", "?to=2026-02-29"],
    [`?from=${daysAgo(364)}`, `?from=${daysAgo(366)}`],
    [`?from=${daysAgo(1)}`, "?from="],
  ])("accepts the usage window %s and refuses %s", async ([inside, outside]) => {
    expect((await usage(inside ?? "")).status).toBe(200);
    const { status, body } = await usage(outside ?? "");
    expect([status, body.error.code]).toEqual([400, "invalid_request"]);
    expect(body.error.param).toMatch(/^(from|to)$/);
  });

  test("GET /v1/usage records that the key was used; HEAD returns the same status without recording it", async () => {
    const lastUse = async () => {
      const [key] = await tenant.db.query<{ last_used_at: Date | null }>(
        "select last_used_at from ai.keys where id = $1",
        [tenant.keyId],
      );
      return key?.last_used_at;
    };
    await tenant.db.query("update ai.keys set last_used_at = null where id = $1", [tenant.keyId]);
    const { status, headers, text } = await usage("", { method: "HEAD" });
    expect([status, headers.get("content-type"), text]).toEqual([200, "application/json", ""]);
    expect(await lastUse()).toBeNull();
    expect((await usage("?to=2026-02-29", { method: "HEAD" })).status).toBe(400);
    expect((await usage("", { method: "HEAD", key: "none" })).status).toBe(401);
    expect((await usage("")).status).toBe(200);
    expect(await lastUse()).toBeInstanceOf(Date);
  });
});
