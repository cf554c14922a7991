import { expect, test } from "vitest";
import { createTurnstile } from "./app.ts";

const options = { siteKey: "site", secret: "secret", hostnames: ["localhost"] };

function start() {
  let now = new Date("2026-01-01T00:00:00Z");
  const app = createTurnstile({ ...options, clock: () => now });
  const post = async (path: string, init: { headers: Record<string, string>; body: string }) =>
    (await app.request(path, { method: "POST", ...init })).json() as Promise<Record<string, unknown>>;
  return {
    age: (seconds: number) => {
      now = new Date(now.getTime() + seconds * 1_000);
    },
    challenge: (fields: object) =>
      post("/challenge", { headers: { "Content-Type": "application/json" }, body: JSON.stringify(fields) }),
    verify: (fields: Record<string, string>) =>
      post("/turnstile/v0/siteverify", {
        headers: { "Content-Type": "application/x-www-form-urlencoded" },
        body: String(new URLSearchParams(fields)),
      }),
    verifyJson: (text: string) =>
      post("/turnstile/v0/siteverify", { headers: { "Content-Type": "application/json" }, body: text }),
  };
}

const passed = { siteKey: "site", hostname: "localhost" };

test("a Turnstile token can be verified only once, and its verification names the site", async () => {
  const { challenge, verify } = start();
  const response = String((await challenge(passed)).token);
  expect(await verify({ secret: "secret", response })).toMatchObject({ success: true, hostname: "localhost" });
  expect(await verify({ secret: "secret", response })).toEqual({
    success: false,
    "error-codes": ["timeout-or-duplicate"],
    messages: [],
  });
});

test("a Turnstile token is valid for five minutes", async () => {
  const { age, challenge, verify } = start();
  const [first, second] = [await challenge(passed), await challenge(passed)].map(({ token }) => String(token));
  age(300);
  expect(await verify({ secret: "secret", response: first ?? "" })).toMatchObject({ success: true });
  age(1);
  expect(await verify({ secret: "secret", response: second ?? "" })).toMatchObject({ success: false });
});

test.each([
  ["a missing secret", { response: "x" }, "missing-input-secret"],
  ["a wrong secret", { secret: "other", response: "x" }, "invalid-input-secret"],
  ["a missing token", { secret: "secret" }, "missing-input-response"],
  ["a made-up token", { secret: "secret", response: "x" }, "invalid-input-response"],
])("the Turnstile verification refuses %s", async (_, fields, code) => {
  expect(await start().verify(fields as Record<string, string>)).toMatchObject({
    success: false,
    "error-codes": [code],
  });
});

test("the Turnstile verification also accepts JSON, and reports an invalid request", async () => {
  const { challenge, verifyJson } = start();
  const { token } = await challenge(passed);
  expect(await verifyJson(JSON.stringify({ secret: "secret", response: token }))).toMatchObject({ success: true });
  expect(await verifyJson("{")).toMatchObject({ success: false, "error-codes": ["bad-request"] });
});

test("an unregistered hostname or an unknown site key gets an error code and no Turnstile token", async () => {
  const { challenge } = start();
  expect(await challenge({ ...passed, hostname: "127.0.0.1" })).toEqual({ error: "110200" });
  expect(await challenge({ ...passed, siteKey: "other" })).toEqual({ error: "110100" });
});
