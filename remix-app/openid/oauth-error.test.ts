import { afterEach, describe, expect, test, vi } from "vitest";
import { problem } from "../http/problem.ts";
import { answerClient, oauthError } from "./oauth-error.ts";

const context = { requestId: "r" };
const answer = async (thrown: unknown) => {
  const response = await answerClient(context, () => Promise.reject(thrown));
  return { status: response.status, retryAfter: response.headers.get("retry-after"), body: await response.json() };
};
afterEach(() => {
  vi.restoreAllMocks();
});

describe("an endpoint for OAuth clients", () => {
  test("an OAuth endpoint answers with its handler's response or thrown OAuth error, unchanged", async () => {
    const done = Response.json({ active: false });
    expect(await answerClient(context, async () => done)).toBe(done);
    const refused = oauthError("invalid_grant", { description: "used" });
    expect(await answerClient(context, () => Promise.reject(refused))).toBe(refused);
  });

  test("an OAuth endpoint answers an outage with temporarily_unavailable and the outage's Retry-After, or 5 seconds", async () => {
    const expected = { status: 503, retryAfter: "5", body: { error: "temporarily_unavailable" } };
    expect(await answer(problem("UNAVAILABLE", context))).toMatchObject(expected);
    const later = problem("AUTH_UNAVAILABLE", { ...context, headers: { "Retry-After": "30" } });
    expect(await answer(later)).toMatchObject({ ...expected, retryAfter: "30" });
  });

  test("an OAuth endpoint answers server_error for a defect, and logs the cause without revealing it", async () => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => {});
    const { status, body } = await answer(new Error("internal text"));
    expect([status, body.error]).toEqual([500, "server_error"]);
    expect(JSON.stringify(body)).not.toContain("internal text");
    expect(logged).toHaveBeenCalledWith(expect.stringMatching(/request=r Error: internal text/));
  });
});
