import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { signIn } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { codeOf } from "../testing/authenticator-app.ts";

const halfMinuteMs = 30_000;
/** How long a code must still be valid, so that a busy machine can use the code in time. */
const leastLeftMs = 10_000;

test("signs the demo admin in to the console with the authenticator secret of the local stack", async () => {
  const admin = readStack().users.find(({ role }) => role === "admin");
  if (!admin?.totpSecret) throw new Error("the stack names no authenticator of the demo admin");
  const browser = await signIn({ id: "", ...admin }, { returnUrl: "/admin" });
  expect(browser.location).toBe("/mfa?returnUrl=%2Fadmin");
  const [, factorId = ""] = /name="factorId" value="([0-9a-f-]+)"/.exec((await browser.get("/mfa")).text) ?? [];
  // Uses the code of the previous half-minute, in case someone is using the current code by hand. The previous code is
  // valid until the current half-minute ends.
  const leftMs = halfMinuteMs - (Date.now() % halfMinuteMs);
  if (leftMs < leastLeftMs) await sleep(leftMs);
  const fields = { factorId, code: codeOf({ secret: admin.totpSecret }, -1) };
  expect((await browser.post("/mfa?returnUrl=%2Fadmin", fields)).location).toBe("/admin");
  expect((await browser.get("/admin")).status).toBe(200);
});
