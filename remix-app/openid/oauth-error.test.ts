import { afterEach, describe, expect, test, vi } from "vitest";
import { problem } from "../http/problem.ts";
import { handleClientRequest, oauthError } from "./oauth-error.ts";

const context = { requestId: "r" };
const answer = async (thrown: unknown) => {
  const response = await handleClientRequest(context, () => Promise.reject(thrown));
  return { status: response.status, retryAfter: response.headers.get("retry-after"), body: await response.json() };
};
afterEach(() => {
  vi.restoreAllMocks();
});

describe("an endpoint for OAuth clients", () => {
  test("an OAuth endpoint answers with its handler's response or thrown OAuth error, unchanged", async () => {
    const done = Response.json({ active: false });
    expect(await handleClientRequest(context, async () => done)).toBe(done);
    for (const status of [400, 413]) {
      const refused = oauthError("invalid_grant", { status, description: "used" });
      expect(await handleClientRequest(context, () => Promise.reject(refused))).toBe(refused);
    }
  });

  test("an OAuth endpoint answers an outage with temporarily_unavailable and the outage's Retry-After, or 5 seconds", async () => {
    const expected = { status: 503, retryAfter: "5", body: { error: "temporarily_unavailable" } };
    expect(await answer(problem("UNAVAILABLE", context))).toMatchObject(expected);
    const later = problem("AUTH_UNAVAILABLE", { ...context, headers: { "Retry-After": "30" } });
    expect(await answer(later)).toMatchObject({ ...expected, retryAfter: "30" });
  });

  test.each([413, 415] as const)(
    "an OAuth endpoint answers %i for a body with invalid_request and its cause",
    async (status) => {
      const code = status === 413 ? "PAYLOAD_TOO_LARGE" : "UNSUPPORTED_MEDIA_TYPE";
      const thrown = problem(code, {
        ...context,
        detail: "Send less.",
        headers: { Connection: "close", "X-Other": "1" },
      });
      const response = await handleClientRequest(context, () => Promise.reject(thrown));
      expect([response.status, await response.json()]).toEqual([
        status,
        { error: "invalid_request", error_description: "Send less." },
      ]);
      expect([...response.headers.keys()]).toEqual(["cache-control", "connection", "content-type", "pragma"]);
    },
  );

  test("an OAuth endpoint answers server_error for a defect, and logs the cause without revealing it", async () => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => {});
    const { status, body } = await answer(new Error("internal text"));
    expect([status, body.error]).toEqual([500, "server_error"]);
    expect(JSON.stringify(body)).not.toContain("internal text");
    expect(logged).toHaveBeenCalledWith(expect.stringMatching(/request=r Error: internal text/));
  });
});
